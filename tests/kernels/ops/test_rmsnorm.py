import numpy as np
import torch
from kernel_tests import KernelTests
from rounding import DIVIDE, U, gamma, inverse_root_mean_square, old
from shapes import NC, about_one, off_centre

EPS = 1e-5
FILLS = {"x": off_centre, "gain": about_one}


class TestRmsNorm(KernelTests):
    kernel = "rmsnorm"
    cases = [{"N": N, "C": C} for N, C in NC]
    wgsl_cases = [{"N": 3, "C": 1280}, {"N": 600, "C": 96}]
    lanes_cases = [{"N": 37, "C": 100}]
    long_cases = [{"N": 129, "C": 12}]
    fills = FILLS
    scalars = {"eps": EPS}

    def formula(self, *, x, gain, C, eps, **_):
        y = torch.nn.functional.rms_norm(x, [C], gain, eps)
        return {"y": y, "rstd": torch.rsqrt(x.square().mean(dim=1) + eps)}

    def bound(self, *, x, gain, eps, **_):
        rstd, rstd_off = inverse_root_mean_square(x, eps)
        return {"y": np.abs(x * rstd[:, None] * gain) * (rstd_off + 2 * U), "rstd": rstd * rstd_off}


class TestRmsNormBackward(KernelTests):
    kernel = "rmsnorm_backward"
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

    def bound(self, *, dy, x, gain, rstd, dresidual, dgain, N, C, accumulate, **_):
        rstd = rstd[:, None]
        n, dn = np.abs(x) * rstd, np.abs(dy * gain)
        b = (dn * n).mean(axis=1, keepdims=True)  # of absolute values
        dx_off = rstd * (n * b * (gamma(C + 2) + DIVIDE) + 4 * U * (dn + n * b))
        if dresidual is not None:
            dx_off = dx_off + U * (np.abs(dresidual) + rstd * (dn + n * b))
        return {"dx": dx_off, "dgain": gamma(N + 2) * ((np.abs(dy) * n).sum(axis=0) + old(dgain, accumulate))}
