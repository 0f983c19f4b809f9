"""Examples for clusters that we do not have: they are well formed, and `tinygpt train` accepts their flags."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tinygpt.cli.app import app

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix != ".md")


def flags_in(text: str) -> list[str]:
    """What a new run is given in it, without what a shell fills in."""
    words = re.sub(r"[\[\]\"',()]", " ", re.search(r"--preset[^;\n]*", text)[0]).split()  # type: ignore[index]
    return [word for word in words if re.fullmatch(r"[-/\w]+", word) and word not in ("str", "RUN")]


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_well_formed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    if name.endswith(".sh"):
        assert subprocess.run(["bash", "-n", EXAMPLES / name], check=False).returncode == 0
    elif name.endswith(".py"):
        ast.parse(text)
    else:
        assert yaml.safe_load(text)
    assert name in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert "--resume" in text and "--compile" in text
    flags = flags_in(text)
    flags += [str(tmp_path)] if flags[-1] == "--out" else []
    jobs: list[Any] = []
    monkeypatch.setattr("tinygpt.cli.training.execute", lambda job, *others: jobs.append(job))
    monkeypatch.chdir(tmp_path)
    succeeded = CliRunner().invoke(app, ["train", *flags])
    assert succeeded.exit_code == 0 and len(jobs) == 1, (flags, succeeded.output)
