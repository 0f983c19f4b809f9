"""Programs on the native player: each op keeps to its own tensors where the plan put them, and a stop is heard."""

import numpy as np
import pytest
from harness_cpp import AlignedArena, cpu_lanes, replay
from watched import WatchedMachine

from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.plan.cpu.lowering import STOP_WORD, TEAM_WORDS
from tinygpt.core.presets import preset
from tinygpt.core.train.validation import validate
from tinygpt.core.write.sampler import generate
from tinygpt.engines.base import terminal_engine


@pytest.mark.parametrize("lanes", cpu_lanes())
@pytest.mark.parametrize("grad_accum, threads", [(1, 1), (2, 2), (1, 3)])
def test_every_op_keeps_to_its_tensors(grad_accum, threads, lanes):
    sizes = {"layers": 2, "d_model": 30, "heads": 3, "ctx": 37, "batch": 3, "eval_batches": 2}
    config = preset("tiny").replace(**sizes, grad_accum=grad_accum)
    engine = terminal_engine(config, WatchedMachine(threads, lanes))
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
    arena = AlignedArena(1024 + TEAM_WORDS)
    counters, shared_line = arena.put(np.zeros(4, np.int32)), arena.put(np.zeros(TEAM_WORDS, np.int32))
    shared = arena.floats.view(np.int32)[16 * shared_line :]
    count = KERNEL_NAMES.index("count")
    targets = [(counters, 0), (shared_line, STOP_WORD), (counters, 1), (counters, 2)]
    words = [word for line, which in targets for word in (count, LENGTH, line, -1, which)]
    got = replay(cpu_lanes()[0], arena.floats, words, threads, 3, LENGTH * committed, shared)
    assert got == done
    assert arena.get(counters, np.zeros(4, np.int32)).tolist() == [*counted, 0]
    arena.check_guards()
