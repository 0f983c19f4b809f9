# From nothing but Python 3.11+ and pip: each target makes .venv and installs what it needs.

PYTHON ?= python3
BIN := .venv/bin
# The one PyTorch every check is made with. Installed first and alone: what depends on torch then finds it there.
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The clang of `make sanitize`, its Debian packages, and its runtime (some name it after the machine), empty if missing.
CLANG ?= clang-19
CLANG_PACKAGES := clang-19 libclang-rt-19-dev llvm-19
ASAN_NAMES := libclang_rt.asan-$(shell uname -m).so libclang_rt.asan.so
ASAN = $(firstword $(wildcard $(foreach name,$(ASAN_NAMES),$(shell $(CLANG) -print-file-name=$(name) 2> /dev/null))))

.PHONY: help setup test test-slow test-times mutants sanitize clang lint format types web-check site chromium browsers vulkan qemu train models law play wheel screenshots clean
.NOTPARALLEL:  # one install makes several stamps

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: .venv/test-ready web/node_modules/test-ready chromium browsers vulkan ## make .venv and install everything the checks need

# Lint, types and the page's build are tests too (tests/test_sources.py), so that they run beside the others.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadgroup --no-loadscope-reorder --durations 20 --durations-min 1

test: setup ## everything that must hold: lint, types, all tests
	$(PYTEST) tests -m "not slow" --times=build/test-times.md

test-times: ## where the time of the last `make test` went, by folder and by test
	@cat build/test-times.md 2> /dev/null || { echo "There is no table yet: run make test first."; exit 1; }

mutants: setup ## break the sources in many places, one at a time: make test must notice each time
	$(BIN)/python tests/mutants.py

test-slow: setup qemu ## the long proofs, an emulated ARM machine's among them
	$(PIP) install xllamacpp "lm_eval[api]" --editable '.[ray]'
	$(BIN)/python -m pytest -m slow

sanitize: .venv/test-ready clang ## the C++ kernels under the address and undefined-behaviour sanitizers (needs clang)
	@test -n "$(ASAN)" || { echo "this needs clang 17 or newer with its runtime: install $(CLANG_PACKAGES), \
	or set CLANG"; exit 1; }
	TINYGPT_SANITIZE=$(CLANG) LD_PRELOAD=$(ASAN) ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 \
	UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1 \
	  $(BIN)/python -m pytest -n auto --capture=sys tests/kernels -k cpp

clang:
	@test -n "$(ASAN)" || test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(CLANG_PACKAGES); }

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tinygpt.site lint

format: setup ## lay out all sources as make test wants them: ruff for Python, prettier for TypeScript and Svelte
	$(BIN)/ruff format .
	$(BIN)/python -m tinygpt.site format

types: setup
	$(BIN)/mypy

web-check: setup
	$(BIN)/python -m tinygpt.site check

site: .venv/node-ready web/node_modules/ready
	$(BIN)/python -m tinygpt.site

train: .venv/ready ## train the default preset on the default corpus and print a sample
	$(BIN)/tinygpt train

models: .venv/ready ## train the models that come with the package, and pack them (ENGINE=webgpu, or another)
	$(BIN)/python -m lab.bundled make $(if $(ENGINE),--engine $(ENGINE))

law: .venv/ready ## what to expect of a run, from the sweeps that scripts/reference-runs.sh has made in runs/reference
	$(BIN)/python -m lab.law.reference table runs/reference/sweeps/* > runs/reference/table.py
	mv runs/reference/table.py lab/law/reference_runs.py
	$(BIN)/python -m lab.law.fitting > runs/reference/law.py
	mv runs/reference/law.py tinygpt/core/advice/law_numbers.py
	$(BIN)/python -m lab.law.banding > runs/reference/bands.py
	mv runs/reference/bands.py tinygpt/core/advice/band_numbers.py

play: site ## build the page that trains in a browser tab, serve it on this machine and open it
	$(BIN)/tinygpt play

screenshots: setup site ## pictures of the page's main states, in build/screenshots/index.html
	$(BIN)/python tests/e2e/screenshots.py build/screenshots

wheel: site ## pack all of it, the built page too, into dist/tinygpt-*.whl
	rm -rf build
	$(PIP) wheel --no-deps --wheel-dir dist .

clean: ## remove .venv, installed packages and caches; runs/ stays
	rm -rf .venv web/node_modules tinygpt/page web/.astro web/src/generated web/public/corpora web/public/models web/public/kernels web/public/steps build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# What each target needs and no more: .venv/ready trains, node-ready builds the page, test-ready checks everything.
.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "TinyGPT needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/ready: pyproject.toml Makefile | .venv/made
	$(PIP) install --editable '.[webgpu]'
	@touch $@

.venv/node-ready: pyproject.toml Makefile | .venv/made
	$(PIP) install --editable '.[webgpu,node]'
	@touch .venv/ready $@

.venv/test-ready: pyproject.toml Makefile | .venv/made
	$(PIP) install $(TORCH)
	$(PIP) install --editable '.[torch,webgpu,node,dev]'
	@touch .venv/ready .venv/node-ready $@

NPM_CI = cd web && ../$(BIN)/npm ci --no-audit --no-fund --loglevel=error

web/node_modules/ready: web/package-lock.json | .venv/node-ready
	$(NPM_CI) --omit=dev
	@touch $@

web/node_modules/test-ready: web/package-lock.json | .venv/node-ready
	$(NPM_CI)
	@touch web/node_modules/ready $@

# The browser that drives the page's tests. On Debian root gets it here; others install it themselves.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	else echo "The tests drive Chromium, and there is none: install Chromium or Google Chrome."; exit 1; fi

# Firefox and WebKit, in which the page is tried too: as above. Elsewhere those tests are skipped.
browsers:
	@command -v firefox-esr > /dev/null && command -v WebKitWebDriver > /dev/null && command -v Xvfb > /dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends firefox-esr webkit2gtk-driver xvfb; \
	else echo "The tests open the page in Firefox and WebKit, too: install firefox-esr, webkit2gtk-driver and xvfb."; fi

# The ARM machine that the kernels are tested on, emulated: as above.
qemu:
	@command -v qemu-aarch64 > /dev/null || command -v qemu-aarch64-static > /dev/null || test "$$(uname -m)" = aarch64 || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user; \
	else echo "The long proofs emulate an ARM machine: install qemu-user."; exit 1; fi

# The adapter that the WGSL kernels are tested on, if only a software one: as above. Elsewhere those tests are skipped.
ADAPTERS := $(BIN)/python -c 'from tinygpt.engines.gpu import all_adapters; raise SystemExit(not all_adapters())'
vulkan: .venv/ready
	@$(ADAPTERS) && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers \
	  && { $(ADAPTERS) || { echo "wgpu finds no adapter, not even that of mesa-vulkan-drivers."; exit 1; }; }; \
	else echo "The tests run WGSL, and wgpu finds no adapter: install a Vulkan driver (mesa-vulkan-drivers)."; fi
