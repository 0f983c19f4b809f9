# ruff: noqa: E741
import math

import numpy as np
import test_embed
import test_linear
import torch
from kernel_tests import KernelTests
from test_linear import or_zero

from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.labs.rounding import ERF, GELU_STEEPEST, U, gamma

# Off every vector and every sum, some rows together and some alone; more outputs than a thread's vectors.
NOI = [(1, 1, 1), (1, 7, 3), (3, 1, 5), (5, 33, 17), (1, 48, 96), (7, 65, 100), (15, 17, 385), (1, 300, 1001)]
SHAPES = [{"N": N, "O": O, "I": I} for N, O, I in NOI]
SHAPES += [{"N": 6, "O": 33, "I": 17, "bias": None}, {"N": 1, "O": 20, "I": 65, "bias": None, "residual": None}]
TABLES = [(1, 1, 1), (3, 1, 5), (2, 17, 48), (1, 33, 100)]


def scale_of(normal, dims, random):
    """As of rows whose numbers have a deviation of 1 / sqrt(I)."""
    return np.abs(normal) / (64 * math.sqrt(dims.get("I", 1)))


def product(x, weight, weight_scales, bias, residual):
    return (x @ weight.T) * weight_scales + or_zero(bias) + or_zero(residual)


def size_of(x, weight, weight_scales, bias, residual):
    weight = weight.astype(np.float64)  # a byte has no 128
    return product(*[None if part is None else np.abs(part) for part in (x, weight, weight_scales, bias, residual)])


class OfScaled(KernelTests, register=False):
    on_gpu = False
    cases = SHAPES
    fills = {"weight_scales": scale_of}


class TestLinearInt8(OfScaled):
    kernel = "linear_int8"

    def formula(self, *, x, weight, weight_scales, bias, residual, **_):
        unpacked = weight * weight_scales[:, None]
        return {"y": torch.nn.functional.linear(x, unpacked, bias) + or_zero(residual)}

    def bound(self, *, x, weight, weight_scales, bias, residual, I, **_):
        return {"y": gamma(I + 3) * size_of(x, weight, weight_scales, bias, residual)}


class TestLinearActivationInt8(OfScaled):
    kernel = "linear_activation_int8"
    cases = [dims | {"kind": (GELU, RELU2)[i % 2]} for i, dims in enumerate(SHAPES)]

    def formula(self, *, x, weight, weight_scales, bias, residual, kind, **_):
        h = torch.nn.functional.linear(x, weight * weight_scales[:, None], bias) + or_zero(residual)
        return {"y": h.relu().square() if kind == RELU2 else torch.nn.functional.gelu(h)}

    def bound(self, *, x, weight, weight_scales, bias, residual, I, kind, **_):
        h = product(x, weight.astype(np.float64), weight_scales, bias, residual)
        h_off = gamma(I + 3) * size_of(x, weight, weight_scales, bias, residual)
        if kind == RELU2:
            above = np.maximum(h, 0)
            return {"y": (2 * above + h_off) * h_off + U * above * above}
        return {"y": GELU_STEEPEST * h_off + np.abs(h) * (0.5 * ERF + 4 * U)}


class OfTables(KernelTests, register=False):
    on_gpu = False
    fills = {"wte_scales": scale_of, "wpe_scales": scale_of}

    def shape(self, name, dims):
        rows = {"wte": 256, "wpe": dims["T"] + 3}  # a prompt may be shorter than the table
        if name.removesuffix("_scales") not in rows:
            return super().shape(name, dims)
        return (rows[name[:3]],) if name.endswith("_scales") else (rows[name], dims["C"])

    def formula(self, *, tokens, wte, wte_scales, wpe, wpe_scales, T=1, position=None, **_):
        places = torch.arange(len(tokens)) % T if position is None else position
        x = (wte * wte_scales[:, None])[tokens]
        return {"x": x if wpe is None else x + (wpe * wpe_scales[:, None])[places]}

    def bound(self, *, tokens, wte, wte_scales, wpe, wpe_scales, T=1, position=None, **_):
        places = np.arange(len(tokens)) % T if position is None else position
        size = np.abs(wte[tokens] * wte_scales[tokens, None])
        return {"x": gamma(2) * (size + (0 if wpe is None else np.abs(wpe[places] * wpe_scales[places, None])))}


class TestEmbedInt8(OfTables):
    kernel = "embed_int8"
    cases = [{"N": B * T, "T": T, "C": C} for B, T, C in TABLES]
    cases += [{"N": 34, "T": 17, "C": 5, "wpe": None, "wpe_scales": None}]


