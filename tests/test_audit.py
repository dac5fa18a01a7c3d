"""What is made of an audit: a finding is never taken for a success, nor is an audit that saw nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "audit.py"


@pytest.fixture(scope="module")
def audit() -> Any:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SKIPPED = {"name": "rich", "skip_reason": "Dependency not found"}
CLEAN = {"name": "rich", "version": "14.0", "vulns": []}
FLAWED = {"name": "jinja2", "version": "2.10", "vulns": [{"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"]}]}
UNMENDED = {"name": "jinja2", "version": "2.10", "vulns": [{"id": "PYSEC-2019-217", "fix_versions": []}]}


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [
        ([CLEAN], 0, "of 1 packages"),
        ([CLEAN, {**SKIPPED, "name": "other"}], 0, "no data on other"),
        ([SKIPPED, {**SKIPPED, "name": "other"}], 3, "are no data on any of the 2 packages"),
        ([CLEAN, FLAWED], 1, "jinja2 2.10: PYSEC-2019-217, mended in 2.10.1"),
        ([SKIPPED, UNMENDED], 1, "mended in none"),
    ],
)
def test_a_report(audit: Any, packages: list[dict[str, Any]], status: int, words: str) -> None:
    given, said = audit.judge({"dependencies": packages, "fixes": []}, "No known vulnerabilities found")
    assert given == status
    assert words in said


@pytest.mark.parametrize(
    ("complaint", "status"),
    [
        ("Traceback\n  raise\nrequests.exceptions.ConnectionError: Failed to resolve", 3),
        ("ERROR: Could not connect to the feed\nERROR: Tip: your network may be blocking this service. Try", 3),
        (
            "requests.exceptions.ConnectionError\n\nDuring handling of that:\n  in work\n  in parse\nValueError: a bug",
            1,
        ),
        ("pip_audit._service.interface.ServiceError", 1),
        ("ERROR: requirement without a hash", 1),
        ("", 1),
    ],
)
def test_no_report(audit: Any, complaint: str, status: int) -> None:
    assert audit.judge(None, complaint)[0] == status
