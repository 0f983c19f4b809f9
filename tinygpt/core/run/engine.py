"""Every engine but PyTorch's: a model's programs on a player. Whatever has a meaning is said here, once.

A step needs nothing from its host. The texts, the counters, the rates of the steps to come and the ring of losses lie
beside the weights, so the host asks for a block of steps, or of bytes, and reads what they left.
"""

import struct

from tinygpt.core.config import RunConfig
from tinygpt.core.corpus import validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.models.programs import training_modes
from tinygpt.core.ops.record import RING
from tinygpt.core.optimizers import check_slots, optimizer_of, slot_names
from tinygpt.core.run.contract import StepMetrics
from tinygpt.core.run.machine import Machine
from tinygpt.core.run.sampler import NOT_FINITE, NotFinite
from tinygpt.core.run.schedule import average_rate
from tinygpt.core.run.writing import WritingEngine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.run.contract import Places

MAX_TEXT = 2**31 - 1
# Settings of which no program knows: rates come from the host's table, and the rest is the loop's.
OF_THE_LOOP = ("steps", "patience", "eval_every", "sample_every", "checkpoint_every", "keep_every")
UNPLANNED = OF_THE_LOOP + ("lr", "schedule", "warmup", "min_lr", "matrix_lr", "weight_decay")


