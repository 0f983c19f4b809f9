"""The C++ kernels against the specification, for every width of vectors that this CPU runs."""

import numpy as np
import pytest
from cases import ALL_CASES, assert_matches_spec, case_id, make_case
from harness import cpu_lanes, run_kernel

LONG = [
    (kernel, {"B": 1, "T": T, "H": 1, "D": D})
    for kernel in ("attention", "attention_backward")
    for T, D in [(512, 32), (300, 20)]
]


@pytest.mark.parametrize("lanes", cpu_lanes())
@pytest.mark.parametrize("kernel, dims", ALL_CASES + LONG, ids=case_id)
def test_equals_the_specification(kernel, dims, lanes):
    outputs = run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), lanes)
    assert_matches_spec(kernel, dims, outputs)


@pytest.mark.parametrize("lanes", cpu_lanes())
@pytest.mark.parametrize("kernel, dims", ALL_CASES + LONG, ids=case_id)
def test_threads_do_not_change_a_bit(kernel, dims, lanes):
    case = make_case(kernel, dims, dtype=np.float32)
    alone = run_kernel(kernel, case, lanes)
    for threads in (2, 3):
        together = run_kernel(kernel, case, lanes, threads)
        for name, output in alone.items():
            assert output.tobytes() == together[name].tobytes(), f"{name} with {threads} threads"


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_gates_at_the_ends(lanes):
    gate_up = np.array([[np.nan, -1e30, -100, 0, 100, 1e30, *[1] * 6]], np.float32)
    unset = {"y": np.full((1, 6), np.nan, np.float32), "dgate_up": np.full((1, 12), np.nan, np.float32)}
    y = run_kernel("swiglu", {"gate_up": gate_up, "y": unset["y"], "N": 1, "F": 6}, lanes)["y"]
    np.testing.assert_array_equal(y, np.array([[np.nan, 0, 0, 0, 100, 1e30]], np.float32))
    backward = {"dy": np.ones((1, 6), np.float32), "gate_up": gate_up, "dgate_up": unset["dgate_up"], "N": 1, "F": 6}
    slopes = run_kernel("swiglu_backward", backward, lanes)["dgate_up"]
    np.testing.assert_array_equal(slopes, np.array([[np.nan, 0, 0, 0.5, 1, 1, *y[0]]], np.float32))
