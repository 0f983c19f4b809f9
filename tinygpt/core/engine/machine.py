"""Where programs are planned and played."""

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Player

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Machine:
    """What can plan programs for a device and open players there."""

    name = "machine"
    compact: tuple[str, ...] = ()  # of a file's dtypes, those that programs can read weights in as they are
    starts = "init"  # the program that makes start values; where there is none, `start_values` has them

    def lower(self, config: RunConfig, modes: list[str], **how: "Any") -> "Any":
        """Some programs, planned; `how` is what `MadePrograms` is told of them."""
        raise NotImplementedError

    async def open(self, lowered: "Any") -> Player:
        """A player whose buffers are all zeros."""
        raise NotImplementedError

    async def start_values(self, config: RunConfig) -> "Any":
        """The weights of an untrained model in the file's order, as `Player.write` takes them."""
        raise NotImplementedError

    def close(self) -> None:
        """No more players will be asked for."""

    def zeros(self, size: int) -> "Any":
        """So many bytes, as `Player.write` takes them."""
        return bytes(size)

    def describe(self) -> str:
        return self.name
