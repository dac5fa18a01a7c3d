"""Look for known vulnerabilities of every package that is locked, by pip-audit over the requirements with their hashes.

Status 0: none is known. 1: some are, or the audit failed. 3: its data could not be reached, so that nothing is known; 0
with `--if-reachable`, which is for machines without a network. Nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "audit"
UNREACHABLE = 3

_NO_CONNECTION = (
    "requests.exceptions.ConnectionError",
    "requests.exceptions.ConnectTimeout",
    "requests.exceptions.ReadTimeout",
    "requests.exceptions.ProxyError",
    "your network may be blocking this service",
)
"""How pip-audit 2.10 ends where no connection can be made: by an exception of requests, or by its own words."""


def judge(report: dict[str, Any] | None, complaint: str) -> tuple[int, str]:
    """Return the status of an audit and what to say of it.

    Args:
        report: pip-audit's JSON; None where it wrote none.
        complaint: What it wrote to standard error.
    """
    if report is None:
        last = "\n".join(complaint.strip().splitlines()[-3:])
        if any(sign in last for sign in _NO_CONNECTION):
            return UNREACHABLE, "audit: the data on vulnerabilities could not be reached; nothing was audited"
        return 1, f"audit: pip-audit failed:\n{complaint}"
    packages = report["dependencies"]
    skipped = sorted({one["name"] for one in packages if "skip_reason" in one})
    found = [
        f"audit: {one['name']} {one['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'none'}"
        for one in packages
        for flaw in one.get("vulns", ())
    ]
    if found:
        return 1, "\n".join(found)
    if len(skipped) == len({one["name"] for one in packages}):
        # A mirror that knows the packages and not their vulnerabilities; pip-audit itself calls that a success.
        return (
            UNREACHABLE,
            f"audit: there are no data on any of the {len(skipped)} packages; nothing was audited",
        )
    unknown = f"; there is no data on {', '.join(skipped)}" if skipped else ""
    return 0, f"audit: no vulnerability is known of {len(packages) - len(skipped)} packages{unknown}"


def main() -> int:
    """Export what is locked, audit it, and say what came of it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    requirements, result = BUILD / "requirements.txt", BUILD / "report.json"
    result.unlink(missing_ok=True)
    export = ["--frozen", "--all-extras", "--all-groups", "--no-emit-project", "--quiet", "--output-file"]
    subprocess.run([ROOT / ".uv/bin/uv", "export", *export, requirements], cwd=ROOT, check=True)
    options = ["--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json", "--output", result]
    command = [sys.executable, "-m", "pip_audit", "--requirement", requirements, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
    status, words = judge(report, done.stderr)
    print(words)
    return 0 if status == UNREACHABLE and "--if-reachable" in sys.argv else status


if __name__ == "__main__":
    sys.exit(main())
