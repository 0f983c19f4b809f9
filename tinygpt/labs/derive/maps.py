"""Labs on linear maps, tables and rotations."""

import numpy as np

from tinygpt.kernels.embed import embed
from tinygpt.kernels.linear import linear
from tinygpt.kernels.rotary import rotary, rotary_table
from tinygpt.labs.derive.lab import Lab, normal, putting, taking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.labs.derive.lab import Given

CASES = ({"N": 2, "O": 3, "I": 4}, {"N": 1, "O": 5, "I": 2}, {"N": 6, "O": 1, "I": 3}, {"N": 3, "O": 7, "I": 7})


def linear_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    linear(x=g["x"], weight=g["weight"], bias=g["bias"], residual=None, y=y, N=g["N"], O=g["O"], I=g["I"])
    return float((y * g["dy"]).sum())


def map_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, O, I = dims["N"], dims["O"], dims["I"]
    g: Given = {"dy": normal(rng, N, O), "x": normal(rng, N, I), "weight": normal(rng, O, I), "bias": normal(rng, O)}
    return dict(g, N=N, O=O, I=I, accumulate=0)


def input_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    g = map_given(rng, dims)
    return dict(g, slope=None, dx=np.zeros((dims["N"], dims["I"])), scale=1)


def to_input(function: "Callable[..., Any]", given: "Given") -> None:
    def scaled(**arguments: "Any") -> "Any":
        made = function(**arguments)
        made = made * given.get("scale", 1) if given.get("scale", 1) != 1 else made
        return made if given["slope"] is None else made * given["slope"]

    putting("dx")(scaled, given, {name: given[name] for name in ("dy", "weight")})


LINEAR_INPUT = Lab(
    "linear",
    "A linear map, to its input",
    "easy",
    "linear_backward_input",
    "backward",
    "y [N, O] = x weightᵀ + bias, with x [N, I] and weight [O, I]. Given dy [N, O] and weight, write dx [N, I].",
    "def backward(dy, weight):\n    ...\n    return dx\n",
    "def backward(dy, weight):\n    return dy @ weight\n",
    (
        "y_no = Σ_i x_ni weight_oi + bias_o.",
        "x_ni reaches every y_no of its row, by weight_oi.",
        "dx_ni = Σ_o dy_no weight_oi: a matrix product.",
    ),
    (
        ("dy @ weight", "dy @ weight / dy.shape[1]"),
        ("dy @ weight", "(dy @ weight) * (weight.sum(axis=0) > 0)"),
        ("dy @ weight", "np.abs(dy) @ weight"),
    ),
    CASES,
    input_given,
    to_input,
    {"dx": "x"},
    linear_value,
)


def weight_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    g = map_given(rng, dims)
    return dict(g, dweight=np.zeros((dims["O"], dims["I"])), dbias=np.zeros(dims["O"]))


LINEAR_WEIGHT = Lab(
    "linear-weight",
    "A linear map, to its weight and bias",
    "easy",
    "linear_backward_weight",
    "backward",
    "y [N, O] = x weightᵀ + bias, with x [N, I] and weight [O, I]. Given dy [N, O] and x, write dweight [O, I] and\n"
    "dbias [O].",
    "def backward(dy, x):\n    ...\n    return dweight, dbias\n",
    "def backward(dy, x):\n    return dy.T @ x, dy.sum(axis=0)\n",
    ("Every row n uses the same weight: gradients are sums over rows.", "dweight_oi = Σ_n dy_no x_ni."),
    (
        ("dy.sum(axis=0)", "dy.mean(axis=0)"),
        ("dy.T @ x", "dy.T @ x / len(x)"),
        ("dy.sum(axis=0)", "dy[0]"),
        ("dy.T @ x", "dy[:1].T @ x[:1]"),
    ),
    tuple(reversed(CASES)),
    weight_given,
    taking(("dweight", "dbias"), "dy", "x"),
    {"dweight": "weight", "dbias": "bias"},
    linear_value,
)


def embed_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, T, V, C = dims["N"], dims["T"], dims["V"], dims["C"]
    g: Given = {"tokens": rng.integers(0, V, size=N), "wte": normal(rng, V, C), "wpe": normal(rng, T, C)}
    g["tokens"][N - 1] = g["tokens"][0]  # one that occurs twice
    g = dict(g, dx=normal(rng, N, C), dwte=np.zeros((V, C)), dwpe=np.zeros((T, C)))
    return dict(g, N=N, T=T, V=V, C=C, accumulate=0, tied=0)


def embed_value(g: "Given") -> float:
    x = np.zeros(g["dx"].shape)
    embed(tokens=g["tokens"], wte=g["wte"], wpe=g["wpe"], x=x, N=g["N"], T=g["T"], C=g["C"])
    return float((x * g["dx"]).sum())


def to_tables(function: "Callable[..., Any]", given: "Given") -> None:
    arguments = {name: given[name] for name in ("tokens", "dx", "T", "V")}
    putting("dwte", "dwpe")(function, given, arguments)


