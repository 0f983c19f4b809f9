# ruff: noqa: E741
import math

import numpy as np
import pytest
import torch
from cases import assert_matches_spec, call_of, case_id, make_case, run_spec
from harness_cpp import cpu_lanes, run_kernel
from kernel_tests import KernelTests, device_with, some
from slopes import assert_gradient
from wgsl_case import stored_arrays, unsliced

from tinygpt.core.ops import linear, linear_tiles
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.kernels.linear import normal_cdf, normal_density
from tinygpt.labs import bounds
from tinygpt.labs.rounding import GELU_BENDIEST, GELU_STEEPEST, U, gamma, gelu_errors, old

NOI = [(1, 1, 1), (1, 7, 3), (3, 1, 5), (31, 48, 17), (64, 96, 64), (33, 65, 100), (129, 100, 48), (5, 256, 96)]
# Off every tile of C++, several blocks of k, few rows.
BLOCKED = [(1, 300, 1001), (15, 17, 385), (16, 64, 33), (19, 500, 900), (50, 70, 1153), (97, 1031, 21)]
BLOCKED += [(385, 47, 95), (1025, 31, 129)]
WIDE = {"N": 132, "O": 136, "I": 72}  # a whole number of words: WGSL takes four at a time, in tiles
ADDED = {"accumulate": 1, "scale": -0.3}
# Slices of columns: those that WGSL takes by fours, and others; before and behind a place that can be bound; few rows.
SLICES = [((33, 48, 20), 144, 48), ((130, 16, 72), 300, 204), ((31, 33, 17), 50, 7), ((64, 64, 32), 193, 129)]
SLICES += [((5, 12, 4), 38, 10), ((1, 7, 24), 99, 66)]
SMALL = [{"N": N, "O": O, "I": I} for N, O, I in [(1, 1, 1), (1, 3, 5), (4, 2, 3), (3, 5, 1)]]
FILLS = {"weight": lambda normal, dims, random: normal / math.sqrt(normal.shape[1])}


def shapes(*optional):
    """Every shape with all optional tensors, and one shape with each combination of absent ones."""
    absent = [{name: None for i, name in enumerate(optional) if mask >> i & 1} for mask in range(1, 1 << len(optional))]
    return [{"N": N, "O": O, "I": I} for N, O, I in NOI] + [{"N": 31, "O": 33, "I": 17, **names} for names in absent]


def blocked(*flag):
    """`flag`: a dim of 0 or 1."""
    return [{"N": N, "O": O, "I": I} | dict.fromkeys(flag, i % 2) for i, (N, O, I) in enumerate(BLOCKED)]


def of_columns(dims, tensor, pitch, offset):
    return dims | {f"{tensor}_pitch": pitch, f"{tensor}_offset": offset}


def slices(tensor, *optional, **more):
    """Of `tensor`: added to what is there or not, with all optional tensors and with none."""
    return [
        of_columns({"N": N, "O": O, "I": I, "accumulate": i % 2}, tensor, pitch, offset)
        | (dict.fromkeys(optional) if i > 2 else {})
        | more
        for i, ((N, O, I), pitch, offset) in enumerate(SLICES)
    ]


def or_zero(term):
    return 0 if term is None else term


class TestLinear(KernelTests):
    kernel = "linear"
    bound = staticmethod(bounds.linear)
    wgsl_every = 2
    cases = shapes("bias", "residual") + slices("y", "bias", "residual", scale=2)
    cases += [{"N": 33, "O": 48, "I": 20} | ADDED]
    cpp_cases = [*blocked(), of_columns({"N": 50, "O": 390, "I": 1153} | ADDED, "y", 1000, 601)]
    wgsl_cases = [WIDE]
    fills = FILLS

    def formula(self, *, x, weight, bias, residual, y, accumulate, scale, **_):
        added = or_zero(bias) + or_zero(residual) + (y if accumulate else 0)
        return {"y": scale * torch.einsum("ni,oi->no", x, weight) + added}


