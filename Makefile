# Every command of this checkout. `make` alone lists them.
# Another Python than python3: make PYTHON=python3.12 run

PYTHON  ?= python3
SETUP   := $(PYTHON) -m scripts.setup
PY      := .venv/bin/python
UPGRADE ?= --upgrade

.DEFAULT_GOAL := help
.PHONY: help run demo-copilot test test-fast bench bench-peers chaos check fmt docs pins clean

# List the commands
help:
	@awk '/^# / { text = substr($$0, 3); next } \
	     /^[a-z][a-z-]*:/ { if (text) printf "  make %-13s %s\n", substr($$1, 1, length($$1) - 1), text } \
	     { text = "" }' Makefile

# Start the dashboard and a worker; Ctrl-C stops both (ARGS="--port 8000" is passed on)
run:
	@$(SETUP) run
	@exec $(PY) app.py --with-worker $(ARGS)

# Play a recorded sales call to a copilot in real time, with the offline model (ARGS="--speed 8" is passed on)
demo-copilot:
	@$(SETUP) run
	@exec $(PY) -m scripts.demo_copilot $(ARGS)

# Run every test (ARGS="-k queue" is passed on to pytest); one that fails runs again, twice at most, and is listed as RERUN
test:
	@$(SETUP) test
	@$(PY) -m scripts.no_leftovers $(PY) -m pytest -n 3 --dist loadgroup --no-loadscope-reorder --reruns 2 -raR $(ARGS)

# Run the tests that need neither a browser nor many seconds
test-fast:
	@$(SETUP) test
	@$(PY) -m pytest -n 3 --dist loadgroup --no-loadscope-reorder -m "not slow and not browser" $(ARGS)

# Measure the speed of this machine's store and runtime
bench:
	@$(SETUP) test
	@$(PY) -m bench $(ARGS)

# Time Stepwell and its peers at the same work, in turns (ARGS="--quick --rounds 1 steps" is passed on)
bench-peers:
	@$(SETUP) test
	@$(SETUP) peers
	@$(PY) -m bench.peers $(ARGS)

# Kill, stall and starve real processes for a quarter of an hour, then check every promise
chaos:
	@$(SETUP) test
	@$(PY) -m chaos $(ARGS)

# Check style, format, types, import arrows and docs
check:
	@$(SETUP) test
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@.venv/bin/lint-imports
	@$(PY) -m scripts.check_docs

# Put the code into its format and mend what can be mended by machine
fmt:
	@$(SETUP) test
	@$(PY) -m ruff check --fix-only
	@$(PY) -m ruff format

# Check the docs: links lead somewhere, settings in docs and code are the same
docs:
	@$(SETUP) run
	@$(PY) -m scripts.check_docs

# Pin the newest allowed versions of all Python libraries, with hashes (UPGRADE= keeps what still fits)
pins:
	@$(SETUP) run
	@$(PY) -m pip install --quiet uv
	@for name in requirements requirements-otel requirements-pii requirements-dev requirements-node requirements-s3 \
	        requirements-peers; do \
	    .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	        --no-annotate --no-header --quiet $(UPGRADE) $$name.in -o $$name.txt || exit 1; \
	done

# Remove everything that can be made again; the data stays
clean:
	rm -rf .venv .venv-peers .setup node_modules web/static/vendor bench-results test-artifacts
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
