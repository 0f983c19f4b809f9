"""A native player that lets each op touch its own tensors and nothing else."""

import numpy as np
from harness_cpp import poisoned

from tinygpt.core.ops.op import Op, Tensor
from tinygpt.engines.native import NativeMachine, NativePlayer


class WatchedMachine(NativeMachine):
    async def open(self, lowered):
        player = WatchedPlayer(lowered.playbook(), self.threads, self.lanes)
        player.lowered = lowered
        return player


class WatchedPlayer(NativePlayer):
    """Plays one op at a time and lets it read its tensors, write its outputs, and nothing else."""

    async def run(self, mode, times):
        for _ in range(times):
            self.run_watched(mode)
        return times

    def run_watched(self, mode: str) -> None:
        arena = self.memory.view(np.int32)
        words, _ = self.programs[mode]
        at = 0
        for index, op in enumerate(self.lowered.programs[mode].ops):
            before = arena.copy()
            foreign, kept = self.outside(mode, index, op)
            length = int(words[at + 1])
            with poisoned(self.memory.ctypes.data, foreign):
                assert self.play(words[at : at + length], length, 1) == 1
            changed = np.flatnonzero(kept & (arena != before))
            assert not changed.size, f"{mode} op {index}, {op.kernel}, wrote outside of its outputs: {changed[:8]}"
            at += length

    def outside(self, mode: str, index: int, op: Op) -> tuple[np.ndarray, np.ndarray]:
        """Which floats of the arena the op may not read, and which it may not write."""
        foreign, kept = np.ones((2, self.bytes // 4), bool)
        for tensor in op.reads():
            foreign[self.floats(mode, tensor)] = False
        writes = [self.floats(mode, tensor) for tensor in op.writes()]
        if op.scratch_floats():
            writes.append(self.floats(mode, Tensor(f"scratch.{index}", (op.scratch_floats(),))))
        for floats in writes:
            foreign[floats] = kept[floats] = False
        return foreign, kept

    def floats(self, mode: str, tensor: Tensor) -> np.ndarray:
        """A tensor's places in the arena, without what lies between its rows."""
        places = np.arange(tensor.size)
        if tensor.span() > tensor.size:
            places = np.add.outer(tensor.pitch * np.arange(tensor.shape[0]), np.arange(tensor.shape[1]))
        return self.lowered.plan.start(mode, tensor) + places
