"""grad_norm and adamw against torch.nn.utils.clip_grad_norm_ and torch.optim.AdamW, in float64, over many steps."""

import math

import numpy as np
import pytest
import torch

from tinygpt.kernels.spec import SPEC

STEPS = 20
ROWS = 3
BETA1, BETA2, EPS = 0.9, 0.95, 1e-8
# A step of either side rounds its weights, moments and update by some ten operations of 2^-53 each.
TOLERANCE = STEPS * 2 * 10 * 2.0**-53


@pytest.mark.parametrize("limit", [0.0, 0.5, 1e6])
@pytest.mark.parametrize("decayed, rest", [(12, 5), (1, 0), (0, 3)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_many_steps_are_torch(limit, decayed, rest, weight_decay):
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
        settings = {"P": P, "decayed": decayed, "rows": ROWS, "beta1": BETA1, "beta2": BETA2, "eps": EPS}
        SPEC["adamw"](**given, **moved, **settings)
        SPEC["count"](counters=counters, which=0)

        assert norm[0] == pytest.approx(total.item(), rel=P * 2.0**-53)
        wanted = torch.cat([matrix, vector]).detach().numpy()
        assert np.abs(weights - wanted).max() <= TOLERANCE * np.abs(wanted).max()


def test_a_gradient_below_the_limit_is_left_alone_and_one_above_is_brought_down():
    grads, norm = np.array([3.0, 4.0]), np.empty(2)
    for limit, factor in [(0.0, 1.0), (6.0, 1.0), (1.0, 1.0 / (5.0 + 1e-6))]:
        SPEC["grad_norm"](grads=grads, norm=norm, P=2, limit=limit)
        assert norm.tolist() == [5.0, factor]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_not_hidden(bad):
    norm = np.empty(2)
    SPEC["grad_norm"](grads=np.array([1.0, bad]), norm=norm, P=2, limit=1.0)
    assert not math.isfinite(norm[0])
    assert not norm[1] > 0
