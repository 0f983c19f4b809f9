import torch
from kernel_tests import KernelTests

from tinygpt.labs import bounds

SIZES = [(1, 1, 1, 1), (3, 2, 1, 5), (5, 6, 2, 4), (17, 8, 4, 16), (31, 3, 1, 33), (9, 4, 4, 12)]


def case(N, H, G, D):
    return {"N": N, "H": H, "G": G, "D": D, "W": (H + 2 * G) * D}


def copied(x, H, G, D):
    heads = x.reshape(len(x), H + 2 * G, D)
    keys_and_values = heads[:, H:].repeat_interleave(H // G, dim=1)
    return torch.cat([heads[:, :H], keys_and_values], dim=1).flatten(1)


class TestKvHeads(KernelTests):
    kernel = "kv_heads"
    cases = [case(*sizes) for sizes in SIZES]
    long_cases = [case(100, 4, 2, 16)]
    exact = True

    def formula(self, *, x, H, G, D, **_):
        return {"y": copied(x, H, G, D)}


class TestKvHeadsBackward(KernelTests):
    kernel = "kv_heads_backward"
    bound = staticmethod(bounds.kv_heads_backward)
    cases = [case(*sizes) for sizes in SIZES]
    long_cases = [case(100, 4, 2, 16)]

    def formula(self, *, dy, N, H, G, D, W, **_):
        x = torch.zeros(N, W, dtype=torch.float64, requires_grad=True)
        copied(x, H, G, D).backward(dy)
        return {"dx": x.grad}
