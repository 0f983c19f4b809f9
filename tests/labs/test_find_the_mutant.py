"""The judge of mended sources: the original passes, every mutant fails, and so do attempts that come close."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from near_misses import NEAR

from lab.mutants import RECORDED, by
from tinygpt.edits import edited_package, mutant_names, read_edit
from tinygpt.labs.evidence import Evidence, Judge

ROOT = Path(__file__).parents[2]
JUDGED = """
import sys
from tinygpt.labs.evidence import Judge
judge = Judge(sys.stdin.read())
while (said := judge.step()) != "null":
    if '"right": false' in said:
        print(said)
        break
"""
MENDED = "the same in other words"


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYGPT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def all_of(steps):
    found = []
    while (said := steps.step()) != "null":
        found.append(json.loads(said))
    return found


@pytest.fixture(scope="module")
def original():
    return json.dumps(all_of(Evidence()))


def judged(folder, original):
    """What it found wrong; nothing if all is right; an error's last line."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", JUDGED],
        env={**os.environ, "PYTHONPATH": str(folder)},
        input=original,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout or done.stderr[-300:]


def with_lines(name, lines, tmp_path):
    """The mutant's patch with other lines in place of those that it adds."""
    waiting = iter(lines)
    text = read_edit(name).text
    added = [line for line in text.splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert len(added) == len(lines), name
    rows = [f"+{next(waiting)}" if line in added else line for line in text.splitlines()]
    path = tmp_path / "near.patch"
    path.write_text("\n".join(rows) + "\n")
    return edited_package(read_edit(str(path)))


def test_the_original_passes(original):
    assert all(row["right"] for row in all_of(Judge(original)))
    assert len(json.loads(original)) > 150


@pytest.mark.parametrize("name", mutant_names())
def test_a_mutant_fails(name, original):
    assert '"right": false' in judged(edited_package(read_edit(name)), original)


@pytest.mark.parametrize(
    "name, lines",
    [
        pytest.param(name, lines, id=f"{name}-{i}", marks=[pytest.mark.slow] if i else [])
        for name in mutant_names()
        for i, lines in enumerate(NEAR[name])
    ],
)
def test_a_near_miss_fails(name, lines, original, tmp_path):
    assert judged(with_lines(name, lines, tmp_path), original)


def test_a_mend_in_other_words_passes(original, tmp_path):
    lines = ["    through_norm = (dn - through_rstd - through_mean) * rstd"]
    assert judged(with_lines("mutant-05", lines, tmp_path), original) == ""


@pytest.mark.parametrize("name", ["original", "mutant-05"])
def test_what_is_recorded_is_what_trains(name):
    recorded = json.loads(RECORDED.read_text())
    assert set(recorded["runs"]) == {"original", *mutant_names()}
    again = by(ROOT if name == "original" else edited_package(read_edit(name)), trained=5)
    assert again["losses"] == pytest.approx(recorded["runs"][name]["losses"][:5], abs=2e-4)
