"""What the reader wrote, run on awkward shapes and held against the specification; and how long it takes."""

import json
from array import array

import numpy as np

from tinygpt.core.ops.gpu import Device
from tinygpt.core.plan.gpu.playbook import device_of
from tinygpt.core.tab.engine import TabPlayer
from tinygpt.kernels.spec import SPEC
from tinygpt.labs import bounds
from tinygpt.labs.comparison import told
from tinygpt.labs.rounding import SMALLEST
from tinygpt.labs.wgsl import entries, products, rows
from tinygpt.labs.wgsl.call import Call, Playbook
from tinygpt.labs.wgsl.lab import WATCHED, YOURS
from tinygpt.labs.wgsl.loops import ROUNDS, SAYS, declared, free_binding, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.core.engine.contract import Player
    from tinygpt.labs.wgsl.lab import KernelLab

LABS = entries.LABS + rows.LABS + products.LABS
TIMES = 10  # calls that are timed together,
TURNS = 6  # so many times, the first of which warms up,
LONGEST = 1.5  # unless that took more seconds: no turn is begun after so many


def lab_named(name: str) -> "KernelLab":
    return next(lab for lab in LABS if lab.name == name)


def bounds_of(call: Call) -> "dict[str, Any]":
    """Kernels without one round nothing."""
    of_kernel = getattr(bounds, call.kernel, None)
    return {} if of_kernel is None else of_kernel(**call.given)


class Endless(Exception):
    """A loop of the reader's did not end."""


class KernelCheck:
    """A lab's calls, one after the other."""

    def __init__(self, lab: "KernelLab", device: Device, source: str, frame: str) -> None:
        """A player is to find as watched.wgsl the frame with `lines` in it, and `declared` after all."""
        self.calls = [Call(lab, lab.cases[i][0], lab.cases[i][1], i) for i in range(len(lab.cases))]
        self.playbook = Playbook(device)
        self.lines, self.declared = watched(source, lab.has_barriers), ""
        if self.lines != source:
            self.playbook.watching = free_binding(frame)
            self.declared = declared(self.playbook.watching)
        for i in range(len(self.calls)):
            self.playbook.take(str(i), self.calls[i], {lab.file: WATCHED})

    async def compared(self, player: "Player", number: int) -> "list[dict[str, Any]]":
        """A comparison for each output of a call."""
        call, held = self.calls[number], self.playbook.places[str(number)]
        packed = [(held[tensor.name], call.packed(tensor)) for tensor in call.tensors()]
        await player.write([[place, 0, len(data)] for place, data in packed], b"".join([data for _, data in packed]))
        await player.run(str(number), 1)
        if SAYS in held and array("i", await player.read([[held[SAYS], 0, 4]]))[0]:
            raise Endless(f"a loop of yours did not end within {ROUNDS:,} rounds, where {in_words(call.sizes)}")
        wanted = {name: copied(call.given[name]) for name in call.given}
        SPEC[call.kernel](**wanted)
        off = bounds_of(call)
        found = []
        for name in call.op.declared.outputs:
            tensor = call.op.tensor(name)
            if tensor is None:
                continue
            data = await player.read([[held[name], 0, 4 * call.words(tensor)]])
            got, untouched = call.unpacked(tensor, data)
            bound = off.get(name, 0.0) + np.zeros(tensor.shape) + (SMALLEST if off else 0.0)
            row = told("the specification", name, call.sizes, got, wanted[name], bound, True)
            row["outside"] = not untouched
            row["right"] = row["right"] and untouched
            found.append(row)
        return found


def in_words(sizes: "dict[str, Any]") -> str:
    return ", ".join([f"{name} = {sizes[name]}" for name in sorted(sizes)])


def copied(value: "Any") -> "Any":
    return value.copy() if hasattr(value, "copy") else value


class KernelTiming:
    """Calls of a larger size, of the reader's kernel and of ours by turns."""

    def __init__(self, lab: "KernelLab", device: Device) -> None:
        call = Call(lab, lab.timed[0], lab.timed[1], 0, False)
        self.sizes = call.sizes
        self.playbook = Playbook(device)
        self.playbook.take("yours", call, {lab.file: YOURS}, TIMES)
        self.playbook.take("ours", call, {}, TIMES, "yours")

    async def measured(self, player: "Player", now: "Callable[[], float]") -> "dict[str, Any]":
        """Microseconds of a call, the least of some turns."""
        least: dict[str, float] = {}
        start = now()
        for number in range(TURNS):
            if number and now() - start > LONGEST:
                break
            for program in ("yours", "ours", ""):
                began = now()
                if program:
                    await player.run(program, 1)
                await player.read([[0, 0, 4]])
                spent = now() - began
                if number < 2 or spent < least[program]:
                    least[program] = spent
        micros = {name: 1e6 * max(0.0, least[name] - least[""]) / TIMES for name in ("yours", "ours")}
        return dict(micros, sizes=self.sizes)


class KernelRoom:
    """Both in a tab, whose worker has the player."""

    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.lab, self.device = lab_named(asked["lab"]), device_of(asked["device"])
        self.check = KernelCheck(self.lab, self.device, asked["source"], asked["frame"])
        self.player: Any = None

    def watched(self) -> str:
        """The reader's lines, and what goes behind the file."""
        return json.dumps([self.check.lines, self.check.declared])

    async def open(self, worker: "Any", playbook: Playbook) -> None:
        self.player = TabPlayer(await worker.open(json.dumps(playbook.data())), True)

    async def begin(self, worker: "Any") -> int:
        """Compiles its kernels; how many calls there are."""
        await self.open(worker, self.check.playbook)
        return len(self.check.calls)

    async def compared(self, number: int) -> str:
        try:
            return json.dumps(await self.check.compared(self.player, number))
        except Endless as error:
            return json.dumps({"error": str(error)})

    async def timed(self, worker: "Any") -> str:
        await self.player.close()
        timing = KernelTiming(self.lab, self.device)
        await self.open(worker, timing.playbook)
        return json.dumps(await timing.measured(self.player, worker.now))
