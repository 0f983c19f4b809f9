import math

import numpy as np
import pytest
import torch
from cases import make_case, run_spec
from kernel_tests import KernelTests, on
from slopes import assert_gradient

from tinygpt.kernels.spec import SPEC
from tinygpt.labs import bounds
from tinygpt.labs.rounding import U

TURN_UNIT = 2 * math.pi * 2.0**-32  # the least an angle that is a fraction of a turn in 32 bits changes by


class TestRotaryTable(KernelTests):
    kernel = "rotary_table"
    cases = [
        {"T": T, "D": D, "base": base, "position": position}
        for T, D, base, position in [
            (1, 2, 10000, None),
            (5, 6, 10000, None),
            (33, 16, 2, None),
            (300, 34, 10000, None),
            (1, 64, 10000, 4095),
            (3, 128, 500000, [65000, 3, 3]),
        ]
    ]
    long_cases = [{"T": 100, "D": 32, "base": 10000, "position": None}]

    @on("cases")
    def test_spec_is_the_formula(self, dims):
        T, D, places = dims["T"], dims["D"], dims["position"]
        places = range(T) if places is None else np.atleast_1d(places).tolist()
        radians = [[t * dims["base"] ** (-2 * i / D) for i in range(D // 2)] for t in places]
        angles = [[*map(math.cos, row), *map(math.sin, row)] for row in radians]
        # The bound is for angles rounded to a small part of a turn; here both round the products of t and a frequency.
        wanted = run_spec("rotary_table", make_case("rotary_table", dims))["angles"]
        assert np.abs(wanted - angles).max() <= 8 * 2.0**-53 * (max(places) + 1)

    def bound(self, *, angles, **_):
        """Past quarter turns an angle a is at most pi/4, and off by 3 U a from its scaling. Then cos a = 1 - h with h
        below 0.31 and off by 5 U h, sin a = a (1 - h) with h below 0.11: at most 5 U for either."""
        return {"angles": np.full_like(angles, 5 * U + TURN_UNIT)}


def on_the_circle(normal, dims, random):
    angles = 3 * normal[:, : normal.shape[1] // 2]
    return np.hstack([np.cos(angles), np.sin(angles)])


class TestRotary(KernelTests):
    kernel = "rotary"
    bound = staticmethod(bounds.rotary)
    cases = [
        {"N": N, "T": T, "H": H, "D": D, "inverse": i % 2}
        for i, (N, T, H, D) in enumerate([(1, 1, 1, 2), (6, 3, 2, 6), (34, 17, 3, 16), (31, 31, 1, 100), (5, 1, 2, 64)])
    ]
    long_cases = [{"N": 100, "T": 50, "H": 3, "D": 32, "inverse": 0}]
    fills = {"angles": on_the_circle}

    def formula(self, *, qkv, angles, N, T, H, D, inverse, **_):
        turn = torch.complex(*angles.chunk(2, dim=1))[torch.arange(N) % T]
        turn = turn.conj() if inverse else turn
        heads = qkv.reshape(N, 3 * H, D)
        turned = torch.complex(*heads.chunk(2, dim=2)) * turn[:, None]
        return {"y": torch.cat([torch.cat([turned.real, turned.imag], dim=2)[:, : 2 * H], heads[:, 2 * H :]], dim=1)}


@pytest.mark.parametrize("N, T, H, D", [(1, 1, 1, 2), (4, 2, 2, 6)])
def test_spec_turning_back_is_the_gradient(N, T, H, D):
    case = make_case("rotary", {"N": N, "T": T, "H": H, "D": D, "inverse": 0})
    dy = np.random.default_rng(20).normal(size=case["y"].shape)
    dqkv = run_spec("rotary", case | {"qkv": dy, "inverse": 1})["y"]
    assert_gradient(dqkv, lambda: (dy * run_spec("rotary", case)["y"]).sum(), case["qkv"], np.abs(dy).sum())


def test_spec_turned_queries_and_keys_know_their_distance_only():
    T, H, D = 50, 1, 8
    random = np.random.default_rng(4)
    qkv = np.tile(random.normal(size=(1, 3 * H * D)), (T, 1))
    angles, y = np.empty((T, D)), np.empty_like(qkv)
    SPEC["rotary_table"](position=np.array([1000]), angles=angles, T=T, D=D, base=10000)
    SPEC["rotary"](qkv=qkv, angles=angles, y=y, N=T, T=T, H=H, D=D, inverse=0)
    scores = y[:, :D] @ y[:, D : 2 * D].T
    for distance in range(T):
        assert np.ptp(np.diagonal(scores, distance)) < 1e-10
