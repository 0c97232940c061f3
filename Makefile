# `make run` and `make test` set everything up: they need Python 3.11+, pip, git and make.
# `.venv` is for the default Python. `make test PYTHON=python3.13` sets up `.venv-3.13`.
ifeq ($(origin PYTHON), undefined)
VENV ?= .venv
else
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
PYTHON ?= python3
ARGS ?=
BIN := $(VENV)/bin

PYTEST := $(BIN)/python -m pytest -n 2
QUICK := not complete and not slow and not mpi and not reliability

.PHONY: run test test-more test-versions smoke test-all lint unit test-learning test-mpi \
	test-reliability mutants bench \
	bench-solve bench-start bench-mpi bench-checkpoints bench-memory results docs clean help

run: $(VENV)/.installed  ## install and run the main example; ARGS="--steps 5000" is passed on
	$(BIN)/python examples/run_sac.py $(ARGS)

# Lint and tests run together, because each of them leaves a core idle at times.
test:  ## install, lint, type check, test suite (10 minutes on 2 cores)
	$(MAKE) --no-print-directory --jobs=2 lint unit

# An empty XLA_FLAGS selects the compiler's default settings instead of those of tests/conftest.py.
test-all: lint $(VENV)/.installed-mujoco  ## everything: all cases, ranks, learning, faults, mutants (many hours)
	XLA_FLAGS= $(PYTEST) -m "not slow and not mpi and not reliability" $(ARGS)
	XLA_FLAGS= $(BIN)/python -m pytest -m "mpi and not reliability" $(ARGS)
	$(MAKE) test-learning test-reliability
	$(MAKE) mutants ARGS=

test-more: $(VENV)/.installed-dev  ## pages that need packages other than those of purerl: Equinox
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check equinox
	$(BIN)/python -m pytest tests/test_pages.py -k custom_network $(ARGS)

test-versions:  ## the quick suite on all supported versions of Python, and with the oldest packages
	$(PYTHON) tests/versions.py

smoke:  ## some programs and tests on a newer Python than this one, if there is one
	$(PYTHON) tests/versions.py --smoke

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/.installed-dev
	$(PYTEST) -m "$(QUICK)" $(ARGS)

test-learning: $(VENV)/.installed-mujoco  ## the longer learning runs (about 40 minutes on 2 cores)
	XLA_FLAGS= $(PYTEST) -m slow $(ARGS)

test-mpi: $(VENV)/.installed-dev  ## three ranks, jax.distributed, two devices, learning (12 minutes)
	$(BIN)/python -m pytest tests/mpi tests/loops/test_devices.py \
		tests/loops/scan/test_sharing.py tests/loops/scan/test_joined.py $(ARGS)

test-reliability: $(VENV)/.installed-dev  ## hundreds of kills, damaged and hostile files (30 minutes)
	XLA_FLAGS= $(BIN)/python -m pytest tests/reliability tests/runs/training/test_train.py \
		tests/runs/record/test_checkpoint.py $(ARGS)

bench-checkpoints: $(VENV)/.installed-dev  ## time of a checkpoint of 1e6 rows and of a raw write
	$(BIN)/python benchmarks/checkpoints.py $(ARGS)

bench-memory: $(VENV)/.installed-dev  ## memory and number of compilations over millions of steps
	$(BIN)/python benchmarks/memory.py $(ARGS)

mutants: $(VENV)/.installed-dev  ## plant classic errors one at a time; each must fail a test
	$(BIN)/python -m tests.mutants $(ARGS)

bench: $(VENV)/.installed-mujoco .venv-peers/.installed .venv-rejax/.installed  ## speed compared with SBX, SB3, CleanRL and Rejax, in turns
	$(BIN)/python benchmarks/compare.py --peers .venv-peers/bin/python --rejax .venv-rejax/bin/python $(ARGS)

bench-solve: $(VENV)/.installed .venv-peers/.installed  ## seconds to solve tasks, compared with SBX and SB3
	$(BIN)/python benchmarks/solve.py --peers .venv-peers/bin/python $(ARGS)

bench-start: $(VENV)/.installed-dev  ## seconds to the first update, and parts of PPO's time to solve
	$(BIN)/python benchmarks/start.py $(ARGS)

bench-mpi: $(VENV)/.installed-mujoco  ## costs and speed-up of MPI ranks
	$(BIN)/python benchmarks/ranks.py $(ARGS)

results: $(VENV)/.installed-mujoco  ## the training runs behind docs/measurements/results.md
	$(BIN)/python tests/learning.py $(ARGS)

docs: $(VENV)/.installed-docs  ## the site in build/site; a warning, or a snippet that fails, is an error (2 minutes)
	$(BIN)/python -m sphinx -W --keep-going -q docs build/site $(ARGS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-mujoco: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev,mujoco]'
	touch $@ $(VENV)/.installed-dev $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/.installed

# Install the CPU build of torch first. Otherwise pip downloads gigabytes of CUDA libraries.
.venv-peers/.installed: benchmarks/requirements-peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --no-compile --disable-pip-version-check torch==2.13.0
	.venv-peers/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

# Rejax needs an old gymnax, so it has an environment of its own.
.venv-rejax/.installed: benchmarks/requirements-rejax.txt
	$(PYTHON) -m venv .venv-rejax
	.venv-rejax/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

clean:
	rm -rf $(VENV) .venv-peers .venv-rejax build dist *.egg-info

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'
