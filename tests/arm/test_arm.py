"""NEON, which most of our users have: every kernel case and training runs, on an ARM machine or an emulated one."""

import re

import numpy as np
import pytest
from all_cases import CPP_CASES
from case_arena import CaseArena
from emulated import Arm, ArmMachine

from tinygpt.bench.workload import Run
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.native import native_engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SMALL = {"layers": 2, "d_model": 36, "heads": 3, "ctx": 24, "batch": 4}
DRIFT = 1e-3  # of the loss, as between any two engines


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return Arm(tmp_path_factory.mktemp("arm"))


def test_every_kernel_equals_the_specification_and_threads_do_not_change_a_bit(arm):
    cases = CaseArena(CPP_CASES)
    kept = set()
    for threads in (1, 2, 3):
        arena = arm.mapped("cases", cases.before)
        assert arm.play("cases", np.array(cases.words), 0, 1, threads) == 1
        cases.check(arena)
        kept.add(cases.kept(np.array(arena)))
    assert len(kept) == 1


def test_what_ran_are_fused_vector_instructions(arm):
    """As the emulator says of the code that it came by."""
    log = arm.folder / "log"
    cases = CaseArena([case for case in CPP_CASES if case[0] == "linear"])
    arm.mapped("cases", cases.before)
    arm.play("cases", np.array(cases.words), 0, 1, 1, "-d", "in_asm", "-D", str(log))
    assert len(re.findall(r"\bfmla\s+v\d+\.4s", log.read_text())) > 100


@pytest.mark.parametrize("options", [{}, {"optimizer": "muon", "norm": "rmsnorm", "positions": "rotary"}])
def test_training_begins_with_the_same_bytes_and_keeps_to_the_losses_of_this_machine(arm, options):
    config = preset("tiny").replace(**SMALL, **options)
    engines = [terminal_engine(config, ArmMachine(threads, arm)) for threads in (1, 3)] + [native_engine(config)]
    assert len({run_now(engine.export_state()).w.tobytes() for engine in engines}) == 1
    alone, together, here = ([step.loss for step in Run(config, engine).advance(50)] for engine in engines)
    assert alone == together
    assert max(abs(a - b) / b for a, b in zip(alone, here, strict=True)) < DRIFT
    assert alone[-1] < 0.9 * alone[0]
