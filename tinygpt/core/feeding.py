"""The numbers an engine is fed besides bytes."""

from tinygpt.core.config import TrainConfig


def adamw_rates(train: TrainConfig, step: int, lr: float) -> tuple[float, float, float]:
    """What the kernel `adamw` takes as `rates` at step number `step`: step size, root correction, decay."""
    step_size = lr / (1.0 - train.beta1**step)
    root_correction = 1.0 / (1.0 - train.beta2**step) ** 0.5
    return step_size, root_correction, lr * train.weight_decay
