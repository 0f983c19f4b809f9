"""How far an op's float32 kernel may be from its specification, by output: see rounding.py.

A function has its kernel's name and takes the arguments of a call, before that call. Tests of the engines' kernels and
labs, in which a reader writes one, use the same bounds.
"""

import math

import numpy as np

from tinygpt.core.ops.linear import RELU2
from tinygpt.kernels.attention import alibi_slopes, join_heads, split_heads
from tinygpt.labs.rounding import (
    DIVIDE,
    GELU_STEEPEST,
    SMALLEST,
    SQRT,
    U,
    exp_error,
    gamma,
    gelu_errors,
    inverse_root_mean_square,
    old,
    softmax_errors,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.labs.rounding import Bounds


# --- entry by entry --------------------------------------------------------------------------------------


def add(*, x: "Any", residual: "Any", **_: "Any") -> "Bounds":
    return {"y": U * np.abs(x + residual)}


def activation(*, x: "Any", kind: int, **_: "Any") -> "Bounds":
    if kind == RELU2:
        return {"y": U * np.square(np.maximum(x, 0))}
    return {"y": gelu_errors(x)[0]}


def activation_backward(*, dy: "Any", x: "Any", kind: int, **_: "Any") -> "Bounds":
    if kind == RELU2:
        return {"dx": U * np.abs(dy * 2 * np.maximum(x, 0))}
    return {"dx": np.abs(dy) * (gelu_errors(x)[1] + U * GELU_STEEPEST)}


def sigmoid_and_error(g: "Any") -> "tuple[Any, Any]":
    """s = 1 / (1 + e) with e = exp(-g), and its relative error: one of e counts by the share 1 - s."""
    s = 1 / (1 + np.exp(-g))
    return s, exp_error(g) * (1 - s) + 2 * U + DIVIDE


def swiglu(*, gate_up: "Any", F: int, **_: "Any") -> "Bounds":
    gate, up = gate_up[:, :F], gate_up[:, F:]
    s, s_off = sigmoid_and_error(gate)
    return {"y": np.abs(gate * s * up) * (s_off + 2 * U)}


def swiglu_backward(*, dy: "Any", gate_up: "Any", F: int, **_: "Any") -> "Bounds":
    gate, up = gate_up[:, :F], gate_up[:, F:]
    s, s_off = sigmoid_and_error(gate)
    rest, rest_off = sigmoid_and_error(-gate)
    curved = np.abs(gate * s * rest)
    slope_off = s * s_off + curved * (s_off + rest_off + 2 * U) + 3 * U * (s + curved)
    return {"dgate_up": np.hstack([np.abs(dy * up) * slope_off, np.abs(dy * gate * s) * (s_off + 2 * U)])}


def ratio_and_error(x: "Any", cap: float) -> "tuple[Any, float]":
    """z = x / cap, and its relative error, be it a division or a product with the rounded inverse."""
    return x / cap, DIVIDE + U


def softcap(*, x: "Any", cap: float, **_: "Any") -> "Bounds":
    """tanh is no worse conditioned than z. Near 0 a polynomial whose terms beyond the first make up less than a
    tenth; elsewhere (1 - e) / (1 + e), where an error of e counts by 2 e / (1 - e^2) = 1 / sinh(2 |z|)."""
    z, z_off = ratio_and_error(x, cap)
    far_off = exp_error(2 * z) / np.sinh(2 * np.minimum(np.maximum(np.abs(z), 0.6), 100)) + 2 * U + DIVIDE
    off = z_off + np.where(np.abs(z) < 0.61, np.maximum(4 * U, far_off), far_off) + U
    return {"y": np.abs(cap * np.tanh(z)) * off}


def softcap_backward(*, dy: "Any", x: "Any", cap: float, **_: "Any") -> "Bounds":
    """Of 4 e / (1 + e)^2: an error of e counts by (1 - e) / (1 + e), which is below 1; the smallest e is 0."""
    z, z_off = ratio_and_error(x, cap)
    e = np.exp(-2 * np.abs(z))
    off = exp_error(2 * z) + 2 * np.abs(z) * z_off + 4 * U + DIVIDE + U
    return {"dx": np.abs(dy) * 4 * (e / np.square(1 + e) * off + SMALLEST)}


def embed(*, tokens: "Any", wte: "Any", wpe: "Any", x: "Any", N: int, T: int, **_: "Any") -> "Bounds":
    return {"x": np.zeros_like(x) if wpe is None else U * np.abs(wte[tokens] + wpe[np.arange(N) % T])}


# --- row by row ------------------------------------------------------------------------------------------


def rmsnorm(*, x: "Any", gain: "Any", eps: float, **_: "Any") -> "Bounds":
    rstd, rstd_off = inverse_root_mean_square(x, eps)
    return {"y": np.abs(x * rstd[:, None] * gain) * (rstd_off + 2 * U), "rstd": rstd * rstd_off}


def rmsnorm_backward(
    *,
    dy: "Any",
    x: "Any",
    gain: "Any",
    rstd: "Any",
    dresidual: "Any",
    dgain: "Any",
    N: int,
    C: int,
    accumulate: int,
    **_: "Any",
) -> "Bounds":
    rstd = rstd[:, None]
    n, dn = np.abs(x) * rstd, np.abs(dy * gain)
    b = (dn * n).mean(axis=1, keepdims=True)  # of absolute values
    dx_off = rstd * (n * b * (gamma(C + 2) + DIVIDE) + 4 * U * (dn + n * b))
    if dresidual is not None:
        dx_off = dx_off + U * (np.abs(dresidual) + rstd * (dn + n * b))
    dgain_off = 0.0 if dgain is None else gamma(N + 2) * ((np.abs(dy) * n).sum(axis=0) + old(dgain, accumulate))
    return {"dx": dx_off, "dgain": dgain_off}


def layernorm_backward(
    *,
    dy: "Any",
    x: "Any",
    gain: "Any",
    stats: "Any",
    dresidual: "Any",
    dgain: "Any",
    dbias: "Any",
    N: int,
    C: int,
    accumulate: int,
    **_: "Any",
) -> "Bounds":
    mean, rstd = stats[:, :1], stats[:, 1:]
    n = np.abs(x - mean) * rstd
    n_off = 3 * U * (np.abs(x) + np.abs(mean)) * rstd
    dn = np.abs(dy * gain)
    dn_n = dn * n
    a, b = dn.mean(axis=1, keepdims=True), dn_n.mean(axis=1, keepdims=True)  # of absolute values
    a_off = gamma(C + 2) * a
    b_off = gamma(C + 3) * b + (dn * n_off).mean(axis=1, keepdims=True)
    dx_off = rstd * (a_off + n * b_off + n_off * b + 5 * U * (dn + a + n * b))
    if dresidual is not None:
        dx_off = dx_off + U * (np.abs(dresidual) + rstd * (dn + a + n * b))
    return {
        "dx": dx_off,
        "dgain": 0.0
        if dgain is None
        else gamma(N + 2) * ((np.abs(dy) * n).sum(axis=0) + old(dgain, accumulate)) + (np.abs(dy) * n_off).sum(axis=0),
        "dbias": 0.0 if dbias is None else gamma(N + 1) * (np.abs(dy).sum(axis=0) + old(dbias, accumulate)),
    }


def cross_entropy(
    *, logits: "Any", targets: "Any", N: int, V: int, count: int, smoothing: float, **_: "Any"
) -> "Bounds":
    """Smoothing adds to a loss the mean of all distances from the top, of V terms, and two products to each."""
    rows = np.arange(N)
    p, p_off, lse_off = softmax_errors(logits, 0.0)
    lse_size = np.abs(logits).max(axis=1) + math.log(logits.shape[1])
    losses_off = lse_off + U * (lse_size + np.abs(logits[rows, targets]))
    if smoothing:
        below = logits.max(axis=1, keepdims=True) - logits
        losses_off = losses_off + (gamma(V + 3) + DIVIDE) * below.mean(axis=1) + 4 * U * below[rows, targets]
    gradient_size = p + smoothing / V
    gradient_size[rows, targets] += 1
    # exp(z - lse) instead of exp(z - top) / sum carries the rounding of a large log-sum-exp.
    p_off = p_off + lse_off[:, None]
    return {"losses": losses_off, "dlogits": (p * p_off + 3 * U * gradient_size) / count}


def rotary(*, qkv: "Any", angles: "Any", N: int, T: int, H: int, D: int, **_: "Any") -> "Bounds":
    half, off = D // 2, np.zeros((N, 3 * H, D))
    cos, sin = np.split(np.abs(angles)[np.arange(N) % T][:, None], 2, axis=2)
    turned = np.abs(qkv).reshape(N, 3 * H, D)[:, : 2 * H]
    off[:, : 2 * H, :half] = turned[..., :half] * cos + turned[..., half:] * sin
    off[:, : 2 * H, half:] = turned[..., :half] * sin + turned[..., half:] * cos
    return {"y": gamma(2) * off.reshape(N, -1)}


def kv_heads_backward(*, dy: "Any", N: int, H: int, G: int, D: int, **_: "Any") -> "Bounds":
    sizes = np.abs(dy).reshape(N, 3 * H, D)
    summed = gamma(H // G) * sizes[:, H:].reshape(N, 2 * G, H // G, D).sum(axis=2)
    return {"dx": np.concatenate([gamma(1) * sizes[:, :H], summed], axis=1).reshape(N, -1)}


# --- sums over rows, and products ------------------------------------------------------------------------


def embed_backward(
    *, tokens: "Any", dx: "Any", dwte: "Any", dwpe: "Any", N: int, T: int, accumulate: int, tied: int, **_: "Any"
) -> "Bounds":
    tokens_sum = np.zeros_like(dwte) + old(dwte, accumulate or tied)
    np.add.at(tokens_sum, tokens, np.abs(dx))
    often = np.zeros(dwte.shape[0])
    np.add.at(often, tokens, np.ones(N))
    rows_sum = np.abs(dx).reshape(N // T, T, -1).sum(axis=0) + (0 if dwpe is None else old(dwpe, accumulate))
    return {"dwte": gamma(int(often.max()) + 1) * tokens_sum, "dwpe": gamma(N // T + 1) * rows_sum}


def linear(
    *,
    x: "Any",
    weight: "Any",
    bias: "Any",
    residual: "Any",
    y: "Any",
    I: int,  # noqa: E741
    accumulate: int,
    scale: float,
    **_: "Any",
) -> "Bounds":
    size = abs(scale) * (np.abs(x) @ np.abs(weight).T) + old(y, accumulate)
    for term in (bias, residual):
        size = size + (0 if term is None else np.abs(term))
    return {"y": gamma(I + 2 + accumulate + (scale != 1)) * size}


# --- attention -------------------------------------------------------------------------------------------


def scores_and_errors(q: "Any", k: "Any", alibi: int) -> "tuple[Any, Any]":
    """Scores of the last rows of q's sequence (all of them, or the newest alone) over all rows of k."""
    rows, D = q.shape[-2:]
    T = k.shape[-2]
    seen = np.tri(T, dtype=bool)[T - rows :]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(D)
    off = gamma(D + 3) * (np.abs(q) @ np.abs(k).swapaxes(-1, -2)) / math.sqrt(D)
    if alibi:  # a slope is an exp of -8 ln(2) at most, which is itself a rounded fraction
        loss = alibi_slopes(q.shape[-3])[:, None, None] * np.subtract.outer(np.arange(T - rows, T), np.arange(T))
        scores = scores - loss
        off = off + np.abs(loss) * (exp_error(8 * math.log(2)) + 8 * math.log(2) * DIVIDE + 3 * U) + U * np.abs(scores)
    return np.where(seen, scores, -np.inf), off


def attend(q: "Any", k: "Any", v: "Any", alibi: int) -> "tuple[Any, Any]":
    """Errors of y and of the log-sum-exp."""
    p, p_off, lse_off = softmax_errors(*scores_and_errors(q, k, alibi))
    return (p * (p_off + gamma(k.shape[-2] + 1))) @ np.abs(v), lse_off


def weights_and_errors(q: "Any", k: "Any", lse: "Any", alibi: int) -> "tuple[Any, Any]":
    """p made of the scores and a given log-sum-exp, and its relative error."""
    scores, scores_off = scores_and_errors(q, k, alibi)
    exponent = np.where(np.isfinite(scores), scores - lse[..., None], 0)
    p_off = scores_off + exp_error(exponent) + 2 * U * (np.abs(lse)[..., None] + np.abs(exponent))
    return np.exp(scores - lse[..., None]), p_off


def attention(*, qkv: "Any", B: int, T: int, H: int, D: int, alibi: int, **_: "Any") -> "Bounds":
    q, k, v = split_heads(qkv, B, T, H, D)
    y_off, lse_off = attend(q, k, v, alibi)
    return {"y": join_heads(y_off[None]), "lse": lse_off}


def attention_backward(
    *,
    dy: "Any",
    qkv: "Any",
    y: "Any",
    lse: "Any",
    B: int,
    T: int,
    H: int,
    D: int,
    alibi: int,
    **_: "Any",
) -> "Bounds":
    q, k, v = split_heads(qkv, B, T, H, D)
    (dY,), (Y,) = split_heads(dy, B, T, H, D), split_heads(y, B, T, H, D)
    p, p_off = weights_and_errors(q, k, lse, alibi)
    delta = (dY * Y).sum(axis=-1, keepdims=True)
    ds = p * np.abs(dY @ v.swapaxes(-1, -2) - delta)
    parts = np.abs(dY) @ np.abs(v).swapaxes(-1, -2) + np.abs(dY * Y).sum(axis=-1, keepdims=True)
    ds_off = ds * (p_off + gamma(T + 4)) + p * gamma(D + 1) * parts
    dq_off = ds_off @ np.abs(k) / math.sqrt(D)
    dk_off = ds_off.swapaxes(-1, -2) @ np.abs(q) / math.sqrt(D)
    dv_off = (p * (p_off + gamma(T + 1))).swapaxes(-1, -2) @ np.abs(dY)
    return {"dqkv": join_heads(np.stack([dq_off, dk_off, dv_off]))}


# --- the update ------------------------------------------------------------------------------------------


def grad_norm(*, grads: "Any", P: int, limit: float, **_: "Any") -> "Bounds":
    norm = math.sqrt(np.square(grads).sum())
    relative = gamma(P + 1) / 2 + SQRT  # a square root halves a relative error
    factor = min(1.0, limit / (norm + 1e-6)) if limit else 0.0
    return {"norm": np.array([norm * relative, factor * (relative + DIVIDE + 2 * U)])}


def adamw(
    *,
    grads: "Any",
    norm: "Any",
    rates: "Any",
    counters: "Any",
    weights: "Any",
    m: "Any",
    v: "Any",
    rows: int,
    beta1: float,
    beta2: float,
    eps: float,
    **_: "Any",
) -> "Bounds":
    step_size, root_correction, _decay = rates[counters[0] % rows, :3]
    g = np.abs(grads * norm[1])
    m_size = np.abs(m) + (1 - beta1) * g  # also where m moves by (1 - beta1) (g - m)
    m_new = np.abs(beta1 * m + (1 - beta1) * grads * norm[1])
    v_new = beta2 * v + (1 - beta2) * g * g
    denominator = np.sqrt(v_new) * root_correction + eps
    m_off = 4 * U * m_size
    relative = gamma(6) / 2 + SQRT + DIVIDE + 4 * U  # of v under the root, of the root, and of what follows
    update_off = step_size / denominator * (m_off + m_new * relative)
    return {
        "weights": 3 * U * np.abs(weights) + U * step_size * m_new / denominator + update_off,
        "m": m_off,
        "v": gamma(6) * v_new,
    }
