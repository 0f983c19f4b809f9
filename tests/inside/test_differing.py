"""Where two runs part: the step, the op, the tensor and, where a host or a setting is the cause, that."""

import numpy as np
import pytest
from typer.testing import CliRunner

from tinygpt.cli.app import app
from tinygpt.core.presets import preset
from tinygpt.inside.differing import Side, first_difference

TEXT = np.random.default_rng(0).integers(0, 256, 2000, dtype=np.uint8).tobytes()
BASE = preset("tiny", "classic").replace(layers=1, d_model=24, heads=3, ctx=8, batch=2, schedule="cosine", warmup=2)


def parted(other, text=TEXT):
    return first_difference(Side(BASE, TEXT), Side(other, text), 6)


@pytest.mark.parametrize(
    "change, step, op, tensor, cause",
    [
        ({"lr": 1e-3}, 1, "adamw", "weights", "its input 'rates' holds other numbers"),
        # the same warm-up, another cosine
        ({"steps": 900}, 4, "adamw", "weights", "its input 'rates' holds other numbers"),
        ({"label_smoothing": 0.1}, 1, "cross_entropy", "losses", "smoothing is 0 and 0.1"),
        ({"grad_clip": 0.0}, 1, "grad_norm", "norm", "limit is 1 and 0"),
        ({"beta2": 0.9}, 2, "adamw", "weights", "beta2 is 0.95 and 0.9"),
        ({"dropout": 0.1}, 1, "layernorm", "blocks.0.a", "the programs part: layernorm → "),
    ],
)
def test_the_first_difference_names_its_cause(change, step, op, tensor, cause):
    found = parted(BASE.replace(**change))
    assert found.step <= step and (found.op, found.tensor.split("[")[0]) == (op, tensor)
    assert any(cause in said for said in found.because), found.because


def test_other_texts_and_seeds_are_found_where_they_come_in():
    found = parted(BASE, TEXT[::-1])
    assert (found.step, found.op, found.tensor) == (1, "draw_windows", "tokens")
    assert 0 < found.share <= 1 and 0 < found.largest < 256
    found = parted(BASE.replace(seed=2))
    assert (found.place, found.op) == (-1, "start values") and found.largest > 0
    assert "parameters" in parted(BASE.replace(norm="rmsnorm")).because[0]


def test_equal_runs_have_none():
    assert parted(BASE) is None


def test_the_command_says_it(tmp_path):
    tiny = ["--preset", "tiny", "--steps", "2", "--data", "shakespeare", "--quiet", "--threads", "1"]
    for name, more in (("a", []), ("b", ["--label-smoothing", "0.1"])):
        assert CliRunner().invoke(app, ["train", *tiny, "--out", str(tmp_path / name), *more]).exit_code == 0
    runs = [str(tmp_path / name) for name in "ab"]
    said = CliRunner().invoke(app, ["compare", *runs, "--first-difference", "--steps", "2"]).output
    assert (
        "They part in step 1" in said and "cross_entropy: losses differs" in said and "smoothing is 0 and 0.1" in said
    )
    said = CliRunner().invoke(app, ["compare", runs[0], runs[0], "--first-difference", "--steps", "2"]).output
    assert "equal to the bit for 2 steps" in said
    refused = CliRunner().invoke(app, ["compare", runs[0], "--first-difference"])
    assert refused.exit_code == 1 and "Name a second model" in refused.output
