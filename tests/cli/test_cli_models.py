"""The commands that work with a model that is there already."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import TINY, metrics, one_line_error, process, succeed, tinygpt

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.write.sampler import generate
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.store.formats import web_page
from tinygpt.store.naming import load_model
from tinygpt.store.runs import RunFolder, newest_run


def written_by(run: Path, prompt: bytes, settings: SampleConfig) -> bytes:
    checkpoint = load_model(run)
    engine = make_engine(checkpoint.config, EngineChoice(threads=1), checkpoint.state)
    return run_now(generate(engine, checkpoint.config.model.ctx, prompt, settings))


def test_raw_is_the_new_text_byte_for_byte(straight_run: Path) -> None:
    settings = SampleConfig(tokens=40, temperature=1.2, top_k=50, top_p=0.95, seed=7)
    flags = ["--tokens", 40, "--temperature", 1.2, "--top-k", 50, "--top-p", 0.95, "--seed", 7, "--threads", 1]
    result = succeed("sample", straight_run, "--prompt", "the ", "--raw", *flags)
    assert result.stdout_bytes == written_by(straight_run, b"the ", settings)


def test_the_prompt_comes_from_stdin(straight_run: Path) -> None:
    prompt = b"the \xff\x00 cat"
    result = succeed("sample", straight_run, "--prompt", "-", "--raw", "--greedy", "--tokens", 9, input=prompt)
    assert result.stdout_bytes == written_by(straight_run, prompt, SampleConfig(tokens=9, temperature=0.0))


def test_people_get_prompt_and_text_in_valid_utf8(straight_run: Path) -> None:
    result = succeed("sample", straight_run, "--prompt", "né ", "--tokens", 40)
    made = written_by(straight_run, "né ".encode(), SampleConfig(tokens=40))
    assert result.stdout_bytes.decode() == "né " + made.decode("utf-8", "replace") + "\n"


def test_it_ends_behind_any_of_its_stops(straight_run: Path) -> None:
    everything = written_by(straight_run, b"the ", SampleConfig(tokens=60))
    stop = everything[20:22]
    told = ["--stop", "".join(f"\\x{byte:02x}" for byte in stop), "--stop", "no such text"]
    result = succeed("sample", straight_run, "--prompt", "the ", "--tokens", 60, "--raw", *told)
    assert result.stdout_bytes == everything[: everything.index(stop) + 2]


def test_several_texts_have_the_next_seeds_and_machines_get_lines(straight_run: Path) -> None:
    flags = ["--prompt", "the ", "--tokens", 20, "--seed", 5, "--count", 3]
    texts = [written_by(straight_run, b"the ", SampleConfig(tokens=20, seed=seed)) for seed in (5, 6, 7)]
    made = [text.decode("utf-8", "replace") for text in texts]
    lines = [json.loads(line) for line in succeed("sample", straight_run, *flags, "--json").stdout.splitlines()]
    assert [(line["seed"], line["text"]) for line in lines] == [(5, made[0]), (6, made[1]), (7, made[2])]
    assert all(line["first_byte_s"] > 0 and line["bytes_per_s"] > 0 for line in lines)
    shown = succeed("sample", straight_run, *flags).stdout
    assert shown == "".join(f"──── seed {seed} ────\nthe {made[seed - 5]}\n\n" for seed in (5, 6, 7))
    assert "--raw and --count do not go together" in one_line_error(tinygpt("sample", straight_run, "-n", 2, "--raw"))


def test_turn_by_turn_it_goes_on_behind_everything_before(straight_run: Path) -> None:
    settings = SampleConfig(tokens=12)
    result = succeed("sample", straight_run, "-i", "--tokens", 12, "--stop", "nowhere", input=b"the \n\nold")
    first = written_by(straight_run, b"the ", settings.replace(seed=settings.seed + 1))
    second = written_by(straight_run, b"the " + first, settings.replace(seed=settings.seed + 2))
    text = b"the " + first + second
    text += b"\nold" if not text.endswith(b"\n") else b"old"
    third = written_by(straight_run, text, settings.replace(seed=settings.seed + 3))
    assert result.stdout_bytes.decode() == "".join(
        f"{made.decode('utf-8', 'replace')}\n" for made in (first, second, third)
    )


def test_the_newest_run_is_meant_where_none_is_named(
    straight_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "There is no run in runs/ yet" in one_line_error(tinygpt("sample"))
    shutil.copytree(straight_run, tmp_path / "runs/deep/older")
    shutil.copytree(straight_run, tmp_path / "runs/newer")
    os.utime(tmp_path / "runs/deep/older/metrics.jsonl", (1e9, 1e9))
    os.utime(tmp_path / "runs/deep/older/config.toml", (1e9, 1e9))
    (tmp_path / "runs/broken").mkdir()
    (tmp_path / "runs/broken/config.toml").write_text("no = toml =")
    assert newest_run(Path("runs")) is not None and newest_run(Path("runs")).path == Path("runs/newer")  # type: ignore[union-attr]
    assert succeed("sample", "--greedy", "--tokens", 5).stdout

    told = succeed("runs", "--json")
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["run"] for row in rows] == [
        "runs/newer",
        "runs/deep/older",
    ] and "runs/broken is left out" in told.stderr
    assert rows[0] | {"changed": 0} == rows[1] | {"run": "runs/newer", "changed": 0}
    best = min(metrics(straight_run, "eval"), key=lambda event: event["val_loss"])
    assert (rows[0]["state"], rows[0]["step"], rows[0]["best_val"]) == ("finished", 60, best["val_loss"])
    with RunFolder(Path("runs/newer")) as busy:
        busy.lock()
        shown = succeed("runs", "runs/newer", "runs/deep", "--plot", "curves.png").stdout
    assert "training" in shown and "days ago" in shown and "⠉" in shown and Path("curves.png").stat().st_size > 10_000
    assert "there is no such folder" in one_line_error(tinygpt("runs", "nowhere"))


def test_runs_are_told_of_in_json_that_every_language_reads(straight_run: Path, tmp_path: Path) -> None:
    """Whatever a metrics.jsonl holds: Python's own reader knows -Infinity and NaN, and JSON does not."""
    run = tmp_path / "run"
    shutil.copytree(straight_run, run)
    honest = succeed("runs", run, "--json").stdout
    with (run / "metrics.jsonl").open("a") as file:
        for value in ("-Infinity", "NaN", "-1e999", "1" + "0" * 400):
            file.write(f'{{"event": "eval", "step": 60, "val_loss": {value}}}\n')
            file.write(f'{{"event": "session", "step": 60, "from": 0, "seconds": {value}}}\n')
    told = json.loads(succeed("runs", run, "--json").stdout, parse_constant=pytest.fail)
    assert {**told, "changed": 0} == {**json.loads(honest), "changed": 0}
    (run / "metrics.jsonl").write_text('{"event": "eval", "step": 60, "val_loss": -Infinity}\n')
    assert json.loads(succeed("runs", run, "--json").stdout)["best_val"] is None
    succeed("runs", run)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in one_line_error(tinygpt("sample", tmp_path / "none.tinygpt"))
    assert "neither a run" in one_line_error(tinygpt("sample", tmp_path))
    assert "top_k must be from" in one_line_error(tinygpt("sample", tmp_path, "--top-k", 300))


