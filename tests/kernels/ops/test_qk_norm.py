import numpy as np
import torch
from kernel_tests import KernelTests

from tinygpt.kernels.spec import SPEC
from tinygpt.labs.rounding import DIVIDE, U, gamma, inverse_root_mean_square

EPS = 1e-5
CASES = [
    {"N": N, "H": H, "D": D} for N, H, D in [(1, 1, 1), (3, 2, 5), (31, 3, 16), (17, 1, 100), (5, 2, 64), (129, 1, 3)]
]


class TestQkNorm(KernelTests):
    kernel = "qk_norm"
    cases = CASES
    wgsl_cases = [{"N": 2, "H": 1, "D": 1280}]
    long_cases = [{"N": 100, "H": 3, "D": 20}]
    scalars = {"eps": EPS}

    def formula(self, *, qkv, N, H, D, eps, **_):
        q, k, v = qkv.reshape(N, 3, H, D).unbind(1)
        normal = [torch.nn.functional.rms_norm(x, [D], eps=eps) for x in (q, k)]
        rstd = [torch.rsqrt(x.square().mean(dim=2) + eps) for x in (q, k)]
        return {"y": torch.stack([*normal, v], dim=1), "rstd": torch.cat(rstd, dim=1)}

    def bound(self, *, qkv, N, H, D, eps, **_):
        heads = qkv.reshape(N, 3 * H, D)
        rstd, rstd_off = inverse_root_mean_square(heads[:, : 2 * H], eps)
        y_off = np.zeros_like(heads)
        y_off[:, : 2 * H] = np.abs(heads[:, : 2 * H] * rstd[:, :, None]) * (rstd_off + U)
        return {"y": y_off.reshape(N, -1), "rstd": rstd * rstd_off}


class TestQkNormBackward(KernelTests):
    kernel = "qk_norm_backward"
    cases = CASES
    wgsl_cases = [{"N": 2, "H": 1, "D": 1280}]
    long_cases = [{"N": 100, "H": 3, "D": 20}]
    forward = "qk_norm"
    small_cases = [{"N": 1, "H": 1, "D": 1}, {"N": 2, "H": 3, "D": 5}]

    def settle(self, case):
        kept = {name: case[name] for name in ("y", "rstd", "N", "H", "D")}
        SPEC["qk_norm"](qkv=case["y"].copy(), eps=EPS, **kept)

    def bound(self, *, dy, y, rstd, N, H, D, **_):
        dn, n = (np.abs(array).reshape(N, 3 * H, D)[:, : 2 * H] for array in (dy, y))
        b = (dn * n).mean(axis=2, keepdims=True)  # of absolute values
        off = np.zeros((N, 3 * H, D))
        off[:, : 2 * H] = rstd[:, :, None] * (n * b * (gamma(D) + DIVIDE) + 3 * U * (dn + n * b))
        return {"dqkv": off.reshape(N, -1)}
