"""Every engine but PyTorch's: a model's programs on a player. Whatever has a meaning is said here, once.

A step needs nothing from its host. The texts, the counters, the rates of the steps to come and the ring of losses lie
beside the weights, so the host asks for a block of steps, or of bytes, and reads what they left.
"""

import struct

from tinygpt.core.config import RunConfig, validates
from tinygpt.core.engine.contract import Engine, StepMetrics
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.memory import PlannedMemory, States
from tinygpt.core.engine.texts import Texts
from tinygpt.core.errors import NOT_FINITE, NotFinite, TinyGPTError
from tinygpt.core.models.memory import SQUARES, TABLES
from tinygpt.core.models.programs import training_modes
from tinygpt.core.ops.record import RING
from tinygpt.core.optimizers import optimizer_of, slot_names
from tinygpt.core.optimizers.schedule import average_rate, ngram_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from tinygpt.core.config import SampleConfig
    from tinygpt.core.engine.contract import Places

MAX_TEXT = 2**31 - 1
# Settings of which no program knows: rates come from the host's table, and the rest is the loop's.
OF_THE_LOOP = ("steps", "patience", "eval_every", "sample_every", "checkpoint_every", "keep_every")
UNPLANNED = OF_THE_LOOP + ("lr", "schedule", "warmup", "min_lr", "matrix_lr", "ngram_lr", "weight_decay")


