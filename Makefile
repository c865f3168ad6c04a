# Every target sets up what it needs in .venv on a machine with Python, pip, venv, make, gcc and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test test-slow lint docs bench reproduce clean

demo: $(VENV)/.core
	$(BIN)/python -m thresher.demo

test: lint $(VENV)/.test
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n $(JOBS) tests/interpreted
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" tests src --ignore=tests/interpreted

test-slow: $(VENV)/.slow
	$(BIN)/python -m pytest -q -n $(JOBS) -m slow tests

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

reproduce: $(VENV)/.bench
	$(BIN)/python -m reproduction

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test $(VENV)/.slow $(VENV)/.lint $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: pyproject.toml $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	@touch $@
