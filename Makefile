# `make demo` and `make test` do all their own set-up; they need Python 3.11 or newer, make and git.
PYTHON ?= python3
UV := .uv/bin/uv
RUN := $(UV) run --frozen --no-sync

.PHONY: demo test test-local test-server test-browser test-postgres test-redact docs check format clean

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
