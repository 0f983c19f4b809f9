"""Every engine but PyTorch's: a model's programs on a player. Whatever has a meaning is said here, once.

A step needs nothing from its host. The texts, the counters, the rates of the steps to come and the ring of losses lie
beside the weights, so the host asks for a block of steps, or of bytes, and reads what they left.
"""

import struct

from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.corpus import validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.programs import WRITING, training_modes, with_start
from tinygpt.core.ops.op import Tensor, float_bits, signed
from tinygpt.core.ops.record import RING
from tinygpt.core.ops.sample import (
    CHOICE_WORDS,
    FIRST,
    NO_NUMBER,
    OVER,
    SEED,
    STOP,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    WRITTEN,
)
from tinygpt.core.optimizers import LIVE, check_slots, optimizer_of, slot_names
from tinygpt.core.run.contract import Engine, Player, StepMetrics
from tinygpt.core.run.sampler import NOT_FINITE, NotFinite
from tinygpt.core.run.schedule import average_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.run.contract import Places

MAX_TEXT = 2**31 - 1
# Settings of which no program knows: rates come from the host's table, and the rest is the loop's.
OF_THE_LOOP = ("steps", "patience", "eval_every", "sample_every", "checkpoint_every", "keep_every")
UNPLANNED = OF_THE_LOOP + ("lr", "schedule", "warmup", "min_lr", "matrix_lr", "weight_decay")


class Machine:
    """What can plan programs for a device and open players there."""

    name = "machine"
    starts = "init"  # the program that makes start values; where there is none, `start_values` has them

    def lower(self, config: RunConfig, modes: list[str], train_bytes: int, val_bytes: int) -> "Any":
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


