"""Stochastic gradient descent with momentum and decoupled weight decay."""

from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.optimizers.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig, TrainConfig
    from tinygpt.core.models.memory import Memory
    from tinygpt.core.ops.op import Program


def rates_of(train: "TrainConfig", step: int) -> tuple[float, float]:
    lr = learning_rate(train, step)
    return lr, lr * train.weight_decay


def update(p: "Program", config: "RunConfig", memory: "Memory") -> None:
    (m,) = memory.slots
    p.call(
        "sgd", grads=memory.grads, norm=memory.norm, rates=memory.rates, counters=memory.counters,
        weights=memory.live, m=m, P=memory.layout.size, decayed=memory.layout.decayed,
        rows=memory.rates.shape[0], momentum=config.train.momentum,
    )  # fmt: skip


SGD = Optimizer(slots=("m",), rates_of=rates_of, update=update)
