"""The contracts between the loops and whatever computes.

An `Engine` holds a model and can train it, measure it and write with it. PyTorch's is its own (reference/engine.py).
All others are core's `ProgramEngine` over a `Player`, which knows buffers and programs and nothing of training.

Methods are coroutines because in the tab a player answers with a promise. A player of the terminal never suspends;
`run_now` drives such coroutines to their end.
"""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    from tinygpt.core.config import RunConfig, SampleConfig

    T = TypeVar("T")
    Places = list[list[int]]  # buffer, place and size in bytes

# step: the number of steps done once this one was;  loss: mean cross-entropy of its batch, before its update;
# grad_norm: the global norm before clipping.
StepMetrics = namedtuple("StepMetrics", ("step", "loss", "grad_norm"))


def run_now(coroutine: "Coroutine[Any, Any, T]") -> "T":
    """Drive a coroutine that never suspends (every engine of the terminal) to its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise RuntimeError("the engine suspended; drive it with an event loop")


class Player:
    """Buffers, and programs that run on them: what core/plan made is taken verbatim."""

    threads: "int | None" = None  # of the CPU, where it is the CPU that computes
    software = False  # a GPU's interface without a GPU behind it; `describe` says so too
    ahead = False  # whether `run` answers before the work is done, and waiting for it costs time: see `begin_read`

    def describe(self) -> str:
        """The device and what matters for speed on it, in one line."""
        raise NotImplementedError

    async def write(self, places: "Places", data: "Any") -> None:
        """Bytes, or what the host has in their stead, to these places one after the other."""
        raise NotImplementedError

    async def read(self, places: "Places") -> bytes:
        """What lies there once all that was asked for before is done."""
        raise NotImplementedError

    def begin_read(self, places: "Places") -> "Any":
        """Start reading what is there once all that was asked for so far is done; `end_read` waits for it. For
        players that answer ahead: more can be asked for meanwhile."""
        raise NotImplementedError

    async def end_read(self, begun: "Any") -> bytes:
        raise NotImplementedError

    async def run(self, mode: str, times: int) -> int:
        """Run a program so many times, each on what the one before left; how many were done.

        They are fewer only where `stop` was called meanwhile; a run is done whole, or as if never begun. A GPU may
        answer before the work is done.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """End the current run as soon as possible; it does not affect the next one."""

    async def clock(self, mode: str) -> list[float]:
        """Run a program once: the seconds of each of its ops, or on a GPU of each dispatch."""
        raise NotImplementedError

    async def close(self) -> None:
        """Give back memory and threads."""


class Engine:
    """One model, its optimizer's state, and the texts it is trained and validated on."""

    name = "engine"
    threads: "int | None" = None
    software = False
    ahead = False  # whether steps are still under way when `train` answers, and waiting for them costs time
    block: "int | None" = None  # steps, or batches of a validation, to ask for at once; None: by the clock
    config: "RunConfig"

    def describe(self) -> str:
        return self.name

    async def load_corpus(self, train: "Any", val: "Any") -> None:
        """Take the texts (bytes, or what the host has in their stead), and whatever training needs."""
        raise NotImplementedError

    async def train(self, steps: int) -> int:
        """Do the next steps, at most RING: batch, loss, backward, clip, update. How many were done, see Player.run."""
        raise NotImplementedError

    async def read_metrics(self, leave: int = 0) -> "list[StepMetrics]":
        """The metrics of all steps since the last call, waiting for those still under way; of an engine that answers
        ahead, the last `leave` blocks may stay so."""
        raise NotImplementedError

    async def validate(self, first: int, batches: int) -> int:
        """Measure so many of a validation's batches, from number `first` on; 0 begins anew. How many were done, see
        Player.run. Changes nothing of the model."""
        raise NotImplementedError

    async def read_validation(self) -> float:
        """The mean loss once all of a validation's batches are measured, waiting for those still under way."""
        raise NotImplementedError

    def begin_validation(self) -> "Any":
        """Have that loss read once the batches asked for so far are measured; `end_validation` waits for it. For
        engines that answer ahead: more steps can be asked for meanwhile."""
        raise NotImplementedError

    async def end_validation(self, begun: "Any") -> float:
        raise NotImplementedError

    async def window_losses(self, windows: "list[bytes]") -> "list[list[float]]":
        """The loss of every byte but the first in windows of equal length, each predicted from those before it.

        Any number of windows of 2 to ctx + 1 bytes, whatever the batch of the training. Changes nothing.
        """
        raise NotImplementedError

    async def likeliest_bytes(self, windows: "list[bytes]") -> "list[bytes]":
        """Behind every byte of windows of 1 to ctx bytes, the one that the model finds likeliest; of equals the first.

        Any number of windows, whatever the batch of the training. Changes nothing.
        """
        raise NotImplementedError

    async def restart(self, config: "RunConfig | None" = None) -> bool:
        """A new model again, with the texts that are loaded; under other settings only if all that was planned and
        compiled serves them too. Whether it is."""
        return False

    def retime(self, steps: int) -> None:
        """The rates of the steps to come are those of a run of so many."""
        self.config = self.config.replace(steps=steps)

    async def export_state(self) -> "Any":
        raise NotImplementedError

    async def import_state(self, state: "Any") -> None:
        raise NotImplementedError

    async def make_room(self, texts: int) -> None:
        """Have room for so many texts at once; those that are there may be lost."""
        raise NotImplementedError

    async def begin_text(self, window: bytes, settings: "SampleConfig", first: int, stop: bytes, row: int = 0) -> bytes:
        """Read 1 to ctx bytes and draw the next; it is byte number `first` of the text. Empty if that is impossible.

        A byte of `stop` ends the text. It is text number `row` of those that there is room for, in place of what was
        there; the others do not notice.
        """
        raise NotImplementedError

    async def continue_text(self, count: int) -> bytes:
        """Draw up to so many more bytes, fewer where the text has ended. The window must have room for them."""
        raise NotImplementedError

    async def continue_texts(self, count: int) -> "list[bytes | None]":
        """The same for all texts at once: of each that was begun and not dropped its new bytes, or None where its
        logits are not finite. The windows must have room for so many."""
        raise NotImplementedError

    async def drop_text(self, row: int) -> None:
        """No more of this one."""
        raise NotImplementedError

    async def prefill(self, tokens: bytes) -> "list[float]":
        """Empty the KV cache, read 1 to ctx tokens, return the 256 logits after the last."""
        raise NotImplementedError

    async def decode(self, token: int) -> "list[float]":
        """Read one more token behind those in the KV cache, return the 256 logits after it."""
        raise NotImplementedError

    async def agree(self, flag: bool) -> bool:
        """Whether any replica raised the flag."""
        return flag

    def stop(self) -> None:
        """End the steps under way as soon as can be."""

    async def close(self) -> None:
        """Give back memory and threads."""
