# From nothing but Python 3.11+ and pip: `make test` and `make train` make .venv and install what they need.

PYTHON ?= python3
BIN := .venv/bin
# The one PyTorch every check is made with. Installed first and alone: what depends on torch then finds it there.
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup test test-slow lint types train clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: .venv/ready web/node_modules/ready ## make .venv and install everything the checks need

test: setup lint types ## everything that must hold: lint, types, all tests
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

test-slow: setup ## the long proofs
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

train: .venv/ready ## train the default preset on the default corpus and print a sample
	$(BIN)/tinygpt train

clean: ## remove .venv, installed packages and caches; runs/ stays
	rm -rf .venv web/node_modules build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "TinyGPT needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) $(TORCH)
	$(PIP) --editable '.[torch,dev]'
	@touch $@

web/node_modules/ready: web/package-lock.json | .venv/ready
	cd web && ../$(BIN)/npm ci --no-audit --no-fund --loglevel=error
	@touch $@
