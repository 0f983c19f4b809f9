"""An engine's memory: programs that are planned when they are asked for, on a player."""

import struct

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.layout import aligned
from tinygpt.core.models.memory import SQUARES, TABLES
from tinygpt.core.models.programs import READING, UNPACK, with_start
from tinygpt.core.ops.op import ALIGNMENT, Tensor
from tinygpt.core.optimizers import LIVE
from tinygpt.core.plan.programs import WATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.engine.contract import Places


class States:
    """How a model's state crosses between an engine's memory and its host: as NumPy arrays, or as JavaScript's."""

    def check(self, state: "Any", config: RunConfig) -> None:
        """Refuse the state of another model, or of another optimizer."""

    async def load(self, memory: "PlannedMemory", state: "Any") -> None:
        """Write it into the player's memory."""
        raise NotImplementedError

    async def load_base(self, memory: "PlannedMemory", base: "Any") -> None:
        """Write the weights that adapters are trained on into the player's memory."""
        raise NotImplementedError

    async def save(self, memory: "PlannedMemory", step: int) -> "Any":
        """The state after that step."""
        raise NotImplementedError

    async def carry(self, player: Player, places: "Places") -> "Any":
        """What is there, as another player's `write` takes it."""
        return await player.read(places)


class PlannedMemory:
    """An engine's memory: allocated when programs are asked for; what is in it survives when more programs are."""

    def __init__(self, config: RunConfig, machine: Machine, states: States, state: "Any", base: "Any") -> None:
        """`state` is what it begins with; without one, start values are drawn. `base` are the weights that adapters
        are trained on."""
        if (base is None) != (config.lora is None):
            raise TinyGPTError("adapters, and they alone, stand on weights that are given; this is a bug")
        self.config = config
        self.machine = machine
        self.states = states
        self.state, self.base = state, base  # not yet in the player
        self.description = ""  # of the player that was closed
        self.threads: int | None = None
        self.software = False
        self.lowered: Any = None
        self.player: Any = None  # a Player, once programs are planned
        self.text_bytes = (0, 0)
        self.watched: tuple[str, ...] = ()  # patterns of tensors that can be read after a run
        self.texts = 1  # that can be written at once
        self.without: tuple[str, ...] = ()  # passes that its programs do without
        self.compact = self.dtype_of(state)  # what weights are kept in, if not as floats

    def hold(self, state: "Any") -> None:
        """Begin with this state once there is a player."""
        self.state, self.compact = state, self.dtype_of(state)

    async def load(self, state: "Any") -> None:
        """Load a state into the player, and count its steps as done."""
        await self.states.load(self, state)
        if self.has("counters"):
            await self.write_ints("counters", [getattr(state, "step", 0), 0, 0, 0])

    def describe(self) -> str:
        if self.player is not None:
            described = str(self.player.describe())
        else:
            described = self.description or self.machine.describe()
        return described + (f", weights in {self.compact}" if self.compact else "")

    async def require(self, modes: list[str]) -> None:
        """Plan these programs too, if they are not planned yet."""
        missing = [mode for mode in modes if self.lowered is None or mode not in self.lowered.modes]
        if missing or self.player is None:
            await self.plan((self.lowered.modes if self.lowered is not None else []) + missing)

    async def plan(self, modes: list[str]) -> None:
        """Allocate memory for these programs; what is in the memory now survives."""
        modes = with_start(self.config, modes)
        compact = self.compact_for(modes)
        if self.is_compact() and not compact:
            await self.make_floats()
        await self.take_memory(modes, compact)

    async def take_memory(self, modes: list[str], compact: str) -> None:
        begins = self.player is None and self.state is None
        if begins and self.machine.starts and self.machine.starts not in modes:
            modes = modes + [self.machine.starts]
        train_bytes, val_bytes = self.text_bytes
        how = {"train_bytes": train_bytes, "val_bytes": val_bytes, "watched": self.watched, "texts": self.texts}
        lowered = self.machine.lower(self.config, modes, compact=compact, without=self.without, **how)
        player = await self.machine.open(lowered)
        before, self.lowered, self.player = (self.lowered, self.player), lowered, player
        self.threads, self.software = player.threads, player.software
        try:
            if self.base is not None:
                base, self.base = self.base, None
                await self.states.load_base(self, base)
            if before[1] is not None:
                await self.take_over(before[0], before[1])
                if LIVE not in [tensor.name for tensor in before[0].tensors]:
                    await self.rejoin()
            elif self.state is not None:
                state, self.state = self.state, None
                await self.load(state)
            else:
                await self.start(player)
        except BaseException:
            await player.close()
            self.lowered, self.player = before
            raise
        self.compact = compact
        if before[1] is not None:
            await before[1].close()

    def is_compact(self) -> bool:
        """Whether the player has weights as a compact file keeps them."""
        return self.player is not None and self.lowered.memory.compact is not None

    def dtype_of(self, state: "Any") -> str:
        """What the weights of a state are in, where programs can read them so."""
        dtype = getattr(state, "dtype", "")
        return dtype if dtype in self.machine.compact else ""

    def compact_for(self, modes: list[str]) -> str:
        """What such programs read weights in, if not as floats: the dtype that they came in, if all of them can."""
        return "" if [mode for mode in modes if mode not in READING] else self.compact

    async def unpack(self) -> None:
        """From here on weights are floats."""
        if self.is_compact():
            modes = self.lowered.modes
            await self.make_floats()
            await self.take_memory(modes, "")

    async def make_floats(self) -> None:
        """Unpack compact weights into floats beside them. The next memory takes over the floats only."""
        await self.take_memory(self.lowered.modes + [UNPACK], self.compact)
        await self.player.run(UNPACK, 1)
        self.compact = ""

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
                data = await self.states.carry(player, lowered.places(tensor, 0, tensor.size))
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

    async def write_floats(self, name: str, values: "list[float]", start: int = 0) -> None:
        await self.write(name, struct.pack(f"<{len(values)}f", *values), start)

    async def read_words(self, name: str, kind: str, count: int) -> "tuple[Any, ...]":
        """The first words of a tensor, as struct's `kind`."""
        return struct.unpack(f"<{count}{kind}", await self.player.read(self.places(name, count)))

    def places(self, name: str, count: int) -> "Places":
        """Of the first words of a tensor."""
        return self.lowered.places(self.tensor(name), 0, count)  # type: ignore[no-any-return]

    async def read_floats(self, name: str, count: int) -> "tuple[float, ...]":
        return await self.read_words(name, "f", count)

    def vector_places(self, *names: str) -> "Places":
        """Of vectors over all that is trained, or of the base, in the order of the model file."""
        places: Places = self.lowered.file_places([self.tensor(name) for name in names])
        return places

    def state_places(self, *slots: str) -> "Places":
        """Of the weights and these slots as a file has them; then of n-gram tables, all rows, and with slots what is
        kept of each row."""
        return self.vector_places("weights", *slots) + self.table_places([TABLES] + ([SQUARES] if slots else []))

    def base_places(self) -> "Places":
        """Of the weights that adapters are trained on, n-gram tables last."""
        return self.vector_places("base") + self.lowered_places(TABLES)

    def table_places(self, names: "list[str]") -> "Places":
        """Of what is trained; adapters have none of their own."""
        places: Places = []
        for name in names if self.config.lora is None else []:
            places += self.lowered_places(name)
        return places

    def lowered_places(self, name: str) -> "Places":
        """Of all of a tensor, if there is such."""
        return self.places(name, self.tensor(name).size) if self.has(name) else []

    async def watch(self, patterns: "tuple[str, ...]") -> None:
        """From now on what programs leave in such tensors can be read."""
        self.watched = patterns
        if self.lowered is not None:
            await self.plan(self.lowered.modes)

    async def read_tensor(self, name: str) -> "tuple[tuple[int, ...], bytes]":
        """The shape and the floats that the last run left in a tensor that is watched, in a parameter by its program's
        name ("blocks.0.attn.qkv.weight"), or in its gradient (a "d" before that)."""
        tensor, places, slices = self.readable(name)
        return tensor.shape, summed(await self.player.read(places), slices)[: 4 * tensor.size]

    def readable(self, name: str) -> "tuple[Tensor, Places, int]":
        """Such a tensor, where it lies, and in how many slices; what is read behind its end only fills a line."""
        if self.has(WATCH + name):
            kept = self.tensor(WATCH + name)
            return kept, self.places(kept.name, kept.size), 1
        memory = self.lowered.memory
        views = list(memory.weight.values()) + list(memory.live_weight.values()) + list(memory.grad.values())
        for view in views:
            if view.name == name and self.has(view.root().name):
                places = self.lowered.places(view.root(), view.start, aligned(view.size))
                return view, places, self.lowered.slices if view.kind == "grad" else 1
        raise TinyGPTError(f"{name} is no tensor of this program, or is not watched")

    async def clock(self, mode: str) -> "list[Any]":
        """Each op of a program with its seconds."""
        await self.require([mode])
        return self.lowered.op_times(mode, await self.player.clock(mode))  # type: ignore[no-any-return]

    async def close(self) -> None:
        if self.player is not None:
            self.description = self.describe()
            await self.player.close()
            self.player = None
        self.machine.close()


def summed(data: bytes, slices: int) -> bytes:
    """A gradient of its slices, which lie line by line (ops/gpu.py)."""
    if slices == 1:
        return data
    lines = []
    for first in range(0, len(data), 4 * ALIGNMENT * slices):
        parts = [struct.unpack_from(f"<{ALIGNMENT}f", data, first + 4 * ALIGNMENT * i) for i in range(slices)]
        lines.append(struct.pack(f"<{ALIGNMENT}f", *[sum(column) for column in zip(*parts)]))  # noqa: B905
    return b"".join(lines)
