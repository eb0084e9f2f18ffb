# demo · test · check · fix · bench · docs · prices. The first two need nothing but Python 3.11 with venv, pip and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test check fix bench bench-peers docs prices
help:
	@echo "make demo    a real model on this machine answers through Trunkline (ONCE=1: and that is all)"
	@echo "make test    all tests that this machine can run; those that it cannot say why"
	@echo "make check   lint, types, imports, and the tests that need no server"
	@echo "make fix     what the linter and the formatter can mend"
	@echo "make bench   speed, as ratios to nginx and to every installed peer (FAST=1: in at most 5 minutes)"
	@echo "make docs    the reference pages, from the code"
	@echo "make prices  the prices that come with this version, from the installed library"

demo:
	@$(PYTHON) demo.py

test: .venv/.test
	$(BIN)/python -m pytest

check: .venv/.check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/unit tests/arch tests/wire

fix: .venv/.check
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Installs nothing: it says what is missing. `make bench-peers` puts the other gateways into $(PEERS).
BENCH_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
PEERS := $(or $(BENCH_PEERS),build/bench/peers)

bench:
	$(BENCH_PYTHON) -m bench $(if $(FAST),--fast)

bench-peers:
	$(PYTHON) -m venv $(PEERS)/litellm && $(PEERS)/litellm/bin/python -m pip install --quiet "litellm[proxy]"
	$(PYTHON) -m venv $(PEERS)/tensorzero && $(PEERS)/tensorzero/bin/python -m pip install --quiet tensorzero uvloop
	npm install --silent --prefix $(PEERS)/portkey @portkey-ai/gateway

docs: .venv/.test
	$(BIN)/python docs/generate.py

# Asks no network beyond installing the library: the data is what that carries.
prices: .venv/.check
	$(BIN)/python tools/prices.py

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Trunkline needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Try: make $(MAKECMDGOALS) PYTHON=python3.12")'
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "Python lacks venv. Debian, Ubuntu: sudo apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv

# The pip that comes with Python 3.11 does not know dependency groups.
.venv/.test .venv/.check: .venv/.%: pyproject.toml sdk/pyproject.toml | .venv/bin/python
	@echo "installing what \`make $*\` needs into .venv"
	@$(PIP) install --upgrade "pip>=25.1"
	@$(PIP) install --editable ./sdk --editable . --group $*
	@touch $@
