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


LIVE = "live"  # with averaging: the weights that steps change, while those that are kept follow them


def slot_names(train: "TrainConfig") -> "tuple[str, ...]":
    """The vectors of a state beside its weights, in the order of a file. All begin as zeros, but `live` as the
    weights."""
    kept: tuple[str, ...] = optimizer_of(train).slots
    return kept + (LIVE,) if train.average else kept


def check_slots(train: "TrainConfig", names: "Sequence[str]") -> None:
    """Refuse what another optimizer kept. Weights alone, with no slots, are anyone's."""
    slots = slot_names(train)
    if names and sorted(names) != sorted(slots):
        averaged = " with averaging" if train.average else ""
        raise TinyGPTError(
            f"an optimizer that keeps {', '.join(names)} trained this model, but {train.optimizer}{averaged} keeps "
            f"{', '.join(slots)}; go on with the same optimizer, or begin with the weights "
            f"alone, by tinygpt train --init-from"
        )
