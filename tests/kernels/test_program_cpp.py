"""Programs on the native player: each op keeps to its own tensors where the plan put them, and a stop is heard."""

import numpy as np
import pytest
from harness_cpp import AlignedArena, cpu_lanes, poisoned, replay

from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import Op
from tinygpt.core.presets import preset
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.sampler import generate
from tinygpt.core.run.validation import validate
from tinygpt.engines.base import TerminalEngine
from tinygpt.engines.native import STOP, NativeMachine, NativePlayer


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
        plan = self.lowered.plan
        for tensor in op.reads():
            start = plan.start(mode, tensor)
            foreign[start : start + tensor.size] = False
        writes = [(plan.start(mode, tensor), tensor.size) for tensor in op.writes()]
        if op.scratch_floats():
            writes.append((plan.starts[mode][f"scratch.{index}"], op.scratch_floats()))
        for start, size in writes:
            foreign[start : start + size] = kept[start : start + size] = False
        return foreign, kept


@pytest.mark.parametrize("lanes", cpu_lanes())
@pytest.mark.parametrize("grad_accum, threads", [(1, 1), (2, 2), (1, 3)])
def test_every_op_keeps_to_its_tensors(grad_accum, threads, lanes):
    sizes = {"layers": 2, "d_model": 30, "heads": 3, "ctx": 37, "batch": 3, "eval_batches": 2}
    config = preset("tiny").replace(**sizes, grad_accum=grad_accum)
    engine = TerminalEngine(config, WatchedMachine(threads, lanes))
    losses = [metrics.loss for metrics in Run(config, engine).advance(2)]
    losses.append(run_now(validate(engine)))
    losses += run_now(engine.window_losses([b"To be", b"or no", b"t to ", b"be..."]))[3]
    assert all(0 < loss < 7 for loss in losses)
    assert len(run_now(generate(engine, config.model.ctx, b"To be", SampleConfig(tokens=5)))) == 5
    run_now(engine.close())


# Four ops that count, of which number 1 raises the stop: the words that the team shares lie in the arena as well.
LENGTH = 5


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "committed, counted, done",
    [
        (0, [1, 1, 1], 1),  # too late for this turn: it is the last
        (1, [1, 1, 1], 1),
        (2, [1, 0, 0], 0),  # heard just before what would be kept
        (3, [1, 0, 0], 0),
        (4, [1, 0, 0], 0),
    ],
)
def test_a_run_that_is_stopped_is_done_whole_or_left(committed, counted, done, threads):
    arena = AlignedArena(1024)
    counters, shared_line = arena.put(np.zeros(4, np.int32)), arena.put(np.zeros(32, np.int32))
    shared = arena.floats.view(np.int32)[16 * shared_line :]
    count = KERNEL_NAMES.index("count")
    targets = [(counters, 0), (shared_line, STOP), (counters, 1), (counters, 2)]
    words = [word for line, which in targets for word in (count, LENGTH, line, -1, which)]
    got = replay(cpu_lanes()[0], arena.floats, words, threads, 3, LENGTH * committed, shared)
    assert got == done
    assert arena.get(counters, np.zeros(4, np.int32)).tolist() == [*counted, 0]
    arena.check_guards()
