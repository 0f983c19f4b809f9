"""Core's own engine over a player that JavaScript holds.

Small memory crosses as hexadecimal digits, which cost MicroPython a tenth of what numbers in JSON do; the corpus, the
weights and the file's bytes stay in JavaScript, and Python holds their handles.
"""

import gc
import json

from tinygpt.core.config import ModelConfig, RunConfig
from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.memory import PlannedMemory, States
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.models.memory import SQUARES, TABLES
from tinygpt.core.optimizers import slot_names
from tinygpt.core.plan.cpu.lowering import COMPACT, Lowered
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.playbook import device_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.engine.contract import Places


UNLESS_SAID = {"train_bytes": 0, "val_bytes": 0, "watched": (), "texts": 1, "compact": ""}  # as programs are planned
DEEPEST = 64  # layers: planning takes their square, and in a tab already half a minute


def check_depth(model: ModelConfig) -> None:
    if model.layers > DEEPEST:
        raise TinyGPTError(
            f"this model has {model.layers:,} layers, and a tab plans at most {DEEPEST}; "
            f"use the terminal, as by: tinygpt sample FILE"
        )


class Held:
    """So many bytes that JavaScript holds."""

    def __init__(self, handle: "Any", size: int) -> None:
        self.handle = handle
        self.size = size

    def __len__(self) -> int:
        return self.size


class TabState:
    """A model's state outside of its player: weights and slots as a model file has them.

    One that is not `whole` has zeros for its slots: it began as weights alone. With a `dtype` it is weights alone, as a
    file in that keeps them.
    """

    def __init__(self, step: int, held: Held, whole: bool = True, dtype: str = "") -> None:
        self.dtype = dtype
        self.step = step
        self.held = held
        self.whole = whole


class TabPlayer(Player):
    def __init__(self, bridge: "Any", ahead: bool) -> None:
        self.bridge = bridge
        self.ahead = ahead
        self.threads = int(bridge.threads())

    def describe(self) -> str:
        return str(self.bridge.describe())

    async def write(self, places: "Places", data: "Any") -> None:
        if isinstance(data, Held):
            await self.bridge.put(json.dumps(places), data.handle)
        else:
            await self.bridge.write(json.dumps(places), data.hex())

    async def read(self, places: "Places") -> bytes:
        return await self.end_read(self.begin_read(places))

    def begin_read(self, places: "Places") -> "Any":
        return self.bridge.read(json.dumps(places))

    async def end_read(self, begun: "Any") -> bytes:
        return bytes.fromhex(await begun)

    async def run(self, mode: str, times: int) -> int:
        return int(await self.bridge.run(mode, times))

    async def close(self) -> None:
        self.bridge.close()


class TabMachine(Machine):
    """Plans for WebAssembly, or for the GPU whose facts it is given."""

    def __init__(self, device: "dict[str, Any] | None", keeps_slots: bool = True) -> None:
        """`keeps_slots`: a model that only writes has memory for the optimizer's state, too: it may train later."""
        self.keeps_slots = keeps_slots
        self.name = "wasm" if device is None else "webgpu"
        self.starts = "reset" if device is None else ""
        self.compact = COMPACT if device is None else ()
        self.device = device
        self.worker: Any = None
        self.planned: Any = None  # what was asked for last, and its plan: the page sees it before memory is taken

    def lower(self, config: RunConfig, modes: list[str], **how: "Any") -> "Any":
        wanted = (config, modes, dict(UNLESS_SAID, **how))
        if self.planned is None or self.planned[0] != wanted:
            self.planned = (wanted, self.lowered(config, modes, wanted[2]))
        return self.planned[1]

    def lowered(self, config: RunConfig, modes: list[str], how: "dict[str, Any]") -> "Any":
        kept = () if how["compact"] or not self.keeps_slots else slot_names(config.train) + (SQUARES,)
        if self.device is None:
            return Lowered(config, modes, kept=kept, **how)
        device = device_of(self.device)
        device.f16 = False  # what the page trains, it trains in float32
        return GpuLowered(config, device, modes, kept=kept, **how)

    async def open(self, lowered: "Any") -> TabPlayer:
        playbook = json.dumps(lowered.playbook())
        lowered.let_go()
        self.planned = None
        gc.collect()  # the plan is most of what the heap ever holds
        return TabPlayer(await self.worker.open(playbook), ahead=self.device is not None)

    async def start_values(self, config: RunConfig) -> Held:
        """Drawn by WebAssembly."""
        lowered = Lowered(config, ["init"])
        places = json.dumps(lowered.file_places([lowered.memory.weights]))
        drawn = await self.worker.startValues(json.dumps(lowered.playbook()), places)
        return Held(drawn, 4 * trained_count(config))

    def zeros(self, size: int) -> Held:
        return Held(self.worker.zeros(size), size)


class HeldStates(States):
    """States stay in JavaScript. The file's reader, or the run before, has checked them."""

    async def save(self, memory: PlannedMemory, step: int) -> "TabState | None":
        """None where the worker could not keep it."""
        await memory.unpack()
        places = memory.state_places(*slot_names(memory.config.train))
        handle = await memory.player.bridge.take(json.dumps(places))
        return None if handle is None else TabState(step, Held(handle, sum([place[2] for place in places])))

    async def load(self, memory: PlannedMemory, state: TabState) -> None:
        if state.dtype:
            await memory.player.write(memory.lowered.compact_places() + memory.table_places([TABLES]), state.held)
            return
        await memory.player.write(memory.state_places(*slot_names(memory.config.train)), state.held)
        if not state.whole:
            await memory.rejoin()

    async def load_base(self, memory: PlannedMemory, base: Held) -> None:
        await memory.player.write(memory.base_places(), base)

    async def carry(self, player: "Any", places: "Places") -> Held:
        handle = await player.bridge.take(json.dumps(places))
        if handle is None:
            raise TinyGPTError("there is no memory to have its weights as floats")
        return Held(handle, sum([place[2] for place in places]))


def tab_engine(
    config: RunConfig, machine: TabMachine, state: "TabState | None", session: "Any" = None, base: "Held | None" = None
) -> ProgramEngine:
    """`session` attends to what the page asks for between two blocks; a model that is only tried has none."""
    attend = None if session is None else session.attend
    return ProgramEngine(config, machine, HeldStates(), state, base, attend)
