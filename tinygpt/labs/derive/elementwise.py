"""Labs on what is done entry by entry."""

import numpy as np

from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.kernels.linear import gelu, squared_relu
from tinygpt.kernels.softcap import softcap
from tinygpt.kernels.swiglu import swiglu
from tinygpt.labs.derive.lab import Lab, normal, taking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.labs.derive.lab import Given


def activated(kind: int) -> "Any":
    def given(rng: "Any", dims: "dict[str, int]") -> "Given":
        N, F = dims["N"], dims["F"]
        x, dy = normal(rng, N, F) * 2, normal(rng, N, F)
        return {"dy": dy, "x": x, "dx": np.zeros((N, F)), "N": N, "F": F, "kind": kind}

    return given


CASES = ({"N": 2, "F": 3}, {"N": 1, "F": 7}, {"N": 5, "F": 1}, {"N": 3, "F": 17})

GELU_LAB = Lab(
    "gelu",
    "GELU",
    "easy",
    "activation_backward",
    "backward",
    "y = x Φ(x), where Φ(x) = (1 + erf(x / √2)) / 2 is the share of a standard normal below x.\n"
    "Its density is φ(x) = exp(−x² / 2) / √(2π), and Φ' = φ. Given dy, write dx. erf is there.",
    "def backward(dy, x):\n    ...\n    return dx\n",
    "def backward(dy, x):\n"
    "    cdf = 0.5 * (1 + erf(x / np.sqrt(2)))\n"
    "    density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)\n"
    "    return dy * (cdf + x * density)\n",
    (
        "Each entry of y depends on its own x only: dx = dy f'(x).",
        "f is a product: x times Φ(x).",
        "f' = Φ(x) + x φ(x).",
    ),
    (
        ("(cdf + x * density)", "cdf"),
        ("x * density", "density"),
        ("-0.5 * x * x", "-x * x"),
        ("np.sqrt(2 * np.pi)", "np.sqrt(np.pi)"),
    ),
    CASES,
    activated(GELU),
    taking(("dx",), "dy", "x"),
    {"dx": "x"},
    lambda g: float((gelu(g["x"])[0] * g["dy"]).sum()),
)

RELU2_LAB = Lab(
    "relu2",
    "Squared ReLU",
    "easy",
    "activation_backward",
    "backward",
    "y = max(x, 0)². Given dy, write dx.",
    "def backward(dy, x):\n    ...\n    return dx\n",
    "def backward(dy, x):\n    return dy * 2 * np.maximum(x, 0)\n",
    ("Where x is negative, y does not move.", "Where it is positive, y = x²."),
    (
        ("dy * 2 *", "dy *"),
        ("np.maximum(x, 0)", "x"),
        ("np.maximum(x, 0)", "(x > 0)"),
        ("np.maximum(x, 0)", "np.abs(x)"),
    ),
    CASES,
    activated(RELU2),
    taking(("dx",), "dy", "x"),
    {"dx": "x"},
    lambda g: float((squared_relu(g["x"])[0] * g["dy"]).sum()),
    {"activation": "relu2"},
)


def gated(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, F = dims["N"], dims["F"]
    made = {"dy": normal(rng, N, F), "gate_up": normal(rng, N, 2 * F) * 2, "dgate_up": np.zeros((N, 2 * F))}
    return dict(made, N=N, F=F)


def swiglu_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    swiglu(gate_up=g["gate_up"], y=y, N=g["N"], F=g["F"])
    return float((y * g["dy"]).sum())


SWIGLU_LAB = Lab(
    "swiglu",
    "SwiGLU",
    "medium",
    "swiglu_backward",
    "backward",
    "gate_up [N, 2F] has the gate in its first F columns and up in the rest. y = silu(gate) up, with\n"
    "silu(g) = g σ(g) and σ(g) = 1 / (1 + exp(−g)). Given dy [N, F], write dgate_up [N, 2F].",
    "def backward(dy, gate_up):\n    F = dy.shape[1]\n    gate, up = gate_up[:, :F], gate_up[:, F:]\n    ...\n"
    "    return np.hstack([dgate, dup])\n",
    "def backward(dy, gate_up):\n"
    "    F = dy.shape[1]\n"
    "    gate, up = gate_up[:, :F], gate_up[:, F:]\n"
    "    s = 1 / (1 + np.exp(-gate))\n"
    "    dgate = dy * up * (s + gate * s * (1 - s))\n"
    "    dup = dy * gate * s\n"
    "    return np.hstack([dgate, dup])\n",
    (
        "A product has two factors: each one's gradient is dy times the other.",
        "σ' = σ (1 − σ).",
        "silu' = σ + g σ (1 − σ).",
    ),
    (
        ("(s + gate * s * (1 - s))", "s"),
        ("s + gate * s * (1 - s)", "s + s * (1 - s)"),
        ("dup = dy * gate * s", "dup = dy * s"),
        ("[dgate, dup]", "[dup, dgate]"),
    ),
    CASES,
    gated,
    taking(("dgate_up",), "dy", "gate_up"),
    {"dgate_up": "gate_up"},
    swiglu_value,
    {"activation": "swiglu"},
)


def capped(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, V = dims["N"], dims["F"]
    made = {"dy": normal(rng, N, V), "x": normal(rng, N, V) * 5, "dx": np.zeros((N, V))}
    return dict(made, N=N, V=V, cap=4.0)


def softcap_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    softcap(x=g["x"], y=y, N=g["N"], V=g["V"], cap=g["cap"])
    return float((y * g["dy"]).sum())


SOFTCAP_LAB = Lab(
    "softcap",
    "Soft-capped logits",
    "easy",
    "softcap_backward",
    "backward",
    "y = cap tanh(x / cap): small logits stay as they are, none goes beyond ±cap. Given dy, write dx.",
    "def backward(dy, x, cap):\n    ...\n    return dx\n",
    "def backward(dy, x, cap):\n    t = np.tanh(x / cap)\n    return dy * (1 - t * t)\n",
    ("tanh' = 1 − tanh².", "The chain rule gives a factor 1 / cap, and cap stands before tanh."),
    (
        ("(1 - t * t)", "(1 - t)"),
        ("dy * (1 - t * t)", "dy * (1 - t * t) / cap"),
        ("np.tanh(x / cap)", "np.tanh(x)"),
        ("1 - t * t", "t * t"),
    ),
    CASES,
    capped,
    taking(("dx",), "dy", "x", "cap"),
    {"dx": "x"},
    softcap_value,
    {"logit_cap": 15.0},
)

LABS = (GELU_LAB, RELU2_LAB, SWIGLU_LAB, SOFTCAP_LAB)
