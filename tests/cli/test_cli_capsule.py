"""A run as a capsule, and its replay: exact on the same engine, close on another, or a sentence on what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import CALM, TINY, one_line_error, succeed, tinygpt

from tinygpt.core.capsule.compare import DRIFT_LIMIT

TEXT = b"How now, spirit! whither wander you? Over hill, over dale. " * 40
STEPS = ["--steps", "60", "--keep-every", "20"]


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def run(tmp_path: Path, poem: Path) -> Path:
    out = tmp_path / "run"
    succeed("train", *TINY, *CALM, *STEPS, "--file", poem, "--engine", "native", "--out", out, "-q")
    return out


def stated(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_a_run_is_proved_by_its_replay(run: Path, poem: Path, tmp_path: Path) -> None:
    succeed("capsule", run)
    capsule = run / "capsule.json"
    assert stated(capsule)["text"]["name"] == "poem.txt" and len(stated(capsule)["losses"]) == 60
    assert str(tmp_path) not in capsule.read_text()  # what travels names no folder

    assert "with --file where that text is" in one_line_error(tinygpt("replay", capsule))
    all_of_it = succeed("replay", capsule, "--file", poem, "--threads", "2").stdout
    assert "All 60 losses are exactly what the capsule tells, and so are the weights at the end." in all_of_it
    later = succeed("replay", capsule, "--text", poem, "--from", f"{run}@20", "--steps", "10", "--json").stdout
    assert json.loads(later)["equal"] and json.loads(later)["steps"] == list(range(21, 31))
    other = json.loads(
        succeed("replay", capsule, "--file", poem, "--engine", "wasm-node", "--steps", "55", "--json").stdout
    )
    assert other["agree"] and other["compared"] == 55 and other["drift"] < DRIFT_LIMIT

    other_text = tmp_path / "prose.txt"
    other_text.write_bytes(TEXT[1:])
    assert "another text than the run learnt from" in one_line_error(tinygpt("replay", capsule, "--file", other_text))
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps({**stated(capsule), "losses": [2.0, *stated(capsule)["losses"][1:]]}))
    caught = tinygpt("replay", forged, "--file", poem, "--steps", "3")
    assert caught.exit_code == 1 and "The losses do not agree: at step 1 it is 5." in caught.stdout
    forged.write_text(json.dumps({**stated(capsule), "weights": "0" * 64}))
    caught = tinygpt("replay", forged, "--file", poem)
    assert caught.exit_code == 1 and "but the weights at the end are others" in caught.stdout
    forged.write_bytes(capsule.read_bytes()[:-20])
    assert "forged.json: the capsule is broken JSON" in one_line_error(tinygpt("replay", forged, "--file", poem))


def test_a_run_whose_settings_changed_has_no_capsule(run: Path) -> None:
    succeed("train", "--resume", run, "--steps", "70", "--lr", "0.01", "-q")
    assert "the rate of step 1 was 0.0003, and would now be 0.01" in one_line_error(tinygpt("capsule", run))
