# Every target does the set-up it needs; `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin

# Compiled modules are kept, whatever the caller prefers: every kernel, box and short-lived process reads them.
unexport PYTHONDONTWRITEBYTECODE

# A notebook's project is the folder it lies in, so demo and lab work on copies, never on the repository.
LAB_FLAGS := $(if $(filter 0,$(shell id -u)),--allow-root) $(if $(DISPLAY)$(WAYLAND_DISPLAY),,--no-browser)

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## Python environment in .venv, JupyterLab, the sidebar, and what a box needs from the system
	@dev/setup.sh lab

.PHONY: demo
demo: ## Run the quickstart notebook for real and say where the executed copy lies
	@dev/setup.sh demo
	@$(BIN)/python dev/demo.py

.PHONY: lab
lab: ## Open JupyterLab on a copy of the notebooks, kept in out/lab until make clean
	@dev/setup.sh lab
	@mkdir -p out && { [ -d out/lab ] || cp -r notebooks out/lab; }
	@cd out/lab && exec ../../$(BIN)/jupyter-lab $(LAB_FLAGS) $(LAB_ARGS) quickstart.ipynb

.PHONY: wheel
wheel: ## Build the package into dist/, with the sidebar inside, and say how to install it
	@dev/setup.sh wheel
	@rm -rf dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@echo "pip install '$$(echo "$$PWD"/dist/*.whl)[lab]'"
	@echo "Without [lab] it comes without JupyterLab and Notebook. Then: kagura-kernel doctor"

.PHONY: test
test: ## Format, lint, types, contracts, notebooks and every test: what CI runs
	@dev/setup.sh test
	@$(BIN)/python dev/check.py

.PHONY: test-all
test-all: ## test with corpora, properties and variants in full, and a report of the lines that no test runs through
	@dev/setup.sh test
	@$(BIN)/python dev/check.py all

.PHONY: pictures
pictures: ## Take the screenshots of the documentation anew, into out/screenshots
	@dev/setup.sh test
	@KAGURA_TEST_PICTURES=1 $(BIN)/python -m pytest -q tests/browser

.PHONY: bench
bench: ## Measure speed against its floor; the table goes to the screen and to out/bench.md
	@dev/setup.sh test
	@$(BIN)/python -m tests.bench

.PHONY: lint
lint: ## Format, lint, types and contracts, without changing a file
	@dev/setup.sh lint
	@$(BIN)/python dev/check.py lint

.PHONY: format
format: ## Rewrite files as the formatter and the safe fixes of the linter want them
	@dev/setup.sh lint
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent format

.PHONY: images
images: ## Build the box images with the Docker daemon of this machine
	@dev/setup.sh demo
	@dev/images.sh

.PHONY: clean
clean: ## Remove what was built or left behind; .venv stays
	@rm -rf build dist out labextension/dist labextension/lib .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	@find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +
