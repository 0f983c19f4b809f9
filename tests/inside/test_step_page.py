"""A step as a page: its data are the program's and the plan's, and every op has its sources."""

import json
import re

import pytest
from typer.testing import CliRunner

from tinygpt.cli.app import app
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import preset
from tinygpt.inside.step import step_data, step_page


@pytest.fixture(scope="module")
def lowered():
    return Lowered(preset("tiny"), ["train"], 200, 200)


def test_ops_and_boxes_are_the_programs_and_the_plans(lowered):
    ops = lowered.programs["train"].ops
    data = step_data("tiny", "train", lowered, [0.001 * i for i in range(len(ops))], "here")
    assert [op["kernel"] for op in data["ops"]] == [op.kernel for op in ops] and data["ops"][3]["ms"] == 0.003
    phases = [op["phase"] for op in data["ops"]]
    assert phases == sorted(phases, key=["forward", "backward", "update"].index) and len(set(phases)) == 3
    assert data["ops"][phases.index("backward")]["kernel"] == "linear_backward_input"
    roots = {slot["name"] for slot in data["slots"]}
    assert all(root in roots for op in data["ops"] for _, _, root in op["reads"] + op["writes"])
    for one in data["slots"]:
        assert one["start"] >= 0 and one["start"] + one["size"] <= data["arena"]
        for other in data["slots"]:
            apart = one["last"] < other["first"] or other["last"] < one["first"]
            above = one["start"] + one["size"] <= other["start"] or other["start"] + other["size"] <= one["start"]
            assert one is other or apart or above, (one, other)


def test_every_op_has_its_formula_and_three_sources(lowered):
    kernels = step_data("tiny", "train", lowered, [], "")["kernels"]
    for kernel, sources in kernels.items():
        assert f"def {kernel}(" in sources["NumPy"] and sources["about"], kernel
        assert kernel in sources["C++"] and "@compute" in sources["WGSL"], kernel


def test_the_page_needs_nothing_else_and_takes_nothing_for_markup(lowered):
    page = step_page("<script>alert(1)</script>", "train", lowered, [], "")
    assert "<script>alert(1)" not in page and "default-src 'none'" in page
    assert not re.search(r"(src|href)=\"?https?:|@import|url\(", page)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    assert json.loads(data)["title"] == "<script>alert(1)</script>"


def test_the_command_writes_it_with_times(tmp_path):
    page = tmp_path / "step.html"
    words = ["program", "tiny", "--batch", "2", "--html", str(page), "--time"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "The step is in" in done.output
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1])
    assert all(op["ms"] > 0 for op in data["ops"]) and "native C++" in data["device"]
    refused = CliRunner().invoke(app, [*words, "--gpu"])
    assert refused.exit_code == 1 and "do not go with --gpu" in refused.output
