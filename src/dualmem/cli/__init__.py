"""The command line."""

from __future__ import annotations

import sys

from dualmem.errors import DualmemError


def main() -> None:
    """Run the command line; what goes wrong is one sentence, and status 2."""
    from dualmem.cli.app import app

    try:
        app()
    except DualmemError as error:
        sys.stderr.write(f"dualmem: {error}\n")
        sys.exit(2)
