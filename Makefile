# Every target sets up what it needs, once. `make` lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH := torch==2.13.0
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
SOURCES := src tests bench docs examples

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full check format laws smoke bench docs clean

help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@command -v $(PYTHON) >/dev/null || { echo "potluck needs $(PYTHON); set PYTHON=... to use another (3.11 to 3.13)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --constraint constraints.txt "$(TORCH)"
	@$(PIP) --constraint constraints.txt --editable ".[dev]"
	@touch $(READY)

setup: $(READY)  ## Create .venv with everything that the other targets need.

demo: $(READY)  ## Compare methods on skewed digits: a progress bar, a table and a report, in about a minute.
	@$(BIN)/potluck compare experiments/demo.toml --out runs/demo --overwrite

check: $(READY)  ## Format, lint, types, spelling and the import law, in seconds.
	@$(BIN)/ruff format --check --quiet $(SOURCES)
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/codespell --quiet-level 2 src tests bench docs examples experiments README.md CONTRIBUTING.md CHANGELOG.md
	@$(BIN)/pytest --quiet --no-header tests/test_structure.py

format: $(READY)  ## Format the code and mend what the linter can.
	@$(BIN)/ruff check --quiet --fix $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)

test: $(READY)  ## Run the tests that need neither downloaded data nor minutes.
	@$(BIN)/pytest -m "not slow and not realdata"

test-full: $(READY)  ## Run all tests; those on real data look in $$POTLUCK_DATA.
	@$(BIN)/pytest

laws: $(READY)  ## Try every law on every algorithm.
	@$(BIN)/pytest tests/laws

smoke: $(READY)  ## Run every experiment file for one round.
	@$(BIN)/pytest tests/test_experiments.py

bench: $(READY)  ## Measure the engine against the raw loop.
	@$(BIN)/python bench/run.py
	@$(BIN)/python bench/latent.py
	@$(BIN)/python bench/density.py

docs: $(READY)  ## Rebuild the figures and tables of docs/ from stored records.
	@$(BIN)/python docs/make.py

clean:  ## Delete .venv and what runs left behind.
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