class TestEmbedOneInt8(OfTables):
    kernel = "embed_one_int8"
    cases = [{"C": C, "T": T, "position": p} for C, T, p in [(1, 1, 0), (5, 17, 16), (48, 33, 7)]]
    cases += [{"C": 20, "T": 9, "R": 3, "position": [8, 0, 5]}]
    cases += [{"C": 48, "T": 33, "position": 7, "wpe": None, "wpe_scales": None}]


class TestUnpackInt8(KernelTests):
    """What a file's reader makes of them, to the bit."""

    kernel = "unpack_int8"
    on_gpu = False
    cases = [{"N": N, "C": C} for N, C in [(1, 1), (7, 3), (5, 48), (33, 100)]]
    fills = {"scales": scale_of}

    def formula(self, *, x, scales, **_):
        return {"y": torch.einsum("nc,n->nc", x.double(), scales)}

    def bound(self, *, x, scales, **_):
        return {"y": U * np.abs(x * scales[:, None])}


def wide(table):
    return None if table is None else table.astype(np.float64)


class TestLinearFloat16(KernelTests):
    """Bounds are those of the float kernels, of numbers that float16 holds."""

    kernel = "linear_float16"
    on_gpu = False
    cases = SHAPES
    fills = {"weight": lambda normal, dims, random: (normal / math.sqrt(dims["I"])).astype(np.float16)}

    def formula(self, *, x, weight, **case):
        return test_linear.TestLinear().formula(x=x, weight=weight.double(), accumulate=0, scale=1, **case)

    def bound(self, *, weight, **case):
        return test_linear.TestLinear().bound(weight=wide(weight), accumulate=0, scale=1, **case)


class TestLinearActivationFloat16(KernelTests):
    kernel = "linear_activation_float16"
    on_gpu = False
    cases = [dims | {"kind": (GELU, RELU2)[i % 2]} for i, dims in enumerate(SHAPES)]
    fills = TestLinearFloat16.fills

    def formula(self, *, weight, **case):
        return {"y": test_linear.TestLinearActivation().formula(weight=weight.double(), **case)["y"]}

    def bound(self, *, weight, **case):
        return {"y": test_linear.TestLinearActivation().bound(weight=wide(weight), **case)["y"]}


class TestEmbedFloat16(KernelTests):
    kernel = "embed_float16"
    on_gpu = False
    cases = [{"N": B * T, "T": T, "C": C} for B, T, C in TABLES] + [{"N": 34, "T": 17, "C": 5, "wpe": None}]

    def shape(self, name, dims):
        rows = {"wte": 256, "wpe": dims["T"]}
        return (rows[name], dims["C"]) if name in rows else super().shape(name, dims)

    def formula(self, *, wte, wpe, **case):
        return test_embed.TestEmbed().formula(wte=wte.double(), wpe=None if wpe is None else wpe.double(), **case)

    def bound(self, *, wte, wpe, **case):
        return test_embed.TestEmbed().bound(wte=wide(wte), wpe=wide(wpe), **case)


class TestEmbedOneFloat16(KernelTests):
    kernel = "embed_one_float16"
    on_gpu = False
    cases = [{"C": 5, "T": 17, "position": 16}, {"C": 20, "T": 9, "R": 3, "position": [8, 0, 5]}]
    cases += [{"C": 48, "T": 33, "position": 7, "wpe": None}]

    def shape(self, name, dims):
        return test_embed.TestEmbedOne.shape(test_embed.TestEmbedOne(), name, dims)

    def formula(self, *, wte, wpe, **case):
        return test_embed.TestEmbedOne().formula(wte=wte.double(), wpe=None if wpe is None else wpe.double(), **case)

    def bound(self, *, wte, wpe, **case):
        return test_embed.TestEmbedOne().bound(wte=wide(wte), wpe=wide(wpe), **case)


class TestUnpackFloat16(KernelTests):
    """Every finite float16, to the bit."""

    kernel = "unpack_float16"
    on_gpu = False
    exact = True
    cases = [{"N": N, "C": C} for N, C in [(1, 1), (7, 3), (64, 1025)]]
    fills = {"x": lambda normal, dims, random: every_half()[: normal.size].reshape(normal.shape)}

    def formula(self, *, x, **_):
        return {"y": x.double()}


def every_half():
    bits = np.arange(2**16, dtype=np.uint16)
    found = np.random.default_rng(0).permutation(bits[bits & 0x7C00 != 0x7C00]).view(np.float16)
    return np.concatenate([found, found])
