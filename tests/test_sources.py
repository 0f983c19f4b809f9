"""The sources themselves: lint, formatting and types, checked beside all other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "check",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["tinygpt.site", "check"],
        ["tinygpt.site", "lint"],
    ],
    ids=lambda check: " ".join(check),
)
def test_nothing_is_found_by(check: list[str]) -> None:
    found = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
