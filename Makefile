# Every target makes .venv and installs what it needs by itself, again whenever pyproject.toml or constraints.txt changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

export PYTHONDONTWRITEBYTECODE := # compiled modules are kept, whatever the environment says

.PHONY: demo demo-vision test test-all test-learn test-recipes coverage check lint types map reference texts bench clean

demo: .venv/core
	$(BIN)/heedful demo

demo-vision: .venv/core
	$(BIN)/heedful demo --images

# What a newcomer runs. `make types` checks the types.
test: .venv/dev lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not learn and not recipes and not wide"

# What `make test` leaves out: the widest sweeps and the documentation's examples. MINUTES=35 ends it in time on a slow
# machine, and says how many tests were not run.
test-all: .venv/dev
	$(BIN)/pytest -n 2 --dist worksteal -m wide $(if $(MINUTES),--minutes $(MINUTES))

# Every task, with every family of encoders and decoders, learns something small.
test-learn: .venv/dev
	$(BIN)/pytest -n 2 --dist worksteal -m learn

# Shipped recipes and larger models reach their figures: 15 minutes or more.
test-recipes: .venv/dev
	$(BIN)/pytest -m recipes

# The share of branches that the tests of `make test` and `make test-all` take: about an hour.
coverage: .venv/dev
	$(BIN)/python scripts/branch_coverage.py

check: lint types

lint: .venv/dev
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/lint-imports

types: .venv/dev
	$(BIN)/mypy

map: .venv/dev
	$(BIN)/python scripts/architecture_map.py

# docs/reference, from the schema of recipes, the command line and the package.
reference: .venv/dev
	$(BIN)/python scripts/write_reference.py

# docs/texts.md, from the lists of src/heedful/texts.
texts: .venv/dev
	$(BIN)/python scripts/write_texts.py

bench: .venv/dev
	$(BIN)/python -m benchmarks.cpu.train_cpu
	$(BIN)/python -m benchmarks.cpu.data_scale

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
