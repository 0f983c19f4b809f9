"""The compiled modules, kernel by kernel, against the specification: every case, in one run of Node."""

import numpy as np
import pytest
from all_cases import ALL_CASES
from case_arena import CaseArena

MODULES = [("scalar", 1, False), ("simd", 1, False), ("relaxed", 1, False), ("relaxed", 3, False), ("simd", 2, True)]


def run(cases, runner, build, threads, force64):
    playbook = {"buffers": [cases.before.nbytes], "programs": {"all": {"words": cases.words, "commit": 0}}}
    opened, _ = runner.ask("open", playbook=playbook, build=build, threads=threads, force64=force64)
    player, places = opened["player"], [[0, 0, cases.before.nbytes]]
    runner.ask("write", cases.before.tobytes(), player=player, places=places)
    assert runner.ask("run", player=player, mode="all", times=1)[0]["done"] == 1
    after = runner.ask("read", player=player, places=places)[1]
    runner.ask("close", player=player)
    return np.frombuffer(after, np.float32)


@pytest.fixture(scope="module")
def cases():
    return CaseArena(ALL_CASES)


@pytest.mark.parametrize("build, threads, force64", MODULES)
def test_every_kernel_equals_the_specification(cases, node, build, threads, force64):
    cases.check(run(cases, node, build, threads, force64))


def test_threads_and_wide_addresses_do_not_change_a_bit(cases, node):
    modules = ((1, False), (2, False), (3, False), (2, True))
    assert len({cases.kept(run(cases, node, "relaxed", *module)) for module in modules}) == 1
