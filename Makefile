# From nothing but Python 3.11+ and pip: each target makes .venv and installs what it needs.

PYTHON ?= python3
BIN := .venv/bin
# The one PyTorch every check is made with. Installed first and alone: what depends on torch then finds it there.
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup test test-slow lint types web-check site chromium train play clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: .venv/ready web/node_modules/ready chromium ## make .venv and install everything the checks need

test: setup lint types web-check site ## everything that must hold: lint, types, all tests
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

test-slow: setup ## the long proofs
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

web-check: setup
	$(BIN)/python -m tinygpt.site check

site: .venv/ready web/node_modules/ready
	$(BIN)/python -m tinygpt.site

train: .venv/ready ## train the default preset on the default corpus and print a sample
	$(BIN)/tinygpt train

play: site ## build the page that trains in a browser tab, serve it on this machine and open it
	$(BIN)/tinygpt play

clean: ## remove .venv, installed packages and caches; runs/ stays
	rm -rf .venv web/node_modules web/dist web/.astro web/src/generated web/public/corpora web/public/kernels build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

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

# The browser that drives the page's tests. On Debian root gets it here; others install it themselves.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	else echo "The tests drive Chromium, and there is none: install Chromium or Google Chrome."; exit 1; fi
