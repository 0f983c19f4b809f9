"""What only decorates a file never keeps its model from loading: both spellings are read, what is strange is said."""

import json

import pytest
from format_samples import MODEL, OriginalFile, packed, sample_checkpoint

from tinygpt.core import config as core_config
from tinygpt.core.config import RunConfig, TrainConfig
from tinygpt.core.file import header as core_header
from tinygpt.core.file.header import KEYS, encode_run, encode_state, left_out_sentence
from tinygpt.core.settings import whole
from tinygpt.core.train.progress import Progress
from tinygpt.store.formats import inspect_model, load_safetensors, load_tinygpt, save_safetensors, save_tinygpt

DEFAULTS = TrainConfig()


def loaded(tmp_path, **changes):
    original = OriginalFile()
    (tmp_path / "a.tinygpt").write_bytes(original.v2(**changes))
    checkpoint = load_tinygpt(tmp_path / "a.tinygpt")
    original.assert_loaded(checkpoint)
    return checkpoint


def test_the_originals_own_header(tmp_path):
    points = [
        {"step": 1, "train": 5.5},
        {"step": 50, "train": 4.0, "val": 4.1},
        {"step": 123, "train": 3.0, "val": None},
    ]
    checkpoint = loaded(
        tmp_path,
        finalLoss={"step": 123, "train": 3.0, "val": 3.2},
        bestVal={"loss": 3.1, "step": 100},
        lossHistory=points,
    )
    progress = checkpoint.progress
    assert (progress.step, progress.loss, progress.best_val, progress.best_step) == (123, 3.0, 3.1, 100)
    assert progress.history.points == [(1, 5.5), (50, 4.0), (123, 3.0)]
    assert checkpoint.saved_at == "2025-05-05T05:05:05.000Z" and not checkpoint.left_out


def test_losses_that_were_never_measured(tmp_path):
    checkpoint = loaded(tmp_path, finalLoss={"step": 0, "train": None, "val": None}, bestVal=None, lossHistory=[])
    assert checkpoint.progress.loss is None and checkpoint.progress.best_val is None and not checkpoint.left_out


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"finalLoss": "low"}, "finalLoss"),
        ({"finalLoss": {"train": [3]}}, "finalLoss"),
        ({"bestVal": True}, "bestVal"),
        ({"bestVal": {"loss": 3.0, "step": "last"}}, "the step of bestVal"),
        ({"lossHistory": 7}, "lossHistory"),
        ({"lossHistory": [[1, 5.0], [2], "x", [3, 4.0], [2, 1.0]]}, "3 of 5 points of lossHistory"),
        ({"lossHistory": [{"train": 1.0}]}, "1 of 1 points of lossHistory"),
        ({"sample": 3}, "sample"),
        ({"origin": "elsewhere"}, "origin"),
        ({"savedAt": {}}, "savedAt"),
        ({"data": []}, "data"),
        ({"lora": "yes"}, "lora"),
        ({"validation": []}, "validation"),
        ({"validation": {"evalsSinceBest": -1}}, "validation.evalsSinceBest"),
        ({"tokensSeen": 1.5}, "tokensSeen"),
        ({"colour": "red"}, "colour"),
        ({"config": {**OriginalFile().config, "backend": 5}}, "config.backend"),
        ({"config": {**OriginalFile().config, "schedule": "steps"}}, "config.schedule"),
        ({"config": {**OriginalFile().config, "seed": -7}}, "config.seed"),
        ({"config": {**OriginalFile().config, "attentionSinks": 4}}, "config.attentionSinks"),
    ],
)
def test_what_is_strange_is_left_out_and_said(tmp_path, changes, name):
    checkpoint = loaded(tmp_path, **changes)
    assert checkpoint.left_out == [name]
    assert inspect_model(tmp_path / "a.tinygpt")["left_out"] == [name]


def test_a_setting_that_is_not_understood_takes_its_default(tmp_path):
    checkpoint = loaded(tmp_path, config={**OriginalFile().config, "seed": -7, "batchSize": "many"})
    assert (checkpoint.config.train.seed, checkpoint.config.train.batch) == (DEFAULTS.seed, DEFAULTS.batch)


def test_the_rest_of_a_history_is_kept(tmp_path):
    checkpoint = loaded(tmp_path, lossHistory=[[1, 5.0], [2], "x", [3, 4.0], [2, 1.0]])
    assert checkpoint.progress.history.points == [(1, 5.0), (3, 4.0)]


def test_surrogates_of_json_are_joined_or_replaced(tmp_path):
    original = OriginalFile()
    text = json.dumps(original.header()).replace("ROMEO:", "\\ud83d\\ude00 \\ud83d! \\ude00")
    (tmp_path / "a").write_bytes(packed(2, text.encode(), original.state))
    assert load_tinygpt(tmp_path / "a").progress.sample == "\U0001f600 \ufffd! \ufffd"


def test_one_sentence_names_a_few():
    assert left_out_sentence([]) == ""
    assert left_out_sentence(["data"]) == "What could not be understood was left out: data."
    assert left_out_sentence(list("abcdefg")).endswith("a, b, c, d, e and 2 more.")


def test_nothing_that_we_write_is_unknown_to_us(tmp_path):
    run = RunConfig(MODEL, DEFAULTS)
    assert {*encode_run(run, Progress(), "", {}, None, ""), *encode_state(MODEL, ("m",), "")} <= set(KEYS)
    save_tinygpt(tmp_path / "a.tinygpt", sample_checkpoint())
    save_safetensors(tmp_path / "a.safetensors", sample_checkpoint())
    assert not load_tinygpt(tmp_path / "a.tinygpt").left_out
    assert not load_safetensors(tmp_path / "a.safetensors").left_out


@pytest.mark.parametrize("section", ["ModelConfig", "TrainConfig"])
def test_todays_files_load_when_the_config_has_grown(tmp_path, monkeypatch, section):
    """A field that a later version adds has its default in a file that knows nothing of it."""
    grown = getattr(core_config, section)
    monkeypatch.setattr(grown, "FIELDS", (*grown.FIELDS, whole("novelty", 7, 0, 9, "new")))
    checkpoint = loaded(tmp_path)
    settings = checkpoint.config.model if section == "ModelConfig" else checkpoint.config.train
    assert settings.as_dict()["novelty"] == 7 and not checkpoint.left_out
    assert core_header.config_key("novelty") == "novelty"
