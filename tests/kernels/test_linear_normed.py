"""A layer norm and the linear map that takes it in one dispatch: neither is an op's kernel alone."""

import all_cases  # noqa: F401 (the cases of both)
import numpy as np
import pytest
from cases import assert_matches_spec, call_of, make_case
from kernel_tests import device_with
from words import GUARD_BITS

from tinygpt.core.models.layout import aligned
from tinygpt.core.ops import linear, linear_normed, linear_tiles
from tinygpt.core.ops.gpu import Target
from tinygpt.core.ops.linear import GELU
from tinygpt.core.ops.op import Tensor

N, O, C = 132, 136, 72  # noqa: E741
BEHIND = aligned(C)  # where the norm's bias lies, as in a model


# Two, one and eight invocations per row; with and without a bias of the norm.
@pytest.mark.parametrize(
    "kernel, more, tile, absent",
    [
        ("linear", {}, linear_tiles.TILES[0], {}),
        ("linear", {}, linear_tiles.TILES[-2], {"bias": None}),
        ("linear_activation", {"kind": GELU}, linear_tiles.TILES[1], {}),
    ],
    ids=["128x128", "32x32 no bias", "64x64 activation"],
)
def test_wgsl_the_norm_is_the_spec_and_the_product_that_of_the_linear_map_alone(
    kernel, more, absent, tile, wgsl, monkeypatch
):
    for module in (linear, linear_normed):
        monkeypatch.setattr(module, "tile_of", lambda *_: tile)
    norm_dims, device = {"N": N, "C": C} | absent, device_with(max_shared=49152, max_invocations=1024)
    norm_case = make_case("layernorm", norm_dims, dtype=np.float32)
    case = make_case(kernel, {"N": N, "O": O, "I": C, "residual": None} | more, dtype=np.float32)
    stored = {"norm_weights": np.zeros(BEHIND + C, np.float32), "before": norm_case["x"], "x": norm_case["y"]}
    stored |= {"stats": norm_case["stats"]} | {name: case[name] for name in ("weight", "bias", "y")}
    if kernel == "linear_activation":
        stored["slope"] = case["slope"]
    stored["norm_weights"][:C] = norm_case["gain"]
    norm, op, whole = call_of("layernorm", norm_case), call_of(kernel, case), Tensor("norm_weights", (BEHIND + C,))
    norm.tensors[0], norm.tensors[1], norm.tensors[3] = (
        Tensor("before", (N, C)),
        whole.view("gain", (C,), 0),
        op.tensors[0],
    )
    if not absent:
        stored["norm_weights"][BEHIND:] = norm_case["bias"]
        norm.tensors[2] = whole.view("shift", (C,), BEHIND)
    buffers = {name: wgsl.buffer_with(array) for name, array in stored.items()}

    assert linear_normed.are_normed(norm, op, Target(device))
    (made,) = linear_normed.normed_linear(norm, op, Target(device))
    wgsl.play([made], buffers, stored)

    after = {}
    for name, array in stored.items():
        raw = np.frombuffer(wgsl.gpu().queue.read_buffer(buffers[name]), np.float32)
        assert (raw[array.size :].view(np.int32) == GUARD_BITS).all(), f"it wrote behind {name}"
        after[name] = raw[: array.size].reshape(array.shape)
    assert_matches_spec("layernorm", norm_dims, {"y": after["x"], "stats": after["stats"]})
    for name, expected in wgsl.run_kernel(kernel, case | {"x": after["x"]}, device).items():
        assert np.array_equal(after[name], expected), name