class TestLinearActivation(KernelTests):
    kernel = "linear_activation"
    wgsl_every = 2
    cases = [dims | {"kind": GELU} for dims in shapes("bias", "residual", "slope")]
    cases += [dims | {"kind": RELU2} for dims in shapes("bias", "residual", "slope")[1::3]]
    cpp_cases = blocked("kind")
    wgsl_cases = [WIDE | {"kind": GELU}, WIDE | {"kind": RELU2, "residual": None}]
    fills = FILLS

    def formula(self, *, x, weight, bias, residual, kind, **_):
        h = (torch.nn.functional.linear(x, weight, bias) + or_zero(residual)).requires_grad_()
        y = h.relu().square() if kind == RELU2 else torch.nn.functional.gelu(h)
        y.sum().backward()
        return {"y": y, "slope": h.grad}

    def bound(self, *, x, weight, bias, residual, I, kind, **_):
        h = x @ weight.T + or_zero(bias) + or_zero(residual)
        h_off = gamma(I + 2) * (np.abs(x) @ np.abs(weight).T + np.abs(or_zero(bias)) + np.abs(or_zero(residual)))
        if kind == RELU2:
            above = np.maximum(h, 0)
            return {"y": (2 * above + h_off) * h_off + U * above * above, "slope": 2 * h_off}
        y_off, slope_off = gelu_errors(h)
        return {"y": GELU_STEEPEST * h_off + y_off, "slope": GELU_BENDIEST * h_off + slope_off}


class TestLinearBackwardInput(KernelTests):
    kernel = "linear_backward_input"
    wgsl_every = 2
    cases = shapes("slope") + slices("dy", "slope", scale=2)
    cases += [{"N": 33, "O": 48, "I": 20} | ADDED]
    cpp_cases = [*blocked(), of_columns({"N": 50, "O": 790, "I": 390} | ADDED, "dy", 1000, 201)]
    wgsl_cases = [WIDE]
    forward = "linear"
    small_cases = [dims | {"slope": None} for dims in [*SMALL, SMALL[-1] | {"scale": 0.7}]]
    fills = FILLS

    def bound(self, *, dy, weight, slope, dx, O, accumulate, scale, **_):
        size = abs(scale) * (np.abs(dy) @ np.abs(weight)) * (1 if slope is None else np.abs(slope))
        return {"dx": gamma(O + 1 + accumulate + (scale != 1)) * (size + old(dx, accumulate))}


class TestLinearBackwardWeight(KernelTests):
    kernel = "linear_backward_weight"
    wgsl_every = 3  # both kinds of accumulate, in one slice and in more
    cases = [dims | {"accumulate": accumulate} for dims in shapes("dbias") for accumulate in (0, 1)]
    cases += slices("dy", "dbias")
    cpp_cases = [*blocked("accumulate"), of_columns({"N": 790, "O": 70, "I": 390, "accumulate": 1}, "dy", 1000, 201)]
    wgsl_cases = [WIDE | {"accumulate": 1}]
    forward = "linear"
    small_cases = [dims | {"accumulate": 0} for dims in SMALL]

    def bound(self, *, dy, x, dweight, dbias, N, accumulate, **_):
        dweight_size = np.abs(dy).T @ np.abs(x) + old(dweight, accumulate)
        dbias_size = 0.0 if dbias is None else np.abs(dy).sum(axis=0) + old(dbias, accumulate)
        return {"dweight": gamma(N + 1) * dweight_size, "dbias": gamma(N + 1) * dbias_size}


