import math

import numpy as np
import torch
from cases import make_case, run_spec
from kernel_tests import KernelTests
from slopes import assert_gradient

from tinygpt.core.rng import DROPOUT, philox
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.rounding import U


class TestDropout(KernelTests):
    kernel = "dropout"
    cases = [
        {"N": N, "C": C, "seed": seed, "site": site, "rate": rate}
        for N, C, seed, site, rate in [
            (1, 1, 1337, 0, 0.0),
            (3, 3, 0, 1, 0.5),
            (31, 48, 2**32 - 1, 7, 0.1),
            (5, 257, 1, 2, 0.9),
            (64, 96, 2**31, 3, 0.2),
        ]
    ]
    cases += [{"N": 31, "C": 17, "seed": 1337, "site": 1, "rate": 0.1, "residual": None}]
    long_cases = [{"N": 100, "C": 100, "seed": 5, "site": 1, "rate": 0.1}]
    fills = {"counters": lambda normal, dims, random: random.integers(0, 2**31, normal.shape, dtype=np.int64)}

    def formula(self, *, x, counters, residual, seed, site, rate, **_):
        step, micro = counters[:2].tolist()
        words = [philox((seed, DROPOUT), (i, step, site, micro)) for i in range(-(-x.numel() // 4))]
        uniform = torch.tensor(words, dtype=torch.float64).reshape(-1)[: x.numel()].reshape(x.shape) / 2**32
        return {"y": torch.where(uniform >= rate, x / (1 - rate), 0) + (0 if residual is None else residual)}

    def bound(self, *, residual, y, **case):
        kept = np.empty_like(y)
        SPEC["dropout"](residual=None, y=kept, **case)
        if residual is None:
            return {"y": 3 * U * np.abs(kept)}
        return {"y": 4 * U * np.abs(kept) + U * np.abs(residual)}


def test_spec_dropping_the_gradient_is_the_gradient():
    case = make_case("dropout", {"N": 5, "C": 7, "seed": 7, "site": 2, "rate": 0.5})
    dy = np.random.default_rng(20).normal(size=case["y"].shape)

    def loss():
        return (dy * run_spec("dropout", case)["y"]).sum()

    dx = run_spec("dropout", case | {"x": dy, "residual": None})["y"]
    assert_gradient(dx, loss, case["x"], np.abs(dy).sum())
    assert_gradient(dy, loss, case["residual"], np.abs(dy).sum())


def dropped(step=1, micro=0, site=0, rate=0.25):
    y = np.empty((100, 100))
    counters = np.array([step, micro, 0, 0], np.int32)
    SPEC["dropout"](
        x=np.ones_like(y), counters=counters, residual=None, y=y, N=100, C=100, seed=1, site=site, rate=rate
    )
    return y


def test_spec_keeps_the_mean_and_every_mask_is_another():
    masks = [dropped(), dropped(step=2), dropped(micro=1), dropped(site=1)]
    for mask in masks:
        kept = np.count_nonzero(mask) / mask.size
        assert abs(kept - 0.75) < 4 * math.sqrt(0.25 * 0.75 / mask.size)
        assert set(np.unique(mask)) == {0, 1 / 0.75}
    assert len({mask.tobytes() for mask in masks}) == 4
    assert (dropped() == masks[0]).all() and (dropped(rate=0.0) == 1).all()
