# Everything runs from a fresh clone: the first target that needs Python packages makes .venv from requirements.lock.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.made-from-lock
NAME ?= kernel
PEERS := .venv-peers
CHAOS := .chaos
LAKE := .lake
CHDB := .chdb
DOCS := .venv-docs
ROWS ?= 1000000
LAKE_PYSPARK := 4.1.4
MINUTES ?= 30
SEED ?= 1

.DEFAULT_GOAL := help
.PHONY: help java demo test test-all test-plain test-lake test-chdb cookbook bench-chdb test-matrix check format lock docs reference dist bench bench-check bench-peers benchmarks chaos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv: $(READY) ## make or refresh the virtual environment from requirements.lock

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "trendfold needs Python 3.11 or later; '$(PYTHON)' was not found (make PYTHON=/path/to/python3)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "trendfold needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version) (make PYTHON=/path/to/python3)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "'$(PYTHON)' has no venv module; on Debian or Ubuntu, as root: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

java: ## look for the Java that Spark needs; as root on Debian or Ubuntu, install it
	@sh tools/java.sh

demo: java $(READY) ## run the README's main job on generated data, on Spark
	$(BIN)/trendfold demo

test: java $(READY) ## run the tests, without the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-all: java $(READY) ## run every test, the slow ones too (25 minutes on 2 cores)
	TRENDFOLD_ALL=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

test-plain: $(READY) ## run every kernel as plain Python on small cases (5 minutes): for debuggers and coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m "not slow" tests/contract tests/detect tests/papers/aseq/test_kernel.py \
		tests/papers/mcep tests/kernel/test_bits.py tests/kernel/test_exact.py tests/kernel/test_growing.py \
		tests/kernel/test_tree.py tests/kernel/test_wide.py tests/plain

test-lake: java $(READY) $(LAKE)/.made ## run streams from and to Delta and Iceberg tables (3 minutes)
	PYTHONPATH=$(CURDIR)/$(LAKE)/pyspark $(BIN)/python -m pytest -q tests/lake

# Delta and Iceberg follow Spark by a release or two, so they come with a PySpark of their own.
$(LAKE)/.made: tools/lake.xml
	rm -rf $(LAKE) && mkdir -p $(LAKE)
	mvn --quiet --batch-mode --file tools/lake.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(LAKE)/jars
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(LAKE)/pyspark pyspark==$(LAKE_PYSPARK)
	@touch $@

test-chdb: $(READY) $(CHDB)/.made ## compare funnels with ClickHouse's windowFunnel (half a minute)
	PYTHONPATH=$(CURDIR)/$(CHDB) $(BIN)/python -m pytest -q tests/window_funnel

cookbook: $(READY) ## draw the pictures of docs/cookbook.md anew
	PYTHONPATH=src:tests $(BIN)/python -m cookbook_pictures

bench-chdb: $(READY) $(CHDB)/.made ## measure funnels beside ClickHouse's windowFunnel (make bench-chdb ROWS=10000000)
	PYTHONPATH=src:tests:$(CHDB) $(BIN)/python -m chdb_funnel $(ROWS)

# ClickHouse in a folder of its own: 550 MB that nothing else needs.
$(CHDB)/.made: tools/chdb.txt
	rm -rf $(CHDB)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target $(CHDB) -r tools/chdb.txt
	@touch $@

test-matrix: java $(READY) ## try some tests on Python 3.11 to 3.13, PySpark 4.0 and the newest, classic and Connect
	$(BIN)/python tools/matrix.py $(VERSIONS)

check: $(READY) ## lint, formatting, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

format: $(READY) ## format the code and sort the imports
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

lock: $(READY) ## pin pyproject.toml's dependencies again (make lock UPGRADE=--upgrade for the newest)
	$(BIN)/pip-compile --quiet $(UPGRADE) --extra dev --generate-hashes --allow-unsafe --strip-extras \
		--no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet $(UPGRADE) --generate-hashes --allow-unsafe --strip-extras --no-annotate \
		--no-header --no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file tools/docs.txt tools/docs.in

docs: $(READY) $(DOCS)/.made ## build the documentation site into site/, to read offline (half a minute)
	$(BIN)/python tools/reference.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo "open site/index.html in a browser"

# What builds the site has an environment of its own, so that the one of the tests does not grow.
$(DOCS)/.made: tools/docs.txt
	rm -rf $(DOCS) && $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/docs.txt
	@touch $@

reference: $(READY) ## write the pages of docs/ that are made from the code: language, command line, names
	$(BIN)/python tools/reference.py

dist: $(READY) ## build wheel and sdist into dist/, and try them in empty environments (make dist EXTRAS="none spark")
	$(BIN)/python tools/check_dist.py $(EXTRAS)

bench: $(READY) ## measure side by side (make bench NAME=kernel)
	$(BIN)/trendfold bench $(NAME)

bench-check: $(READY) ## measure some ratios again (3 minutes): each within 30 % of docs/benchmarks.json
	$(BIN)/python -m trendfold.bench.recheck docs/benchmarks.json

bench-peers: java $(READY) $(PEERS)/.made ## measure beside Flink CEP, Flink SQL and Esper; writes trendfold-bench/report.html
	TRENDFOLD_PEERS=$(PEERS)/jars $(BIN)/trendfold bench peers --repeats 3 --report trendfold-bench

# Flink is a package of its own; Esper comes from Maven, and is left out where Maven or a network is missing.
$(PEERS)/.made: tools/peers.txt tools/peers.xml
	@command -v javac >/dev/null || { echo "the peers' programs are compiled by javac, of a JDK of Java 17 (on Debian or Ubuntu, as root: apt-get install openjdk-17-jdk-headless)"; exit 1; }
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/peers.txt
	rm -rf $(PEERS)/jars && mkdir -p $(PEERS)/jars/esper
	ln -s $$($(PEERS)/bin/python -c 'import pathlib, pyflink.version; print(pathlib.Path(pyflink.version.__file__).resolve().parent / "lib")') $(PEERS)/jars/flink
	mvn --quiet --batch-mode --file tools/peers.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(PEERS)/jars/esper \
		|| { echo "Esper could not be had; the others are measured without it"; rm -rf $(PEERS)/jars/esper; }
	@touch $@

chaos: java $(READY) $(CHAOS)/.made ## break streams, files and queries at random, and count what is lost (make chaos MINUTES=30 SEED=1)
	PYTHONPATH=src:tests $(BIN)/python -m chaos --minutes $(MINUTES) --seed $(SEED) --jars $(CHAOS) --report $(CHAOS)/report

# A Kafka broker and Spark's connector come from Maven; without them the campaign runs, and says so.
$(CHAOS)/.made: tools/kafka.xml tools/connector.xml
	rm -rf $(CHAOS) && mkdir -p $(CHAOS)
	for part in kafka connector; do \
		mvn --quiet --batch-mode --file tools/$$part.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(CHAOS)/$$part \
			|| { echo "the jars of tools/$$part.xml could not be had; the campaign runs without Kafka"; rm -rf $(CHAOS)/$$part; }; \
	done
	@touch $@

benchmarks: $(READY) ## write docs/benchmarks.md and its plot again, from docs/benchmarks.json
	$(BIN)/python -m trendfold.bench.published docs README.md

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) $(PEERS) $(CHAOS) $(LAKE) $(CHDB) $(DOCS) .matrix site .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