def test_a_reader_that_goes_away_is_no_error(straight_run: Path) -> None:
    closed = "import os\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)"
    done = process("sample", straight_run, "--tokens", 50, before=closed)
    assert done.stderr == b""


def test_eval_knows_the_text_of_a_run(straight_run: Path, text_file: Path) -> None:
    result = json.loads(succeed("eval", straight_run, "--json").stdout)
    assert (result["text"], result["split"]) == (text_file.name, "val")
    assert result["bytes"] == int(len(text_file.read_bytes()) * 0.1)
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    assert result["bits_per_byte"] == pytest.approx(result["loss"] / math.log(2))
    assert f"{result['loss']:.4f} nats per byte" in succeed("eval", straight_run).stdout


def test_eval_writes_the_loss_of_every_byte(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    command = ["eval", straight_run, "--file", text_file, "--json", "--per-byte"]
    result = json.loads(succeed(*command, tmp_path / "losses.csv").stdout)
    succeed(*command, tmp_path / "losses.npy")
    text, losses = text_file.read_bytes(), np.load(tmp_path / "losses.npy")
    assert result["split"] == "all" and result["bytes"] == len(text) == len(losses) + 1
    assert result["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    with (tmp_path / "losses.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["byte"]) for row in rows] == list(text[1:]) and rows[0]["position"] == "1"
    np.testing.assert_allclose([float(row["loss"]) for row in rows], losses, atol=1e-6)


