"""The linear kernels where blocking matters: off every tile, several blocks of k, few rows; and GELU's accuracy."""

import numpy as np
import pytest
from cases import assert_matches_spec, case_id, make_case
from harness import cpu_lanes, run_kernel

from tinygpt.kernels.linear import normal_cdf, normal_density

SHAPES = [
    {"N": 1, "O": 300, "I": 1001},
    {"N": 15, "O": 17, "I": 385},
    {"N": 16, "O": 64, "I": 33},
    {"N": 19, "O": 500, "I": 900},
    {"N": 50, "O": 70, "I": 1153},
    {"N": 97, "O": 1031, "I": 21},
    {"N": 385, "O": 47, "I": 95},
    {"N": 1025, "O": 31, "I": 129},
]
BLOCKED = [
    (kernel, shape | ({"accumulate": i % 2} if kernel == "linear_backward_weight" else {}))
    for kernel in ("linear", "linear_gelu", "linear_backward_input", "linear_backward_weight")
    for i, shape in enumerate(SHAPES)
]


@pytest.mark.parametrize("lanes", cpu_lanes())
@pytest.mark.parametrize("kernel, dims", BLOCKED, ids=case_id)
def test_blocked_shapes_equal_the_specification_with_any_team(kernel, dims, lanes):
    case = make_case(kernel, dims, dtype=np.float32)
    alone = run_kernel(kernel, case, lanes)
    assert_matches_spec(kernel, dims, alone)
    for threads in (2, 3):
        together = run_kernel(kernel, case, lanes, threads)
        for name, output in alone.items():
            assert output.tobytes() == together[name].tobytes(), f"{name} with {threads} threads"


def gelu_of(h: np.ndarray, lanes: int) -> dict[str, np.ndarray]:
    """linear_gelu with a single weight of 1 and no bias: h goes through as it is."""
    one, unset = np.ones((1, 1), np.float32), np.full((h.size, 1), np.nan, np.float32)
    case = {"x": h[:, None], "weight": one, "bias": np.zeros(1, np.float32), "y": unset, "slope": unset}
    outputs = run_kernel("linear_gelu", case | {"N": h.size, "O": 1, "I": 1}, lanes)
    return {name: output[:, 0] for name, output in outputs.items()}


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_gelu_keeps_its_relative_accuracy_into_the_tail(lanes):
    h = np.concatenate([np.linspace(-12.99, 12.99, 4001), np.geomspace(1e-30, 1, 200), -np.geomspace(1e-30, 1, 200)])
    h = h.astype(np.float32)
    got = gelu_of(h, lanes)
    exact = h.astype(np.float64)
    value = exact * normal_cdf(exact)
    slope = normal_cdf(exact) + exact * normal_density(exact)
    ulp = np.spacing(np.abs(value).astype(np.float32)).astype(np.float64)
    assert (np.abs(got["y"] - value) / ulp).max() <= 7  # some fourteen roundings of half an ulp
    assert np.abs(got["slope"] - slope).max() <= 2.0**-22  # two ulp of its largest value, 1.13


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_gelu_at_the_ends(lanes):
    got = gelu_of(np.array([np.nan, np.inf, 1e30, 0.0, -13.0, -50.0, -1e30], np.float32), lanes)
    np.testing.assert_array_equal(got["y"], np.array([np.nan, np.inf, 1e30, 0, 0, 0, 0], np.float32))
    np.testing.assert_array_equal(got["slope"][2:], np.array([1, 0.5, 0, 0, 0], np.float32))