@pytest.mark.parametrize("kind", [GELU, RELU2])
@pytest.mark.parametrize("N, O, I", [(1, 1, 1), (1, 4, 3), (3, 5, 2)])
def test_spec_gradient_through_an_activation(N, O, I, kind):
    """The MLP: z = f(x inner^T + bias) outer^T, whose slope meets the gradient in linear_backward_input."""
    sizes, turned = {"N": N, "O": O, "I": I}, {"N": N, "O": I, "I": O}
    inner = make_case("linear_activation", sizes | {"kind": kind})
    outer = make_case("linear", turned | {"bias": None, "residual": None})
    dz = make_case("linear_backward_input", turned)["dy"]

    def forward():
        hidden = run_spec("linear_activation", inner)
        return hidden, run_spec("linear", outer | {"x": hidden["y"]})["y"]

    def backward(dims, dy, weight, slope, x):
        by_input = make_case("linear_backward_input", dims) | {"dy": dy, "weight": weight, "slope": slope}
        by_weight = make_case("linear_backward_weight", dims | {"accumulate": 0}) | {"dy": dy, "x": x}
        return run_spec("linear_backward_input", by_input)["dx"], run_spec("linear_backward_weight", by_weight)

    hidden, z = forward()
    dh, of_outer = backward(turned, dz, outer["weight"], hidden["slope"], hidden["y"])
    dx, of_inner = backward(sizes, dh, inner["weight"], None, inner["x"])
    for gradient, of in [
        (of_outer["dweight"], outer["weight"]),
        (of_inner["dweight"], inner["weight"]),
        (of_inner["dbias"], inner["bias"]),
        (dx, inner["x"]),
    ]:
        assert_gradient(gradient, lambda: (dz * forward()[1]).sum(), of, np.abs(dz * z).sum())


def test_spec_the_normal_distribution_at_known_points_and_in_the_tail():
    known = {0.0: 0.5, 1.0: 0.8413447460685429, -1.0: 0.15865525393145707, -8.0: 6.220960574271785e-16}
    for h, cdf in known.items():
        assert normal_cdf(np.array([h]))[0] == pytest.approx(cdf, rel=4e-15)
    assert normal_density(np.array([0.0]))[0] == pytest.approx(1 / math.sqrt(2 * math.pi), rel=4e-16)


# --- activations in C++ --------------------------------------------------------------------------------------


def activated(h, kind, lanes):
    """linear_activation with a single weight of 1 and no bias: h goes through as it is."""
    one, unset = np.ones((1, 1), np.float32), np.full((h.size, 1), np.nan, np.float32)
    case = {"x": h[:, None], "weight": one, "bias": None, "residual": None, "y": unset, "slope": unset}
    outputs = run_kernel("linear_activation", case | {"N": h.size, "O": 1, "I": 1, "kind": kind}, lanes)
    return {name: output[:, 0] for name, output in outputs.items()}


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_cpp_gelu_keeps_its_relative_accuracy_into_the_tail(lanes):
    h = np.concatenate([np.linspace(-12.99, 12.99, 4001), np.geomspace(1e-30, 1, 200), -np.geomspace(1e-30, 1, 200)])
    h = h.astype(np.float32)
    got = activated(h, GELU, lanes)
    exact = h.astype(np.float64)
    value = exact * normal_cdf(exact)
    slope = normal_cdf(exact) + exact * normal_density(exact)
    ulp = np.spacing(np.abs(value).astype(np.float32)).astype(np.float64)
    assert (np.abs(got["y"] - value) / ulp).max() <= 7  # some fourteen roundings of half an ulp
    assert np.abs(got["slope"] - slope).max() <= 2.0**-22  # two ulp of its largest value, 1.13


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_cpp_gelu_at_the_ends(lanes):
    got = activated(np.array([np.nan, np.inf, 1e30, 0.0, -13.0, -50.0, -1e30], np.float32), GELU, lanes)
    np.testing.assert_array_equal(got["y"], np.array([np.nan, np.inf, 1e30, 0, 0, 0, 0], np.float32))
    np.testing.assert_array_equal(got["slope"][2:], np.array([1, 0.5, 0, 0, 0], np.float32))


@pytest.mark.parametrize("lanes", cpu_lanes())
def test_cpp_squared_relu_is_rounded_once(lanes):
    h = np.array([np.nan, np.inf, 1.1, 3e-20, 0.0, -0.0, -1e-30, -2.0, -np.inf], np.float32)
    got = activated(h, RELU2, lanes)
    np.testing.assert_array_equal(got["y"], np.maximum(h, 0) ** 2)
    np.testing.assert_array_equal(got["slope"], 2 * np.maximum(h, 0))


# --- tiles on a GPU ------------------------------------------------------------------------------------------

