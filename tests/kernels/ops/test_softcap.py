import numpy as np
import pytest
import torch
from harness_cpp import cpu_lanes, run_kernel
from kernel_tests import KernelTests

from tinygpt.labs import bounds

CAP = 3.0  # of numbers that are mostly within it, and some far beyond
NV = [(1, 1), (1, 256), (3, 5), (31, 100), (17, 256)]
FILLS = {"x": lambda normal, dims, random: 6 * normal**3}


class TestSoftcap(KernelTests):
    kernel = "softcap"
    bound = staticmethod(bounds.softcap)
    cases = [{"N": N, "V": V} for N, V in NV]
    long_cases = [{"N": 129, "V": 100}]
    fills = FILLS
    scalars = {"cap": CAP}

    def formula(self, *, x, cap, **_):
        return {"y": cap * torch.tanh(x / cap)}


class TestSoftcapBackward(KernelTests):
    kernel = "softcap_backward"
    bound = staticmethod(bounds.softcap_backward)
    cases = [{"N": N, "V": V} for N, V in NV]
    long_cases = [{"N": 129, "V": 100}]
    forward = "softcap"
    small_cases = [{"N": 1, "V": 1}, {"N": 2, "V": 5}]
    fills = FILLS
    scalars = {"cap": CAP}

    def formula(self, *, dy, x, cap, **_):
        return {"dx": dy / torch.cosh(x / cap).square()}


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_cpp_far_beyond_the_cap_and_no_number(lanes):
    x = np.array([[np.nan, -np.inf, -1e30, -0.0, 0, 1e-30, 1e30, np.inf]], np.float32)
    unset = np.full_like(x, np.nan)
    y = run_kernel("softcap", {"x": x, "y": unset, "N": 1, "V": 8, "cap": 30.0}, lanes)["y"]
    np.testing.assert_array_equal(y, np.array([[np.nan, -30, -30, 0, 0, 1e-30, 30, 30]], np.float32))
    backward = {"dy": np.ones_like(x), "x": x, "dx": unset, "N": 1, "V": 8, "cap": 30.0}
    slopes = run_kernel("softcap_backward", backward, lanes)["dx"]
    np.testing.assert_array_equal(slopes, np.array([[np.nan, 0, 0, 1, 1, 1, 0, 0]], np.float32))
