"""Muon: the blocks' matrices step by their momentum made orthogonal; AdamW takes the rest."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.optimizers import adamw
from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.run.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig, TrainConfig
    from tinygpt.core.models.memory import Memory
    from tinygpt.core.ops.op import Program


def rates_of(train: "TrainConfig", step: int) -> tuple[float, ...]:
    """AdamW's, then the matrices', which follow the same schedule."""
    matrix_lr = train.matrix_lr * learning_rate(train, step) / train.lr
    return adamw.rates_of(train, step) + (matrix_lr, matrix_lr * train.weight_decay)


def update(p: "Program", config: "RunConfig", memory: "Memory") -> None:
    raise TinyGPTError("this engine does not train with muon; choose another engine or optimizer")


RATES = ("step_size", "root_correction", "decay", "matrix_lr", "matrix_decay")
MUON = Optimizer(slots=("m", "v"), rates=RATES, rates_of=rates_of, update=update)
