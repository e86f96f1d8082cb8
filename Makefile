# Rift's chores. `make setup` prepares this machine, `make bench` runs the main job on it,
# `make test` checks everything. All are idempotent: what is there already is not made again.

PYTHON ?= python3
VENV := .venv
RIFT := $(VENV)/bin/rift
PRICE ?= 0.05
EXTRAS := serve-cpu,bench,provision,compiler,dev
# Debian packages: the CPU engine links to libnuma, and is faster with tcmalloc; Chromium looks at
# reports.
SETUP_PACKAGES := libnuma1 libtcmalloc-minimal4
TEST_PACKAGES := chromium openssh-server
# The rig: Debian trees and disks without root, a clean environment for QEMU.
RIG_PACKAGES := mmdebstrap e2fsprogs openssh-client util-linux

.PHONY: setup bench test test-rig rig check format clean

setup: $(VENV)/.installed
	@$(call apt,$(SETUP_PACKAGES))
	@echo "== engine"
	@$(RIFT) deploy engine

bench: setup
	@echo "== main job: serve SmolLM2-135M with vLLM on this machine, load it, report"
	@echo "price: $(PRICE) USD an hour, an example; yours: make bench PRICE=0.50"
	@$(RIFT) bench --suite llm --deploy smollm2-135m --profile smoke --price-per-hour $(PRICE)

test: setup check
	@$(call apt,$(TEST_PACKAGES))
	@$(RIFT) deploy engine --device cpu
	@echo "== tests"
	@$(VENV)/bin/pytest --ignore tests/compiler --ignore tests/rig
	@echo "== tests of the compiler, on all cores"
	@$(VENV)/bin/pytest -n auto --dist worksteal tests/compiler

# A GPU host in QEMU, in software: minutes the first time (its parts are kept), then seconds.
test-rig: $(VENV)/.installed
	@$(call apt,$(RIG_PACKAGES))
	@echo "== tests on an emulated GPU host"
	@$(VENV)/bin/pytest tests/rig

rig: $(VENV)/.installed
	@$(call apt,$(RIG_PACKAGES))
	@PYTHONPATH=tests/rig $(VENV)/bin/python -m rig

check: $(VENV)/.installed
	@echo "== format, lint, types, layers"
	@$(VENV)/bin/ruff format --check --quiet .
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@cd ansible && PATH="$(abspath $(VENV))/bin:$$PATH" ansible-lint --offline -q

format: $(VENV)/.installed
	@$(VENV)/bin/ruff check --fix --quiet .
	@$(VENV)/bin/ruff format --quiet .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rift needs Python 3.11 or newer: $(PYTHON) is not; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "rift needs Python's venv module: apt-get install python3-venv"; exit 1; }
	@echo "== environment $(VENV): the toolkit with [$(EXTRAS)]"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

# Install Debian packages that are not there, as root or with sudo that asks nothing. Without
# either, or on another distribution, say what would help and go on.
define apt
missing=$$(for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
if [ -n "$$missing" ]; then \
  sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
  if command -v apt-get >/dev/null && $$sudo true 2>/dev/null; then \
    echo "== Debian packages:" $$missing; \
    { $$sudo apt-get update -qq && \
      $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } || \
      echo "not installed (going on without):" $$missing; \
  else \
    echo "not installed (going on without):" $$missing "- as root: apt-get install" $$missing; \
  fi; \
fi
endef
