# `make` alone prints the help below. Every target makes what it needs by itself.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check format fuzz soak bench endurance lock audit clean venv java kernels

# Options for what is called: make test ARGS="-k kslack", make demo ARGS="--help", ...
ARGS ?=
export PYTHON

BIN := .venv/bin
# Options may choose from one half of the tests only: pytest's 5 says that none was chosen.
OR_NONE := $(if $(ARGS),|| [ $$? -eq 5 ])
CODE := $(wildcard src tests benchmarks scripts/*.py)

help: ## print this help
	@awk -F ':.*## ' ' \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nOptions go through ARGS: make test ARGS="-k kslack"\n'

##@ Use
setup: venv java kernels ## virtual environment in .venv with pinned packages, Java 17+ for Spark
demo: setup ## watch a streaming join of disordered streams find its wait, then compare policies
	$(BIN)/recalljoin demo $(ARGS)

##@ Develop
test: venv java ## all tests: those that start Spark beside all others
	@mkdir -p .cache
	@{ $(BIN)/pytest -m "not spark" $(ARGS) $(OR_NONE); } > .cache/other-tests.txt 2>&1 & other=$$!; \
	  { $(BIN)/pytest -m spark $(ARGS) $(OR_NONE); }; spark=$$?; \
	  wait $$other; other=$$?; \
	  echo '==> the tests that do not start Spark, which ran at the same time'; \
	  cat .cache/other-tests.txt; \
	  exit $$((spark | other))
check: venv ## lint, format, types, and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
format: venv ## write the code as the formatter has it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

##@ Measure
fuzz: venv ## property tests with many random examples (FUZZ_EXAMPLES=5000 each)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -m "hypothesis and not spark" --timeout=0 $(ARGS)
soak: venv java ## kill a streaming query at random points, 20 times (KILLS=20), and compare
	$(BIN)/python -m tests.spark.soak_crash $(or $(KILLS),20)
endurance: venv java ## two hours of event time, as a plot (ARGS="--minutes 5" for less)
	$(BIN)/python -m benchmarks.endurance $(ARGS)
bench: venv ## benchmarks, one table each
	$(BIN)/python -m benchmarks $(ARGS)

##@ Keep
lock: venv ## make requirements/*.lock again from pyproject.toml (ARGS=--upgrade for newer versions)
	scripts/lock $(ARGS)
audit: venv ## look locked packages up among known vulnerabilities (needs the network)
	scripts/audit $(ARGS)
clean: ## remove .venv and everything else that was made here
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

venv:
	@scripts/setup venv
java:
	@scripts/setup java
kernels: venv
	@scripts/setup kernels
