# `make demo` and `make test` do all their own set-up; they need Python 3.11 or newer, make and git.
PYTHON ?= python3
UV := .uv/bin/uv
RUN := $(UV) run --frozen --no-sync
FUZZ_SECONDS ?= 60

.PHONY: demo test test-local test-server test-browser test-postgres test-redact test-peers test-qdrant fuzz audit docs check format clean

.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"

.venv/.tests: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact
	@touch $@

.venv/.local: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --extra local
	@touch $@

.venv/.browser: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --group browser
	@touch $@

.venv/.postgres: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --group postgres
	@touch $@

.venv/.redact: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --extra redact
	@touch $@

.venv/.peers: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --extra peers
	@touch $@

.venv/.fuzz: .uv/bin/uv uv.lock pyproject.toml
	@$(UV) sync --frozen --quiet --inexact --group fuzz || { \
	  echo "fuzz: atheris could not be installed: it comes built for CPython on x86-64 Linux; elsewhere clang must build it."; \
	  echo "fuzz: \`make test\` fuzzes the same code with hypothesis, without it"; exit 1; }
	@touch $@

.venv/.audit: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --group audit
	@touch $@

.venv/.docs: .uv/bin/uv uv.lock pyproject.toml
	$(UV) sync --frozen --quiet --inexact --group docs
	@touch $@

demo: .venv/.local ## Run the main job on the embedded model; no key and no service needed
	$(RUN) dualmem demo

test: .venv/.tests ## Run the tests; no network, no big model
	$(RUN) pytest

test-local: .venv/.local ## Run the tests that need the embedded model
	$(RUN) pytest -m local tests/local

test-server: .venv/.tests ## Run the tests that start `langgraph dev`
	$(RUN) pytest -m server tests/server

test-browser: .venv/.browser ## Run the tests that look at the explorer in Chromium, which must be installed
	$(RUN) pytest -m browser tests/explorer

test-postgres: .venv/.postgres ## Run the tests that start a Postgres server, whose binaries must be installed
	$(RUN) pytest -m postgres tests/integrations

test-redact: .venv/.redact ## Run the tests of redaction by Presidio, whose packages take some 200 MB
	$(RUN) pytest -m redact tests/trust

test-peers: .venv/.peers ## Run the tests that need mem0 and LangMem
	$(RUN) pytest -m peers tests/evals

test-qdrant: .venv/.tests ## Run several processes over the Qdrant server at DUALMEM_TEST_QDRANT_URL, or over a stand-in
	$(RUN) pytest -m server tests/trust/test_crowds.py

fuzz: .venv/.fuzz ## Fuzz whatever reads what others wrote, guided by coverage, FUZZ_SECONDS for each target
	mkdir -p build/fuzz
	for target in $${FUZZ_TARGETS:-$$($(RUN) python tests/fuzzing/harness.py --list)}; do \
	  echo "fuzz: $$target"; \
	  $(RUN) python tests/fuzzing/harness.py $$target -max_total_time=$(FUZZ_SECONDS) -max_len=600 \
	    -print_final_stats=1 -verbosity=0 -artifact_prefix=build/fuzz/$$target- || exit 1; \
	done

audit: .venv/.audit ## Look for known vulnerabilities of what is locked; needs the network
	$(RUN) python .ci/audit.py $(AUDIT)

docs: .venv/.docs ## Build the documentation site into build/site; what does not fit together fails
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet

check: .venv/.tests ## Lint and check types
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

format: .venv/.tests
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

clean:
	rm -rf .venv .uv build dist *.egg-info src/*.egg-info
