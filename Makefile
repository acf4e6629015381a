# make demo, make test: all the set-up there is. PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
READY := $(VENV)/ready-$(VERSION)
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile
RECORDS := benchmarks/records

.PHONY: install demo test test-slow test-doors house durations soak browser lint types clean
.DELETE_ON_ERROR:

install: $(READY)

# A stamp per Python version: another PYTHON makes the environment anew.
$(READY): pyproject.toml constraints.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: install
	$(BIN)/tacthmc demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# At most 12 minutes on two cores, with the counts of `make house` among the tests.
test: lint types
	$(PYTEST)

# The full product of statistical combinations. The cases of the calibration are measured first, and
# an interrupted run goes on with those that are missing.
test-slow: install
	$(BIN)/python -m tests.calibration --processes 2
	$(PYTEST) -m slow --record $(RECORDS)/statistics.json tests

# Tests that need other people's model languages. Pytest's exit code 5 says that there are none.
test-doors: install
	$(PYTEST) -m doors tests || test $$? -eq 5

house: install
	$(BIN)/python -m tools.house

# How long `make test` takes, and the 25 tests that take longest.
durations: install
	$(PYTEST) --durations-record $(RECORDS)/durations.json

soak: install
	$(BIN)/python -m benchmarks soak

# The report's tests run in a real browser; without one they are skipped.
browser:
	command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium)

clean:
	rm -rf $(VENV) build dist src/*.egg-info
