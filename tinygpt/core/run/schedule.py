"""The learning rate of a step, from its number alone."""

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
