# Every target makes .venv and installs what it needs by itself, again whenever pyproject.toml or constraints.txt changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

.PHONY: demo test test-learn check map bench clean

demo: .venv/core
	$(BIN)/heedful demo

test: check
	$(BIN)/pytest -n 2 -m "not learn"

test-learn: .venv/dev
	$(BIN)/pytest -m learn

check: .venv/dev
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/lint-imports
	$(BIN)/mypy

map: .venv/dev
	$(BIN)/python scripts/architecture_map.py

bench: .venv/dev
	$(BIN)/python benchmarks/train_cpu.py
	$(BIN)/python benchmarks/data_scale.py

.venv/core: $(SOURCES)
	@echo "Making .venv and installing Heedful (about a minute) ..."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	@touch $@

.venv/dev: .venv/core
	$(INSTALL) --editable ".[dev]"
	@touch $@

clean:
	rm -rf .venv build dist
