"""`program`, `bench` and `parity`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_helpers import one_line_error, succeed, tinygpt

from tinygpt.cli.commands.program_memory import replaced
from tinygpt.core.models.programs import all_modes
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.plan.memory import Slot
from tinygpt.core.presets import DEFAULT_RECIPE, preset


def lowered_of(name: str, recipe: str = DEFAULT_RECIPE) -> Lowered:
    """With texts of the least length."""
    config = preset(name, recipe)
    return Lowered(config, all_modes(config), config.model.ctx + 1, config.model.ctx + 1)


def test_program_prints_every_op_with_its_cost() -> None:
    shown = succeed("program", "tiny").stdout
    lowered = lowered_of("tiny")
    ops = lowered.programs["train"].ops
    for kernel in {op.kernel for op in ops}:
        assert kernel in shown
    assert f"{len(ops)} ops" in shown
    assert f"{lowered.programs['train'].flops() / 1e6:,.1f}" in shown
    assert "arena" in shown


@pytest.mark.parametrize("columns", [80, 200])
def test_program_shows_switches_and_the_commit(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = succeed("program", "tiny", "--recipe", "modern").stdout
    lines = shown.splitlines()
    ops = lowered_of("tiny", "modern").programs["train"].ops
    assert shown.count("inverse=1") == sum(op.kernel == "rotary" and op.dim("inverse") for op in ops) > 0
    rows = [line.split() for line in lines]
    kernels = [row[0] if row[0] == "commit" else row[1] for row in rows if row[:1] == ["commit"] or is_op(row)]
    assert kernels[kernels.index("commit") - 1] == "grad_norm"
    body = lines[: next(i for i, line in enumerate(lines) if f"{len(ops)} ops" in line)]
    assert all(line.strip() for line in body)
    assert "commit" not in succeed("program", "tiny", "--mode", "eval").stdout


def is_op(row: list[str]) -> bool:
    return len(row) > 1 and row[0].isdigit()


@pytest.mark.parametrize("columns", [80, 200])
def test_program_breaks_no_name(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = succeed("program", "behemoth").stdout
    names = {t.name for op in lowered_of("behemoth").programs["gradient"].ops for t in op.tensors if t is not None}
    assert names <= set(shown.split()) and max(map(len, shown.splitlines())) <= columns
    for_gpu = succeed("program", "behemoth", "--gpu").stdout
    assert "HAS_RESIDUAL=1," in for_gpu.split() and max(map(len, for_gpu.splitlines())) <= columns


def test_program_as_data_is_what_engines_replay() -> None:
    for mode in ("train", "decode"):
        data = json.loads(succeed("program", "tiny", "--mode", mode, "--json").stdout)
        lowered = lowered_of("tiny")
        assert data["words"] == lowered.words[mode]
        assert data["arena_bytes"] == lowered.plan.bytes()
        assert [op["kernel"] for op in data["ops"]] == [op.kernel for op in lowered.programs[mode].ops]


def test_program_draws_the_memory_map(tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    succeed("program", "tiny", "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "end its name in .png" in one_line_error(tinygpt("program", "tiny", "--plot", tmp_path / "map.xyz"))


def test_program_without_passes_is_the_models_text() -> None:
    def kernels(*flags: str) -> list[str]:
        return [op["kernel"] for op in json.loads(succeed("program", "tiny", *flags, "--json").stdout)["ops"]]

    plain = kernels("--passes", "none")
    assert plain == kernels("--without", "fuse") and {"add", "activation"} <= set(plain)
    assert len(kernels()) < len(kernels("--without", "residuals")) < len(plain)
    dispatches = [
        len(json.loads(succeed("program", "tiny", "--gpu", *flags, "--json").stdout)["dispatches"])
        for flags in ([], ["--without", "dispatches"], ["--passes", "none"])
    ]
    assert dispatches == sorted(set(dispatches))
    refused = one_line_error(tinygpt("program", "tiny", "--passes", "some"))
    assert "--passes is all or none, not 'some'" in refused and "activations,residuals" in refused
    assert "'fus' is not a pass that can be left out; did you mean 'fuse'" in one_line_error(
        tinygpt("train", "--without", "fus")
    )


def test_the_walk_through_a_step_counts_its_ops_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "step.md").read_text(encoding="utf-8")
    counted = re.findall(r"^tinygpt (program .*?) +# (\d+) ops", page, re.MULTILINE)
    assert len(counted) == 3
    for command, ops in counted:
        assert len(json.loads(succeed(*command.split(), "--json").stdout)["ops"]) == int(ops), command


def test_bench_says_what_each_pass_is_worth() -> None:
    flags = ("--presets", "tiny", "--seconds", 0.05, "--threads", 1)
    rows = [json.loads(line) for line in succeed("bench", "--passes", *flags, "--json").stdout.splitlines()]
    assert [row["engine"] for row in rows] == [
        "native, plain",
        "native, + merge",
        "native, + activations",
        "native, + residuals",
    ]
    shown = succeed("bench", "--passes", "--engines", "native,wasm-node", *flags).stdout
    assert "vs plain" in shown and shown.count("×") == 6  # each engine beside its own plain program
    assert "leave out --without" in one_line_error(tinygpt("bench", "--passes", "--without", "fuse", *flags))


def test_program_names_the_modes_there_are() -> None:
    assert "there are train, validate, eval, likeliest, prefill, decode" in one_line_error(
        tinygpt("program", "tiny", "--mode", "trian")
    )
    succeed("program", "tiny", "--grad-accum", 2, "--mode", "accumulate")


def test_bench_prints_a_json_object_a_line(tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    arguments = ("--presets", "tiny", "--seconds", 0.05, "--threads", 1, "--plot", picture)
    rows = [json.loads(line) for line in succeed("bench", *arguments, "--json").stdout.splitlines()]
    assert [(row["preset"], row["engine"]) for row in rows] == [("tiny", "native"), ("tiny", "torch")]
    for row in rows:
        assert row["threads"] == 1
        assert row["tokens_per_s"] == pytest.approx(1000 * 16 * 32 / row["ms_per_step"])
        flops = lowered_of("tiny", "classic").programs["train"].flops()
        assert row["gflops"] == pytest.approx(flops / row["ms_per_step"] / 1e6)
        assert 2 < row["loss"] < 6
    assert "<svg" in picture.read_text()


def test_bench_shows_ratios_and_a_profile() -> None:
    table = succeed("bench", "--presets", "tiny", "--seconds", 0.05, "--threads", 1).stdout
    assert "vs torch" in table and "×" in table
    rows = succeed("bench", "--presets", "tiny", "--profile", "--threads", 1, "--json").stdout.splitlines()
    kernels = {json.loads(row)["kernel"]: json.loads(row)["calls"] for row in rows}
    assert kernels["linear_backward_weight"] == 9
    assert "no profile" in one_line_error(tinygpt("bench", "--engines", "torch", "--presets", "tiny", "--profile"))


def test_native_training_takes_less_memory_than_torch() -> None:
    rows = [
        json.loads(line) for line in succeed("bench", "--memory", "--presets", "tiny", "--json").stdout.splitlines()
    ]
    peaks = {row["engine"]: row["peak_bytes"] for row in rows}
    assert 10e6 < peaks["native"] < peaks["torch"]


def test_parity_passes_and_fails_by_its_limit() -> None:
    arguments = ("parity", "--preset", "tiny", "--steps", 5, "--threads", 1)
    result = json.loads(succeed(*arguments, "--json").stdout)
    assert result["passed"] and len(result["drifts"]) == 5 and result["max_drift"] == max(result["drifts"]) < 1e-4
    assert result["weight_difference"] > 0
    failed = tinygpt(*arguments, "--limit", 0)
    assert failed.exit_code == 1
    assert "NOT below the limit" in failed.stdout


def test_engines_that_are_not_there_are_named_nearly() -> None:
    assert "did you mean 'native'" in one_line_error(tinygpt("bench", "--engines", "nativ", "--presets", "tiny"))
    assert "at least 1, not 0" in one_line_error(tinygpt("bench", "--threads", 0, "--presets", "tiny"))
    assert "end its name in .png" in one_line_error(tinygpt("bench", "--plot", "curve.xyz"))  # before it measures
    assert "--seconds must be a time above 0, not -1" in one_line_error(tinygpt("bench", "--seconds", -1))
    assert "two engines, not 1" in one_line_error(tinygpt("parity", "--engines", "native"))
    assert "did you mean 'tiny'" in one_line_error(tinygpt("program", "tyny"))
    assert "runs on the CPU" in one_line_error(
        tinygpt("bench", "--engines", "native", "--presets", "tiny", "--device", "cuda")
    )


def test_memory_says_whose_place_a_tensor_takes() -> None:
    """Of every tensor: what it replaces was there and is dead, and no byte of it had a later owner."""
    lowered = Lowered(preset("tiny", "modern"), ["train"], 100, 100)
    slots = lowered.plan.temporary["train"]
    for slot in slots:
        owner: dict[int, Slot] = {}
        for other in sorted(slots, key=lambda other: other.last):
            if other.last < slot.first:
                begin, end = max(slot.start, other.start), min(slot.start + slot.size, other.start + other.size)
                owner.update(dict.fromkeys(range(begin, end), other))
        assert {id(other) for other in replaced(slot, slots)} == {id(other) for other in owner.values()}
    lines = succeed("program", "tiny", "--memory").stdout.splitlines()
    (dlogits,) = [line.split() for line in lines if line.split()[3:4] == ["dlogits"]]
    assert int(dlogits[0]) > 0 and dlogits[6].startswith("scratch.")
