import math

import numpy as np
import pytest
import torch
from cases import make_case, run_spec
from kernel_tests import KernelTests, device_with
from slopes import assert_gradient

from tinygpt.labs import bounds
from tinygpt.labs.rounding import gamma, old


def one_row_high(normal, dims, random):
    normal *= 4
    normal[0] += 200  # exp would overflow
    return normal


class TestCrossEntropy(KernelTests):
    kernel = "cross_entropy"
    bound = staticmethod(bounds.cross_entropy)
    cases = [{"N": N, "V": V, "count": 3 * N} for N, V in [(1, 1), (3, 5), (1, 256), (31, 256), (129, 100)]]
    cases += [{"N": 17, "V": 256, "count": 17, "dlogits": None}]
    cases += [{"N": N, "V": V, "count": N, "smoothing": s} for N, V, s in [(1, 1, 0.5), (3, 5, 0.9), (31, 256, 0.1)]]
    cases += [{"N": 9, "V": 256, "count": 9, "smoothing": 0.2, "dlogits": None}]
    wgsl_cases = [{"N": 600, "V": 256, "count": 600}]
    lanes_cases = [{"N": 37, "V": 100, "count": 37}, {"N": 37, "V": 100, "count": 37, "smoothing": 0.1}]
    long_cases = [{"N": 129, "V": 12, "count": 5}]
    fills = {"logits": one_row_high}

    def formula(self, *, logits, targets, count, smoothing, **_):
        losses = torch.nn.functional.cross_entropy(
            logits.requires_grad_(), targets.long(), reduction="none", label_smoothing=smoothing
        )
        (losses.sum() / count).backward()
        return {"losses": losses, "dlogits": logits.grad}


class TestMeanLoss(KernelTests):
    kernel = "mean_loss"
    cases = [
        {"N": N, "accumulate": i % 2, "count": (1 + i) * N} for i, N in enumerate([1, 1, 3, 31, 64, 129, 1000, 1024])
    ]
    fills = {"losses": lambda normal, dims, random: np.abs(normal) + 2}

    def formula(self, *, losses, loss, accumulate, count, **_):
        return {"loss": math.fsum(losses) / count + (loss[0] if accumulate else 0)}

    def bound(self, *, losses, loss, N, accumulate, count, **_):
        return {"loss": gamma(N + 1) * (np.abs(losses).sum() / count + old(loss, accumulate)) + np.zeros(1)}


@pytest.mark.parametrize("N, V, smoothing", [(1, 1, 0.0), (1, 2, 0.0), (3, 7, 0.0), (2, 33, 0.0), (3, 7, 0.3)])
def test_spec_gradient(N, V, smoothing):
    case = make_case("cross_entropy", {"N": N, "V": V, "count": 7, "smoothing": smoothing})
    case["logits"] = 2 * np.random.default_rng(20).normal(size=(N, V))
    mean = make_case("mean_loss", {"N": N, "accumulate": 0, "count": 7})

    def loss():
        return run_spec("mean_loss", mean | {"losses": run_spec("cross_entropy", case)["losses"]})["loss"][0]

    outputs = run_spec("cross_entropy", case)
    assert_gradient(outputs["dlogits"], loss, case["logits"], np.abs(outputs["losses"]).sum())


@pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])
def test_wgsl_a_bad_logit_shows_in_the_loss(subgroups, wgsl):
    case = make_case("cross_entropy", {"N": 9, "V": 256, "count": 9}, dtype=np.float32)
    case["logits"][4, 77] = np.nan
    outputs = wgsl.run_kernel("cross_entropy", case, device_with(subgroups=subgroups))
    # there are exps that make NaN infinite
    assert np.isfinite(outputs["losses"]).tolist() == [n != 4 for n in range(9)]
    assert np.isnan(outputs["dlogits"]).any(axis=1).tolist() == [n == 4 for n in range(9)]
