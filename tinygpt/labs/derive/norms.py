"""Labs on norms."""

import numpy as np

from tinygpt.kernels.layernorm import layernorm
from tinygpt.kernels.qk_norm import qk_norm
from tinygpt.kernels.rmsnorm import rmsnorm
from tinygpt.labs.derive.lab import Lab, normal, putting, taking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.labs.derive.lab import Given

EPS = 1e-5
CASES = ({"N": 2, "C": 4}, {"N": 1, "C": 5}, {"N": 7, "C": 2}, {"N": 3, "C": 16})


def rms_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, C = dims["N"], dims["C"]
    g: Given = {"x": normal(rng, N, C) * 2 + 0.5, "gain": normal(rng, C), "rstd": np.zeros(N), "dy": normal(rng, N, C)}
    rmsnorm(x=g["x"], gain=g["gain"], y=np.zeros((N, C)), rstd=g["rstd"], N=N, C=C, eps=EPS)
    return dict(g, dresidual=None, dx=np.zeros((N, C)), dgain=np.zeros(C), N=N, C=C, accumulate=0)


def rms_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    rmsnorm(x=g["x"], gain=g["gain"], y=y, rstd=np.zeros(g["N"]), N=g["N"], C=g["C"], eps=EPS)
    return float((y * g["dy"]).sum())


RMSNORM = Lab(
    "rmsnorm",
    "RMSNorm",
    "medium",
    "rmsnorm_backward",
    "backward",
    "Each row of x [N, C] is divided by its root mean square: rstd = 1 / √(mean(x²) + ε), n = x rstd, y = n gain.\n"
    "Given dy [N, C], x, gain [C] and rstd [N], write dx [N, C] and dgain [C].",
    "def backward(dy, x, gain, rstd):\n    n = x * rstd[:, None]\n    ...\n    return dx, dgain\n",
    "def backward(dy, x, gain, rstd):\n"
    "    n = x * rstd[:, None]\n"
    "    dn = dy * gain\n"
    "    dx = rstd[:, None] * (dn - n * (dn * n).mean(axis=1, keepdims=True))\n"
    "    dgain = (dy * n).sum(axis=0)\n"
    "    return dx, dgain\n",
    (
        "Every row has used the gain, so dgain is a sum over rows.",
        "n_j depends on x_j, and through rstd on every x_i of its row.",
        "d rstd / dx_i = −rstd² n_i / C. Put it in, and a mean over the row appears.",
    ),
    (
        (" - n * (dn * n).mean(axis=1, keepdims=True)", ""),
        (".mean(axis=1, keepdims=True)", ".sum(axis=1, keepdims=True)"),
        ("dn = dy * gain", "dn = dy"),
        ("(dy * n).sum(axis=0)", "(dn * n).sum(axis=0)"),
    ),
    CASES,
    rms_given,
    taking(("dx", "dgain"), "dy", "x", "gain", "rstd"),
    {"dx": "x", "dgain": "gain"},
    rms_value,
    {"norm": "rmsnorm"},
)


def layer_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, C = dims["N"], dims["C"]
    g: Given = {
        "x": normal(rng, N, C) * 2 + 0.5,
        "gain": normal(rng, C),
        "dy": normal(rng, N, C),
        "stats": np.zeros((N, 2)),
    }
    layernorm(x=g["x"], gain=g["gain"], bias=None, y=np.zeros((N, C)), stats=g["stats"], N=N, C=C, eps=EPS)
    g = dict(g, dresidual=None, dx=np.zeros((N, C)), dgain=np.zeros(C), dbias=np.zeros(C))
    return dict(g, bias=np.zeros(C), N=N, C=C, accumulate=0)


def layer_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    layernorm(x=g["x"], gain=g["gain"], bias=g["bias"], y=y, stats=np.zeros((g["N"], 2)), N=g["N"], C=g["C"], eps=EPS)
    return float((y * g["dy"]).sum())


def with_stats(function: "Callable[..., Any]", given: "Given") -> None:
    arguments = {name: given[name] for name in ("dy", "x", "gain")}
    arguments.update({"mean": given["stats"][:, :1], "rstd": given["stats"][:, 1:]})
    putting("dx", "dgain", "dbias")(function, given, arguments)


