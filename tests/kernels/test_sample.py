"""The next byte, in C++ and WGSL as in the specification: many draws, ties, stop bytes, logits that are no numbers."""

import functools
import math

import pytest
from harness import cpu_lanes, run_kernel
from sampling import SETTINGS, check_draws, check_no_numbers, check_stop, check_ties, run_spec_often

from tinygpt.core.ops.gpu import Device


def in_wgsl(case, times):
    harness_wgsl = pytest.importorskip("harness_wgsl")
    return harness_wgsl.run_kernel("sample", case, Device(), times=times)


def in_cpp(lanes, case, times):
    return run_kernel("sample", case, lanes, threads=2, times=times)


RUNS = {"spec": run_spec_often, "wgsl": in_wgsl}
RUNS |= {f"cpp-{lanes}": functools.partial(in_cpp, lanes) for lanes in cpu_lanes()}
on_every_engine = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


@on_every_engine
@pytest.mark.parametrize("given", SETTINGS, ids=str)
def test_draws_are_the_specifications(run, given):
    check_draws(run, given)


@on_every_engine
def test_ties_go_to_the_lower_byte(run):
    check_ties(run)


@on_every_engine
def test_a_stop_byte_ends_a_text_for_good(run):
    check_stop(run)


@on_every_engine
@pytest.mark.parametrize("bad, place", [(math.nan, 0), (math.inf, 255), (-math.inf, 100), (math.nan, slice(None))])
def test_logits_that_are_no_numbers_are_told(run, bad, place):
    check_no_numbers(run, bad, place)