BIG = {"max_shared": 49152, "max_invocations": 1024}
F16_UNIT = 2.0**-11  # the unit roundoff of float16
ON_TILES = [("linear", of_columns(WIDE | ADDED, "y", 408, 136)), ("linear_activation", WIDE | {"kind": GELU})]
ON_TILES += [("linear_backward_input", of_columns(WIDE | ADDED, "dy", 408, 272))]
ON_TILES += [("linear_backward_weight", of_columns(WIDE | {"accumulate": 1}, "dy", 408, 272))]
each_kernel = pytest.mark.parametrize("kernel, dims", ON_TILES, ids=[kernel for kernel, _ in ON_TILES])


@pytest.mark.parametrize("tile", some(linear_tiles.TILES, 4), ids=lambda tile: "x".join(map(str, tile[:5])))
@each_kernel
def test_wgsl_every_tile_is_the_spec(kernel, dims, tile, wgsl, monkeypatch):
    monkeypatch.setattr(linear, "tile_of", lambda *_: tile)
    slices = 2 if kernel == "linear_backward_weight" else 1
    outputs = wgsl.run_kernel(kernel, make_case(kernel, dims, dtype=np.float32), device_with(**BIG), slices)
    assert_matches_spec(kernel, dims, outputs)


@each_kernel
def test_wgsl_float16_tiles_round_like_float16(kernel, dims, wgsl):
    case = make_case(kernel, dims, dtype=np.float32)
    outputs = wgsl.run_kernel(kernel, case, device_with(**BIG, f16=True))
    exact = wgsl.run_kernel(kernel, case, device_with(**BIG))
    assert_matches_spec(kernel, dims, outputs, unit=F16_UNIT)
    assert any(not np.array_equal(outputs[name], exact[name]) for name in outputs), "nothing was rounded"


def test_wgsl_small_devices_get_small_tiles():
    small, big = Device(), device_with(**BIG, processors=128)
    for rows, columns in [(64, 64), (2048, 768), (4096, 4096)]:
        tile = linear_tiles.tile_of([linear_tiles.Product(rows, columns, 256)], small)
        assert linear_tiles.shared_bytes(tile, 16) <= small.max_shared
    assert linear_tiles.tile_of([linear_tiles.Product(4096, 4096, 256)], big).rows == 128
    assert linear_tiles.tile_of([linear_tiles.Product(1024, 96, 384)], big).splits > 1


@pytest.mark.parametrize("slices", some([3, 1], 2))
@pytest.mark.parametrize(
    "dims", some([of_columns({"N": 200, "O": 32, "I": 20} | ADDED, "dy", 96, 32), WIDE]), ids=case_id
)
def test_wgsl_both_gradients_in_one_dispatch_are_those_of_two(dims, slices, wgsl, monkeypatch):
    monkeypatch.setattr(linear, "tile_of", lambda *_: linear_tiles.TILES[-1])
    by_input = make_case("linear_backward_input", dims, dtype=np.float32)
    by_weight = make_case("linear_backward_weight", {**dims, "accumulate": 0}, dtype=np.float32)
    by_weight["dy"] = by_input["dy"]
    apart = wgsl.run_kernel("linear_backward_input", by_input, Device())
    apart |= wgsl.run_kernel("linear_backward_weight", by_weight, Device(), slices)

    first, second = call_of("linear_backward_input", by_input), call_of("linear_backward_weight", by_weight)
    second.tensors[0] = first.tensors[0]
    assert linear.are_pair(first, second)
    stored = stored_arrays("linear_backward_input", by_input, slices)
    stored |= stored_arrays("linear_backward_weight", by_weight, slices)
    buffers = {name: wgsl.buffer_with(array) for name, array in stored.items()}
    wgsl.play(linear.backward(first, second, Target(Device(), slices)), buffers, stored)
    for name, expected in apart.items():
        raw = np.frombuffer(wgsl.gpu().queue.read_buffer(buffers[name]), np.float32)[: stored[name].size]
        got = raw.reshape(expected.shape) if name == "dx" else unsliced(raw, slices, expected)
        assert np.array_equal(got, expected), name
