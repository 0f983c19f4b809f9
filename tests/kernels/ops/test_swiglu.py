import numpy as np
import pytest
import torch
from harness_cpp import cpu_lanes, run_kernel
from kernel_tests import KernelTests
from shapes import NC

from tinygpt.kernels.spec import SPEC
from tinygpt.labs import bounds

FILLS = {"gate_up": lambda normal, dims, random: 3 * normal}  # gates that are all but shut or open too


class TestSwiglu(KernelTests):
    kernel = "swiglu"
    bound = staticmethod(bounds.swiglu)
    cases = [{"N": N, "F": F} for N, F in NC]
    long_cases = [{"N": 100, "F": 100}]
    fills = FILLS

    def formula(self, *, gate_up, **_):
        gate, up = gate_up.chunk(2, dim=1)
        return {"y": torch.nn.functional.silu(gate) * up}


class TestSwigluBackward(KernelTests):
    kernel = "swiglu_backward"
    bound = staticmethod(bounds.swiglu_backward)
    cases = [{"N": N, "F": F} for N, F in NC]
    long_cases = [{"N": 100, "F": 100}]
    forward = "swiglu"
    small_cases = [{"N": 1, "F": 1}, {"N": 3, "F": 5}]
    fills = FILLS

    def formula(self, *, dy, gate_up, **_):
        gate, up = gate_up.requires_grad_().chunk(2, dim=1)
        (torch.nn.functional.silu(gate) * up).backward(dy)
        return {"dgate_up": gate_up.grad}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spec_gates_shut_and_open_without_overflow(dtype):
    gate_up = np.array([[-1e4, -1e30, 1e4, 1e30, 0, *[1] * 5]], dtype)
    y, dgate_up = np.empty((1, 5), dtype), np.empty((1, 10), dtype)
    with np.errstate(over="raise", invalid="raise"):
        SPEC["swiglu"](gate_up=gate_up, y=y, N=1, F=5)
        SPEC["swiglu_backward"](dy=np.ones_like(y), gate_up=gate_up, dgate_up=dgate_up, N=1, F=5)
    assert y.tolist() == [[0, 0, gate_up[0, 2], gate_up[0, 3], 0]]
    assert dgate_up[0].tolist() == [0, 0, 1, 1, 0.5, *y[0]]


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_cpp_gates_at_the_ends(lanes):
    gate_up = np.array([[np.nan, -1e30, -100, 0, 100, 1e30, *[1] * 6]], np.float32)
    unset = {"y": np.full((1, 6), np.nan, np.float32), "dgate_up": np.full((1, 12), np.nan, np.float32)}
    y = run_kernel("swiglu", {"gate_up": gate_up, "y": unset["y"], "N": 1, "F": 6}, lanes)["y"]
    np.testing.assert_array_equal(y, np.array([[np.nan, 0, 0, 0, 100, 1e30]], np.float32))
    backward = {"dy": np.ones((1, 6), np.float32), "gate_up": gate_up, "dgate_up": unset["dgate_up"], "N": 1, "F": 6}
    slopes = run_kernel("swiglu_backward", backward, lanes)["dgate_up"]
    np.testing.assert_array_equal(slopes, np.array([[np.nan, 0, 0, 0.5, 1, 1, *y[0]]], np.float32))
