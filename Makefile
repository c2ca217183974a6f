# Everything runs in environments of its own; needed are python3 (3.11 or newer), make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM_VENV := .venv-vllm
ARGS ?=
DATA ?= ../shared/data/classify/train_permissive.jsonl

.DEFAULT_GOAL := help
.PHONY: help demo test cover lint type fmt bench bench-routing model vllm-env test-vllm lock clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.core ## Run the gateway in front of a simulated fleet, drive real prompts, print the table (ARGS=--once to end there)
	$(BIN)/specroute demo $(ARGS)

test: $(VENV)/.test tests/contract/node/node_modules/.stamp ## Run the test suite (no network, no GPU)
	$(BIN)/python -m pytest -n auto $(ARGS)

cover: $(VENV)/.test ## Check that the core is covered to the last branch by its own tests
	$(BIN)/python -m pytest tests/unit/core -q --cov=gateway.core --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100

lint: $(VENV)/.test ## Check style and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

type: $(VENV)/.test ## Check types
	$(BIN)/mypy

fmt: $(VENV)/.test ## Format and apply safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.test ## Measure the data path (ratios in one run)
	$(BIN)/python -m tests.bench $(ARGS)

bench-routing: $(VENV)/.test ## Measure routing on simulated fleets against peers and the optimum (ARGS=--quick: minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.routing $(ARGS)

model: $(VENV)/.core ## Train the shipped classifier anew (DATA=train_permissive.jsonl)
	OMP_NUM_THREADS=1 $(BIN)/python -m gateway.training.train $(DATA) gateway/models/workload.model \
		--own gateway/training/own*.jsonl backends/prompts/*.jsonl

vllm-env: $(VLLM_VENV)/.stamp ## Install vLLM's CPU build into an environment of its own

test-vllm: $(VENV)/.test $(VLLM_VENV)/.stamp ## Test against real vLLM servers on the CPU
	SPECROUTE_VLLM_PYTHON=$(abspath $(VLLM_VENV)/bin/python) $(BIN)/python -m pytest -p no:xdist -m vllm tests/vllm $(ARGS)

lock: $(VENV)/.test ## Resolve the lock files anew
	tools/lock.sh

clean: ## Remove the environments and caches
	rm -rf $(VENV) $(VLLM_VENV) tests/contract/node/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) tools/mkvenv.py $(VENV)

$(VENV)/.core: $(VENV)/bin/python requirements.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.test: $(VENV)/.core requirements-test.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-test.lock
	touch $@

tests/contract/node/node_modules/.stamp: tests/contract/node/package-lock.json
	@if command -v npm >/dev/null 2>&1; then \
		npm ci --prefix tests/contract/node --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "npm is not installed: the Node SDK contract tests will be skipped"; fi

$(VLLM_VENV)/.stamp: tests/vllm/env.sh tests/vllm/requirements.lock
	$(PYTHON) tools/mkvenv.py $(VLLM_VENV)
	tests/vllm/env.sh $(VLLM_VENV)
	touch $@
