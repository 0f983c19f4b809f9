import numpy as np
import torch
from kernel_tests import KernelTests
from shapes import FLAT

from tinygpt.labs.rounding import U


class TestAverage(KernelTests):
    kernel = "average"
    cases = [{"P": P, "rows": 1 + i, "counters": [10 * i, 1, 2, 3]} for i, (P, _) in enumerate(FLAT)]
    fills = {"rates": lambda normal, dims, random: 1.0 / (2 + np.arange(len(normal)))}

    def formula(self, *, live, rates, counters, weights, rows, **_):
        return {"weights": torch.lerp(weights, live, rates[counters[0] % rows].item())}

    def bound(self, *, live, rates, counters, weights, rows, **_):
        rate = rates[counters[0] % rows]
        return {"weights": 3 * U * (np.abs(weights) + rate * (np.abs(live) + np.abs(weights)))}


class TestCopy(KernelTests):
    kernel = "copy"
    cases = [{"P": P} for P, _ in FLAT]

    def formula(self, *, x, **_):
        return {"y": x}

    def bound(self, *, x, **_):
        return {"y": np.zeros_like(x)}
