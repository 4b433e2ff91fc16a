# Two commands do all the set-up on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests start processes of their own: more than a few at a time do not help.
PARALLEL := -n auto --maxprocesses 4 --dist worksteal

SHORT := -m "not slow and (not long or sample)"

# Tests of what depends on places: files beside each other, processes, links, the package's own folder.
PLACES := README.md docs tests/_core tests/audit/test_replay_pipelines.py tests/cli tests/crash tests/docs tests/federation \
	tests/jobs tests/ledger $(wildcard tests/test_*.py)

LOWEST := .venv-lowest
LOWEST_PYTHON ?= python3.11

# Another Python: make test-python PY=3.13
PY ?= 3.13
OTHER := .venv-$(PY)

# Modules are compiled where they are first imported (most never are), and kept: every process would compile them again.
export PYTHONDONTWRITEBYTECODE =
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test test-all test-places test-lowest test-python search check format slow audit reproduce docs wheel clean

$(READY): pyproject.toml constraints.txt setup.py pate/privacy/exact/_native.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[dev]"
	touch $(READY)

demo: $(READY)  ## the main job on an embedded data set; ends with a report to open
	$(BIN)/pate demo

test: $(READY)  ## the short tests and doctests, and one of each kind of long test, in five minutes on two cores
	$(BIN)/python -m pytest -q $(PARALLEL) $(SHORT)

test-all: $(READY)  ## all tests and doctests but for the minutes-long ones; what .ci/run runs
	$(BIN)/python -m pytest -q $(PARALLEL)

test-places: $(READY)  ## the short tests of what depends on where the checkout lies, which .ci/run runs elsewhere too
	$(BIN)/python -m pytest -q $(PARALLEL) $(SHORT) $(PLACES)

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt setup.py pate/privacy/exact/_native.c
	$(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(INSTALL) -c constraints-lowest.txt -e ".[dev]"
	touch $@

test-lowest: $(LOWEST)/.ready  ## the same tests with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/python -m pytest -q $(PARALLEL)

$(OTHER)/.ready: pyproject.toml constraints.txt setup.py pate/privacy/exact/_native.c
	python$(PY) -m venv $(OTHER)
	$(OTHER)/bin/python $(INSTALL) -c constraints.txt -e ".[dev]"
	touch $@

test-python: $(OTHER)/.ready  ## the short tests with another Python, python3.13 or PY=3.12, where there is one
	$(OTHER)/bin/python -m pytest -q $(PARALLEL) $(SHORT)

search: $(READY)  ## tests that try cases, other cases each time
	$(BIN)/python -m pytest -q $(PARALLEL) -m "hypothesis and not slow" --hypothesis-profile=search

slow: $(READY)  ## what make test-all leaves out
	$(BIN)/python -m pytest -q -m slow

audit: $(READY)  ## the thorough audits of our own mechanisms and pipelines, which make test-all has the fast part of
	$(BIN)/python -m pytest -q $(PARALLEL) -m slow tests/audit tests/mutants

reproduce: $(READY)  ## the published tables (docs/reproduction.md) from the data in PATE_DATA_HOME; what is finished is kept
	$(BIN)/python experiments/reproduce/all.py

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)  ## the documentation site, in site/index.html; runs tutorial and gallery for their outputs, and a warning is an error
	PATE_DOCS_RUN=1 $(BIN)/python -m sphinx -c docs/_site -d build/docs -E -a -W --keep-going -q . site

wheel: $(READY)  ## builds wheel and sdist into dist/, and proves both in a clean environment
	$(BIN)/python tests/wheel/prove.py --out dist

clean:
	rm -rf $(VENV) $(LOWEST) .venv-3.* build dist site docs/reference docs/examples *.egg-info .pytest_cache .mypy_cache .ruff_cache
