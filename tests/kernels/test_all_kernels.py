"""Every kernel that core/ops declares is specified and tested."""

from all_cases import TESTS

from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.kernels.spec import SPEC

ELSEWHERE = {"sample"}  # whose specification is core's own sampler: tests/core/test_sampler.py


def test_every_kernel_has_a_spec_and_cases():
    assert sorted(SPEC) == KERNEL_NAMES
    assert sorted(TESTS) == KERNEL_NAMES


def test_every_spec_is_held_against_something_else():
    held = {
        kernel
        for kernel, tests in TESTS.items()
        if tests.small_cases or getattr(tests, "test_spec_is_the_formula", None)
    }
    assert held == set(KERNEL_NAMES) - ELSEWHERE
