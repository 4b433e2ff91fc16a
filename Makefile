# Two commands do all the set-up on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format slow clean

$(READY): pyproject.toml constraints.txt setup.py pate/privacy/noisy_max/_native.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

demo: $(READY)  ## the main job on an embedded data set; ends with a report to open
	$(BIN)/pate demo

test: $(READY)  ## tests and doctests, in a few minutes
	$(BIN)/python -m pytest -q

slow: $(READY)  ## what make test leaves out
	$(BIN)/python -m pytest -q -m slow

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
