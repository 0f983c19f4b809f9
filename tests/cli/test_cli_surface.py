"""What the commands show: help, defaults, tables; and how fast they come up."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_helpers import one_line_error, process, succeed, tinygpt
from typer.testing import CliRunner

from tinygpt import __version__, data
from tinygpt.cli import options
from tinygpt.cli.app import app
from tinygpt.cli.charts import averaged, loss_chart, sparkline
from tinygpt.cli.commands.presets import COLUMNS
from tinygpt.cli.corpora import TextFlags
from tinygpt.cli.display import duration, rate
from tinygpt.core.config import LoraConfig, ModelConfig, SampleConfig, TrainConfig
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import DEFAULT_PRESET, DEFAULT_RECIPE, preset, preset_names, recipe_names, tuned
from tinygpt.core.settings import Settings, real, text
from tinygpt.data import Corpus
from tinygpt.jobs.beginning import new_job
from tinygpt.jobs.choices import NO_TEXT
from tinygpt.jobs.settings import TrainSettings, settings_of
from tinygpt.plots import smoothed

COMMANDS = ["train", "sample", "sweep", "eval", "compare", "convert", "inspect", "presets", "play", "doctor", "lora"]
COMMANDS += ["data"]


OF_PRESET = {
    name: f"{options.shown(value) or 'none'} for {DEFAULT_PRESET}"
    for name, value in tuned(DEFAULT_PRESET, DEFAULT_RECIPE).items()
}


def options_of(*command: str) -> dict[str, Any]:
    """Each option by its flag, as typer has it."""
    found = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]  # type: ignore[attr-defined]
    return {parameter.opts[0]: parameter for parameter in found.params}


@pytest.mark.parametrize(
    ("command", "sections", "elsewhere"),
    [
        (["train"], (ModelConfig, TrainConfig), OF_PRESET),
        (["sweep"], (ModelConfig, TrainConfig), OF_PRESET),
        (["sample"], (SampleConfig,), {}),
        (["compare"], (SampleConfig,), {}),
        (["lora", "train"], (LoraConfig, TrainConfig), {"batch": "the model's", "lr": "0.001"}),
    ],
)
def test_every_setting_has_a_flag_with_cores_help_and_default(
    command: list[str], sections: tuple[type[Settings], ...], elsewhere: dict[str, str]
) -> None:
    found = options_of(*command)
    for section in sections:
        for field in section.FIELDS:
            option = found[f"--{field.name.replace('_', '-')}"]
            default = elsewhere.get(field.name, options.shown(field.default) or "none")
            assert option.help.startswith(field.help) and f"[default: {default}" in option.help, field.name
            completed = [item.value for item in option.shell_complete(None, "")]
            assert completed == list(field.choices or []), field.name


def test_a_new_setting_has_a_flag_at_once() -> None:
    class Grown(Settings):
        SECTION = "train"
        FIELDS = (real("novelty", 7, 0, 9, "Muon: new"), text("way", "old", ("old", "new"), "how"))

    got: dict[str, Any] = {}

    @options.with_settings(Grown)
    def command(other: int = 1, *, stated: options.Stated) -> None:
        got.update(stated, other=other)

    small = typer.Typer()
    small.command()(command)
    run = CliRunner()
    help = run.invoke(small, ["--help"], color=False).output
    assert "Optimizers" in help and "Muon: new [default: 7; 0 to 9]" in help and "old|new" in help
    assert run.invoke(small, ["--novelty", "2.5", "--other", "3"]).exit_code == 0
    assert got == {"train": {"novelty": 2.5}, "other": 3}


def test_defaults_beside_cores_settings() -> None:
    found = options_of("train")
    assert f"[default: {DEFAULT_PRESET}]" in found["--preset"].help
    assert "[default: shakespeare-full]" in found["--data"].help


def test_settings_without_flags_are_cores() -> None:
    def of(name: str | None) -> TrainSettings:
        return new_job({"model": {}, "train": {}, "sample": {}}, TextFlags().on, preset=name).settings

    assert {of(name).data.name for name in preset_names()} == {"shakespeare-full"}
    settings = replace(of(None), data=NO_TEXT)
    assert settings.run == preset(DEFAULT_PRESET, DEFAULT_RECIPE) and settings.sample == SampleConfig()
    assert settings == TrainSettings.of_preset(DEFAULT_PRESET)
    assert settings_of({}).run == preset(DEFAULT_PRESET, "classic")  # a file of before there were recipes
    assert settings_of({"recipe": "modern"}) == settings


def test_preset_and_recipe_beside_a_file_state_what_they_state_and_leave_the_rest() -> None:
    read = settings_of({"recipe": "modern", "preset": "tiny", "train": {"lr": 0.5, "beta2": 0.9, "grad_clip": 3}})
    other = read.with_preset(None, "classic")
    assert other.run == preset("tiny", "classic").replace(beta2=0.9, grad_clip=3) and other.recipe == "classic"
    assert read.with_preset("huge", None).run == preset("huge", "modern").replace(beta2=0.9, grad_clip=3)


def test_every_core_setting_can_be_set() -> None:
    from tinygpt.cli.assignments import parse_assignments

    for section in (ModelConfig, TrainConfig, SampleConfig):
        for field in section.FIELDS:
            values = parse_assignments([f"{section.SECTION}.{field.name}={field.default}"])
            assert values[section.SECTION] == {field.name: field.default}
    assert parse_assignments(["sample.prompt= To be, "])["sample"] == {"prompt": " To be, "}


def test_presets_are_cores() -> None:
    for recipe in recipe_names():
        listed = json.loads(succeed("presets", "--json", "--recipe", recipe).stdout)
        assert listed["default"] == DEFAULT_PRESET and listed["recipe"] == recipe
        shown = succeed("presets", "--recipe", recipe).stdout
        for name, found in zip(preset_names(), listed["presets"], strict=True):
            run = preset(name, recipe)
            count = parameter_count(run.model)
            assert found == {"name": name, **tuned(name, recipe), "parameters": count}
            line = next(line for line in shown.splitlines() if line.startswith(name))
            words = [word for word in line.replace(",", "").split()[1:] if word != "*"]
            assert words[: len(COLUMNS) + 1] == [*[f"{run.values()[column]:g}" for column in COLUMNS], str(count)]
    assert json.loads(succeed("presets", "--json").stdout)["recipe"] == DEFAULT_RECIPE


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS], ["lora", "train"], ["data", "show"]])
def test_help_fits_80_columns(command: list[str]) -> None:
    for flag in ("-h", "--help"):
        result = succeed(*command, flag)
        assert "Usage:" in result.stdout and max(map(len, result.stdout.splitlines())) <= 80
        assert "\\\\" not in result.stdout and "[/" not in result.stdout  # markup that did not work


def test_help_shows_what_people_need_and_help_all_the_rest() -> None:
    short, long = succeed("train", "--help").stdout, succeed("train", "--help-all").stdout
    assert 12 <= len(re.findall(r"^│ --\w", short, re.M)) <= 22 and "--steps" in short and "--beta2" not in short
    assert all(f"--{field.name.replace('_', '-')} " in long for field in (*ModelConfig.FIELDS, *TrainConfig.FIELDS))
    assert "1500 for small" in " ".join(short.replace("│", " ").split())
    assert long.count("<bool>") <= 1  # typer's own --help has it
    assert "--ctx" in long and "--ctx" not in succeed("sweep", "--help").stdout


def test_version_and_unknown_commands() -> None:
    assert succeed("--version").stdout == f"tinygpt {__version__}\n"
    assert tinygpt("trian").exit_code == 2 and tinygpt("train", "--stepz", 3).exit_code == 2
    assert "--steps" in tinygpt("train", "--stepz", 3).stderr
    wrong = tinygpt("train", "--wrong")
    assert wrong.exit_code == 2 and "--wrong" in wrong.stderr and "--config" not in wrong.stderr


def test_help_imports_nothing_heavy() -> None:
    """Start-up is quick because nothing large is imported before it is needed."""
    code = "import sys, atexit; atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))"
    for command in (["train", "--help"], ["presets"]):
        loaded = process(*command, before=code).stderr.decode().split()
        assert not {"torch", "numpy", "matplotlib", "httpx", "safetensors", "tinygpt.data"} & set(loaded)
        assert "tinygpt.cli.commands.bench" not in loaded  # nor another command
    listing = process("data", "list", before=code).stderr.decode().split()
    assert "tinygpt.data" in listing and not {"torch", "numpy", "httpx"} & set(listing)


def test_doctor_says_what_is_there_and_what_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)  # as if not installed
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path))
    report = json.loads(succeed("doctor", "--json").stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["Python"]["status"] == checks["torch engine"]["status"] == checks["cache"]["status"] == "ok"
    assert checks["WebGPU"]["status"] == "missing" and "tinygpt[webgpu]" in checks["WebGPU"]["remedy"]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path / "file"))
    monkeypatch.setitem(sys.modules, "torch", None)
    shown = succeed("doctor").stdout
    assert "! cache" in shown and "→ pip install 'tinygpt[torch]'" in shown


def test_data_list_and_show(text_file: Path) -> None:
    names = [info["name"] for info in json.loads(succeed("data", "list", "--json").stdout)]
    assert names == [info.name for info in data.list_corpora()]
    assert "shakespeare-full *" in succeed("data", "list").stdout
    assert re.search(r"task:addition +two numbers and their sum +79\+28=107", succeed("data", "list").stdout)
    assert "digits 3" in succeed("data", "show", "task:addition:3").stdout
    shown = succeed("data", "show", "--file", text_file, "--bytes", 30).stdout
    assert f"{len(text_file.read_bytes()):,} bytes" in shown and shown.endswith("the big cat sat on the mat.\nth\n")
    assert "--bytes must be at least 0" in one_line_error(tinygpt("data", "show", "--file", text_file, "--bytes", -5))


def test_data_fetch_writes_the_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def load(name: str | None, **options: object) -> Corpus:
        asked.update(options, name=name)
        return Corpus("quotes", b"to be\xff", "two rows")

    monkeypatch.setattr(data, "load_corpus", load)
    monkeypatch.setenv("HF_TOKEN", "secret")
    result = succeed("data", "fetch", "quotes", "--budget", 99, "--refresh", "--out", tmp_path / "quotes.txt")
    assert (tmp_path / "quotes.txt").read_bytes() == b"to be\xff" and "two rows" in result.stdout
    assert (asked["name"], asked["budget"], asked["refresh"], asked["token"]) == ("quotes", 99, True, "secret")


def test_curves() -> None:
    assert sparkline([1, 2, 3, 8], 4) == "▁▂▃█" and sparkline([], 4) == "" and sparkline([5, 5], 4) == "▁▁"
    assert averaged([(1, 1.0), (2, 3.0), (7, 5.0)], 3) == [2.0, None, 5.0]
    falling = [(step, 5.0 - step / 100) for step in range(1, 301)]
    rows = [row.plain for row in loss_chart(falling, [(300, 2.5)], 60, 5, "cyan", "yellow")]
    assert len(rows) == 6 and all(len(row) == 60 for row in rows)
    assert rows[0].startswith(" 4.98 ┤⠉") and rows[4].startswith(" 2.0") and rows[5].endswith("300")
    assert [row.plain for row in loss_chart([(1, 5.0)], [], 40, 3, "", "")][-1].startswith("       step 1")


def test_smoothing_lags_behind_nothing() -> None:
    line = [float(i) for i in range(50)]
    assert smoothed(line, 10) == pytest.approx(line)
    assert smoothed([0.0, 1.0] * 20, 5)[20] == pytest.approx(0.5, abs=0.1)


def test_words_for_numbers() -> None:
    assert (rate(512), rate(49_600), rate(1.25e6)) == ("512 tokens/s", "49.6k tokens/s", "1.25M tokens/s")
    assert (duration(5), duration(65), duration(3700)) == ("0:05", "1:05", "1:01:40")


def test_memory_that_runs_out_is_a_sentence(straight_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tinygpt.cli.commands.sample.open_model", no_memory)
    assert "not enough memory" in one_line_error(tinygpt("sample", straight_run))
