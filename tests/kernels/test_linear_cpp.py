"""The linear kernels where blocking matters: off every tile, several blocks of k, few rows; and GELU's accuracy."""

import numpy as np
import pytest
from cases import assert_matches_spec, case_id, make_case
from harness import cpu_lanes, run_kernel

from tinygpt.core.ops.linear import GELU, RELU2
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
MORE = {"linear_activation": "kind", "linear_backward_weight": "accumulate"}  # dims of 0 or 1
BLOCKED = [
    (kernel, shape | ({MORE[kernel]: i % 2} if kernel in MORE else {}))
    for kernel in ("linear", "linear_activation", "linear_backward_input", "linear_backward_weight")
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


def activated(h: np.ndarray, kind: int, lanes: int) -> dict[str, np.ndarray]:
    """linear_activation with a single weight of 1 and no bias: h goes through as it is."""
    one, unset = np.ones((1, 1), np.float32), np.full((h.size, 1), np.nan, np.float32)
    case = {"x": h[:, None], "weight": one, "bias": None, "y": unset, "slope": unset}
    outputs = run_kernel("linear_activation", case | {"N": h.size, "O": 1, "I": 1, "kind": kind}, lanes)
    return {name: output[:, 0] for name, output in outputs.items()}


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_gelu_keeps_its_relative_accuracy_into_the_tail(lanes):
    h = np.concatenate([np.linspace(-12.99, 12.99, 4001), np.geomspace(1e-30, 1, 200), -np.geomspace(1e-30, 1, 200)])
    h = h.astype(np.float32)
    got = activated(h, GELU, lanes)
    exact = h.astype(np.float64)
    value = exact * normal_cdf(exact)
    slope = normal_cdf(exact) + exact * normal_density(exact)
    ulp = np.spacing(np.abs(value).astype(np.float32)).astype(np.float64)
    assert (np.abs(got["y"] - value) / ulp).max() <= 7  # some fourteen roundings of half an ulp
    assert np.abs(got["slope"] - slope).max() <= 2.0**-22  # two ulp of its largest value, 1.13


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_gelu_at_the_ends(lanes):
    got = activated(np.array([np.nan, np.inf, 1e30, 0.0, -13.0, -50.0, -1e30], np.float32), GELU, lanes)
    np.testing.assert_array_equal(got["y"], np.array([np.nan, np.inf, 1e30, 0, 0, 0, 0], np.float32))
    np.testing.assert_array_equal(got["slope"][2:], np.array([1, 0.5, 0, 0, 0], np.float32))


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_squared_relu_is_rounded_once(lanes):
    h = np.array([np.nan, np.inf, 1.1, 3e-20, 0.0, -0.0, -1e-30, -2.0, -np.inf], np.float32)
    got = activated(h, RELU2, lanes)
    np.testing.assert_array_equal(got["y"], np.maximum(h, 0) ** 2)
    np.testing.assert_array_equal(got["slope"], 2 * np.maximum(h, 0))
