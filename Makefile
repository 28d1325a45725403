# Every target makes .venv and installs what it needs by itself, again whenever pyproject.toml or constraints.txt changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

export PYTHONDONTWRITEBYTECODE := # compiled modules are kept, whatever the environment says

.PHONY: demo demo-vision test test-faults test-all test-learn test-recipes test-lowest coverage check lint types audit sbom release map reference texts bench clean

demo: .venv/core
	$(BIN)/heedful demo

demo-vision: .venv/core
	$(BIN)/heedful demo --images

# What a newcomer runs. `make types` checks the types.
test: .venv/dev lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not learn and not recipes and not wide and not faults"

# Kills, faults of the disk and losses of power, over all tasks: at most 12 minutes on 2 cores.
test-faults: .venv/dev
	$(BIN)/pytest -n 2 --dist worksteal -m faults

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

# The quick tests with the lowest versions that pyproject.toml allows, in an environment of its own, once per release.
# LOWEST="torch=2.13.0" takes other versions of some packages, where an index lacks the lowest.
test-lowest: .venv/dev
	$(BIN)/python -m scripts.supply.lowest $(LOWEST) > .venv/lowest.txt
	test -x .venv/lowest/bin/python || $(PYTHON) -m venv .venv/lowest
	.venv/lowest/bin/pip install --quiet --disable-pip-version-check --constraint .venv/lowest.txt --editable ".[dev]"
	.venv/lowest/bin/python -m pytest -n 2 --dist worksteal -m "not learn and not recipes and not wide and not faults"

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

# Security rules of ruff (but for asserts and random numbers, as in pyproject.toml), licences of all installed packages, and known vulnerabilities where they can be looked up.
audit: .venv/dev
	$(BIN)/ruff check --ignore S101,S311 --select S src benchmarks scripts
	$(BIN)/python -m scripts.supply.licences
	$(BIN)/python -m scripts.supply.vulnerabilities

# The bill of materials of a release: dist/heedful-VERSION.cdx.json.
sbom: .venv/dev
	$(BIN)/python -m scripts.supply.bill_of_materials

# dist/: sdist and wheel, built twice with equal bytes; the wheel's demo has run in an environment of its own.
release: .venv/dev sbom
	$(BIN)/python -m scripts.supply.release

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
	$(INSTALL) --editable ".[serve]"
	@touch $@

.venv/dev: .venv/core
	$(INSTALL) --editable ".[dev]"
	@touch $@

clean:
	rm -rf .venv build dist
