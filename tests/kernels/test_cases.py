"""The specification in float32 stays within the error bounds of itself in float64, and the bounds mean something."""

import numpy as np
import pytest
from cases import ALL_CASES, CASES, assert_matches_spec, case_id, is_float, make_case, run_spec
from error_bounds import EXACT, error_bound

from tinygpt.core.ops import KERNEL_NAMES


def test_every_kernel_has_cases():
    assert sorted(CASES) == KERNEL_NAMES


@pytest.mark.parametrize("kernel, dims", ALL_CASES, ids=case_id)
def test_the_spec_in_float32_is_within_its_bounds(kernel, dims):
    case = make_case(kernel, dims, dtype=np.float32)
    outputs = run_spec(kernel, case)
    assert all(output.dtype == np.float32 for output in outputs.values() if is_float(output))
    assert_matches_spec(kernel, dims, outputs)


@pytest.mark.parametrize("kernel, dims", ALL_CASES, ids=case_id)
def test_bounds_are_tight_enough_to_see_a_mistake(kernel, dims):
    """A bound is far below the numbers it guards: an error of a thousandth of their size does not pass."""
    case = make_case(kernel, dims)
    expected = run_spec(kernel, case)
    for name, bound in error_bound(kernel, case).items():
        size = np.nanmax(np.abs(expected[name]))
        assert np.nanmax(bound) <= 1e-3 * size or size == 0, name  # 0: all cancels, where C or V is 1
        if kernel not in EXACT and not name.startswith("cache"):
            assert (bound[~np.isnan(expected[name])] > 0).all()


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_one_wrong_entry_is_found(kernel):
    dims = CASES[kernel][-1]
    outputs = run_spec(kernel, make_case(kernel, dims, dtype=np.float32))
    name = sorted(outputs)[0]
    flat = outputs[name].reshape(-1)
    entry = np.flatnonzero(~np.isnan(flat))[-1]
    for wrong in (
        (flat[entry] + max(1e-3, 0.01 * np.nanmax(np.abs(flat))), np.nan) if is_float(flat) else [flat[entry] + 1]
    ):
        flat[entry] = wrong
        with pytest.raises(AssertionError, match=kernel):
            assert_matches_spec(kernel, dims, outputs)
