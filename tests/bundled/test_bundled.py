"""Models that come with the package: what a card says can be done again, and a name serves wherever a model does."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import one_line_error, succeed, tinygpt
from tiny_sums import SUMS, zoo_command

from lab.bundled import table
from lab.bundled.copying import copied
from tinygpt import load
from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.presets import EXERCISES
from tinygpt.core.tasks import is_task
from tinygpt.data import load_corpus
from tinygpt.inside.origins import Source
from tinygpt.jobs.settings import read_settings
from tinygpt.store import bundled as zoo
from tinygpt.store.formats import load_tinygpt, read_header, save_tinygpt
from tinygpt.store.formats.checkpoint import state_sha256, weights_sha256
from tinygpt.store.naming import load_model

MACHINE = ["--engine", "native", "--threads", 1]
MOST_BYTES = 26_000_000  # of all models together


@pytest.mark.slow
def test_the_cards_command_makes_the_very_model(made: Path, packed: dict[str, Any], tmp_path: Path) -> None:
    command = shlex.split(packed["command"])
    assert command[:2] == ["tinygpt", "train"]
    succeed(*command[1:], "--out", tmp_path / "again", *MACHINE, "--quiet")
    before = read_settings(made / "runs/zoo/tiny-sums/config.toml")
    again = read_settings(tmp_path / "again/config.toml")
    assert (again.run, again.data) == (before.run, before.data)
    save_tinygpt(tmp_path / "again.tinygpt", load_model(tmp_path / "again"), include_optimizer=False, dtype="int8")
    assert state_sha256(load_model(tmp_path / "again.tinygpt").state) == packed["weights_sha256"]


def test_what_a_card_says(made: Path, packed: dict[str, Any]) -> None:
    file = zoo.named()["tiny-sums"]
    model, corpus = load_tinygpt(file), load_corpus(SUMS.data)
    assert read_header(file)["dtype"] == "int8" and not model.state.slots
    assert (packed["bytes"], packed["parameters"]) == (file.stat().st_size, model.state.w.size)
    assert packed["config"] == model.config.as_dict() == SUMS.settings().run.as_dict()
    assert packed["corpus"]["sha256"] == corpus.sha256 and packed["corpus"]["licence"] == "public domain"
    assert (packed["steps"], packed["tokens"]) == (30, packed["step"] * 4 * 16)
    assert packed["engine"] == "native" and packed["device"].startswith("native C++")
    told = [json.loads(line) for line in (made / "runs/zoo/tiny-sums/metrics.jsonl").read_text().splitlines()]
    assert packed["seconds"] == round(sum(one["seconds"] for one in told if one["event"] == "session"), 1)
    assert [step for step, _ in packed["curve"]["train"]] == list(range(1, 31))
    for kind in ("val", "exam"):
        assert [step for step, _ in packed["curve"][kind]] == [10, 20, 30]


@pytest.mark.slow
def test_a_cards_measurements_can_be_made_again(packed: dict[str, Any]) -> None:
    told = json.loads(succeed("eval", "tiny-sums", "--json", *MACHINE).stdout)
    assert told["text"] == SUMS.data and told["bytes"] == packed["corpus"]["held_out_bytes"]
    assert (round(told["loss"], 4), round(told["bits_per_byte"], 4)) == (packed["val_loss"], packed["bits_per_byte"])
    assert {key: told[key] for key in packed["exam"]} == packed["exam"]
    sample = packed["sample"]
    shown = succeed("sample", "tiny-sums", "--tokens", sample["tokens"], *MACHINE).stdout
    assert shown == sample["text"] + "\n"
    text = succeed("sample", "tiny-sums", "--tokens", 10_000, "--raw", *MACHINE).stdout_bytes
    train, val = load_corpus(SUMS.data).split()
    learned = Source(train)
    assert packed["copied"] == {**copied(text, learned), "held_out": copied(val, learned)}
    assert packed["copied"]["bytes"] == 10_000


def test_the_list_and_the_card(packed: dict[str, Any], made: Path) -> None:
    listed = succeed("models").stdout
    for part in ("tiny-sums", "Adds, or would", f"{packed['parameters']:,}", f"{packed['val_loss']:.3f}"):
        assert part in listed, part
    shown = succeed("models", "tiny-sums").stdout
    for part in (
        packed["command"],
        packed["corpus"]["sha256"][:16],
        "int8",
        "it never saw",
        "answered right",
        "12-byte",
        "⠙",
        "--tokens 600",
    ):
        assert part in shown, part
    assert json.loads(succeed("models", "tiny-sums", "--json").stdout) == packed
    assert json.loads(succeed("models", "--json").stdout) == [packed]
    assert "did you mean 'tiny-sums'" in one_line_error(tinygpt("models", "tiny-sum"))


def test_a_name_serves_wherever_a_model_does(packed: dict[str, Any], tmp_path: Path) -> None:
    assert "tinygpt, int8, " in succeed("inspect", "tiny-sums").stdout
    succeed("convert", "tiny-sums", tmp_path / "sums.safetensors")
    assert weights_sha256(load_model(tmp_path / "sums.safetensors").state.w) == packed["weights_sha256"]


def test_without_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "none")
    assert succeed("models").stdout.strip() == zoo.EMPTY and succeed("models", "--json").stdout.strip() == "[]"
    assert "no model 'tiny-sums' comes with the package" in one_line_error(tinygpt("models", "tiny-sums"))
    assert "no model of that name" in one_line_error(tinygpt("sample", "tiny-sums"))
    (tmp_path / "none").mkdir()
    (tmp_path / "none/lone.tinygpt").write_bytes(b"")
    assert "the card of lone cannot be read" in one_line_error(tinygpt("models"))


def test_what_is_not_packed(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "packed")
    run = made / "runs/zoo/tiny-sums"
    assert "is no name of a model" in one_line_error(zoo_command("pack", run, "../sums"))
    assert "is planned as `tinygpt train --preset" in one_line_error(zoo_command("pack", run, "addition"))
    assert "no model 'sums' is planned" in one_line_error(zoo_command("make", "sums"))
    unfinished = tmp_path / "run"
    shutil.copytree(run, unfinished)
    config = unfinished / "config.toml"
    config.write_text(config.read_text().replace("steps = 30", "steps = 40"))
    assert "is not finished" in one_line_error(zoo_command("pack", unfinished, "sums"))
    assert not (tmp_path / "packed").exists()


def test_what_is_planned_is_what_its_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr("tinygpt.cli.training.execute", lambda job, *others: jobs.append(job))
    for row in table.PLANNED:
        settings = row.settings()
        succeed("train", *table.command_of(settings))
        length = EXERCISES if is_task(row.data) else 10**7
        made = jobs[-1].settings.for_text(length, jobs[-1].free)
        assert (made.run, made.data) == (settings.run, settings.data)


@pytest.mark.parametrize("name", zoo.named())
def test_the_packages_own(name: str) -> None:
    """Each is as its card says, and its card's command still gives its settings."""
    card, file = zoo.card_of(name), zoo.named()[name]
    model = load_tinygpt(file)
    assert (card["name"], card["bytes"]) == (name, file.stat().st_size)
    config = card["config"]  # without what models have been given since
    made = RunConfig(ModelConfig(**config["model"]), TrainConfig(**config["train"]))
    assert card["weights_sha256"] == state_sha256(model.state) and made == model.config
    assert card["corpus"]["sha256"] == model.data["sha256"] and card["corpus"]["licence"]
    assert sum(path.stat().st_size for path in zoo.named().values()) <= MOST_BYTES
    command = table.command_line(table.planned(name).settings())
    assert card["command"] == command, "the table or its recipe has changed: train it again, or state what differs"


def test_what_addition_can_do_is_said_wherever_it_is_promised() -> None:
    promise = "adds numbers of up to three digits"
    assert zoo.card_of("addition")["title"] == table.planned("addition").title == promise
    root = Path(__file__).parents[2]
    for page in (root / "README.md", root / "docs/cli.md", root / "docs/tasks.md"):
        said = " ".join(page.read_text(encoding="utf-8").split())
        promises = re.findall(r"(?:tinygpt sample addition|The model `addition`).{,80}", said)
        assert promises and all(promise in one for one in promises), page
    draw = random.Random(0)
    widths = [pair for pair in product((1, 2, 3), repeat=2) for _ in range(40)]
    pairs = [(draw.randrange(10**first), draw.randrange(10**second)) for first, second in widths]
    with load("addition", engine="native", threads=1) as model:
        for a, b in [(2, 2), (7, 95), *pairs]:
            assert model.generate(f"{a}+{b}=", tokens=5, temperature=0.0, stop="\n") == f"{a + b}\n"
