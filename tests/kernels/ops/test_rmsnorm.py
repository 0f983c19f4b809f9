import numpy as np
import torch
from kernel_tests import KernelTests
from shapes import NC, about_one, off_centre

from tinygpt.labs import bounds

EPS = 1e-5
FILLS = {"x": off_centre, "gain": about_one}


class TestRmsNorm(KernelTests):
    kernel = "rmsnorm"
    bound = staticmethod(bounds.rmsnorm)
    cases = [{"N": N, "C": C} for N, C in NC]
    wgsl_cases = [{"N": 3, "C": 1280}, {"N": 600, "C": 96}]
    lanes_cases = [{"N": 37, "C": 100}]
    long_cases = [{"N": 129, "C": 12}]
    fills = FILLS
    scalars = {"eps": EPS}

    def formula(self, *, x, gain, C, eps, **_):
        y = torch.nn.functional.rms_norm(x, [C], gain, eps)
        return {"y": y, "rstd": torch.rsqrt(x.square().mean(dim=1) + eps)}


class TestRmsNormBackward(KernelTests):
    kernel = "rmsnorm_backward"
    bound = staticmethod(bounds.rmsnorm_backward)
    cases = [{"N": N, "C": C, "accumulate": i % 2} for i, (N, C) in enumerate(NC)]
    cases += [{"N": 31, "C": 48, "accumulate": accumulate, "dresidual": None} for accumulate in (0, 1)]
    cases += [{"N": 31, "C": C, "accumulate": 0, "dgain": None} for C in (48, 5)]
    wgsl_cases = [{"N": 600, "C": 96, "accumulate": 1}]
    forward = "rmsnorm"
    small_cases = [{"N": N, "C": C, "accumulate": 0} for N, C in [(1, 1), (1, 3), (3, 5), (2, 16)]]
    small_cases += [dims | {"dresidual": None} for dims in small_cases]
    fills = FILLS

    def settle(self, case):
        case["rstd"] = 1 / np.sqrt(np.square(case["x"]).mean(axis=1) + EPS)
