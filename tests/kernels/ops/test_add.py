import numpy as np
from kernel_tests import KernelTests
from rounding import U

NC = [(1, 1), (1, 256), (3, 5), (31, 100), (17, 48)]


class TestAdd(KernelTests):
    kernel = "add"
    cases = [{"N": N, "C": C} for N, C in NC]
    long_cases = [{"N": 129, "C": 100}]

    def formula(self, *, x, residual, **_):
        return {"y": x + residual}

    def bound(self, *, x, residual, **_):
        return {"y": U * np.abs(x + residual)}
