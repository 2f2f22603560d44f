# `make` alone prints the help below. Every target makes what it needs by itself.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo docs test oldest check format fuzz soak bench bench-peers endurance lock audit clean venv java browser kernels jars kafka

# Options for what is called: make test ARGS="-k kslack", make demo ARGS="--help", ...
ARGS ?=
export PYTHON

BIN := .venv/bin
# Options may choose from one half of the tests only: pytest's 5 says that none was chosen.
OR_NONE := $(if $(ARGS),|| [ $$? -eq 5 ])
CODE := $(wildcard src tests benchmarks examples scripts/*.py)

help: ## print this help
	@awk -F ':.*## ' ' \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nOptions go through ARGS: make test ARGS="-k kslack"\n'

##@ Use
setup: venv java kernels ## virtual environment in .venv with pinned packages, Java 17+ for Spark
demo: setup ## watch a streaming join of disordered streams find its wait, then compare policies
	$(BIN)/recalljoin demo $(ARGS)
docs: venv ## the documentation as a site in build/docs
	$(BIN)/python -m sphinx --fail-on-warning --quiet -b html docs build/docs
	@echo 'open build/docs/index.html'
kafka: venv java ## start a Kafka broker on this machine (scripts/kafka stop ends it)
	scripts/kafka start

##@ Develop
test: venv java browser jars ## all tests: those that start Spark beside all others
	@mkdir -p .cache
	@{ $(BIN)/pytest -m "not spark" $(ARGS) $(OR_NONE); } > .cache/other-tests.txt 2>&1 & other=$$!; \
	  { $(BIN)/pytest -m spark $(ARGS) $(OR_NONE); }; spark=$$?; \
	  wait $$other; other=$$?; \
	  echo '==> the tests that do not start Spark, which ran at the same time'; \
	  cat .cache/other-tests.txt; \
	  exit $$((spark | other))
oldest: venv java jars ## the tests that start Spark, on the oldest PySpark that is supported
	scripts/oldest $(ARGS)
check: venv ## lint, format, types, the direction of imports, and that the engine is as fast as it was
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m benchmarks.regressions
format: venv ## write the code as the formatter has it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

##@ Measure
fuzz: venv java ## property tests with many random examples (FUZZ_EXAMPLES=5000 each)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -m "hypothesis and not spark" --timeout=0 $(ARGS)
	FUZZ_EXAMPLES=$(or $(FUZZ_EXAMPLES),5000) $(BIN)/pytest -m spark tests/spark/test_decoding.py
soak: venv java jars ## kill joins at random points, 20 times each (KILLS=20), and compare; hours
	$(BIN)/python -m tests.spark.soak_crash $(or $(KILLS),20) $(ARGS)
	$(BIN)/python -m tests.spark.soak_kafka
endurance: venv java ## two hours of event time, as a plot (ARGS="--minutes 5" for less)
	$(BIN)/python -m benchmarks.endurance $(ARGS)
bench: venv ## benchmarks, one table each
	$(BIN)/python -m benchmarks $(ARGS)
bench-peers: venv java ## the same joins through Spark's own, Flink and others (ARGS="--quick"); hours
	$(BIN)/python -m benchmarks.peers $(ARGS)

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
browser:
	@scripts/setup browser
# Tests with Kafka are skipped where it cannot be fetched, but not in continuous integration.
jars:
	@scripts/kafka jars || [ "$(CI)" != true ]
kernels: venv
	@scripts/setup kernels
