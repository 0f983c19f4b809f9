from kernel_tests import KernelTests

from tinygpt.labs import bounds

NC = [(1, 1), (1, 256), (3, 5), (31, 100), (17, 48)]


class TestAdd(KernelTests):
    kernel = "add"
    bound = staticmethod(bounds.add)
    cases = [{"N": N, "C": C} for N, C in NC]
    long_cases = [{"N": 129, "C": 100}]

    def formula(self, *, x, residual, **_):
        return {"y": x + residual}