class ProgramEngine(Engine):
    """Memory is taken when it is known for what: by `load_corpus`, or by the first use."""

    def __init__(self, config: RunConfig, machine: Machine, state: "Any" = None) -> None:
        """`state` is what the model begins with; without one, start values are drawn."""
        if state is not None:
            self.check_state(state, config)
        self.config = config
        self.machine = machine
        self.name = machine.name
        self.state = state  # not yet in the player
        self.description = ""  # of the player that was closed
        self.lowered: Any = None
        self.player: Any = None  # a Player, once it is known for what
        self.text_bytes = (0, 0)
        self.step = 0  # of the steps asked for, the last
        self.read = 0  # of those whose metrics are read
        self.known = 0  # of those whose rates are in the table
        self.cached = 0  # rows of the KV cache that are filled
        self.drawn = 0  # bytes of the text that were taken from the player
        self.stopping = False

    def describe(self) -> str:
        if self.player is not None:
            return str(self.player.describe())
        return self.description or self.machine.describe()

    # --- memory ----------------------------------------------------------------------------------------------

    async def require(self, modes: list[str]) -> None:
        """Have these programs planned, on top of what is there."""
        missing = [mode for mode in modes if self.lowered is None or mode not in self.lowered.modes]
        if missing or self.player is None:
            await self.plan((self.lowered.modes if self.lowered is not None else []) + missing)

    async def plan(self, modes: list[str]) -> None:
        """Take memory for these programs; what lived in the memory before lives on."""
        modes = with_start(self.config, modes)
        begins = self.player is None and self.state is None
        if begins and self.machine.starts and self.machine.starts not in modes:
            modes = modes + [self.machine.starts]
        lowered = self.machine.lower(self.config, modes, self.text_bytes[0], self.text_bytes[1])
        player = await self.machine.open(lowered)
        before, self.lowered, self.player = (self.lowered, self.player), lowered, player
        self.threads, self.software = player.threads, player.software
        try:
            if before[1] is not None:
                await self.take_over(before[0], before[1])
                if LIVE not in [tensor.name for tensor in before[0].tensors]:
                    await self.rejoin()
            elif self.state is not None:
                state, self.state = self.state, None
                await self.import_state(state)
            else:
                await self.start(player)
        except BaseException:
            await player.close()
            self.lowered, self.player = before
            raise
        if before[1] is not None:
            await before[1].close()

    async def start(self, player: Player) -> None:
        """Start values, in memory that is all zeros."""
        if self.machine.starts:
            await player.run(self.machine.starts, 1)
        else:
            await player.write(self.vector_places("weights"), await self.machine.start_values(self.config))
        await self.rejoin()

    async def rejoin(self) -> None:
        """Where weights are averages: the steps to come begin with the weights that are there."""
        if "rejoin" in self.lowered.modes:
            await self.player.run("rejoin", 1)

    async def take_over(self, lowered: "Any", player: Player) -> None:
        """What outlives a run, from the player before this one."""
        for tensor in lowered.tensors:
            if tensor.size and self.has(tensor.name) and self.tensor(tensor.name).shape == tensor.shape:
                data = await player.read(lowered.places(tensor, 0, tensor.size))
                await self.player.write(self.lowered.places(self.tensor(tensor.name), 0, tensor.size), data)

    def tensor(self, name: str) -> Tensor:
        for tensor in self.lowered.tensors:
            if tensor.name == name:
                return tensor  # type: ignore[no-any-return]
        raise TinyGPTError(f"no program that was planned has {name}; this is a bug")

    def has(self, name: str) -> bool:
        return self.lowered is not None and name in [tensor.name for tensor in self.lowered.tensors]

    async def write(self, name: str, data: "Any", start: int = 0) -> None:
        """Whole words of a small tensor."""
        await self.player.write(self.lowered.places(self.tensor(name), start, len(data) // 4), data)

    async def write_ints(self, name: str, values: "list[int]", start: int = 0) -> None:
        await self.write(name, struct.pack(f"<{len(values)}i", *values), start)

    async def read_words(self, name: str, kind: str, count: int) -> "tuple[Any, ...]":
        """The first words of a tensor, as struct's `kind`."""
        places = self.lowered.places(self.tensor(name), 0, count)
        return struct.unpack(f"<{count}{kind}", await self.player.read(places))

    async def read_floats(self, name: str, count: int) -> "tuple[float, ...]":
        return await self.read_words(name, "f", count)

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
        if self.has("counters"):
            await self.write_ints("counters", [step, 0, 0, 0])

    async def train(self, steps: int) -> int:
        self.stopping = False
        steps = min(steps, RING - (self.step - self.read))
        await self.table_rates(self.step + steps)
        done = await self.run_steps(steps)
        self.step += done
        return done

    async def table_rates(self, last: int) -> None:
        """The rates up to a step, in the table where the steps will look for them."""
        optimizer = optimizer_of(self.config.train)
        while self.known < last:
            row = self.known % RING
            count = min(last - self.known, RING - row)
            words: list[int] = []
            for step in range(self.known + 1, self.known + count + 1):
                words += [float_bits(rate) for rate in optimizer.rates_of(self.config.train, step)]
            await self.write_ints("rates", words, len(optimizer.rates) * row)
            if self.config.train.average:
                steps = range(self.known + 1, self.known + count + 1)
                shares = [float_bits(average_rate(self.config.train, step)) for step in steps]
                await self.write_ints("average_rates", shares, row)
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

    async def read_metrics(self) -> "list[StepMetrics]":
        if self.step == self.read:
            return []
        ring = await self.read_floats("ring", 2 * RING)
        rows = [(step, 2 * ((step - 1) % RING)) for step in range(self.read + 1, self.step + 1)]
        self.read = self.step
        return [StepMetrics(step, ring[at], ring[at + 1]) for step, at in rows]

    async def validate(self, first: int, batches: int) -> int:
        if first == 0:
            await self.write_ints("val_loss", [0])
            await self.write_ints("counters", [0], 2)
        return int(await self.player.run("validate", batches))

    async def read_validation(self) -> float:
        return (await self.read_floats("val_loss", 1))[0]

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
        count = parameter_count(config.model)
        if len(state.w) != count:
            raise TinyGPTError(f"the state has {len(state.w):,} parameters, but this model has {count:,}")
        check_slots(config.train, list(state.slots))

    def file_places(self) -> "Places":
        """Of weights and slots, as a model file has them."""
        return self.vector_places("weights", *self.slots)

    def vector_places(self, *names: str) -> "Places":
        """Of vectors over all parameters, in the order of the model file: of each parameter one after the other."""
        vectors = [self.tensor(name) for name in names]
        places: Places = []
        for move in sorted(self.lowered.memory.layout.moves, key=lambda move: move.offset):
            for vector in vectors:
                places += self.lowered.places(vector, move.start, move.size)
        return places

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
                count = parameter_count(self.config.model)
                await self.player.write(self.vector_places(name), self.machine.zeros(4 * count))
        await self.rejoin()
        await self.set_step(0)
        return True

    def serves(self, config: RunConfig) -> bool:
        """Whether what was planned is what these settings would have planned."""
        train, val_bytes = config.train, self.text_bytes[1]
        same = self.config.replace(**{name: getattr(train, name) for name in UNPLANNED}) == config
        return same and validates(config, val_bytes) == validates(self.config, val_bytes)

    async def export_state(self) -> "Any":
        raise NotImplementedError

    async def import_state(self, state: "Any") -> None:
        raise NotImplementedError

    # --- writing ---------------------------------------------------------------------------------------------

    async def begin_text(self, window: bytes, settings: SampleConfig, first: int, stop: bytes) -> bytes:
        await self.read_prompt(window, settings, first, stop)
        return await self.new_bytes()

    async def read_prompt(self, window: bytes, settings: SampleConfig, first: int, stop: bytes) -> None:
        ctx = self.config.model.ctx
        if not 1 <= len(window) <= ctx:
            raise TinyGPTError(f"a prompt must have 1 to {ctx} bytes, not {len(window)}")
        await self.require(WRITING)
        await self.write_ints("prompt", list(window) + [0] * (ctx - len(window)))
        await self.write_ints("choice", choice_words(settings, first, stop))
        await self.start_at(len(window) - 1)
        await self.player.run("prefill", 1)
        self.cached = len(window)

    async def start_at(self, position: int) -> None:
        await self.write_ints("position", [position])
        await self.write_ints("cursor", [0, 0])
        self.drawn = 0

    async def continue_text(self, count: int) -> bytes:
        done = await self.player.run("decode", min(count, self.config.model.ctx - self.cached))
        self.cached += done
        return await self.new_bytes()

    async def new_bytes(self) -> bytes:
        """What was drawn since the last call."""
        cursor, written = self.tensor("cursor"), self.tensor("written")
        places = self.lowered.places(cursor, 0, cursor.size) + self.lowered.places(written, 0, written.size)
        words = struct.unpack(f"<{cursor.size + written.size}i", await self.player.read(places))
        before, self.drawn = self.drawn, words[WRITTEN]
        if words[OVER] == NO_NUMBER:
            raise NotFinite(NOT_FINITE)
        return bytes([words[cursor.size + place % written.size] for place in range(before, self.drawn)])

    async def prefill(self, tokens: bytes) -> "list[float]":
        await self.read_prompt(tokens, SampleConfig(temperature=0.0), 0, b"")
        return list(await self.read_floats("next_logits", 256))

    async def decode(self, token: int) -> "list[float]":
        if not 0 <= token < 256:
            raise TinyGPTError(f"a token must be a byte, 0 to 255, not {token}")
        if self.cached >= self.config.model.ctx:
            raise TinyGPTError(f"the context of {self.config.model.ctx} bytes is full; prefill again")
        await self.write_ints("token", [token])
        await self.start_at(self.cached)
        await self.player.run("decode", 1)
        self.cached += 1
        return list(await self.read_floats("next_logits", 256))

    # --- the rest --------------------------------------------------------------------------------------------

    async def clock(self, mode: str) -> "list[Any]":
        """Each op of a program with its seconds."""
        await self.require([mode])
        return self.lowered.op_times(mode, await self.player.clock(mode))  # type: ignore[no-any-return]

    def stop(self) -> None:
        self.stopping = True  # between two runs of a step too
        if self.player is not None:
            self.player.stop()

    async def close(self) -> None:
        if self.player is not None:
            self.description = self.describe()
            await self.player.close()
            self.player = None
        self.machine.close()


def choice_words(settings: SampleConfig, first: int, stop: bytes) -> "list[int]":
    """How bytes are to be drawn, as the kernel `sample` takes it."""
    words = [0] * CHOICE_WORDS
    words[SEED] = settings.seed
    words[FIRST] = first
    words[TEMPERATURE] = float_bits(settings.temperature)
    words[TOP_P] = float_bits(settings.top_p)
    words[TOP_K] = settings.top_k
    for byte in stop:
        words[STOP + byte // 32] |= 1 << (byte % 32)
    return [signed(word) for word in words]
