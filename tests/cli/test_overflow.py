"""Weights so large that the model's own numbers overflow: a sentence, never junk and never a text that is no JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import one_line_error, succeed, tinygpt

from tinygpt.engines.base import State
from tinygpt.store.formats import save_tinygpt
from tinygpt.store.naming import load_model


def with_weights_of(value: float, run: Path, path: Path) -> Path:
    model = load_model(run)
    w = np.where(model.state.w < 0, np.float32(-value), np.float32(value))
    save_tinygpt(path, replace(model, state=State(model.state.step, w)))
    return path


def test_a_model_whose_numbers_overflow_says_so(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    huge = with_weights_of(3e38, straight_run, tmp_path / "huge.tinygpt")
    result = tinygpt("sample", huge, "--tokens", 3, "--threads", 1)
    assert "logits are not finite" in one_line_error(result)
    assert result.stdout.strip() == ""
    for more in ([], ["--json"]):
        result = tinygpt("eval", huge, "--file", text_file, "--threads", 1, *more)
        assert "loss is not finite" in one_line_error(result)
        assert "perplexity" not in result.stdout and (not more or result.stdout == "")


def test_eval_writes_json_of_any_loss(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    large = with_weights_of(50.0, straight_run, tmp_path / "large.tinygpt")
    told = succeed("eval", large, "--file", text_file, "--threads", 1, "--json").stdout
    facts = json.loads(told, parse_constant=pytest.fail)
    assert facts["loss"] > 700 and facts["perplexity"] is None
