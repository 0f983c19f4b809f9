"""WGSL kernels over rows and flat vectors equal the specification, with and without subgroups, in one slice or more."""

import numpy as np
import pytest
from cases import ALL_CASES, CPU_ONLY, assert_matches_spec, case_id, make_case, window_case
from harness_wgsl import TEXTS, run_kernel
from wgsl_case import is_gradient
from wgsl_text import declared_bindings, declared_overrides

from tinygpt.core.ops import cross_entropy, layernorm, rmsnorm
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.core.ops.op import KERNELS, Op, Tensor, float_bits
from tinygpt.core.rng import BATCH


def is_sliced(kernel):
    return any(is_gradient(kernel, name) for name in KERNELS[kernel].tensors)


ELSEWHERE = (
    "linear",
    "linear_activation",
    "linear_backward_input",
    "linear_backward_weight",
    "attention",
    "attention_backward",
)
CASES = [(kernel, dims) for kernel, dims in ALL_CASES if kernel not in ELSEWHERE + CPU_ONLY]
CASES += [
    ("layernorm", {"N": 3, "C": 1280}),  # several workgroups' worth of lanes in a row
    ("layernorm", {"N": 600, "C": 96}),  # 32 lanes a row
    ("layernorm_backward", {"N": 600, "C": 96, "accumulate": 1}),
    ("rmsnorm", {"N": 3, "C": 1280}),
    ("rmsnorm", {"N": 600, "C": 96}),
    ("rmsnorm_backward", {"N": 600, "C": 96, "accumulate": 1}),
    ("qk_norm", {"N": 2, "H": 1, "D": 1280}),
    ("qk_norm_backward", {"N": 2, "H": 1, "D": 1280}),
    ("cross_entropy", {"N": 600, "V": 256, "count": 600}),
    # more than a tile and a chunk of rows
    ("embed_backward", {"N": 1200, "T": 300, "V": 256, "C": 132, "accumulate": 0, "tied": 0}),
    ("grad_norm", {"P": 50000, "limit": 1.0}),  # several partial sums
    ("attention_one", {"T": 700, "H": 5, "D": 36, "position": 600}),  # chunks of rows whose top grows, two tiles
]
RUNS = [(kernel, dims, slices) for kernel, dims in CASES for slices in ((1, 3) if is_sliced(kernel) else (1,))]


def device_with(subgroups):
    device = Device()
    device.subgroups = subgroups
    return device


@pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])
@pytest.mark.parametrize("kernel, dims, slices", RUNS, ids=lambda v: str(v) if isinstance(v, int) else case_id(v))
def test_equals_the_specification(kernel, dims, slices, subgroups):
    outputs = run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), device_with(subgroups), slices)
    assert_matches_spec(kernel, dims, outputs)


@pytest.mark.parametrize("lanes", [1, 4, 16, 64])
def test_any_number_of_lanes_within_and_beyond_a_subgroup(lanes, monkeypatch):
    for module in (layernorm, rmsnorm, cross_entropy):
        monkeypatch.setattr(module, "row_lanes", lambda rows, words, device: lanes)
    for kernel, dims in [
        ("layernorm", {"N": 37, "C": 100}),
        ("rmsnorm", {"N": 37, "C": 100}),
        ("cross_entropy", {"N": 37, "V": 100, "count": 37}),
    ]:
        outputs = run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), device_with(True))
        assert_matches_spec(kernel, dims, outputs)


@pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])
@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize("bad, place", [(np.nan, 0), (np.nan, 4999), (-np.nan, 2500), (np.inf, 17)])
def test_a_bad_gradient_shows_in_the_norm(bad, place, limit, subgroups):
    case = make_case("grad_norm", {"P": 5000, "limit": limit}, dtype=np.float32)
    case["grads"][place] = bad
    norm = run_kernel("grad_norm", case, device_with(subgroups), 2)["norm"]
    if np.isnan(bad):
        assert np.isnan(norm[0])
        assert np.isnan(norm[1]) if limit else norm[1] == 1
    else:
        assert norm[0] == np.inf
        assert norm[1] == (0 if limit else 1)


@pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])
def test_a_bad_logit_shows_in_the_loss(subgroups):
    case = make_case("cross_entropy", {"N": 9, "V": 256, "count": 9}, dtype=np.float32)
    case["logits"][4, 77] = np.nan
    outputs = run_kernel("cross_entropy", case, device_with(subgroups))
    assert np.isfinite(outputs["losses"]).tolist() == [
        n != 4 for n in range(9)
    ]  # there are exps that make NaN infinite
    assert np.isnan(outputs["dlogits"]).any(axis=1).tolist() == [n == 4 for n in range(9)]


def test_a_bad_gradient_reaches_the_weights():
    case = make_case("adamw", {"P": 64, "decayed": 32, "rows": 1, "counters": [0] * 4}, dtype=np.float32)
    case["norm"][:] = np.nan
    outputs = run_kernel("adamw", case, device_with(False))
    for name in ("weights", "m", "v"):
        assert np.isnan(outputs[name]).all()


def dispatches(kernel, dims, device, slices):
    """Those of a case, of which only the shapes matter."""
    case, signature = make_case(kernel, dims), KERNELS[kernel]
    names = signature.tensors
    tensors = [None if case[name] is None else Tensor(name, np.shape(case[name])) for name in names]
    scalars = [float_bits(case[name]) for name in signature.scalars]
    op = Op(kernel, tensors, [case[name] for name in signature.dims], scalars)
    return op.declared.dispatch(op, Target(device, slices))


@pytest.mark.parametrize("kernel, dims", CASES, ids=case_id)
def test_dispatches_are_what_the_text_declares(kernel, dims):
    for subgroups in (False, True):
        for dispatch in dispatches(kernel, dims, device_with(subgroups), 3):
            text = "\n".join((TEXTS / file).read_text() for file in dispatch.files)
            bound = [(name, "read") for name, _ in dispatch.reads] + [
                (name, "read_write") for name, _ in dispatch.writes
            ]
            declared = declared_bindings(text, dispatch.entry)
            assert declared == [(number, name, access) for number, (name, access) in enumerate(bound)]
            assert len(declared) <= 8
            assert declared_overrides(text, dispatch.entry) == set(dispatch.constants) - {"LANES"}


def test_long_grids_have_a_second_axis():
    device = device_with(False)
    device.max_groups = 3
    for kernel, dims in [
        ("embed", {"N": 66, "T": 33, "C": 100}),
        ("embed_backward", {"N": 66, "T": 33, "V": 256, "C": 100, "accumulate": 0, "tied": 1}),
        ("embed_backward", {"N": 66, "T": 33, "V": 256, "C": 100, "accumulate": 0, "tied": 0, "dwpe": None}),
        ("layernorm", {"N": 129, "C": 12}),
        ("rmsnorm", {"N": 129, "C": 12}),
        ("cross_entropy", {"N": 129, "V": 12, "count": 5}),
        ("adamw", {"P": 8192, "decayed": 100, "rows": 3, "counters": [4, 0, 0, 0]}),
        ("draw_windows", window_case(33, 37, 5000, 3, BATCH, 8, 1, 0)),
        ("cache_fill", {"T": 100, "C": 100}),
        ("qk_norm", {"N": 100, "H": 3, "D": 20}),
        ("qk_norm_backward", {"N": 100, "H": 3, "D": 20}),
        ("rotary_table", {"T": 100, "D": 32, "base": 10000, "position": None}),
        ("rotary", {"N": 100, "T": 50, "H": 3, "D": 32, "inverse": 0}),
        ("dropout", {"N": 100, "C": 100, "seed": 5, "site": 1, "rate": 0.1}),
        ("swiglu", {"N": 100, "F": 100}),
        ("swiglu_backward", {"N": 100, "F": 100}),
    ]:
        (dispatch,) = dispatches(kernel, dims, device, 2)
        assert dispatch.grid[1] > 1
        assert_matches_spec(kernel, dims, run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), device, 2))
