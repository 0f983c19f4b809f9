"""Attention in WGSL equals the specification, in every way that a tile of scores can be shared out."""

import numpy as np
import pytest
from cases import ALL_CASES, Dims, assert_matches_spec, case_id, make_case
from harness_wgsl import gpu, run_kernel

from tinygpt.core.ops import attention
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.core.ops.op import KERNELS, Op, Tensor

NAMES = ("attention", "attention_backward")
LARGE = [{"B": 1, "T": T, "H": 1, "D": D} for T, D in [(512, 32), (300, 20), (130, 64), (96, 128)]]
CASES = [(kernel, dims) for kernel, dims in ALL_CASES if kernel in NAMES]
CASES += [(kernel, dims) for kernel in NAMES for dims in LARGE]


def roomy() -> Device:
    """As much workgroup memory as the adapter has: large tiles."""
    device = Device()
    device.max_shared = gpu().limits["max-compute-workgroup-storage-size"]
    return device


def op_of(kernel: str, dims: Dims) -> Op:
    signature = KERNELS[kernel]
    op = Op(kernel, [], [dims[name] for name in signature.dims], [])
    op.tensors = [Tensor(name, op.shape(name)) for name in signature.tensors]
    return op


@pytest.mark.parametrize("kernel, dims", CASES, ids=case_id)
def test_equals_the_spec(kernel, dims):
    case = make_case(kernel, dims, dtype=np.float32)
    assert_matches_spec(kernel, dims, run_kernel(kernel, case, Device()))


@pytest.mark.parametrize("dims", LARGE, ids=case_id)
@pytest.mark.parametrize("kernel", NAMES)
def test_equals_the_spec_with_large_tiles(kernel, dims):
    case = make_case(kernel, dims, dtype=np.float32)
    assert_matches_spec(kernel, dims, run_kernel(kernel, case, roomy()))


# Rows and columns of the tile, of which T is no multiple; blocks of rows; one to four shares of a row; idle lanes.
TILES = [(8, 8, 1), (8, 2, 2), (4, 3, 1), (4, 4, 2), (2, 8, 1), (3, 1, 1), (16, 2, 1)]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("kernel", NAMES)
def test_every_tile_gives_the_same(kernel, tile, monkeypatch):
    monkeypatch.setattr(attention, "attention_tiles", lambda op, device: tile)
    dims = {"B": 2, "T": 77, "H": 2, "D": 28}
    case = make_case(kernel, dims, dtype=np.float32)
    assert_matches_spec(kernel, dims, run_kernel(kernel, case, Device()))


@pytest.mark.parametrize("D", [1, 4, 5, 16, 20, 32, 48, 64, 128, 256])
@pytest.mark.parametrize("kernel", NAMES)
def test_tiles_keep_to_the_limits(kernel, D):
    op, limits = op_of(kernel, {"B": 8, "T": 512, "H": 12, "D": D}), Device()
    tile = attention.attention_tiles(op, limits)
    if D % 4 == 0 and D <= 64:
        assert tile is not None
    if tile is not None:
        assert attention.fits(op, tile, limits)


@pytest.mark.parametrize("D", [5, 32, 64])
@pytest.mark.parametrize("kernel", NAMES)
def test_memory_is_linear_in_the_context(kernel, D):
    """The dispatches name the op's own tensors alone, and twice the context doubles them."""

    def bytes_of(T: int) -> int:
        op = op_of(kernel, {"B": 2, "T": T, "H": 3, "D": D})
        bound = [t for d in op.declared.dispatch(op, Target(Device())) for _, t in d.reads + d.writes if t is not None]
        assert {tensor.name for tensor in bound} == {tensor.name for tensor in op.tensors if tensor is not None}
        return sum(4 * tensor.size for tensor in bound)

    assert bytes_of(1024) == 2 * bytes_of(512)


def test_a_grid_longer_than_an_axis_is_folded():
    device = Device()
    device.max_groups = 5
    for kernel in NAMES:
        for D in (5, 16):
            dims = {"B": 2, "T": 33, "H": 2, "D": D}
            case = make_case(kernel, dims, dtype=np.float32)
            assert_matches_spec(kernel, dims, run_kernel(kernel, case, device))
