# `make demo` and `make test` set everything up by themselves; nothing else is needed on a fresh machine with Python 3.11.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test test-data test-browser test-ray test-slow lint types check clean

demo: $(READY)  ## render the embedded example, learn it, check a flawed video, write a report
	$(BIN)/stepcut demo -o demo

test: $(READY)  ## the default suite
	$(BIN)/python -m pytest -q -n 2

test-data: $(READY)  ## what needs the real data in ../shared/data
	$(BIN)/python -m pytest -q -m data

test-slow: $(READY)
	$(BIN)/python -m pytest -q -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

check: lint types test

# torch first and exactly: a looser request would take the newest build, with gigabytes of CUDA.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q torch==2.13.0
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache
