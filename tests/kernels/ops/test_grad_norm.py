import math

import numpy as np
import pytest
import torch
from cases import make_case
from kernel_tests import KernelTests, device_with

from tinygpt.kernels.spec import SPEC
from tinygpt.labs import bounds


class TestGradNorm(KernelTests):
    kernel = "grad_norm"
    bound = staticmethod(bounds.grad_norm)
    cases = [{"P": P, "limit": limit} for P in (1, 5, 64, 1027, 4096) for limit in (0.0, 1.0, 1000.0)]
    wgsl_cases = [{"P": 50000, "limit": 1.0}]  # several partial sums

    def formula(self, *, grads, limit, **_):
        norm = torch.linalg.vector_norm(grads)
        return {"norm": torch.stack([norm, (limit / (norm + 1e-6)).clamp(max=1) if limit else torch.ones_like(norm)])}


def test_spec_a_gradient_below_the_limit_is_left_alone_and_one_above_is_brought_down():
    grads, norm = np.array([3.0, 4.0]), np.empty(2)
    for limit, factor in [(0.0, 1.0), (6.0, 1.0), (1.0, 1.0 / (5.0 + 1e-6))]:
        SPEC["grad_norm"](grads=grads, norm=norm, P=2, limit=limit)
        assert norm.tolist() == [5.0, factor]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_spec_a_gradient_that_is_no_number_is_not_hidden(bad):
    norm = np.empty(2)
    SPEC["grad_norm"](grads=np.array([1.0, bad]), norm=norm, P=2, limit=1.0)
    assert not math.isfinite(norm[0])
    assert not norm[1] > 0


@pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])
@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize("bad, place", [(np.nan, 0), (np.nan, 4999), (-np.nan, 2500), (np.inf, 17)])
def test_wgsl_a_bad_gradient_shows_in_the_norm(bad, place, limit, subgroups, wgsl):
    case = make_case("grad_norm", {"P": 5000, "limit": limit}, dtype=np.float32)
    case["grads"][place] = bad
    norm = wgsl.run_kernel("grad_norm", case, device_with(subgroups=subgroups), 2)["norm"]
    if np.isnan(bad):
        assert np.isnan(norm[0])
        assert np.isnan(norm[1]) if limit else norm[1] == 1
    else:
        assert norm[0] == np.inf
        assert norm[1] == (0 if limit else 1)
