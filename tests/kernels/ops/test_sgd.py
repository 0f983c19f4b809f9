import numpy as np
import torch
from kernel_tests import KernelTests
from shapes import FLAT

from tinygpt.labs.rounding import U


class TestSgd(KernelTests):
    kernel = "sgd"
    cases = [
        {"P": P, "decayed": decayed, "rows": 1 + i, "counters": [10 * i, 1, 2, 3], "momentum": 0.9}
        for i, (P, decayed) in enumerate(FLAT)
    ]
    fills = {
        "norm": lambda normal, dims, random: np.array([2.5, 0.4]),
        "rates": lambda normal, dims, random: 0.03 * (1 + np.arange(len(normal)))[:, None] * [1, 0.1],  # lr, decay
        "weights": lambda normal, dims, random: 0.02 * normal,
        "m": lambda normal, dims, random: 0.02 * normal,
    }

    def formula(self, *, grads, norm, rates, counters, weights, m, decayed, rows, momentum, **_):
        lr, decay = rates[counters[0] % rows].tolist()
        weights[:decayed] -= decay * weights[:decayed]
        weights.requires_grad_().grad = grads * norm[1]
        optimizer = torch.optim.SGD([weights], lr=lr, momentum=momentum)
        optimizer.state[weights]["momentum_buffer"] = m
        optimizer.step()
        return {"weights": weights, "m": m}

    def bound(self, *, grads, norm, rates, counters, weights, m, rows, momentum, **_):
        lr, _decay = rates[counters[0] % rows]
        m_size = momentum * np.abs(m) + np.abs(grads * norm[1])
        m_off = 3 * U * m_size
        return {"weights": 3 * U * np.abs(weights) + lr * (2 * U * m_size + m_off), "m": m_off}
