"""A run as a capsule, and its replay: exact on the same engine, close on another, or a sentence on what is wrong."""

from __future__ import annotations

import json
import shlex
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
    assert "Exactly equal. All 60 losses match the capsule exactly, and so do the weights at the end." in all_of_it
    later = succeed("replay", capsule, "--text", poem, "--from", f"{run}@20", "--steps", "10", "--json").stdout
    assert json.loads(later)["verdict"] == "equal" and json.loads(later)["steps"] == list(range(21, 31))
    elsewhere = tinygpt("replay", capsule, "--file", poem, "--engine", "wasm-node", "--steps", "55", "--json")
    other = json.loads(elsewhere.stdout)
    assert other["compared"] == 55 and other["drift"] < DRIFT_LIMIT and other["weights"] is None
    assert (
        elsewhere.exit_code == {"equal": 0, "unproved": 3}[other["verdict"]]
    )  # so few steps may come to the same bits

    other_text = tmp_path / "prose.txt"
    other_text.write_bytes(TEXT[1:])
    assert "another text than the run learnt from" in one_line_error(tinygpt("replay", capsule, "--file", other_text))
    cut = tmp_path / "cut.json"
    cut.write_bytes(capsule.read_bytes()[:-20])
    assert "cut.json: the capsule is broken JSON" in one_line_error(tinygpt("replay", cut, "--file", poem))
    for other in ("{}", "Some notes.", "[1]"):
        cut.write_text(other)
        assert "cut.json: this file is no capsule" in one_line_error(tinygpt("replay", cut, "--file", poem))


@pytest.mark.parametrize("device", [None, "x"])  # its own engine, and one that is claimed only to be judged loosely
def test_a_forged_capsule_is_not_called_equal(device: str | None, run: Path, poem: Path, tmp_path: Path) -> None:
    succeed("capsule", run)
    honest = stated(run / "capsule.json")
    claimed = {} if device is None else {"device": device}
    forged = tmp_path / "forged.json"

    def judged(*flags: str, **changes: object) -> tuple[int, str]:
        forged.write_text(json.dumps({**honest, **claimed, **changes}))
        result = tinygpt("replay", forged, "--file", poem, *flags)
        return result.exit_code, result.stdout

    losses = honest["losses"]
    assert judged()[0] == 0
    code, said = judged("--steps", "3", losses=[2.0, *losses[1:]])
    assert code == 1 and "They do not agree. At step 1 the loss is 5." in said
    code, said = judged("--steps", "3", losses=[losses[0], losses[1] - 0.3, 2.0, *losses[3:]])
    assert code == 1 and "At step 2 the losses differ for the first time, and at step 3 the most: 5." in said
    code, said = judged(weights="0" * 64)
    assert code == (1 if device is None else 3) and "but the weights at the end differ" in said
    code, said = judged(losses=[1.0009 * loss for loss in losses])
    assert code == 1 and "0.09 % off, but the weights at the end match exactly" in said
    code, said = judged(losses=[1.0009 * loss for loss in losses], weights="0" * 64)
    assert code == (1 if device is None else 3) and "The weights at the end differ." in said
    code, said = judged("--steps", "10", losses=[1.0009 * loss for loss in losses])
    assert code == (1 if device is None else 3) and "The weights at the end were not compared." in said
    assert "exactly" not in said.lower()
    code, said = judged("--steps", "10", weights="0" * 64)
    assert code == 0 and "All 10 losses match the capsule exactly. The weights were not compared" in said


def test_only_a_capsule_is_overwritten(run: Path, poem: Path, tmp_path: Path) -> None:
    succeed("capsule", run, "--out", tmp_path / "mine.json")
    succeed("capsule", run, "--out", tmp_path / "mine.json")
    (tmp_path / "notes.json").write_text("{}")
    for precious in (run / "checkpoints/best.tinygpt", poem, tmp_path / "notes.json"):
        before = precious.read_bytes()
        said = one_line_error(tinygpt("capsule", run, "--out", precious))
        assert f"{precious} exists and is not a capsule: choose another name with --out" in said
        assert precious.read_bytes() == before
    assert "is not a capsule" in one_line_error(tinygpt("capsule", run, "--out", tmp_path))


def test_the_command_that_is_printed_replays_the_capsule_here(
    run: Path, poem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    poem.rename(tmp_path / "a poem.txt")
    config = run / "config.toml"
    config.write_text(config.read_text().replace("poem.txt", "a poem.txt"))
    for arguments in ([], ["--out", "mine.json"]):
        said = succeed("capsule", "run", *arguments).stdout
        command = shlex.split(said.strip().splitlines()[-1].partition("Here: ")[2])
        assert command[:2] == ["tinygpt", "replay"] and "Exactly equal." in succeed(*command[1:]).stdout


def test_a_run_whose_settings_changed_has_no_capsule(run: Path) -> None:
    succeed("train", "--resume", run, "--steps", "70", "--lr", "0.01", "-q")
    assert "the rate of step 1 was 0.0003, and would now be 0.01" in one_line_error(tinygpt("capsule", run))


def test_a_folder_of_capsules_is_graded(run: Path, poem: Path, tmp_path: Path) -> None:
    """Homework: an honest one, one whose losses were made better, one of another text, and a file that is none."""
    homework = tmp_path / "homework"
    (homework / "ann").mkdir(parents=True)
    succeed("capsule", run, "--out", homework / "ann" / "fox.json")
    honest = stated(homework / "ann" / "fox.json")
    better = honest | {"losses": [0.9 * loss for loss in honest["losses"]], "title": "better"}
    (homework / "ben.json").write_text(json.dumps(better))
    (homework / "cleo.json").write_text(json.dumps(honest | {"text": honest["text"] | {"sha256": "0" * 64}}))
    (homework / "dan.json").write_text("{}")
    done = tinygpt("replay", homework, "--file", poem, "--steps", "5", "--json")
    rows = {row["capsule"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert done.exit_code == 1 and list(rows) == ["ann/fox.json", "ben.json", "cleo.json", "dan.json"]
    assert rows["ann/fox.json"]["verdict"] == "equal" and rows["ben.json"]["verdict"] == "different"
    assert "another text" in rows["cleo.json"]["why"] and "dan.json" in rows["dan.json"]["why"]
    assert rows["ann/fox.json"]["loss"] == pytest.approx(sum(honest["losses"][-20:]) / 20)
    table = tinygpt("replay", homework, "--file", poem, "--steps", "5").stdout
    assert "ann/fox.json" in table and "Exactly equal." in " ".join(table.split())

    (homework / "ben.json").unlink(), (homework / "cleo.json").unlink(), (homework / "dan.json").unlink()
    assert tinygpt("replay", homework, "--file", poem, "--steps", "5").exit_code == 0
    assert "leave it out" in one_line_error(tinygpt("replay", homework, "--from", f"{run}@20"))
    (tmp_path / "nothing").mkdir()
    assert "has no capsules" in one_line_error(tinygpt("replay", tmp_path / "nothing"))