class ProgramEngine(WritingEngine):
    """Steps, measurements and states, over an engine's memory (planned.py) and its texts (writing.py)."""

    def __init__(self, config: RunConfig, machine: Machine, state: "Any" = None, base: "Any" = None) -> None:
        """`state` is what it begins with, of all that is trained; without one, start values are drawn. `base` are the
        weights that adapters stand on."""
        if state is not None:
            self.check_state(state, config)
        WritingEngine.__init__(self, config, machine, state, base)
        self.step = 0  # of the steps asked for, the last
        self.read = 0  # of those whose metrics are read, or begun to be
        self.begun: list[Any] = []  # (the step before a block's first, its last, what the player knows its reading by)
        self.known = 0  # of those whose rates are in the table
        self.stopping = False

    # --- training --------------------------------------------------------------------------------------------

    async def load_corpus(self, train: "Any", val: "Any") -> None:
        self.text_bytes = (len(train), len(val))
        if max(self.text_bytes) > MAX_TEXT:
            raise TinyGPTError(
                f"the text has more than {MAX_TEXT:,} bytes, all that a program can count; use less of it"
            )
        modes = training_modes(self.config, len(val))
        before = [] if self.lowered is None else self.lowered.modes
        await self.plan(modes + [mode for mode in before if mode not in modes])
        await self.write_text("train_text", train)
        if self.has("val_text"):
            await self.write_text("val_text", val)
        await self.set_step(self.step)

    async def write_text(self, name: str, text: "Any") -> None:
        tensor = self.tensor(name)
        await self.player.write(self.lowered.places(tensor, 0, tensor.size), text)

    async def set_step(self, step: int) -> None:
        """So many steps are done."""
        self.step = self.read = self.known = step
        self.begun = []
        if self.has("counters"):
            await self.write_ints("counters", [step, 0, 0, 0])

    async def train(self, steps: int) -> int:
        self.stopping = False
        steps = min(steps, RING - (self.step - self.read))
        await self.table_rates(self.step + steps)
        done = await self.run_steps(steps)
        self.step += done
        if self.ahead and done:
            self.begun.append((self.read, self.step, self.player.begin_read(self.ring_places())))
            self.read = self.step
        return done

    @property
    def ahead(self) -> bool:  # type: ignore[override]
        return self.player is not None and bool(self.player.ahead)

    async def table_rates(self, last: int) -> None:
        """The rates up to a step, in the table where the steps will look for them."""
        train, rates_of = self.config.train, optimizer_of(self.config.train).rates_of
        while self.known < last:
            row = self.known % RING
            count = min(last - self.known, RING - row)
            steps = range(self.known + 1, self.known + count + 1)
            rates: list[float] = []
            for step in steps:
                rates += rates_of(train, step)
            await self.write_floats("rates", rates, len(rates) // count * row)
            if train.average:
                await self.write_floats("average_rates", [average_rate(train, step) for step in steps], row)
            self.known += count

    async def run_steps(self, steps: int) -> int:
        accumulated = self.config.train.grad_accum - 1
        if accumulated == 0:
            return int(await self.player.run("train", steps))
        for step in range(steps):
            whole = await self.player.run("gradient", 1) == 1 and not self.stopping
            whole = whole and await self.player.run("accumulate", accumulated) == accumulated and not self.stopping
            if not whole or await self.player.run("update", 1) != 1:
                await self.write_ints("counters", [0], 1)  # what the step had of its batches is dropped
                return step
        return steps

    async def train_fed(self, windows: "list[bytes]") -> None:
        """A step on windows of ctx + 1 bytes that the host chose, a whole batch of them."""
        await self.require(["train_fed"])
        await self.table_rates(self.step + 1)
        await self.write_windows(windows)
        await self.player.run("train_fed", 1)
        self.step += 1

    async def read_metrics(self, leave: int = 0) -> "list[StepMetrics]":
        metrics: list[StepMetrics] = []
        while len(self.begun) > leave:
            first, last, begun = self.begun.pop(0)
            metrics += metrics_of(first, last, await self.player.end_read(begun))
        if self.read < self.step:
            metrics += metrics_of(self.read, self.step, await self.player.read(self.ring_places()))
            self.read = self.step
        return metrics

    def ring_places(self) -> "Places":
        return self.places("ring", 2 * RING)

    async def validate(self, first: int, batches: int) -> int:
        if first == 0:
            await self.write_ints("val_loss", [0])
            await self.write_ints("counters", [0], 2)
        return int(await self.player.run("validate", batches))

    async def read_validation(self) -> float:
        return (await self.read_floats("val_loss", 1))[0]

    def begin_validation(self) -> "Any":
        return self.player.begin_read(self.places("val_loss", 1))

    async def end_validation(self, begun: "Any") -> float:
        return float(struct.unpack("<f", await self.player.end_read(begun))[0])

    # --- measuring -------------------------------------------------------------------------------------------

    async def write_windows(self, windows: "list[bytes]") -> None:
        """Windows of equal length to the inputs: what stands behind them, and in rows that they do not fill, is 0."""
        batch, ctx = self.config.train.batch, self.config.model.ctx
        tokens, targets = [0] * (batch * ctx), [0] * (batch * ctx)
        for row in range(len(windows)):
            start, length = row * ctx, len(windows[row]) - 1
            tokens[start : start + length] = list(windows[row][:-1])
            targets[start : start + length] = list(windows[row][1:])
        await self.write_ints("tokens", tokens)
        await self.write_ints("targets", targets)

    async def window_losses(self, windows: "list[bytes]") -> "list[list[float]]":
        ctx = self.config.model.ctx
        length = len(windows[0]) if windows else 2
        if not 2 <= length <= ctx + 1 or [window for window in windows if len(window) != length]:
            raise TinyGPTError(f"windows must be rows of 2 to {ctx + 1} bytes, all of one length, not {length}")
        rows = await self.over_windows("eval", windows, "losses", "f")
        return [list(row[: length - 1]) for row in rows]

    async def likeliest_bytes(self, windows: "list[bytes]") -> "list[bytes]":
        ctx = self.config.model.ctx
        if [window for window in windows if not 1 <= len(window) <= ctx]:
            raise TinyGPTError(f"windows must have 1 to {ctx} bytes")
        rows = await self.over_windows("likeliest", [window + b"\0" for window in windows], "best", "i")
        found = [rows[i][: len(windows[i])] for i in range(len(windows))]
        if [best for best in found if min(best) < 0]:
            raise NotFinite(NOT_FINITE)
        return [bytes(best) for best in found]

    async def over_windows(self, mode: str, windows: "list[bytes]", name: str, kind: str) -> "list[tuple[Any, ...]]":
        """Run a program on all windows, a batch at a time: what it left in an output of ctx words per window."""
        batch, ctx = self.config.train.batch, self.config.model.ctx
        await self.require([mode])
        rows = []
        for first in range(0, len(windows), batch):
            part = windows[first : first + batch]
            await self.write_windows(part)
            await self.player.run(mode, 1)
            left = await self.read_words(name, kind, len(part) * ctx)
            rows += [left[row * ctx : (row + 1) * ctx] for row in range(len(part))]
        return rows

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def slots(self) -> "tuple[str, ...]":
        """The vectors of a state beside its weights."""
        return slot_names(self.config.train)

    def check_state(self, state: "Any", config: RunConfig) -> None:
        """Refuse the state of another model, or of another optimizer."""
        count = trained_count(config)
        if state.parameters != count:
            what = "this model has" if config.lora is None else "these adapters have"
            raise TinyGPTError(f"the state has {state.parameters:,} parameters, but {what} {count:,}")
        check_slots(config.train, list(state.slots))

    def file_places(self) -> "Places":
        """Of weights and slots, as a model file has them."""
        return self.vector_places("weights", *self.slots)

    async def restart(self, config: RunConfig | None = None) -> bool:
        if config is not None:
            if not self.serves(config):
                return False
            self.config = config
        if self.machine.starts:
            await self.require(["reset"])
            await self.player.run("reset", 1)
        else:
            await self.player.write(self.vector_places("weights"), await self.machine.start_values(self.config))
            for name in self.slots:
                await self.player.write(self.vector_places(name), self.machine.zeros(4 * trained_count(self.config)))
        await self.rejoin()
        await self.set_step(0)
        return True

    def serves(self, config: RunConfig) -> bool:
        """Whether what was planned is what these settings would have planned."""
        train, val_bytes = config.train, self.text_bytes[1]
        same = self.config.replace(**{name: getattr(train, name) for name in UNPLANNED}) == config
        return same and validates(config, val_bytes) == validates(self.config, val_bytes)

    def stop(self) -> None:
        self.stopping = True  # between two runs of a step too
        if self.player is not None:
            self.player.stop()


def metrics_of(first: int, last: int, ring: bytes) -> "list[StepMetrics]":
    """Of the steps behind `first` up to `last`, from what lies in the ring."""
    metrics = []
    for step in range(first + 1, last + 1):
        loss, norm = struct.unpack_from("<2f", ring, 8 * ((step - 1) % RING))
        metrics.append(StepMetrics(step, loss, norm))
    return metrics
