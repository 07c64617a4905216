# Everything runs in .venv, which is made when it is missing. A stamp file records each install, so that
# it is repeated only when pyproject.toml or the constraints change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := requirements/constraints.txt
PIP_INSTALL := $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS)

.PHONY: help demo test soak lint docs kernels
.DEFAULT_GOAL := help

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

demo: $(VENV)/.stamp-core ## install, embed a small text with the bundled model, show what came out
	$(BIN)/elmo embed examples/data/sentences.txt --output demo.h5 --model default --overwrite
	$(BIN)/python examples/show_embeddings.py demo.h5

test: $(VENV)/.stamp-test ## run the tests, on all cores (some minutes)
	$(BIN)/python -m pytest -n auto

soak: $(VENV)/.stamp-test ## run the long repetitions that make test leaves out
	$(BIN)/python -m pytest -m soak

lint: $(VENV)/.stamp-lint ## check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/.stamp-docs ## build the manual into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

kernels: $(VENV)/.stamp-kernels ## build the optional C++ steps of the LSTM and install them (needs a C++ compiler)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-core: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.stamp-kernels: $(shell find kernels -name '*.cpp' -o -name '*.py' -o -name '*.toml') | $(VENV)/.stamp-core
	$(PIP_INSTALL) setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps ./kernels
	@touch $@

$(VENV)/.stamp-%: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP_INSTALL) --editable '.[$*]'
	@touch $@
