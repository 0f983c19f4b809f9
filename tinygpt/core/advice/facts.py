"""A budget's options, its choice and its verdict as plain data: for `--json` and for the page."""

from tinygpt.core.advice.law import predict
from tinygpt.core.advice.law_numbers import LAWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.advice.choose import Option
    from tinygpt.core.advice.law import Prediction, TextFacts
    from tinygpt.core.config import RunConfig


def tokens_of(option: "Option") -> int:
    train = option.run.train
    return int(train.steps * train.batch * option.run.model.ctx)


def option_facts(option: "Option", text: "TextFacts") -> "dict[str, Any]":
    train, tokens = option.run.train, tokens_of(option)
    return {
        "preset": option.preset,
        "batch": train.batch,
        "dropout": train.dropout,
        "seconds_per_step": option.speed.step,
        "steps": train.steps,
        "tokens": tokens,
        "epochs": tokens / text.train_bytes,
        "predicted": prediction_facts(option.prediction),
    }


def prediction_facts(prediction: "Prediction") -> "dict[str, float]":
    return {"loss": prediction.loss, "low": prediction.low, "high": prediction.high}


def verdict(option: "Option", text: "TextFacts", run: "RunConfig", reached: float) -> "dict[str, Any]":
    """How good the prediction was, as an event. Of a run that was given another length, `retimed` is what to expect."""
    event: dict[str, Any] = {
        "event": "verdict",
        "predicted": prediction_facts(option.prediction),
        "reached": reached,
    }
    expected = option.prediction.loss
    if run.train.steps != option.run.train.steps:
        expected = event["retimed"] = predict(LAWS, option.preset, run, text).loss
    event["off"] = abs(expected / reached - 1.0)
    return event
