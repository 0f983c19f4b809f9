"""Labs on attention, the loss and the update."""

import math

import numpy as np

from tinygpt.kernels.attention import attention, causal_scores, join_heads, split_heads
from tinygpt.kernels.cross_entropy import cross_entropy
from tinygpt.labs.derive.lab import Lab, normal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.labs.derive.lab import Given


def heads_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    B, T, H, D = dims["B"], dims["T"], dims["H"], dims["D"]
    N, C = B * T, H * D
    g: Given = {"qkv": normal(rng, N, 3 * C), "y": np.zeros((N, C)), "lse": np.zeros((B, H, T)), "alibi": 0}
    attention(qkv=g["qkv"], y=g["y"], lse=g["lse"], B=B, T=T, H=H, D=D)
    return dict(g, dy=normal(rng, N, C), dqkv=np.zeros((N, 3 * C)), B=B, T=T, H=H, D=D)


def attention_value(g: "Given") -> float:
    y = np.zeros(g["dy"].shape)
    attention(qkv=g["qkv"], y=y, lse=None, B=g["B"], T=g["T"], H=g["H"], D=g["D"])
    return float((y * g["dy"]).sum())


def of_attention(function: "Callable[..., Any]", g: "Given") -> None:
    sizes = g["B"], g["T"], g["H"], g["D"]
    q, k, v = split_heads(g["qkv"], *sizes)
    (dy,) = split_heads(g["dy"], *sizes)
    p = np.exp(causal_scores(q, k, g["alibi"]) - g["lse"][..., None])
    g["dqkv"][...] = join_heads(np.stack(list(function(dy=dy, q=q, k=k, v=v, p=p))))


ATTENTION = Lab(
    "attention",
    "Attention",
    "hard",
    "attention_backward",
    "backward",
    "Scores s = q kᵀ / √D; p = softmax(s) by rows, with nothing for what comes later; y = p v. All of them are\n"
    "[batch, heads, T, …]; for a transpose of the last two axes there is .swapaxes(-1, -2). Given dy, q, k, v [.., T, D] and\n"
    "p [.., T, T], write dq, dk and dv.",
    "def backward(dy, q, k, v, p):\n    D = q.shape[-1]\n    ...\n    return dq, dk, dv\n",
    "def backward(dy, q, k, v, p):\n"
    "    D = q.shape[-1]\n"
    "    dv = p.swapaxes(-1, -2) @ dy\n"
    "    dp = dy @ v.swapaxes(-1, -2)\n"
    "    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / math.sqrt(D)\n"
    "    return ds @ k, ds.swapaxes(-1, -2) @ q, dv\n",
    (
        "y = p v is a matrix product: dv = pᵀ dy, and dp = dy vᵀ.",
        "Softmax: dp_ij / ds_ik = p_ij ([j = k] − p_ik). So ds = p (dp − Σ_j p_j dp_j), row by row.",
        "s = q kᵀ / √D gives dq = ds k / √D and dk = dsᵀ q / √D.",
    ),
    (
        (" - (p * dp).sum(axis=-1, keepdims=True)", ""),
        (" / math.sqrt(D)", ""),
        ("ds @ k, ds.swapaxes(-1, -2) @ q", "ds @ k, ds @ q"),
        ("(p * dp).sum(axis=-1, keepdims=True)", "dp.mean(axis=-1, keepdims=True)"),
        ("dv = p.swapaxes(-1, -2) @ dy", "dv = p @ dy"),
    ),
    ({"B": 1, "T": 3, "H": 1, "D": 2}, {"B": 2, "T": 2, "H": 3, "D": 1}, {"B": 1, "T": 7, "H": 2, "D": 3}),
    heads_given,
    of_attention,
    {"dqkv": "qkv"},
    attention_value,
)


def loss_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    N, V = dims["N"], dims["V"]
    g: Given = {"logits": normal(rng, N, V) * 3, "targets": rng.integers(0, V, size=N), "losses": np.zeros(N)}
    return dict(g, dlogits=np.zeros((N, V)), N=N, V=V, count=N + 1, smoothing=0)


def loss_value(g: "Given") -> float:
    losses = np.zeros(g["N"])
    cross_entropy(
        logits=g["logits"], targets=g["targets"], losses=losses, dlogits=None, N=g["N"], V=g["V"], count=g["count"]
    )
    return float(losses.sum() / g["count"])


def of_loss(function: "Callable[..., Any]", g: "Given") -> None:
    sizes = {name: g[name] for name in ("N", "V", "count", "smoothing")}
    cross_entropy(logits=g["logits"], targets=g["targets"], losses=g["losses"], dlogits=None, **sizes)
    if g["dlogits"] is not None:
        g["dlogits"][...] = function(logits=g["logits"], targets=g["targets"], count=g["count"])


