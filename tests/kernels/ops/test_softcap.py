import numpy as np
import pytest
import torch
from harness_cpp import cpu_lanes, run_kernel
from kernel_tests import KernelTests
from rounding import DIVIDE, SMALLEST, U, exp_error

CAP = 3.0  # of numbers that are mostly within it, and some far beyond
NV = [(1, 1), (1, 256), (3, 5), (31, 100), (17, 256)]
FILLS = {"x": lambda normal, dims, random: 6 * normal**3}


def ratio_and_error(x, cap):
    """z = x / cap, and its relative error, be it a division or a product with the rounded inverse."""
    return x / cap, DIVIDE + U


class TestSoftcap(KernelTests):
    kernel = "softcap"
    cases = [{"N": N, "V": V} for N, V in NV]
    long_cases = [{"N": 129, "V": 100}]
    fills = FILLS
    scalars = {"cap": CAP}

    def formula(self, *, x, cap, **_):
        return {"y": cap * torch.tanh(x / cap)}

    def bound(self, *, x, cap, **_):
        """tanh is no worse conditioned than z. Near 0 a polynomial whose terms beyond the first make up less than a
        tenth; elsewhere (1 - e) / (1 + e), where an error of e counts by 2 e / (1 - e^2) = 1 / sinh(2 |z|)."""
        z, z_off = ratio_and_error(x, cap)
        far_off = exp_error(2 * z) / np.sinh(2 * np.minimum(np.maximum(np.abs(z), 0.6), 100)) + 2 * U + DIVIDE
        off = z_off + np.where(np.abs(z) < 0.61, np.maximum(4 * U, far_off), far_off) + U
        return {"y": np.abs(cap * np.tanh(z)) * off}


class TestSoftcapBackward(KernelTests):
    kernel = "softcap_backward"
    cases = [{"N": N, "V": V} for N, V in NV]
    long_cases = [{"N": 129, "V": 100}]
    forward = "softcap"
    small_cases = [{"N": 1, "V": 1}, {"N": 2, "V": 5}]
    fills = FILLS
    scalars = {"cap": CAP}

    def formula(self, *, dy, x, cap, **_):
        return {"dx": dy / torch.cosh(x / cap).square()}

    def bound(self, *, dy, x, cap, **_):
        """Of 4 e / (1 + e)^2: an error of e counts by (1 - e) / (1 + e), which is below 1; the smallest e is 0."""
        z, z_off = ratio_and_error(x, cap)
        e = np.exp(-2 * np.abs(z))
        off = exp_error(2 * z) + 2 * np.abs(z) * z_off + 4 * U + DIVIDE + U
        return {"dx": np.abs(dy) * 4 * (e / np.square(1 + e) * off + SMALLEST)}


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_cpp_far_beyond_the_cap_and_no_number(lanes):
    x = np.array([[np.nan, -np.inf, -1e30, -0.0, 0, 1e-30, 1e30, np.inf]], np.float32)
    unset = np.full_like(x, np.nan)
    y = run_kernel("softcap", {"x": x, "y": unset, "N": 1, "V": 8, "cap": 30.0}, lanes)["y"]
    np.testing.assert_array_equal(y, np.array([[np.nan, -30, -30, 0, 0, 1e-30, 30, 30]], np.float32))
    backward = {"dy": np.ones_like(x), "x": x, "dx": unset, "N": 1, "V": 8, "cap": 30.0}
    slopes = run_kernel("softcap_backward", backward, lanes)["dx"]
    np.testing.assert_array_equal(slopes, np.array([[np.nan, 0, 0, 1, 1, 1, 0, 0]], np.float32))
