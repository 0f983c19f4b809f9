"""Whole steps of the native engine, op by op: each keeps to its own tensors where the plan put them."""

import numpy as np
import pytest
from harness import cpu_lanes, poisoned

from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig, preset
from tinygpt.core.ops.op import Op
from tinygpt.core.sampler import generate
from tinygpt.core.trainer import run_now
from tinygpt.engines.native import NativeEngine


class WatchedEngine(NativeEngine):
    """Plays one op at a time and lets it read its tensors, write its outputs, and nothing else."""

    def run(self, mode):
        arena = np.frombuffer(self.arena, np.int32)
        words = self.words[mode]
        at = 0
        for index, op in enumerate(self.lowered.programs[mode].ops):
            before = arena.copy()
            foreign, kept = self.outside(mode, index, op)
            length = int(words[at + 1])
            with poisoned(self.address, foreign):
                self.play(words[at : at + length])
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
    config = preset("tiny").replace(layers=2, d_model=30, heads=3, ctx=37, batch=3, grad_accum=grad_accum)
    engine = WatchedEngine(config, threads=threads, lanes=lanes)
    losses = [metrics.loss for metrics in Run(config, engine).advance(2)]
    losses.append(run_now(engine.eval_loss([0, 5, 1000, 77])))
    assert all(0 < loss < 6 for loss in losses)
    assert len(run_now(generate(engine, config.model.ctx, b"To be", SampleConfig(tokens=5)))) > 0
    run_now(engine.close())
