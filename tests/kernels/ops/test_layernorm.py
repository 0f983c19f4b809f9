import numpy as np
import torch
from kernel_tests import KernelTests
from shapes import NC, about_one, off_centre

from tinygpt.labs import bounds
from tinygpt.labs.rounding import RSQRT, U, gamma

EPS = 1e-5
FILLS = {"x": off_centre, "gain": about_one}


class TestLayerNorm(KernelTests):
    kernel = "layernorm"
    cases = [{"N": N, "C": C} for N, C in NC] + [{"N": 31, "C": C, "bias": None} for C in (48, 5)]
    wgsl_cases = [{"N": 3, "C": 1280}, {"N": 600, "C": 96}]  # several workgroups' lanes per row; 32 lanes per row
    lanes_cases = [{"N": 37, "C": 100}]
    long_cases = [{"N": 129, "C": 12}]
    fills = FILLS
    scalars = {"eps": EPS}

    def formula(self, *, x, gain, bias, C, eps, **_):
        y, mean, rstd = torch.native_layer_norm(x, [C], gain, bias, eps)
        return {"y": y, "stats": torch.cat([mean, rstd], dim=1)}

    def bound(self, *, x, gain, bias, C, eps, **_):
        """The variance is a mean of squares about the mean: a mean that is off by d adds only d^2 to it."""
        mean = x.mean(axis=1)
        variance = x.var(axis=1)
        rstd = 1 / np.sqrt(variance + eps)
        mean_off = gamma(C + 1) * np.abs(x).mean(axis=1)
        rounded = 2 * U * (np.abs(x) + np.abs(mean)[:, None])  # of x - mean, also where it is x rstd - mean rstd
        variance_off = mean_off**2 + 2 * (np.abs(x - mean[:, None]) * rounded).mean(axis=1) + gamma(C + 4) * variance
        rstd_off = rstd * (variance_off / (2 * (variance + eps)) + RSQRT + 2 * U)
        n = (x - mean[:, None]) * rstd[:, None]
        n_off = (mean_off[:, None] + rounded) * rstd[:, None] + np.abs(n) * (rstd_off / rstd)[:, None]
        y_off = np.abs(gain) * (n_off + 3 * U * np.abs(n)) + (0 if bias is None else 2 * U * np.abs(bias))
        return {"y": y_off, "stats": np.stack([mean_off, rstd_off], axis=1)}


class TestLayerNormBackward(KernelTests):
    kernel = "layernorm_backward"
    bound = staticmethod(bounds.layernorm_backward)
    cases = [{"N": N, "C": C, "accumulate": i % 2} for i, (N, C) in enumerate(NC)]
    cases += [{"N": 31, "C": 48, "accumulate": accumulate, "dresidual": None} for accumulate in (0, 1)]
    cases += [{"N": 31, "C": C, "accumulate": accumulate, "dbias": None} for C, accumulate in [(48, 0), (5, 1)]]
    cases += [{"N": 31, "C": C, "accumulate": 0, "dgain": None, "dbias": None} for C in (48, 5)]
    wgsl_cases = [{"N": 600, "C": 96, "accumulate": 1}]
    forward = "layernorm"
    small_cases = [{"N": N, "C": C, "accumulate": 0} for N, C in [(1, 1), (1, 3), (3, 5), (2, 16)]]
    small_cases += [dims | {"dresidual": None} for dims in small_cases]
    fills = FILLS

    def settle(self, case):
        x = case["x"]
        case["stats"] = np.stack([x.mean(axis=1), 1 / np.sqrt(x.var(axis=1) + EPS)], axis=1)
