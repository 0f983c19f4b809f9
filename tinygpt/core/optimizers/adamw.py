"""AdamW: steps by the gradient's running mean over the root of its square's, with decoupled weight decay."""

from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.run.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig, TrainConfig
    from tinygpt.core.models.memory import Memory
    from tinygpt.core.ops.op import Program


def rates_of(train: "TrainConfig", step: int) -> tuple[float, float, float]:
    lr = learning_rate(train, step)
    step_size = lr / (1.0 - train.beta1**step)
    root_correction = 1.0 / (1.0 - train.beta2**step) ** 0.5
    return step_size, root_correction, lr * train.weight_decay


def update(p: "Program", config: "RunConfig", memory: "Memory") -> None:
    train = config.train
    m, v = memory.slots
    p.call(
        "adamw", grads=memory.grads, norm=memory.norm, rates=memory.rates, counters=memory.counters,
        weights=memory.live, m=m, v=v, P=memory.layout.size, decayed=memory.layout.decayed,
        rows=memory.rates.shape[0], beta1=train.beta1, beta2=train.beta2, eps=train.eps,
    )  # fmt: skip


ADAMW = Optimizer(slots=("m", "v"), rates=("step_size", "root_correction", "decay"), rates_of=rates_of, update=update)