LAYERNORM = Lab(
    "layernorm",
    "LayerNorm",
    "hard",
    "layernorm_backward",
    "backward",
    "Each row of x [N, C] to mean 0 and variance 1: n = (x − mean) rstd, with rstd = 1 / √(var + ε); then\n"
    "y = n gain + bias. Given dy, x, gain [C], mean and rstd [N, 1], write dx [N, C], dgain [C] and dbias [C].",
    "def backward(dy, x, gain, mean, rstd):\n    n = (x - mean) * rstd\n    ...\n    return dx, dgain, dbias\n",
    "def backward(dy, x, gain, mean, rstd):\n"
    "    n = (x - mean) * rstd\n"
    "    dn = dy * gain\n"
    "    through_mean = dn.mean(axis=1, keepdims=True)\n"
    "    through_rstd = n * (dn * n).mean(axis=1, keepdims=True)\n"
    "    dx = rstd * (dn - through_mean - through_rstd)\n"
    "    return dx, (dy * n).sum(axis=0), dy.sum(axis=0)\n",
    (
        "dgain and dbias are sums over rows.",
        "x_i reaches n_j in three ways: as x_j itself, through the mean, through rstd.",
        "d mean / dx_i = 1 / C, and d rstd / dx_i = −rstd² n_i / C.",
    ),
    (
        (" - through_mean", ""),
        (" - through_rstd", ""),
        ("dn = dy * gain", "dn = dy"),
        ("dx = rstd * (", "dx = ("),
        ("n * (dn * n).mean", "(dn * n).mean"),
    ),
    CASES,
    layer_given,
    with_stats,
    {"dx": "x", "dgain": "gain", "dbias": "bias"},
    layer_value,
)


def qk_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, H, D = dims["N"], dims["H"], dims["D"]
    g: Given = {"qkv": normal(rng, N, 3 * H * D), "y": np.zeros((N, 3 * H * D)), "rstd": np.zeros((N, 2 * H))}
    qk_norm(qkv=g["qkv"], y=g["y"], rstd=g["rstd"], N=N, H=H, D=D, eps=EPS)
    return dict(g, dy=normal(rng, N, 3 * H * D), dqkv=np.zeros((N, 3 * H * D)), N=N, H=H, D=D)


def qk_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    qk_norm(qkv=g["qkv"], y=y, rstd=np.zeros(g["rstd"].shape), N=g["N"], H=g["H"], D=g["D"], eps=EPS)
    return float((y * g["dy"]).sum())


def of_heads(function: "Callable[..., Any]", g: "Given") -> None:
    N, H, D = g["N"], g["H"], g["D"]
    dy, y = [g[name].reshape(N, 3 * H, D)[:, : 2 * H] for name in ("dy", "y")]
    made = function(dy=dy, y=y, rstd=g["rstd"][:, :, None])
    out = np.zeros((N, 3 * H, D))
    out[...] = g["dy"].reshape(N, 3 * H, D)
    if tuple(made.shape) != (N, 2 * H, D):
        raise ValueError(f"dx has the shape {[N, 2 * H, D]}, and what was returned {list(made.shape)}")
    out[:, : 2 * H] = made
    g["dqkv"][...] = out.reshape(N, -1)


QK_NORM = Lab(
    "qk_norm",
    "The norm of queries and keys",
    "medium",
    "qk_norm_backward",
    "backward",
    "Of each head's query and key x [D]: y = x rstd, with rstd = 1 / √(mean(x²) + ε), and no gain. Kept are y and\n"
    "rstd, and not x. Given dy and y [N, heads, D] and rstd [N, heads, 1], write dx.",
    "def backward(dy, y, rstd):\n    ...\n    return dx\n",
    "def backward(dy, y, rstd):\n    return rstd * (dy - y * (dy * y).mean(axis=2, keepdims=True))\n",
    ("It is RMSNorm without a gain: y is what was n there.", "The mean is over a head's numbers: axis 2."),
    (
        ("axis=2", "axis=1"),
        (" - y * (dy * y).mean(axis=2, keepdims=True)", ""),
        (".mean(", ".sum("),
        ("rstd * (dy", "(dy"),
    ),
    ({"N": 1, "H": 2, "D": 2}, {"N": 3, "H": 1, "D": 4}, {"N": 2, "H": 3, "D": 6}),
    qk_given,
    of_heads,
    {"dqkv": "qkv"},
    qk_value,
    {"qk_norm": "on"},
)

LABS = (RMSNORM, LAYERNORM, QK_NORM)
