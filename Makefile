# Two commands for a fresh machine: `make sweep` and `make test`. They need python3 >= 3.11 with venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
CUDA   := .venv-cuda

.PHONY: help sweep test test-cuda soak bench check docs format clean

help:
	@echo "make sweep   run the quickstart sweep: table, parquet and plot in about two minutes"
	@echo "make test    run the tests"
	@echo "make test-cuda  run the tests that need torch's CUDA build, on a stand-in for the GPU; installs 6 GB beside .venv"
	@echo "make soak    run the tests that take many minutes: 500 random kills, every call refused, every guard taken away, 1000 wrong steps"
	@echo "make bench   measure the tool against its promises: one table, 40 minutes on a quiet machine"
	@echo "make check   format, lint, types and import rules, then the fast tests"
	@echo "make docs    write again what is generated from the code: settings, schema, columns, keys, commands"
	@echo "make format  format the code"
	@echo "make clean   remove the environment (results stay)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "pip>=25.1"

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(DEV): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e . --group dev
	@touch $@

sweep: $(STAMP)
	$(BIN)/bench sweep sweeps/quickstart.yaml

# Two files of tests at a time: many start processes of their own.
test: $(DEV)
	$(BIN)/python -m pytest -m "not gpu and not soak and not cuda" -n 2 --dist loadfile
	@echo "left out: the CUDA code on a stand-in GPU (make test-cuda), a real GPU (pytest -m gpu), long tests (make soak)"

$(CUDA)/.installed: pyproject.toml constraints-cuda.txt
	$(PYTHON) -m venv $(CUDA)
	$(CUDA)/bin/python -m pip install --quiet "pip>=25.1"
	$(CUDA)/bin/python -m pip install --quiet -c constraints-cuda.txt -e . --group dev
	@touch $@

# First with the stand-in GPU, then the fast tests under the same torch without it; at last, which CUDA lines none entered.
test-cuda: $(CUDA)/.installed
	rm -f .coverage-with-standin* .coverage-without*
	$(CUDA)/bin/python -m coverage run --data-file=.coverage-with-standin -m pytest -m cuda -n 2 --dist loadfile
	$(CUDA)/bin/python -m coverage run --data-file=.coverage-without -m pytest -n 2 --dist loadfile
	$(CUDA)/bin/python -m tests.cuda.entered .coverage-with-standin .coverage-without

soak: $(DEV) $(CUDA)/.installed
	$(BIN)/python -m pytest -m soak
	$(BIN)/python -m tests.mutations
	$(CUDA)/bin/python -m tests.mutations cuda
	$(BIN)/python -m tests.wrong_steps

bench: $(DEV)
	$(BIN)/python -m benchmarks $(BENCH_OPTIONS)

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

docs: $(DEV)
	$(BIN)/python -m docs.make
	@git diff --stat -- docs sweeps/schema.json bench/sweep/settings.json

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(CUDA) .coverage*