CROSS_ENTROPY = Lab(
    "cross-entropy",
    "Softmax and cross-entropy",
    "medium",
    "cross_entropy",
    "backward",
    "Of each row of logits [N, V]: loss = log Σ_v exp(z_v) − z_target. The loss of a step is the sum over rows over\n"
    "`count` (the rows of all its batches). Write dlogits [N, V]. Logits may be large: exp(800) overflows.",
    "def backward(logits, targets, count):\n    rows = np.arange(len(targets))\n    ...\n    return dlogits\n",
    "def backward(logits, targets, count):\n"
    "    rows = np.arange(len(targets))\n"
    "    p = np.exp(logits - logits.max(axis=1, keepdims=True))\n"
    "    p = p / p.sum(axis=1, keepdims=True)\n"
    "    p[rows, targets] -= 1\n"
    "    return p / count\n",
    (
        "The derivative of log Σ exp(z_v) by z_v is exp(z_v) / Σ exp: softmax.",
        "The second term takes 1 away where the target is.",
        "Take out each row's largest logit before exp; softmax does not change.",
    ),
    (
        ("    p[rows, targets] -= 1\n", ""),
        ("p / count", "p"),
        ("p / count", "p / len(rows)"),
        ("logits - logits.max(axis=1, keepdims=True)", "logits - logits.max()"),
        ("p.sum(axis=1, keepdims=True)", "p.sum(axis=0, keepdims=True)"),
    ),
    ({"N": 2, "V": 3}, {"N": 1, "V": 6}, {"N": 4, "V": 4}, {"N": 3, "V": 5, "far": 1}),
    loss_given,
    of_loss,
    {"dlogits": "logits"},
    loss_value,
)


def far_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    g = loss_given(rng, dims)
    if dims.get("far"):
        g["logits"][0] += 900.0  # rows that are far from one another, and beyond what exp can take
        g["logits"][1] -= 900.0
    return g


CROSS_ENTROPY.given = far_given


def update_given(rng: "Any", dims: "dict[str, int]") -> "Given":
    P, step = dims["P"], dims["step"]
    lr, beta1, beta2 = 0.01, 0.9, 0.95
    rates = np.zeros((4, 3))
    rates[(step - 1) % 4] = np.array([lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step), lr * 0.1])
    g: Given = {"grads": normal(rng, P), "norm": np.array([1.0, 0.5]), "rates": rates, "weights": normal(rng, P)}
    counters = np.array([step - 1, 0, 0, 0])
    g = dict(g, m=normal(rng, P) * 0.1, v=np.abs(normal(rng, P)) * 0.1, counters=counters, P=P, decayed=P // 2)
    return dict(g, rows=4, columns=3, beta1=beta1, beta2=beta2, eps=1e-3)


def of_update(function: "Callable[..., Any]", g: "Given") -> None:
    step = int(g["counters"][0]) + 1
    step_size, _, shrink = [float(rate) for rate in g["rates"][int(g["counters"][0]) % g["rows"]][:3]]
    decay = np.zeros(g["P"])
    decay[: g["decayed"]] = shrink
    arguments = {"w": g["weights"].copy(), "g": g["grads"] * g["norm"][1], "m": g["m"].copy(), "v": g["v"].copy()}
    arguments.update({"step": step, "lr": step_size * (1 - g["beta1"] ** step), "decay": decay})
    arguments.update({name: g[name] for name in ("beta1", "beta2", "eps")})
    g["weights"][...], g["m"][...], g["v"][...] = function(**arguments)


ADAMW = Lab(
    "adamw",
    "AdamW's update",
    "hard",
    "adamw",
    "update",
    "m and v are running means of the gradient g and of g²; both began at 0, so after `step` steps they are short by\n"
    "1 − beta1^step and 1 − beta2^step. With both corrected, w takes the step −lr m̂ / (√v̂ + eps). Weight decay is decoupled: before\n"
    "that, w shrinks by the share `decay` (an array: 0 for gains and biases). Return the new w, m and v.",
    "def update(w, g, m, v, step, lr, decay, beta1, beta2, eps):\n    ...\n    return w, m, v\n",
    "def update(w, g, m, v, step, lr, decay, beta1, beta2, eps):\n"
    "    m = beta1 * m + (1 - beta1) * g\n"
    "    v = beta2 * v + (1 - beta2) * g * g\n"
    "    m_hat = m / (1 - beta1**step)\n"
    "    v_hat = v / (1 - beta2**step)\n"
    "    w = w * (1 - decay) - lr * m_hat / (np.sqrt(v_hat) + eps)\n"
    "    return w, m, v\n",
    (
        "New mean: beta times the old, and 1 − beta of what is new.",
        "Return m and v as they are, and not corrected: the correction is for the step only.",
    ),
    (
        ("m_hat = m / (1 - beta1**step)", "m_hat = m"),
        ("v / (1 - beta2**step)", "v / (1 - beta2**(step + 1))"),
        (" * (1 - decay)", ""),
        ("np.sqrt(v_hat) + eps", "np.sqrt(v_hat + eps)"),
        ("(1 - beta2) * g * g", "(1 - beta2) * g"),
        ("return w, m, v", "return w, m_hat, v_hat"),
    ),
    ({"P": 4, "step": 1}, {"P": 7, "step": 2}, {"P": 3, "step": 50}),
    update_given,
    of_update,
    {"weights": "", "m": "", "v": ""},
    None,
    {"optimizer": "adamw"},
)

LABS = (CROSS_ENTROPY, ATTENTION, ADAMW)
