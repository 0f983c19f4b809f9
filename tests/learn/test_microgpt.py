"""The one-file GPT gives the bytes of the `spec` engine, with nothing but NumPy, and its plan keeps tensors apart."""

import ast
import math
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygpt.core.engine.contract import run_now
from tinygpt.core.passes import OPTIONAL
from tinygpt.core.presets import preset
from tinygpt.engines.spec import spec_engine

FILE = Path(__file__).parents[2] / "docs" / "learn" / "microgpt.py"
TEXT = FILE.read_bytes()
CUT = len(TEXT) - int(len(TEXT) * 0.1)


@pytest.fixture
def micro():
    return runpy.run_path(str(FILE), run_name="micro")


def test_it_imports_numpy_and_the_standard_library_alone():
    imported = {
        alias.name for node in ast.walk(ast.parse(TEXT)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"math", "sys", "time", "numpy"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(ast.parse(TEXT)))


def test_it_trains_to_the_bytes_of_the_specification(micro):
    config = preset("tiny", "classic").replace(activation="relu2", lr=1e-3)
    spec = spec_engine(config)
    spec.memory.without = tuple(OPTIONAL)
    run_now(spec.load_corpus(TEXT[:CUT], TEXT[CUT:]))
    micro["write_program"]()
    player = micro["Player"]()
    train = np.frombuffer(TEXT[:CUT], np.uint8).astype(int)
    for step in range(1, 13):
        player.play(micro["program"], *micro["windows"](train, micro["BATCH"], step))
        player.update(step)
    run_now(spec.train(12))
    weights = np.concatenate([player.arrays[name].reshape(-1) for name, _, _ in micro["parameters"]()])
    assert run_now(spec.export_state()).w.tobytes() == weights.tobytes()


def test_no_two_tensors_that_are_needed_at_once_share_a_place(micro):
    micro["write_program"]()
    places, size = micro["plan"]()
    shapes, held = micro["shapes"], {}  # of each place, the tensor that was written there last
    for at, (_, names, _) in enumerate(micro["program"]):
        roots = [name.split("[")[0] for name in names if name.split("[")[0] in places]
        for name in roots:
            here = slice(places[name], places[name] + math.prod(shapes[name]))
            held.setdefault(name, at)
            later = [other for other in held if other != name and held[other] > held[name]]
            for other in later:
                there = slice(places[other], places[other] + math.prod(shapes[other]))
                assert here.stop <= there.start or there.stop <= here.start, (name, other, at)
    assert size < sum(math.prod(shapes[name]) for name in places) * 0.6


def test_it_trains_and_writes(micro, tmp_path, monkeypatch, capsys):
    text = tmp_path / "fox.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 100)
    monkeypatch.setattr(sys, "argv", ["microgpt.py", str(text)])
    monkeypatch.setitem(micro["main"].__globals__, "STEPS", 60)
    micro["main"]()
    said = capsys.readouterr().out
    first = next(float(line.split()[3]) for line in said.splitlines() if line.startswith("step"))
    assert first > 5 and float(said.split("held-out loss ")[1].split(";")[0]) < 3
    text.write_text("too short")
    with pytest.raises(SystemExit, match="too few to learn from"):
        micro["main"]()
    monkeypatch.setattr(sys, "argv", ["microgpt.py", str(tmp_path / "gone.txt")])
    with pytest.raises(SystemExit, match="cannot be read"):
        micro["main"]()
