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


def adamw_rates(train: TrainConfig, step: int) -> tuple[float, float, float]:
    """What the kernel `adamw` takes of step number `step`: step size, root correction, decay."""
    lr = learning_rate(train, step)
    step_size = lr / (1.0 - train.beta1**step)
    root_correction = 1.0 / (1.0 - train.beta2**step) ** 0.5
    return step_size, root_correction, lr * train.weight_decay
