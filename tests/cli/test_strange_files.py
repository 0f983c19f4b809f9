"""Files of the original and of strangers at the command line: the model is used, and one line says what was not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_helpers import succeed

sys.path.insert(0, str(Path(__file__).parents[1] / "formats"))
from format_samples import OriginalFile

FEW = ["--tokens", 3, "--threads", 1]


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    path = tmp_path / "strange.tinygpt"
    path.write_bytes(OriginalFile().v2(finalLoss="low", hue="\x1b[2Jred", **{"h\x1b[2Jue": 1}))
    return path


def test_every_command_says_what_it_left_out(strange: Path, text_file: Path, tmp_path: Path) -> None:
    for command in (
        ["sample", strange, *FEW],
        ["eval", strange, "--file", text_file, "--threads", 1],
        ["convert", strange, tmp_path / "new.tinygpt"],
    ):
        warnings = succeed(*command).stderr.splitlines()
        assert warnings == [f"warning: {strange}: What could not be understood was left out: h·[2Jue, hue, finalLoss."]
    assert "left out  h·[2Jue, hue, finalLoss: not understood" in succeed("inspect", strange).stdout
    assert succeed("sample", tmp_path / "new.tinygpt", *FEW).stderr == ""


@pytest.mark.parametrize("history", [[[1, 5], [2, None]], [[1, None], [2, None]], [[1, 5], [2, None], [3, 4]]])
def test_inspect_draws_a_history_with_gaps(tmp_path: Path, history: list[object]) -> None:
    path = tmp_path / "gaps.tinygpt"
    path.write_bytes(OriginalFile().v2(lossHistory=history))
    shown = succeed("inspect", path).stdout
    assert ("loss from 5.000 (step 1) to 4.000 (3)" in shown) == (len(history) == 3)
    json.loads(succeed("inspect", path, "--json").stdout, parse_constant=pytest.fail)
