# `make` lists the targets. Everything runs in .venv, which `make setup` makes and every target begins with.
BIN := .venv/bin
READY := .venv/.ready
PYTHON ?=
ARGS ?=
SEED ?=
MINUTES ?= 10
SF ?= 1
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick faults lint format bench fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with pinned packages and Delta's jars; does nothing the second time
	@:

$(READY): pyproject.toml requirements-dev.lock scripts/setup scripts/fetch_jars.py
	@PYTHON="$(PYTHON)" scripts/setup
	@touch $@

demo: $(READY) ## the retail example: two views over a million sales, refreshed incrementally
	@$(BIN)/python examples/retail.py

test: $(READY) ## all tests, by three processes with a Spark each; ARGS="-k name" for some, WORKERS=0 for one process
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

quick: $(READY) ## the tests that need no Spark (seconds)
	@$(BIN)/python -m pytest -m "not spark" $(ARGS)

faults: $(READY) ## every operation aborted and killed at every point, two processes for minutes, a full disk (an hour)
	@$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(READY) ## ruff, mypy --strict on src, and the direction of imports between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## incremental against full refresh on TPC-H (SF=10 for more data), and a day by policy; ARGS="--case retail_day"
	@SF=$(SF) $(BIN)/python -m bench $(ARGS)

fuzz: $(READY) ## random views, changes, transactions and policies, end to end, for MINUTES=10; SEED=n repeats a run
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean: ## remove .venv and what the tools leave behind (not Delta's jars)
	rm -rf .venv build dist artifacts spark-warehouse .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
