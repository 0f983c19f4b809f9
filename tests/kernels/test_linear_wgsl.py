"""The WGSL matmuls against the specification: every tile, the plain kernel, the single row, float16 tiles."""

import numpy as np
import pytest
from cases import ALL_CASES, assert_matches_spec, case_id, make_case
from harness_wgsl import buffer_with, gpu, play, run_kernel
from wgsl_case import op_and_arrays, unsliced

from tinygpt.core.ops import linear, linear_tiles
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.core.ops.linear import GELU, RELU2

LINEAR = ("linear", "linear_activation", "linear_backward_input", "linear_backward_weight")
MORE = {"linear_activation": {"kind": GELU}, "linear_backward_weight": {"accumulate": 1}}  # dims
CASES = [(kernel, dims) for kernel, dims in ALL_CASES if kernel in LINEAR]
WIDE = [(kernel, {"N": 132, "O": 136, "I": 72} | MORE.get(kernel, {})) for kernel in LINEAR]
F16_UNIT = 2.0**-11  # the unit roundoff of float16


def big_device(**features) -> Device:
    device = Device()
    device.max_shared, device.max_invocations = 49152, 1024
    for name, value in features.items():
        setattr(device, name, value)
    return device


# Gradients in one slice and in three; subgroups where they are used, in the kernel of a single row.
RUNS = [
    (kernel, dims, subgroups, slices)
    for kernel, dims in [*CASES, *WIDE, ("linear_activation", {"N": 132, "O": 136, "I": 72, "kind": RELU2})]
    for subgroups in ([False, True] if dims["N"] == 1 and "backward" not in kernel else [False])
    for slices in ([1, 3] if kernel == "linear_backward_weight" else [1])
]


def run_id(value) -> str:
    return case_id(value) if isinstance(value, (str, dict)) else str(value)


@pytest.mark.parametrize("kernel, dims, subgroups, slices", RUNS, ids=run_id)
def test_equals_the_specification(kernel, dims, subgroups, slices):
    device = Device()
    device.subgroups = subgroups
    outputs = run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), device, slices)
    assert_matches_spec(kernel, dims, outputs)


@pytest.mark.parametrize("tile", linear_tiles.TILES, ids=lambda tile: "x".join(map(str, tile[:5])))
@pytest.mark.parametrize("kernel, dims", WIDE, ids=case_id)
def test_every_tile_equals_the_specification(kernel, dims, tile, monkeypatch):
    monkeypatch.setattr(linear, "tile_of", lambda *_: tile)
    slices = 2 if kernel == "linear_backward_weight" else 1
    outputs = run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), big_device(), slices)
    assert_matches_spec(kernel, dims, outputs)


@pytest.mark.parametrize("kernel, dims", WIDE, ids=case_id)
def test_float16_tiles_round_like_float16(kernel, dims):
    case = make_case(kernel, dims, dtype=np.float32)
    outputs = run_kernel(kernel, case, big_device(f16=True))
    exact = run_kernel(kernel, case, big_device())
    assert_matches_spec(kernel, dims, outputs, unit=F16_UNIT)
    assert any(not np.array_equal(outputs[name], exact[name]) for name in outputs), "nothing was rounded"


def test_small_devices_get_small_tiles():
    small, big = Device(), big_device(processors=128)
    for rows, columns in [(64, 64), (2048, 768), (4096, 4096)]:
        tile = linear_tiles.tile_of([linear_tiles.Product(rows, columns, 256)], small)
        assert linear_tiles.shared_bytes(tile, 16) <= small.max_shared
    assert linear_tiles.tile_of([linear_tiles.Product(4096, 4096, 256)], big).rows == 128
    assert linear_tiles.tile_of([linear_tiles.Product(1024, 96, 384)], big).splits > 1


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("dims", [{"N": 132, "O": 136, "I": 72}, {"N": 200, "O": 32, "I": 20}], ids=case_id)
def test_both_gradients_in_one_dispatch_are_those_of_two(dims, slices, monkeypatch):
    monkeypatch.setattr(linear, "tile_of", lambda *_: linear_tiles.TILES[-1])
    by_input = make_case("linear_backward_input", dims, dtype=np.float32)
    by_weight = make_case("linear_backward_weight", {**dims, "accumulate": 0}, dtype=np.float32)
    by_weight["dy"] = by_input["dy"]
    apart = run_kernel("linear_backward_input", by_input, Device())
    apart |= run_kernel("linear_backward_weight", by_weight, Device(), slices)

    first, stored = op_and_arrays("linear_backward_input", by_input, slices)
    second, of_weight = op_and_arrays("linear_backward_weight", by_weight, slices)
    second.tensors[0] = first.tensors[0]
    assert linear.are_pair(first, second)
    stored |= of_weight
    buffers = {name: buffer_with(array) for name, array in stored.items()}
    play(linear.backward(first, second, Target(Device(), slices)), buffers, stored)
    for name, expected in apart.items():
        raw = np.frombuffer(gpu().queue.read_buffer(buffers[name]), np.float32)[: stored[name].size]
        got = raw.reshape(expected.shape) if name == "dx" else unsliced(raw, slices, expected)
        assert np.array_equal(got, expected), name
