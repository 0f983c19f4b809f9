"""Labs on WGSL kernels: our lines pass, the empty frame and near misses fail, and what is solved is what trains."""

import subprocess
import sys
from pathlib import Path

import pytest

from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import step_modes
from tinygpt.core.ops.gpu import Device
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.presets import preset
from tinygpt.labs.wgsl.check import LABS, Endless, KernelCheck, KernelTiming, lab_named
from tinygpt.labs.wgsl.lab import WATCHED, YOURS
from tinygpt.labs.wgsl.loops import watched

KERNELS = Path(__file__).parents[2] / "tinygpt" / "kernels"
NAMES = [lab.name for lab in LABS]
NEAR = [(lab, *near) for lab in LABS for near in lab.near]


def text_of(lab, heart):
    before, _, after = lab.cut((KERNELS / lab.file).read_text())
    return before + heart + after


def solution(lab):
    return lab.cut((KERNELS / lab.file).read_text())[1]


@pytest.fixture(scope="module")
def gpu():
    """A software adapter where there is one. With wgpu's checks: what readers write may go anywhere."""
    pytest.importorskip("wgpu", reason="wgpu-py is not installed")
    from tinygpt.engines import gpu as gpus

    adapters = gpus.all_adapters()
    if not adapters:
        pytest.skip("wgpu finds no adapter, not even a software one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpus, "without_checks", lambda device, text: None)
        yield gpus.Gpu(gpus.adapter_name(sorted(adapters, key=gpus.is_software)[-1]))


@pytest.fixture
def opened(gpu, tmp_path):
    """A player for a playbook in which the reader's file is this text."""
    from tinygpt.engines.webgpu import WebGPUPlayer

    def make(playbook, text):
        (tmp_path / YOURS).write_text(text)
        gpu.modules.clear()  # which are known by their files' names
        data = playbook.data()
        for row in data["pipelines"]:
            row["files"] = [str(tmp_path / YOURS) if file in (YOURS, WATCHED) else file for file in row["files"]]
        return WebGPUPlayer(gpu, data, False)

    return make


@pytest.fixture
def rows_of(gpu, opened):
    def run(lab, heart):
        check = KernelCheck(lab, gpu.describe(), heart, text_of(lab, ""))
        player = opened(check.playbook, text_of(lab, check.lines) + check.declared)
        return [row for number in range(len(check.calls)) for row in run_now(check.compared(player, number))]

    return run


def test_there_are_labs_enough_of_each_degree_with_hints_and_near_misses():
    assert len(LABS) >= 10 and len(set(NAMES)) == len(LABS)
    for degree in ("easy", "medium", "hard"):
        assert len([lab for lab in LABS if lab.degree == degree]) >= 3
    for lab in LABS:
        assert 1 <= solution(lab).count("\n") <= 10, lab.name
        assert len(lab.hints) >= 2 and len(lab.near) >= 3 and len(lab.cases) >= 3, lab.name


@pytest.mark.parametrize("lab", LABS, ids=NAMES)
def test_our_lines_agree_with_the_specification_and_the_empty_frame_does_not(lab, rows_of):
    rows = rows_of(lab, solution(lab))
    assert all(row["right"] for row in rows), rows
    assert all(row["bound"] <= 1e-3 * max(abs(row["wanted"] or 0), 1) for row in rows)
    for heart in (lab.starter, ""):
        try:
            assert not all(row["right"] for row in rows_of(lab, heart))
        except TinyGPTError as error:
            assert "does not compile" in str(error)


@pytest.mark.parametrize("lab, before, after", NEAR, ids=lambda one: getattr(one, "name", None))
def test_a_near_miss_fails_and_says_where(lab, before, after, rows_of):
    assert before in solution(lab)
    wrong = next(row for row in rows_of(lab, solution(lab).replace(before, after, 1)) if not row["right"])
    off = wrong["heat"][wrong["row"]][wrong["column"]]
    assert off is None or off > 100 * wrong["bound"], wrong
    assert off == wrong["worst"]


def test_what_is_written_past_the_end_is_wrong(rows_of):
    lab = lab_named("embed")
    rows = rows_of(lab, solution(lab) + "  x[N * words] = row;\n")
    assert all(row["outside"] and not row["right"] and row["worst"] == 0 for row in rows)


@pytest.mark.parametrize(
    "loop",
    ["for (var k = 0u; k < 1u; k += 0u) { }", "while (me < 256u) { }", "loop { if (me > 256u) { break; } }"],
    ids=["for", "while", "loop"],
)
def test_a_loop_without_an_end_is_told_and_does_not_hang(loop, rows_of):
    lab = lab_named("tree")
    inside = "  for (var n = 0u; n < 2u; n++) { /* while { */ " + loop + " }\n"
    with pytest.raises(Endless, match="a loop of yours did not end within 4,096 rounds, where C = 5, N = 129"):
        rows_of(lab, inside + solution(lab))


@pytest.mark.parametrize(
    "source, said",
    [
        ("let a = 1;", "let a = 1;"),
        ("// for (;;) { }\nlet format = 1;", "// for (;;) { }\nlet format = 1;"),
        ("while broken", "while broken"),
    ],
)
def test_lines_without_loops_stay_as_they_are(source, said):
    assert watched(source, True) == said


def test_labs_whose_invocations_wait_for_each_other_hold_some_of_them_up():
    assert [lab.name for lab in LABS if lab.has_barriers] == [lab.name for lab in LABS if "Barrier" in solution(lab)]


@pytest.mark.parametrize("lab", LABS, ids=NAMES)
def test_a_model_trains_with_the_kernel_that_is_solved(lab):
    config = preset("tiny", "classic").replace(**lab.changes)
    for subgroups in (False, True):
        device = Device()
        device.subgroups = subgroups
        lowered = GpuLowered(config, device, step_modes(config), 1 << 20)
        assert any(lab.file in one.files for mode in lowered.dispatches.values() for one in mode)


def test_a_kernel_is_timed_beside_ours_on_the_same_numbers(gpu, opened):
    lab = LABS[0]
    timing = KernelTiming(lab, gpu.describe())
    data = timing.playbook.data()
    yours, ours = (data["programs"][name] for name in ("yours", "ours"))
    assert timing.playbook.places["yours"] == timing.playbook.places["ours"] and len(yours) == len(ours) > 1
    assert YOURS in data["pipelines"][yours[0][0]]["files"] and lab.file in data["pipelines"][ours[0][0]]["files"]
    ticks = iter(range(10_000))
    found = run_now(timing.measured(opened(timing.playbook, text_of(lab, solution(lab))), lambda: next(ticks)))
    assert found["yours"] == found["ours"] == 0  # by a clock that ticks evenly


PORTABLE = """
import json
from tinygpt.core.ops.gpu import Device
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.wgsl.check import LABS, KernelCheck, KernelTiming, bounds_of
for lab in LABS:
    check = KernelCheck(lab, Device(), "for (;;) { }", "@binding(7)")
    KernelTiming(lab, Device())
    for call in check.calls:
        sizes = [len(call.packed(tensor)) for tensor in call.tensors()]
        off = bounds_of(call)
        assert sizes == [4 * call.words(tensor) for tensor in call.tensors()]
        there = [name for name in sorted(off) if call.given[name] is not None]
        found = [(name, list(off[name].shape), bool(0 <= off[name].sum() < 1e30)) for name in there]
        SPEC[call.kernel](**call.given)
        for tensor in call.tensors():
            values, untouched = call.unpacked(tensor, call.packed(tensor))
            assert untouched and tuple(values.shape) == tuple(tensor.shape), tensor.name
        print(lab.name, call.kernel, call.slices, sizes, found)
    data = check.playbook.data()
    print(len(json.dumps(data["pipelines"])), sum(data["buffers"]), sorted(data["programs"]))
"""


def test_calls_and_bounds_are_the_same_under_micropython(tmp_path):
    from test_room import under_micropython

    numpys = subprocess.run([sys.executable, "-c", PORTABLE], capture_output=True, text=True, check=True).stdout
    assert under_micropython(PORTABLE, tmp_path) == numpys and "False" not in numpys