class ProgramEngine(Engine):
    """Steps, measurements and states, over an engine's memory (memory.py) and its texts (texts.py)."""

    def __init__(
        self,
        config: RunConfig,
        machine: Machine,
        states: States,
        state: "Any" = None,
        base: "Any" = None,
        attend: "Callable[[], Awaitable[None]] | None" = None,
    ) -> None:
        """`state` is what it begins with, of all that is trained; without one, start values are drawn. `base` are the
        weights that adapters are trained on. `attend` is called between two blocks of steps."""
        if state is not None:
            states.check(state, config)
        self.name = machine.name
        self.machine = machine
        self.memory = PlannedMemory(config, machine, states, state, base)
        self.texts = Texts(self.memory)
        self.attend = attend
        self.step = getattr(state, "step", 0)  # the last step that was asked for
        self.read = self.step  # the last whose metrics are read, or begun to be
        self.begun: list[Any] = []  # (the step before a block's first, its last, what the player knows its reading by)
        self.known = self.step  # the last whose rates are in the table
        self.stopping = False

    @property
    def config(self) -> RunConfig:
        return self.memory.config

    @config.setter
    def config(self, config: RunConfig) -> None:
        self.memory.config = config

    @property
    def player(self) -> "Any":
        return self.memory.player

    @property
    def lowered(self) -> "Any":
        return self.memory.lowered

    @property
    def threads(self) -> "int | None":  # type: ignore[override]
        return self.memory.threads

    @property
    def software(self) -> bool:  # type: ignore[override]
        return self.memory.software

    def describe(self) -> str:
        return self.memory.describe()

    async def require(self, modes: list[str]) -> None:
        await self.memory.require(modes)

    # --- training --------------------------------------------------------------------------------------------

    async def load_corpus(self, train: "Any", val: "Any") -> None:
        self.memory.text_bytes = (len(train), len(val))
        if max(self.memory.text_bytes) > MAX_TEXT:
            raise TinyGPTError(
                f"the text has more than {MAX_TEXT:,} bytes, all that a program can count; use less of it"
            )
        modes = training_modes(self.config, len(val))
        before = [] if self.lowered is None else self.lowered.modes
        await self.memory.plan(modes + [mode for mode in before if mode not in modes])
        await self.write_text("train_text", train)
        if self.memory.has("val_text"):
            await self.write_text("val_text", val)
        await self.set_step(self.step)

    async def write_text(self, name: str, text: "Any") -> None:
        tensor = self.memory.tensor(name)
        await self.player.write(self.memory.lowered.places(tensor, 0, tensor.size), text)

    async def set_step(self, step: int) -> None:
        """So many steps are done."""
        self.step = self.read = self.known = step
        self.begun = []
        if self.memory.has("counters"):
            await self.memory.write_ints("counters", [step, 0, 0, 0])

    async def train(self, steps: int) -> int:
        self.stopping = False
        steps = min(steps, RING - (self.step - self.read))
        await self.write_rates(self.step + steps)
        done = await self.run_steps(steps)
        self.step += done
        if self.ahead and done:
            self.begun.append((self.read, self.step, self.player.begin_read(self.ring_places())))
            self.read = self.step
        return done

    @property
    def ahead(self) -> bool:  # type: ignore[override]
        return self.player is not None and bool(self.player.ahead)

    async def write_rates(self, last: int) -> None:
        """The rates up to a step, in the table where the steps will look for them."""
        train, rates_of = self.config.train, optimizer_of(self.config.train).rates_of
        while self.known < last:
            row = self.known % RING
            count = min(last - self.known, RING - row)
            steps = range(self.known + 1, self.known + count + 1)
            rates: list[float] = []
            for step in steps:
                rates += rates_of(train, step)
            await self.memory.write_floats("rates", rates, len(rates) // count * row)
            if train.average:
                await self.memory.write_floats("average_rates", [average_rate(train, step) for step in steps], row)
            if self.memory.has("ngram_rates"):
                await self.memory.write_floats("ngram_rates", [ngram_rate(train, step) for step in steps], row)
            self.known += count

    async def run_steps(self, steps: int) -> int:
        accumulated = self.config.train.grad_accum - 1
        if accumulated == 0:
            return int(await self.player.run("train", steps))
        for step in range(steps):
            whole = await self.player.run("gradient", 1) == 1 and not self.stopping
            whole = whole and await self.player.run("accumulate", accumulated) == accumulated and not self.stopping
            if not whole or await self.player.run("update", 1) != 1:
                await self.memory.write_ints("counters", [0], 1)  # what the step had of its batches is dropped
                return step
        return steps

    async def train_fed(self, windows: "list[bytes]") -> None:
        """A step on windows of ctx + 1 bytes that the host chose, a whole batch of them."""
        await self.require(["train_fed"])
        await self.write_rates(self.step + 1)
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
        return self.memory.places("ring", 2 * RING)

    async def validate(self, first: int, batches: int) -> int:
        if first == 0:
            await self.memory.write_ints("val_loss", [0])
            await self.memory.write_ints("counters", [0], 2)
        return int(await self.player.run("validate", batches))

    async def read_validation(self) -> float:
        return (await self.memory.read_floats("val_loss", 1))[0]

    def begin_validation(self) -> "Any":
        return self.player.begin_read(self.memory.places("val_loss", 1))

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
        await self.memory.write_ints("tokens", tokens)
        await self.memory.write_ints("targets", targets)

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
            left = await self.memory.read_words(name, kind, len(part) * ctx)
            rows += [left[row * ctx : (row + 1) * ctx] for row in range(len(part))]
        return rows

    # --- writing ---------------------------------------------------------------------------------------------

    async def make_room(self, texts: int) -> None:
        await self.texts.make_room(texts)

    async def begin_text(self, window: bytes, settings: "SampleConfig", first: int, stop: bytes, row: int = 0) -> bytes:
        return await self.texts.begin(window, settings, first, stop, row)

    async def continue_text(self, count: int) -> bytes:
        return await self.texts.continue_one(count)

    async def continue_texts(self, count: int) -> "list[bytes | None]":
        return await self.texts.continue_all(count)

    async def drop_text(self, row: int) -> None:
        await self.texts.drop(row)

    async def prefill(self, tokens: bytes) -> "list[float]":
        return await self.texts.prefill(tokens)

    async def decode(self, token: int) -> "list[float]":
        return await self.texts.decode(token)

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def slots(self) -> "tuple[str, ...]":
        """The vectors of a state beside its weights."""
        return slot_names(self.config.train)

    async def export_state(self) -> "Any":
        return await self.memory.states.save(self.memory, self.step)

    async def import_state(self, state: "Any") -> None:
        self.memory.states.check(state, self.config)
        if self.player is None:
            self.memory.hold(state)
        else:
            await self.memory.load(state)
        self.step = self.read = self.known = getattr(state, "step", 0)
        self.begun = []

    def file_places(self) -> "Places":
        """Of weights and slots, as a model file has them, then of n-gram tables."""
        return self.memory.state_places(*self.slots)

    async def restart(self, config: RunConfig | None = None) -> bool:
        if config is not None:
            if not self.serves(config):
                return False
            self.config = config
        if self.machine.starts:
            await self.require(["reset"])
            await self.player.run("reset", 1)
        else:
            await self.player.write(self.memory.vector_places("weights"), await self.machine.start_values(self.config))
            cleared = [self.memory.vector_places(name) for name in self.slots]
            for places in cleared + [self.memory.table_places([TABLES, SQUARES])]:
                if places:
                    await self.player.write(places, self.machine.zeros(sum([place[2] for place in places])))
        await self.memory.rejoin()
        await self.set_step(0)
        return True

    def serves(self, config: RunConfig) -> bool:
        """Whether what was planned is what these settings would have planned."""
        train, val_bytes = config.train, self.memory.text_bytes[1]
        same = self.config.replace(**{name: getattr(train, name) for name in UNPLANNED}) == config
        return same and validates(config, val_bytes) == validates(self.config, val_bytes)

    async def agree(self, flag: bool) -> bool:
        if self.attend is not None:
            await self.attend()
        return flag

    async def close(self) -> None:
        await self.memory.close()

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
