"""Every optimizer by its name in the settings."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.optimizers.adamw import ADAMW
from tinygpt.core.optimizers.muon import MUON
from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.optimizers.sgd import SGD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinygpt.core.config import TrainConfig

OPTIMIZERS: "dict[str, Optimizer]" = {"adamw": ADAMW, "muon": MUON, "sgd": SGD}


def optimizer_of(train: "TrainConfig") -> Optimizer:
    return OPTIMIZERS[train.optimizer]


def check_slots(train: "TrainConfig", names: "Sequence[str]") -> None:
    """Refuse what another optimizer kept. Weights alone, with no slots, are anyone's."""
    slots = optimizer_of(train).slots
    if names and sorted(names) != sorted(slots):
        raise TinyGPTError(
            f"an optimizer that keeps {', '.join(names)} trained this model, but {train.optimizer} keeps "
            f"{', '.join(slots)}; go on with the same optimizer, or from the weights alone, as "
            f"tinygpt convert --weights-only makes them"
        )
