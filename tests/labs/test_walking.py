"""Two runs in step, in rooms of their own: where they part is what the terminal's `compare --first-difference` says."""

import json
import subprocess
import sys

import portable_walk
import pytest
from portable_walk import TEXT, parted, walk
from test_room import HERE, under_micropython

from tinygpt.core.errors import TinyGPTError
from tinygpt.inside.differing import Side, first_difference
from tinygpt.labs.walking import packed, unpacked


@pytest.mark.parametrize("changes", portable_walk.PAIRS, ids=str)
def test_the_rooms_say_what_the_terminal_says(changes):
    one, other = walk({}), walk(changes)
    said = parted(one, other, 2)
    there = first_difference(Side(one.config, TEXT), Side(other.config, TEXT), 2)
    assert [said[key] for key in ("step", "place", "op", "tensor", "because")] == [
        there.step,
        there.place,
        there.op,
        there.tensor,
        there.because,
    ]
    if said["largest"] is not None:  # in float64, and there in float32
        assert said["largest"] == pytest.approx(there.largest, rel=1e-3)


def test_another_text_is_found_where_it_comes_in():
    found = parted(walk({}), walk({}, TEXT[::-1]), 1)
    assert (found["op"], found["tensor"]) == ("draw_windows", "tokens")
    assert found["because"] == ["its input 'train_text' holds other numbers"]


def test_equal_runs_do_not_part():
    assert parted(walk({}), walk({}), 3) is None
    assert parted(walk({}), walk({"eval_every": 3, "sample_every": 2}), 3) is None


def test_what_spreads_begins_at_the_first_difference():
    found = parted(walk({}), walk({"label_smoothing": 0.1}), 1)
    rows = found["spread"]
    first = next(at for at, (_, _, off) in enumerate(rows) if off)
    assert rows[first][:2] == [found["op"], found["tensor"]] and rows[first][2] == found["largest"]
    assert all(off == 0 for _, _, off in rows[:first]) and any(off for _, _, off in rows[first + 1 :])


@pytest.mark.parametrize(
    "changes, words",
    [({"lr": -1.0}, "lr"), ({"heads": 3}, "not divisible"), ({"nonsense": 1}, "nonsense"), ({"norm": "none"}, "norm")],
    ids=str,
)
def test_odd_settings_are_refused_in_a_sentence(changes, words):
    with pytest.raises(TinyGPTError, match=words):
        walk(changes)


@pytest.mark.parametrize("value", [None, 3, 0.1, float("inf")])
def test_what_crosses_is_exact(value):
    assert unpacked(json.loads(json.dumps(packed(value)))) == value and type(unpacked(packed(value))) is type(value)


def test_micropython_says_the_same(tmp_path):
    script = (HERE / "portable_walk.py").read_text()
    numpys = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
    assert "cross_entropy losses" in numpys and "equal" in numpys
    assert under_micropython(script, tmp_path) == numpys
