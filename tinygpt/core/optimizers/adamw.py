"""AdamW: steps by the gradient's running mean over the root of its square's, with decoupled weight decay."""

from tinygpt.core.ops.flat import part
from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.optimizers.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig, TrainConfig
    from tinygpt.core.models.memory import Memory
    from tinygpt.core.ops.op import Program


def rates_of(train: "TrainConfig", step: int) -> tuple[float, float, float]:
    return rates_at(train, step, learning_rate(train, step))


def rates_at(train: "TrainConfig", step: int, lr: float) -> tuple[float, float, float]:
    step_size = lr / (1.0 - train.beta1**step)
    root_correction = 1.0 / (1.0 - train.beta2**step) ** 0.5
    return step_size, root_correction, lr * train.weight_decay


def update(p: "Program", config: "RunConfig", memory: "Memory") -> None:
    update_stretch(p, config, memory, 0, memory.layout.size)


def update_stretch(p: "Program", config: "RunConfig", memory: "Memory", start: int, end: int) -> None:
    """Of the flat vectors, from `start` to `end`."""
    train = config.train
    m, v = memory.slots
    vectors = {"grads": memory.grads, "weights": memory.live, "m": m, "v": v}
    if end - start < memory.layout.size:
        vectors = {name: part(vectors[name], start, end - start) for name in vectors}
    rows, columns = memory.rates.shape
    p.call(
        "adamw", norm=memory.norm, rates=memory.rates, counters=memory.counters, P=end - start,
        decayed=max(0, min(memory.layout.decayed, end) - start), rows=rows, columns=columns,
        beta1=train.beta1, beta2=train.beta2, eps=train.eps, **vectors,
    )  # fmt: skip


ADAMW = Optimizer(slots=("m", "v"), rates_of=rates_of, update=update)