EMBED = Lab(
    "embedding",
    "Embedding",
    "easy",
    "embed_backward",
    "backward",
    "x[n] = wte[tokens[n]] + wpe[n mod T], for tokens [N], a table wte [V, C] and positions wpe [T, C].\n"
    "Given tokens and dx [N, C], write dwte [V, C] and dwpe [T, C].",
    "def backward(tokens, dx, T, V):\n    dwte, dwpe = np.zeros((V, dx.shape[1])), np.zeros((T, dx.shape[1]))\n    ...\n    return dwte, dwpe\n",
    "def backward(tokens, dx, T, V):\n"
    "    dwte, dwpe = np.zeros((V, dx.shape[1])), np.zeros((T, dx.shape[1]))\n"
    "    np.add.at(dwte, tokens, dx)\n"
    "    np.add.at(dwpe, np.arange(len(tokens)) % T, dx)\n"
    "    return dwte, dwpe\n",
    (
        "A row of a table was copied to every place that has its token: their gradients add up.",
        "`a[i] += x`, with an i that occurs twice, counts once. np.add.at counts each.",
    ),
    (
        ("np.add.at(dwte, tokens, dx)", "dwte[tokens] += dx"),
        ("np.add.at(dwte, tokens, dx)", "dwte[tokens] = dx"),
        ("np.arange(len(tokens)) % T", "np.arange(len(tokens)) // T % T"),
        ("np.add.at(dwpe, np.arange(len(tokens)) % T, dx)", "dwpe[...] = dx[:T]"),
    ),
    ({"N": 4, "T": 2, "V": 3, "C": 2}, {"N": 6, "T": 3, "V": 5, "C": 1}, {"N": 10, "T": 5, "V": 4, "C": 3}),
    embed_given,
    to_tables,
    {"dwte": "wte", "dwpe": "wpe"},
    embed_value,
    {"positions": "learned"},
)


def rotary_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, T, H, D = dims["N"], dims["T"], dims["H"], dims["D"]
    angles = np.zeros((T, D))
    rotary_table(position=None, angles=angles, T=T, D=D, base=10)
    g: Given = {"qkv": normal(rng, N, 3 * H * D), "angles": angles, "y": np.zeros((N, 3 * H * D)), "original": None}
    return dict(g, original=normal(rng, N, 3 * H * D), N=N, T=T, H=H, D=D, inverse=1)


def rotary_value(g: "Given") -> float:
    """With `inverse` 1 the kernel takes the gradient, in qkv, back to the gradient of `original`."""
    y = np.zeros(g["qkv"].shape)
    rotary(qkv=g["original"], angles=g["angles"], y=y, N=g["N"], T=g["T"], H=g["H"], D=g["D"], inverse=0)
    return float((y * g["qkv"]).sum())


def of_pairs(function: "Callable[..., Any]", g: "Given") -> None:
    if not g["inverse"]:
        rotary(**{name: g[name] for name in ("qkv", "angles", "y", "N", "T", "H", "D", "inverse")})
        return
    N, H, D = g["N"], g["H"], g["D"]
    table = g["angles"][np.arange(N) % g["T"]][:, None]
    heads, out = g["qkv"].reshape(N, 3 * H, D), g["y"].reshape(N, 3 * H, D)
    half = D // 2
    out[...] = heads
    made = function(
        da=heads[:, : 2 * H, :half], db=heads[:, : 2 * H, half:], cos=table[:, :, :half], sin=table[:, :, half:]
    )
    out[:, : 2 * H, :half], out[:, : 2 * H, half:] = made


ROTARY = Lab(
    "rotary",
    "Rotary positions",
    "medium",
    "rotary",
    "backward",
    "Each pair (a, b) of a query or key is turned by an angle that its place decides:\n"
    "a' = a cos − b sin, b' = a sin + b cos. Given the gradients da', db' (called da and db), cos and sin, write the\n"
    "gradients of a and of b.",
    "def backward(da, db, cos, sin):\n    ...\n    return before_a, before_b\n",
    "def backward(da, db, cos, sin):\n    return da * cos + db * sin, db * cos - da * sin\n",
    ("a reaches a' by cos and b' by sin.", "A rotation is undone by turning the other way."),
    (
        ("da * cos + db * sin", "da * cos - db * sin"),
        ("db * cos - da * sin", "db * cos + da * sin"),
        ("da * cos + db * sin, db * cos - da * sin", "da * cos, db * cos"),
        ("da * cos + db * sin, db * cos - da * sin", "db * cos - da * sin, da * cos + db * sin"),
    ),
    ({"N": 4, "T": 4, "H": 1, "D": 2}, {"N": 6, "T": 3, "H": 2, "D": 4}, {"N": 5, "T": 5, "H": 1, "D": 8}),
    rotary_given,
    of_pairs,
    {"y": "original"},
    rotary_value,
    {"positions": "rotary"},
)

LABS = (LINEAR_INPUT, LINEAR_WEIGHT, EMBED, ROTARY)
