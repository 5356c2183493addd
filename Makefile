# Everything that this repository does, by name. `make` alone lists it.
# Nothing here but the images and the cluster needs root, Docker or an installed Postgres; nothing but the cluster's cache
# (~/.cache/tidegate-cluster) is written outside .venv/ and build/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# the first Python of 3.11 or later that runs; PYTHON=... names another
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$candidate && break; done)
VENV ?= .venv
BIN := $(VENV)/bin

# a module found through PYTHONPATH would be tested in place of ours
unexport PYTHONPATH
# `python -m tests...` and `python -m bench` look in this folder
unexport PYTHONSAFEPATH
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-input

# what to hand on: make test PYTEST_FLAGS="-k claim -x", make lock LOCK_FLAGS=--upgrade, make bench BENCH_FLAGS=--quick
PYTEST_FLAGS ?=
LOCK_FLAGS ?=
BENCH_FLAGS ?=
DEMO_FLAGS ?=
FAULTS_FLAGS ?=
IMAGES_FLAGS ?=

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "no Python 3.11 or later found: install one, or name it with make PYTHON=/path/to/python" >&2; exit 1; fi
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) has no venv module: install it (Debian: python3-venv), or name another Python with PYTHON=" >&2; exit 1; }

# One stamp for each lock. The project itself is installed editable, by the build backend that the lock pins.
$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	@echo "installing requirements.lock into $(VENV)"
	@$(PIP_INSTALL) --require-hashes --requirement requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "installing requirements-dev.lock into $(VENV)"
	@$(PIP_INSTALL) --require-hashes --requirement requirements-dev.lock
	@touch $@

.PHONY: demo
demo: $(VENV)/.installed ## run two tenants and a rate-limited vendor, kill a worker, prove that no limit was broken
	@$(BIN)/python examples/demo.py $(DEMO_FLAGS)

.PHONY: test
test: $(VENV)/.installed-dev ## unit, contract and Postgres tests on the embedded server and on an installed one
	@$(BIN)/pytest $(PYTEST_FLAGS)

.PHONY: images
images: $(VENV)/.installed ## the operator's and the worker's image, with docker, podman or buildah (IMAGES_FLAGS="--base NAME")
	@$(BIN)/python .ci/images.py $(IMAGES_FLAGS)

.PHONY: cluster-up test-cluster cluster-down
cluster-up: $(VENV)/.installed-dev ## a real Kubernetes: by kind where Docker runs, elsewhere built from Go modules, as root
	@$(BIN)/python -m tests.cluster.local up
test-cluster: $(VENV)/.installed-dev ## tests/cluster on the cluster that is up, else on the one that KUBECONFIG names
	@$(BIN)/python -m tests.cluster.local test $(PYTEST_FLAGS)
cluster-down: $(VENV)/.installed-dev ## remove the cluster; what was built for it stays in the cache
	@$(BIN)/python -m tests.cluster.local down

.PHONY: check check-lint check-format check-types check-imports check-locks check-examples
check: check-lint check-format check-types check-imports check-locks verify check-examples ## lint, types, import rules, locks, generated files, README (-k: go on after a failure)
check-lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check
check-format: $(VENV)/.installed-dev
	@$(BIN)/ruff format --check
check-types: $(VENV)/.installed-dev
	@$(BIN)/mypy
check-imports: $(VENV)/.installed-dev
	@$(BIN)/lint-imports
check-locks: $(VENV)/.installed-dev
	@$(BIN)/python .ci/locks.py check

check-examples: $(VENV)/.installed-dev
	@$(BIN)/pytest -q tests/contract/test_readme.py

.PHONY: bench
bench: $(VENV)/.installed-dev ## what claim, enqueue and worker cost beside bare SQL, as ratios in one run; FULL=1: every size, hours; BENCH_FLAGS=--quick: minutes
	@$(BIN)/python -m bench $(if $(filter 1,$(FULL)),--full) $(BENCH_FLAGS)

.PHONY: faults
faults: $(VENV)/.installed-dev ## six workers, changing limits, a SIGKILL every five seconds, judged from the history; then with planted faults
	@$(BIN)/python -m tests.postgres.soaking $(FAULTS_FLAGS)
	@$(BIN)/python -m tests.postgres.soaking --controls

.PHONY: generate
generate: $(VENV)/.installed-dev ## write everything that is generated: schema.sql, crds/, charts/, docs/{cli,sql,scaling}.md
	@$(BIN)/python -m tests.schema_dump
	@$(BIN)/python .ci/crds.py write
	@$(BIN)/python .ci/charts.py write
	@$(BIN)/python .ci/cli_reference.py write
	@$(BIN)/python .ci/sql_reference.py write
	@$(BIN)/python .ci/scaling_document.py write

.PHONY: verify
verify: $(VENV)/.installed-dev ## fail if anything generated differs from what `make generate` would write
	@$(BIN)/python .ci/crds.py check
	@$(BIN)/python .ci/charts.py check
	@$(BIN)/python .ci/cli_reference.py check
	@$(BIN)/python .ci/sql_reference.py check
	@$(BIN)/python .ci/scaling_document.py check
	@$(BIN)/pytest -q tests/postgres/test_schema.py -k dumped

.PHONY: lock
lock: $(BIN)/python ## compile requirements*.lock from pyproject.toml (needs the package index)
	@[ -x $(BIN)/uv ] || $(PIP_INSTALL) uv
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python .ci/locks.py compile $(LOCK_FLAGS)

.PHONY: clean
clean: ## remove build/ and every cache
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find worker tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## remove .venv/ too
	rm -rf $(VENV)
