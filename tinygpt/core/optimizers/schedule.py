"""The rates of a step, from its number alone."""

import math

from tinygpt.core.config import TrainConfig


def learning_rate(train: TrainConfig, step: int) -> float:
    """The rate of step number `step`, counted from 1."""
    if step <= train.warmup:
        return train.lr * step / train.warmup
    if train.schedule == "constant" or train.steps <= train.warmup + 1:
        return train.lr
    done = min(1.0, (step - train.warmup - 1) / (train.steps - train.warmup - 1))
    low = min(train.min_lr, train.lr)
    return low + (train.lr - low) * 0.5 * (1.0 + math.cos(math.pi * done))


def ngram_rate(train: TrainConfig, step: int) -> float:
    """The n-gram tables' rate, which follows the same schedule."""
    return train.ngram_lr * learning_rate(train, step) / train.lr


def average_rate(train: TrainConfig, step: int) -> float:
    """What share of the way the kept weights go towards those of step number `step`.

    Their average reaches over about train.average of the run; at first over less, so that start values are soon
    forgotten.
    """
    return 1.0 / min(1.0 + 0.1 * step, max(1.0, train.average * train.steps))
