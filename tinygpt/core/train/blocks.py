"""How the training loop asks its engine for steps: in blocks, and where the engine answers ahead, several at a time.

A block is as many steps as take about a tenth of a second, so that a stop is heard soon. Most engines have done a block
when they answer. A GPU in a tab has only queued it, and waiting for its losses would leave the GPU idle. So some blocks
stay under way while an earlier one is read:

    asked for   block 1   block 2   block 3   validation   block 4   …
    read                                      block 1      block 2   …

Whatever was asked for and not read yet is in one queue, `pending`, in order.
"""

from tinygpt.core.engine.rate import Rate
from tinygpt.core.ops.record import RING
from tinygpt.core.train.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

BLOCK_SECONDS = 0.1  # of work under way at once
BLOCKS_AHEAD = 2  # under way while an earlier one is read: one being computed, and one on its way to the GPU
STRETCH_SECONDS = 5.0  # after which everything is read, or earlier if somebody waits for that


class Blocks:
    def __init__(
        self,
        engine: "Any",
        host: Host,
        on_steps: "Callable[[list[Any], float], None]",
        on_validation: "Callable[[float], Any]",
    ) -> None:
        """`on_steps` gets the metrics of each block and the seconds per step; `on_validation` gets the losses of
        validations that steps were asked for after."""
        self.engine = engine
        self.host = host
        self.on_steps = on_steps
        self.on_validation = on_validation
        self.rate = Rate()  # seconds per step, of training alone
        self.since = 0.0  # when the block that is read next began
        self.pending: list[Any] = []  # None for a block of steps; for a validation, what the engine knows it by

    async def run(self, step: int, left: int, go_past: "Callable[[int], Awaitable[int | None]]") -> bool:
        """Do `left` steps after `step`, and read them all. Returns whether a stop cut them short.

        Once an engine that answers ahead was asked for all of them, `go_past` is called with the step reached: it says
        how many more may be asked for before anything is read. None means that a stop was heard.
        """
        began = self.since = self.host.now()
        stopped = False
        while not stopped:
            size = self.size(left)
            done = await self.engine.train(size)
            if done:
                self.pending.append(None)
            await self.read(BLOCKS_AHEAD if self.engine.ahead else 0)
            step, left, stopped = step + done, left - done, done < size
            if not self.engine.ahead or not self.goes_on(began):
                break
            if left == 0:
                more = await go_past(step)
                stopped = stopped or more is None
                left = more or 0
                if left == 0:
                    break
        await self.read(0)
        return stopped

    def size(self, most: int) -> int:
        """How many steps to ask for at once, at most `most`."""
        most = min(most, RING)
        if self.engine.block is not None:
            return min(most, int(self.engine.block))
        return self.rate.fitting(BLOCK_SECONDS / (1 + BLOCKS_AHEAD if self.engine.ahead else 1), most)

    def goes_on(self, began: float) -> bool:
        host = self.host
        return host.now() - began < STRETCH_SECONDS and not host.should_stop() and not host.waiting()

    def began_validation(self, begun: "Any") -> None:
        self.pending.append(begun)

    async def read(self, leave: int) -> None:
        """Read what is pending, but for the last `leave` blocks and what follows the first of them."""
        while self.pending.count(None) > leave:
            self.pending.pop(0)
            metrics = await self.engine.read_metrics(self.pending.count(None))
            before, self.since = self.since, self.host.now()
            self.rate.add(len(metrics), self.since - before)
            self.on_steps(metrics, self.rate.each())
            while self.pending and self.pending[0] is not None:
                loss = await self.engine.end_validation(self.pending.pop(0))
                self.since = self.host.now()
                self.on_validation(loss)
