"""Norms of queries and keys and their turn in one dispatch; so their gradients. Neither is an op's kernel alone."""

from typing import Any

import all_cases  # noqa: F401 (the cases of all four)
import numpy as np
import pytest
from cases import assert_matches_spec, call_of, error_bound, make_case, run_spec
from kernel_tests import device_with
from words import GUARD_BITS

from tinygpt.core.ops.gpu import Target
from tinygpt.core.ops.op import Op
from tinygpt.core.ops.qk_turn import are_turned, turned

SHAPES = [(6, 3, 2, 6), (31, 31, 1, 100), (34, 17, 3, 16), (5, 1, 2, 64)]  # N, T, H, D: by words of 1, 2 and 4 numbers


def played(wgsl: Any, first: Op, second: Op, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    assert are_turned(first, second)
    (made,) = turned(first, second, Target(device_with()))
    buffers = {name: wgsl.buffer_with(array) for name, array in stored.items()}
    wgsl.play([made], buffers, stored)
    after = {}
    for name, array in stored.items():
        raw = np.frombuffer(wgsl.gpu().queue.read_buffer(buffers[name]), np.float32)
        assert (raw[array.size :].view(np.int32) == GUARD_BITS).all(), f"it wrote behind {name}"
        after[name] = raw[: array.size].reshape(array.shape)
    return after


@pytest.mark.parametrize("N, T, H, D", SHAPES)
def test_wgsl_heads_are_normed_and_what_is_normed_is_turned(N, T, H, D, wgsl):
    norm_dims, turn_dims = {"N": N, "H": H, "D": D}, {"N": N, "T": T, "H": H, "D": D, "inverse": 0}
    norm_case, turn_case = make_case("qk_norm", norm_dims, np.float32), make_case("rotary", turn_dims, np.float32)
    norm, turn = call_of("qk_norm", norm_case), call_of("rotary", turn_case)
    turn.tensors[0], turn.tensors[2].name = norm.tensor("y"), "turned"
    stored = {name: norm_case[name] for name in ("qkv", "y", "rstd")}
    stored |= {"angles": turn_case["angles"], "turned": turn_case["y"]}

    after = played(wgsl, norm, turn, stored)

    assert_matches_spec("qk_norm", norm_dims, after)
    case = make_case("rotary", turn_dims) | {"qkv": after["y"].astype(np.float64)}
    off = np.abs(after["turned"] - run_spec("rotary", case)["y"])
    assert (off <= error_bound("rotary", case)["y"]).all()


@pytest.mark.parametrize("N, T, H, D", SHAPES)
def test_wgsl_gradients_are_turned_back_and_brought_through_the_norm(N, T, H, D, wgsl):
    norm_dims, turn_dims = {"N": N, "H": H, "D": D}, {"N": N, "T": T, "H": H, "D": D, "inverse": 1}
    norm_case = make_case("qk_norm_backward", norm_dims, np.float32)
    turn_case = make_case("rotary", turn_dims, np.float32)
    turn, norm = call_of("rotary", turn_case), call_of("qk_norm_backward", norm_case)
    norm.tensors[norm.declared.tensors.index("dy")] = turn.tensor("y")
    for op, name in ((norm, "y"), (turn, "qkv")):
        op.tensor(name).name = f"{op.kernel} {name}"
    stored = {"rotary qkv": turn_case["qkv"], "angles": turn_case["angles"]}
    stored |= {"qk_norm_backward y": norm_case["y"], "rstd": norm_case["rstd"], "dqkv": norm_case["dqkv"]}

    after = played(wgsl, turn, norm, stored)

    turn_case, norm_case = make_case("rotary", turn_dims), make_case("qk_norm_backward", norm_dims)
    norm_case["dy"] = run_spec("rotary", turn_case)["y"]
    wanted = run_spec("qk_norm_backward", norm_case)["dqkv"]
    # What the turn is off by goes through the norm's gradient, by absolute values.
    off, n = (array.reshape(N, 3 * H, D) for array in (error_bound("rotary", turn_case)["y"], np.abs(norm_case["y"])))
    through = off.copy()
    through[:, : 2 * H] += n[:, : 2 * H] * (off * n)[:, : 2 * H].mean(axis=2, keepdims=True)
    through[:, : 2 * H] *= norm_case["rstd"][:, :, None]
    bound = error_bound("qk_norm_backward", norm_case)["dqkv"] + through.reshape(N, -1)
    assert (np.abs(after["dqkv"] - wanted) <= bound).all()
