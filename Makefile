# One door per task. On a fresh machine `make demo` and `make test` do their own set-up first.
#
# Settings: PYTHON (an interpreter, 3.10 or later), TORCH_INDEX (the package index that torch comes from; see
# .ci/setup), VERSION (a torch version, for test-torch), WORKERS (pytest processes), ARGS (more for pytest).

PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= auto
ARGS    ?=
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
# torch keeps compiled code by user, not by checkout: what another one left there must decide no test.
export TORCHINDUCTOR_CACHE_DIR ?= $(abspath $(VENV))/inductor
PYTEST   = -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadscope $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-torch check format bench readme pictures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1|/' | column -t -s '|' 2>/dev/null \
	  || grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST)

demo: $(READY)  ## a real transformer: its table, and SVG, PNG, JSON and a page in peek-out/
	@$(BIN)/python samples/demo.py

test: $(READY)  ## all tests but the broad corpora
	$(BIN)/python $(PYTEST) -m "not slow"

test-all: $(READY)  ## all tests
	$(BIN)/python $(PYTEST)

test-torch:  ## the tests with another torch: make test-torch VERSION=2.8.0
	@test -n "$(VERSION)" || { echo "which torch? make test-torch VERSION=2.8.0" >&2; exit 2; }
	$(MAKE) test VENV=.venv-torch-$(VERSION) TORCH_VERSION=$(VERSION)

check: $(READY)  ## formatting and lint, as CI asks for
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(READY)  ## format the code and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## measure speed and memory beside other tools; BENCH="capture page" picks some
	$(BIN)/python -m tests.benchmarks.run $(BENCH)

readme: $(READY)  ## run again what README.md and the gallery show, and write their outputs
	$(BIN)/python -m tests.samples.regenerate

pictures: $(READY)  ## draw the pictures of README.md again (needs chromium)
	$(BIN)/python -m tests.samples.pictures

clean:  ## remove what these targets made
	rm -rf .venv .venv-torch-* .pytest_cache .ruff_cache .hypothesis build ./*.egg-info peek-out
	find peek_backend tests samples -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): tests/requirements.txt pyproject.toml .ci/setup
	PYTHON="$(PYTHON)" TORCH_VERSION="$(TORCH_VERSION)" TORCH_INDEX="$(TORCH_INDEX)" .ci/setup $(VENV)
	@touch $@
