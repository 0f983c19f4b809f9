import torch
from kernel_tests import KernelTests

from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.labs import bounds

CASES = [{"N": N, "F": F, "kind": kind} for N, F in [(1, 4), (3, 20), (17, 48), (31, 192)] for kind in (GELU, RELU2)]
LONG = [{"N": 129, "F": 100, "kind": GELU}]
FILLS = {"x": lambda normal, dims, random: 3 * normal}


def value_of(x, kind):
    return x.relu().square() if kind == RELU2 else torch.nn.functional.gelu(x)


class TestActivation(KernelTests):
    kernel = "activation"
    bound = staticmethod(bounds.activation)
    cases = CASES
    long_cases = LONG
    fills = FILLS

    def formula(self, *, x, kind, **_):
        return {"y": value_of(x, kind)}


class TestActivationBackward(KernelTests):
    kernel = "activation_backward"
    bound = staticmethod(bounds.activation_backward)
    cases = CASES
    long_cases = LONG
    forward = "activation"
    small_cases = [{"N": 2, "F": 4, "kind": GELU}, {"N": 2, "F": 4, "kind": RELU2}]
    fills = FILLS

    def formula(self, *, dy, x, kind, **_):
        x = x.clone().requires_grad_()
        value_of(x, kind).backward(dy)
        return {"dx": x.grad}
