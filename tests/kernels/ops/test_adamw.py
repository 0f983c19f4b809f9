import math

import numpy as np
import pytest
import torch
from cases import make_case
from kernel_tests import KernelTests, device_with
from shapes import FLAT

from tinygpt.kernels.spec import SPEC
from tinygpt.labs import bounds

BETA1, BETA2, EPS = 0.9, 0.95, 1e-8
STEPS = 20
ROWS = 3
# A step of either side rounds its weights, moments and update by some ten operations of 2^-53 each.
TOLERANCE = STEPS * 2 * 10 * 2.0**-53


def one_row_of_rates(normal, dims, random):
    lr, t = 3e-4, 7
    rates = np.full_like(normal, np.nan)
    rates[dims["counters"][0] % dims["rows"], :3] = lr / (1 - BETA1**t), 1 / math.sqrt(1 - BETA2**t), lr * 0.1
    return rates


class TestAdamw(KernelTests):
    kernel = "adamw"
    bound = staticmethod(bounds.adamw)
    cases = [
        {"P": P, "decayed": decayed, "rows": 1 + i, "columns": 3 + i % 3, "counters": [10 * i, 1, 2, 3]}
        for i, (P, decayed) in enumerate(FLAT)
    ]
    long_cases = [{"P": 8192, "decayed": 100, "rows": 3, "columns": 3, "counters": [4, 0, 0, 0]}]
    fills = {
        "norm": lambda normal, dims, random: np.array([2.5, 0.4]),
        "rates": one_row_of_rates,
        "weights": lambda normal, dims, random: 0.02 * normal,
        "m": lambda normal, dims, random: 0.02 * normal,
        "v": lambda normal, dims, random: 1e-4 * normal**2,
    }
    scalars = {"beta1": BETA1, "beta2": BETA2, "eps": EPS}

    @pytest.mark.parametrize("limit", [0.0, 0.5, 1e6])
    @pytest.mark.parametrize("decayed, rest", [(12, 5), (1, 0), (0, 3)])
    @pytest.mark.parametrize("weight_decay", [0.0, 0.1])
    def test_spec_is_the_formula(self, limit, decayed, rest, weight_decay):
        """Many steps are torch's."""
        random = np.random.default_rng(5)
        P = decayed + rest
        weights, m, v = random.normal(size=P), np.zeros(P), np.zeros(P)
        matrix = torch.tensor(weights[:decayed], requires_grad=True)
        vector = torch.tensor(weights[decayed:], requires_grad=True)
        groups = [{"params": [matrix], "weight_decay": weight_decay}, {"params": [vector], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(BETA1, BETA2), eps=EPS)
        rates, counters = np.full((ROWS, 3), np.nan), np.zeros(4, int)
        for t in range(1, STEPS + 1):
            lr = 0.01 / t
            grads = random.normal(size=P)
            matrix.grad, vector.grad = torch.tensor(grads[:decayed]), torch.tensor(grads[decayed:])
            total = torch.nn.utils.clip_grad_norm_([matrix, vector], limit or math.inf)
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()

            norm = np.full(2, np.nan)
            SPEC["grad_norm"](grads=grads, norm=norm, P=P, limit=limit)
            rates[counters[0] % ROWS] = lr / (1 - BETA1**t), 1 / math.sqrt(1 - BETA2**t), lr * weight_decay
            given = {"grads": grads, "norm": norm, "rates": rates, "counters": counters}
            moved = {"weights": weights, "m": m, "v": v}
            sizes = {"P": P, "decayed": decayed, "rows": ROWS, "columns": 3}
            SPEC["adamw"](**given, **moved, **sizes, beta1=BETA1, beta2=BETA2, eps=EPS)
            SPEC["count"](counters=counters, which=0)

            assert norm[0] == pytest.approx(total.item(), rel=P * 2.0**-53)
            wanted = torch.cat([matrix, vector]).detach().numpy()
            assert np.abs(weights - wanted).max() <= TOLERANCE * np.abs(wanted).max()


def test_wgsl_a_bad_gradient_reaches_the_weights(wgsl):
    case = make_case("adamw", {"P": 64, "decayed": 32, "rows": 1, "columns": 3, "counters": [0] * 4}, dtype=np.float32)
    case["norm"][:] = np.nan
    outputs = wgsl.run_kernel("adamw", case, device_with())
    for name in ("weights", "m", "v"):
        assert np.isnan(outputs[name]).all()