def test_eval_is_the_same_on_every_engine(straight_run: Path) -> None:
    native, torch = (
        json.loads(succeed("eval", straight_run, "--json", "--threads", 1, "--engine", name).stdout)["loss"]
        for name in ("native", "torch")
    )
    assert native == pytest.approx(torch, rel=1e-6)


def test_nothing_here_needs_torch(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    """In processes in which PyTorch cannot be imported."""
    none = "import sys\nsys.modules['torch'] = None"
    run, few = tmp_path / "run", ["--set", "sample.tokens=5", "--steps", 3]
    for command in (
        ["train", "--preset", "tiny", *TINY, *few, "--file", text_file, "--out", run],
        ["train", "--resume", run, "--steps", 5],
        ["sample", run, "--tokens", 5],
        ["eval", run],
        ["compare", run, straight_run, "--file", text_file, "--tokens", 5],
        ["inspect", run],
        ["convert", run, tmp_path / "model.safetensors"],
    ):
        done = process(*command, before=none)
        assert done.returncode == 0, (command, done.stderr.decode())
    refused = process("eval", run, "--engine", "torch", before=none)
    assert refused.returncode == 1 and b"needs the package torch" in refused.stderr


def test_eval_needs_a_text_it_can_know(straight_run: Path, tmp_path: Path) -> None:
    model = tmp_path / "best.tinygpt"
    shutil.copy(straight_run / "checkpoints/best.tinygpt", model)
    assert "Give --data or --file" in one_line_error(tinygpt("eval", model))
    of_run = [succeed("eval", f"{straight_run}{which}").stdout for which in ("", "@best", "/checkpoints/best.tinygpt")]
    assert len(set(of_run)) == 1
    assert "--split must be" in one_line_error(tinygpt("eval", straight_run, "--split", "test"))
    assert ".csv or .npy" in one_line_error(tinygpt("eval", straight_run, "--per-byte", tmp_path / "a.txt"))


def test_convert_there_and_back(straight_run: Path, tmp_path: Path) -> None:
    weights = load_model(straight_run).state.w
    succeed("convert", straight_run, tmp_path / "m.safetensors")
    succeed("convert", tmp_path / "m.safetensors", tmp_path / "m.tinygpt")
    succeed("convert", straight_run, tmp_path / "hf", "--to", "huggingface")
    for target in ("m.tinygpt", "hf"):
        np.testing.assert_array_equal(load_model(tmp_path / target).state.w, weights)
    assert "does not tell the format" in one_line_error(tinygpt("convert", straight_run, tmp_path / "m"))


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_convert_to_compact_weights_tells_what_they_cost(dtype: str, straight_run: Path, tmp_path: Path) -> None:
    small, compact = tmp_path / "small.tinygpt", ["--dtype", dtype]
    assert "leave that out" in one_line_error(tinygpt("convert", straight_run, small, *compact))
    said = succeed("convert", straight_run, small, *compact, "--weights-only").stdout
    before = json.loads(succeed("eval", straight_run, "--json").stdout)["loss"]
    cost = float(re.search(rf"Loss {before:.4f} before, [0-9.]+ in {dtype}: ([+-][0-9.]+) %", said)[1])  # type: ignore[index]
    assert abs(cost) < {"float16": 0.1, "int8": 1.0}[dtype]
    nowhere = succeed("convert", small, tmp_path / "again.tinygpt", *compact)  # a file, whose text only its run knows
    assert "could not be measured: say on which text with --data or --file" in nowhere.stderr
    assert f"tinygpt, {dtype}, " in succeed("inspect", small).stdout
    elsewhere = tinygpt("convert", straight_run, tmp_path / "m.safetensors", *compact)
    assert "a safetensors file is written in float32 only" in one_line_error(elsewhere)
    assert "no dtype 'int4'" in one_line_error(tinygpt("convert", straight_run, small, "--dtype", "int4", "--force"))


def test_convert_overwrites_only_when_told_and_never_a_run(straight_run: Path, tmp_path: Path) -> None:
    run, folder, file = tmp_path / "run", tmp_path / "hf", tmp_path / "m.safetensors"
    shutil.copytree(straight_run, run)
    to_folder = ["convert", straight_run, folder, "--to", "huggingface"]
    folder.mkdir()  # an empty one is no loss
    for command in (to_folder, ["convert", straight_run, file]):
        succeed(*command)
        assert "overwrite it with --force" in one_line_error(tinygpt(*command))
        succeed(*command, "--force")
    before = sorted(path.name for path in run.iterdir())
    for force in ([], ["--force"]):
        into_run = tinygpt("convert", straight_run, run, "--to", "huggingface", *force)
        assert "this is the folder of a run" in one_line_error(into_run)
    assert sorted(path.name for path in run.iterdir()) == before


def test_inspect(straight_run: Path) -> None:
    shown = succeed("inspect", straight_run).stdout
    for part in (
        "d_model 16",
        "blocks.0.mlp.fc_in.weight",
        "64 × 16",
        "checksum   OK",
        "loss from 5.",
        "█",
        "sample",
    ):
        assert part in shown, part
    facts = json.loads(succeed("inspect", straight_run, "--json").stdout)
    assert facts["config"]["model"]["ctx"] == 16 and len(facts["tensors"]) == 20


def test_a_broken_file_is_one_sentence(straight_run: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.tinygpt"
    short.write_bytes((straight_run / "checkpoints/last.tinygpt").read_bytes()[:5000])
    for command in (["inspect", short], ["sample", short], ["eval", short], ["convert", short, tmp_path / "a.tinygpt"]):
        assert "short.tinygpt" in one_line_error(tinygpt(*command))


def test_a_model_that_is_no_transformer_is_trained_sampled_looked_into_and_exported(
    tmp_path: Path, text_file: Path
) -> None:
    run, file = tmp_path / "run", tmp_path / "model.tinygpt"
    succeed("train", "--preset", "tiny", *TINY, "--kind", "recurrent", "--file", text_file, "--steps", 5, "--out", run)
    succeed("convert", run, file)
    facts = json.loads(succeed("inspect", file, "--json").stdout)
    assert facts["config"]["model"]["kind"] == "recurrent"
    flags = ["--prompt", "the ", "--raw", "--greedy", "--tokens", 20]
    texts = [succeed("sample", model, *flags).stdout_bytes for model in (run, file)]
    texts += [succeed("sample", file, *flags, "--engine", engine).stdout_bytes for engine in ("torch", "wasm-node")]
    assert len(texts[0]) == 20 and len(set(texts)) == 1
    succeed("look", file, "--text", "the big cat", "--out", tmp_path / "look.json")
    look = json.loads((tmp_path / "look.json").read_text())
    assert look["inside"]["attention"] == [] and "recurrence 0" in look["inside"]["stages"]
    assert "no part 'blocks.0.head.0'" in one_line_error(
        tinygpt("look", file, "--text", "the", "--ablate", "blocks.0.head.0")
    )
    succeed("look", file, "--text", "the big cat", "--ablate", "blocks.0.mix", "--out", tmp_path / "look.html")


def test_convert_to_a_page_of_one_file(straight_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    monkeypatch.setattr(web_page, "TEMPLATE", tmp_path / "template.txt")
    assert "run `make site` first" in one_line_error(tinygpt("convert", straight_run, page))
    (tmp_path / "template.txt").write_text(
        '<!doctype html><title>@@TITLE@@</title><script type="text/plain" id="plan">@@PLAN@@</script>'
        '<script type="text/plain" id="model">@@MODEL@@</script>'
    )
    said = succeed("convert", straight_run, page).stdout
    assert "(html, " in said and " in int8: " in said
    assert f"<title>{straight_run.name}</title>" in page.read_text()
    succeed("convert", straight_run, page, "--title", "Mine", "--prompt", "To be", "--dtype", "float32", "--force")
    assert "<title>Mine</title>" in page.read_text()
    greedy = ["--greedy", "--tokens", "20"]
    assert succeed("sample", page, *greedy).stdout == succeed("sample", straight_run, *greedy).stdout
