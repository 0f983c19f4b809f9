"""Whether a text suits a run: how it is divided, what is refused, what is advised."""

from tinygpt.core.config import RunConfig, TrainConfig, validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import PRESETS, adapting_steps


def train_bytes(corpus_bytes: int, val_fraction: float) -> int:
    """How much of a corpus, from the front, is for training; the rest is held out."""
    return corpus_bytes - int(corpus_bytes * val_fraction)


MOST_BYTES = 2**31 - 1  # of a step or a validation: programs count in 32 bits


def check_corpus(config: RunConfig, train_bytes: int) -> None:
    """Refuse a corpus from which not even one window of ctx + 1 bytes can be drawn, and steps that are too large for
    any."""
    check_size(config, "step", "grad_accum")
    if config.train.eval_every > 0:
        check_size(config, "validation", "eval_batches")
    window = config.model.ctx + 1
    if train_bytes < window:
        raise TinyGPTError(
            f"the training part of the corpus has {train_bytes} bytes, but one window takes ctx + 1 = {window}; "
            f"use a longer text, a smaller ctx, or a smaller val_fraction"
        )


def check_size(config: RunConfig, what: str, times: str) -> None:
    size = config.train.batch * getattr(config.train, times) * config.model.ctx
    if size > MOST_BYTES:
        raise TinyGPTError(
            f"a {what} would read batch x {times} x ctx = {size:,} bytes, and {MOST_BYTES:,} is the most; lower batch "
            f"or {times}"
        )


def corpus_advice(config: RunConfig, train_bytes: int, val_bytes: int, parameter_count: int) -> list[str]:
    """What to tell the user before training when corpus, model and steps do not fit one another."""
    train = config.train
    tokens = train.steps * train.batch * train.grad_accum * config.model.ctx
    epochs = tokens / train_bytes
    advice = []
    if train_bytes < parameter_count / 20:
        smaller = " or a smaller preset" if config.model.d_model > PRESETS[0].d_model else ""
        advice.append(
            f"The corpus is far too small for this model: {train_bytes:,} bytes for {parameter_count:,} parameters "
            f"({train_bytes / parameter_count:.3f} bytes per parameter). Expect it to be memorised; "
            f"use more text{smaller}."
        )
    if config.lora is not None and train.steps == adapting_steps(config, train_bytes) < TrainConfig().steps:
        advice.append(f"The text is short: in more than {train.steps:,} steps an adapter would only learn it by heart.")
    elif epochs > 50:
        watch = "Watch the validation loss, or set patience to stop when it turns"
        turn = watch if validates(config, val_bytes) else "Fewer steps, or more text, would do"
        advice.append(
            f"{train.steps:,} steps read the corpus {round(epochs):,} times over "
            f"({tokens / parameter_count:.1f} tokens per parameter). {turn}."
        )
    if train.eval_every > 0 and not validates(config, val_bytes):
        advice.append(
            f"There will be no validation loss: the held-out part has {val_bytes} bytes, "
            f"and one window takes {config.model.ctx + 1}."
        )
    return advice
