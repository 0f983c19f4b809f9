"""How far a float32 kernel may be from the float64 specification: bounds from the arithmetic, not guesses.

Each operation of + - * rounds with a relative error of at most U = 2^-24. A sum of k products, in any order,
with or without fused multiply-adds, is off by at most gamma(k) = k U / (1 - k U) times the sum of its terms'
absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). The bounds below follow
the errors of intermediate results to the outputs to first order, and so depend on the case's numbers.

Library functions are held to the table of the WGSL standard, the loosest of the engines (1 ulp is at most 2 U).
"""
# ruff: noqa: E741

import math
from typing import Any

import numpy as np

from tinygpt.core.ops.linear import RELU2
from tinygpt.kernels.attention import join_heads, split_heads
from tinygpt.kernels.spec import SPEC

U = 2.0**-24
SMALLEST = 2.0**-126  # a result below it may be flushed to 0

DIVIDE = 5 * U  # 2.5 ulp
RSQRT = 4 * U  # 2 ulp
SQRT = RSQRT + DIVIDE  # 1 / inverseSqrt
ERF = 16 * U  # WGSL has none; absolute, as of a rational approximation with one exp
GELU_STEEPEST = 1.13  # the largest |gelu'|
GELU_BENDIEST = 0.8  # the largest |gelu''|, 2 / sqrt(2 pi)

Bounds = dict[str, Any]


def gamma(k: int) -> float:
    return k * U / (1 - k * U)


def exp_error(x: Any) -> Any:
    """Relative, of exp(x): 3 + 2 |x| ulp, and x itself is the rounded difference of two numbers."""
    return (6 + 5 * np.abs(x)) * U


def log_error(x: Any) -> Any:
    """Of log(x), absolute: 2^-21 near 1, else 3 ulp."""
    return 2.0**-21 + 6 * U * np.abs(np.log(x))


def error_bound(kernel: str, case: dict[str, Any]) -> Bounds:
    """For each output of floats the case has, an array of the largest error that rounding can explain."""
    bounds = BOUNDS[kernel](**case) if kernel in BOUNDS else {}
    return {
        name: bound if kernel in EXACT else bound + SMALLEST for name, bound in bounds.items() if case[name] is not None
    }


EXACT = ("cache_fill", "pick_row", "record", "normal", "constant")


def old(tensor: Any, accumulate: int) -> Any:
    """What an accumulating output starts from, in absolute value."""
    return np.abs(tensor) if accumulate else 0.0


def embed(*, tokens, wte, wpe, x, N, T, **_) -> Bounds:
    return {"x": np.zeros_like(x) if wpe is None else U * np.abs(wte[tokens] + wpe[np.arange(N) % T])}


def embed_backward(*, tokens, dx, dwte, dwpe, N, T, accumulate, tied, **_) -> Bounds:
    tokens_sum = np.zeros_like(dwte) + old(dwte, accumulate or tied)
    np.add.at(tokens_sum, tokens, np.abs(dx))
    often = int(np.bincount(tokens).max())
    rows_sum = np.abs(dx).reshape(N // T, T, -1).sum(axis=0) + (0 if dwpe is None else old(dwpe, accumulate))
    return {"dwte": gamma(often + 1) * tokens_sum, "dwpe": gamma(N // T + 1) * rows_sum}


def embed_one(*, tokens, position, wte, wpe, x, **_) -> Bounds:
    return {"x": np.zeros_like(x) if wpe is None else U * np.abs(wte[tokens] + wpe[position])}


def layernorm(*, x, gain, bias, C, eps, **_) -> Bounds:
    """The variance is a mean of squares about the mean: a mean that is off by d adds only d^2 to it."""
    mean = x.mean(axis=1)
    variance = x.var(axis=1)
    rstd = 1 / np.sqrt(variance + eps)
    mean_off = gamma(C + 1) * np.abs(x).mean(axis=1)
    rounded = 2 * U * (np.abs(x) + np.abs(mean)[:, None])  # of x - mean, also where it is x rstd - mean rstd
    variance_off = mean_off**2 + 2 * (np.abs(x - mean[:, None]) * rounded).mean(axis=1) + gamma(C + 4) * variance
    rstd_off = rstd * (variance_off / (2 * (variance + eps)) + RSQRT + 2 * U)
    n = (x - mean[:, None]) * rstd[:, None]
    n_off = (mean_off[:, None] + rounded) * rstd[:, None] + np.abs(n) * (rstd_off / rstd)[:, None]
    y_off = np.abs(gain) * (n_off + 3 * U * np.abs(n)) + (0 if bias is None else 2 * U * np.abs(bias))
    return {"y": y_off, "mean": mean_off, "rstd": rstd_off}


def layernorm_backward(*, dy, x, gain, mean, rstd, dresidual, dgain, dbias, N, C, accumulate, **_) -> Bounds:
    rstd = rstd[:, None]
    n = np.abs(x - mean[:, None]) * rstd
    n_off = 3 * U * (np.abs(x) + np.abs(mean)[:, None]) * rstd
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
        "dgain": gamma(N + 2) * ((np.abs(dy) * n).sum(axis=0) + old(dgain, accumulate))
        + (np.abs(dy) * n_off).sum(axis=0),
        "dbias": 0.0 if dbias is None else gamma(N + 1) * (np.abs(dy).sum(axis=0) + old(dbias, accumulate)),
    }


def inverse_root_mean_square(x: Any, eps: float) -> tuple[Any, Any]:
    """1 / sqrt(mean(x^2) + eps) along the last axis, and its relative error: a root halves that of the mean."""
    mean_off = gamma(x.shape[-1]) + DIVIDE + U
    return 1 / np.sqrt(np.square(x).mean(axis=-1) + eps), mean_off / 2 + RSQRT


def rmsnorm(*, x, gain, eps, **_) -> Bounds:
    rstd, rstd_off = inverse_root_mean_square(x, eps)
    return {"y": np.abs(x * rstd[:, None] * gain) * (rstd_off + 2 * U), "rstd": rstd * rstd_off}


def rmsnorm_backward(*, dy, x, gain, rstd, dresidual, dgain, N, C, accumulate, **_) -> Bounds:
    rstd = rstd[:, None]
    n, dn = np.abs(x) * rstd, np.abs(dy * gain)
    b = (dn * n).mean(axis=1, keepdims=True)  # of absolute values
    dx_off = rstd * (n * b * (gamma(C + 2) + DIVIDE) + 4 * U * (dn + n * b))
    if dresidual is not None:
        dx_off = dx_off + U * (np.abs(dresidual) + rstd * (dn + n * b))
    return {"dx": dx_off, "dgain": gamma(N + 2) * ((np.abs(dy) * n).sum(axis=0) + old(dgain, accumulate))}


def linear(*, x, weight, bias, residual, I, **_) -> Bounds:
    size = np.abs(x) @ np.abs(weight).T
    for term in (bias, residual):
        size = size + (0 if term is None else np.abs(term))
    return {"y": gamma(I + 2) * size}


def linear_activation(*, x, weight, bias, I, kind, **_) -> Bounds:
    h = x @ weight.T + (0 if bias is None else bias)
    h_off = gamma(I + 1) * (np.abs(x) @ np.abs(weight).T + (0 if bias is None else np.abs(bias)))
    if kind == RELU2:
        above = np.maximum(h, 0)
        return {"y": (2 * above + h_off) * h_off + U * above * above, "slope": 2 * h_off}
    density = np.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)
    y_off = GELU_STEEPEST * h_off + np.abs(h) * (0.5 * ERF + 4 * U)
    slope_off = GELU_BENDIEST * h_off + 0.5 * ERF + 4 * U + np.abs(h) * density * (exp_error(0.5 * h * h) + 4 * U)
    return {"y": y_off, "slope": slope_off}


def linear_backward_input(*, dy, weight, slope, O, **_) -> Bounds:
    size = np.abs(dy) @ np.abs(weight)
    return {"dx": gamma(O + 1) * (size if slope is None else size * np.abs(slope))}


def linear_backward_weight(*, dy, x, dweight, dbias, N, accumulate, **_) -> Bounds:
    dweight_size = np.abs(dy).T @ np.abs(x) + old(dweight, accumulate)
    dbias_size = 0.0 if dbias is None else np.abs(dy).sum(axis=0) + old(dbias, accumulate)
    return {"dweight": gamma(N + 1) * dweight_size, "dbias": gamma(N + 1) * dbias_size}


def sigmoid_and_error(g: Any) -> tuple[Any, Any]:
    """s = 1 / (1 + e) with e = exp(-g), and its relative error: one of e counts by the share 1 - s."""
    s = 1 / (1 + np.exp(-g))
    return s, exp_error(g) * (1 - s) + 2 * U + DIVIDE


def swiglu(*, gate_up, F, **_) -> Bounds:
    gate, up = gate_up[:, :F], gate_up[:, F:]
    s, s_off = sigmoid_and_error(gate)
    return {"y": np.abs(gate * s * up) * (s_off + 2 * U)}


def swiglu_backward(*, dy, gate_up, F, **_) -> Bounds:
    gate, up = gate_up[:, :F], gate_up[:, F:]
    s, s_off = sigmoid_and_error(gate)
    rest, rest_off = sigmoid_and_error(-gate)
    curved = np.abs(gate * s * rest)
    slope_off = s * s_off + curved * (s_off + rest_off + 2 * U) + 3 * U * (s + curved)
    return {"dgate_up": np.hstack([np.abs(dy * up) * slope_off, np.abs(dy * gate * s) * (s_off + 2 * U)])}


def qk_norm(*, qkv, N, H, D, eps, **_) -> Bounds:
    heads = qkv.reshape(N, 3 * H, D)
    rstd, rstd_off = inverse_root_mean_square(heads[:, : 2 * H], eps)
    y_off = np.zeros_like(heads)
    y_off[:, : 2 * H] = np.abs(heads[:, : 2 * H] * rstd[:, :, None]) * (rstd_off + U)
    return {"y": y_off.reshape(N, -1), "rstd": rstd * rstd_off}


def qk_norm_backward(*, dy, y, rstd, N, H, D, **_) -> Bounds:
    dn, n = (np.abs(array).reshape(N, 3 * H, D)[:, : 2 * H] for array in (dy, y))
    b = (dn * n).mean(axis=2, keepdims=True)  # of absolute values
    off = np.zeros((N, 3 * H, D))
    off[:, : 2 * H] = rstd[:, :, None] * (n * b * (gamma(D) + DIVIDE) + 3 * U * (dn + n * b))
    return {"dqkv": off.reshape(N, -1)}


TURN_UNIT = 2 * math.pi * 2.0**-32  # the least an angle that is a fraction of a turn in 32 bits changes by


def rotary_table(*, turns, **_) -> Bounds:
    """Past quarter turns an angle a is at most pi/4, and off by 3 U a from its scaling. Then cos a = 1 - h with h below
    0.31 and off by 5 U h, sin a = a (1 - h) with h below 0.11: at most 5 U for either."""
    return {"turns": np.full_like(turns, 5 * U + TURN_UNIT)}


def rotary(*, qkv, turns, N, T, H, D, **_) -> Bounds:
    half, off = D // 2, np.zeros((N, 3 * H, D))
    cos, sin = np.split(np.abs(turns)[np.arange(N) % T][:, None], 2, axis=2)
    turned = np.abs(qkv).reshape(N, 3 * H, D)[:, : 2 * H]
    off[:, : 2 * H, :half] = turned[..., :half] * cos + turned[..., half:] * sin
    off[:, : 2 * H, half:] = turned[..., :half] * sin + turned[..., half:] * cos
    return {"y": gamma(2) * off.reshape(N, -1)}


def softmax_errors(scores: Any, scores_off: Any) -> tuple[Any, Any, Any]:
    """p, its relative error, and the absolute error of the log-sum-exp, for rows of scores (-inf: not there).

    An error d of one score changes its own p by the factor 1 + d and the row's sum by the share p d. An online
    softmax multiplies what it has by exp(old top - new top) whenever the top grows: at most once for each score,
    by exponents that add up to no more than the row's range.
    """
    there = np.isfinite(scores)
    top = scores.max(axis=-1, keepdims=True)
    sums = np.exp(scores - top).sum(axis=-1, keepdims=True)
    p = np.exp(scores - top) / sums
    terms = there.sum(axis=-1, keepdims=True)
    below = np.where(there, top - scores, 0)
    rescaling = 7 * U * terms + 5 * U * below.max(axis=-1, keepdims=True)
    each = np.where(there, scores_off + exp_error(below) + rescaling, 0)
    in_sum = (p * each).sum(axis=-1, keepdims=True) + gamma(1) * terms
    lse = (top + np.log(sums))[..., 0]
    lse_off = in_sum[..., 0] + log_error(sums)[..., 0] + 2 * U * (np.abs(lse) + np.abs(top[..., 0]))
    return p, each + in_sum + DIVIDE, lse_off


def scores_and_errors(q: Any, k: Any) -> tuple[Any, Any]:
    """Scores of the last rows of q's sequence (all of them, or the newest alone) over all rows of k."""
    rows, D = q.shape[-2:]
    T = k.shape[-2]
    seen = np.tri(T, dtype=bool)[T - rows :]
    scores = np.where(seen, q @ k.swapaxes(-1, -2) / math.sqrt(D), -np.inf)
    return scores, gamma(D + 3) * (np.abs(q) @ np.abs(k).swapaxes(-1, -2)) / math.sqrt(D)


def attend(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Errors of y and of the log-sum-exp."""
    p, p_off, lse_off = softmax_errors(*scores_and_errors(q, k))
    return (p * (p_off + gamma(k.shape[-2] + 1))) @ np.abs(v), lse_off


def attention(*, qkv, B, T, H, D, **_) -> Bounds:
    y_off, lse_off = attend(*split_heads(qkv, B, T, H, D))
    return {"y": join_heads(y_off[None]), "lse": lse_off}


def attention_one(*, qkv, position, cache_k, cache_v, H, D, **_) -> Bounds:
    rows = int(position[0])
    q, k, v = np.split(qkv, 3, axis=1)  # [1,C]
    keys, values = np.concatenate([cache_k[:rows], k]), np.concatenate([cache_v[:rows], v])
    y_off, _lse_off = attend(*[split_heads(part, 1, len(part), H, D)[0] for part in (q, keys, values)])
    copied = np.zeros_like(cache_k)
    return {"y": join_heads(y_off[None]), "cache_k": copied, "cache_v": copied}


def attention_backward(*, dy, qkv, y, lse, B, T, H, D, **_) -> Bounds:
    q, k, v = split_heads(qkv, B, T, H, D)
    (dY,), (Y,) = split_heads(dy, B, T, H, D), split_heads(y, B, T, H, D)
    scores, scores_off = scores_and_errors(q, k)
    exponent = np.where(np.isfinite(scores), scores - lse[..., None], 0)
    p = np.exp(scores - lse[..., None])
    p_off = scores_off + exp_error(exponent) + 2 * U * (np.abs(lse)[..., None] + np.abs(exponent))  # relative
    delta = (dY * Y).sum(axis=-1, keepdims=True)
    ds = p * np.abs(dY @ v.swapaxes(-1, -2) - delta)
    parts = np.abs(dY) @ np.abs(v).swapaxes(-1, -2) + np.abs(dY * Y).sum(axis=-1, keepdims=True)
    ds_off = ds * (p_off + gamma(T + 4)) + p * gamma(D + 1) * parts
    dq_off = ds_off @ np.abs(k) / math.sqrt(D)
    dk_off = ds_off.swapaxes(-1, -2) @ np.abs(q) / math.sqrt(D)
    dv_off = (p * (p_off + gamma(T + 1))).swapaxes(-1, -2) @ np.abs(dY)
    return {"dqkv": join_heads(np.stack([dq_off, dk_off, dv_off]))}


def dropout(*, x, residual, y, N, C, **case) -> Bounds:
    kept = np.empty_like(y)
    SPEC["dropout"](x=x, residual=None, y=kept, N=N, C=C, **case)
    if residual is None:
        return {"y": 3 * U * np.abs(kept)}
    return {"y": 4 * U * np.abs(kept) + U * np.abs(residual)}


def cross_entropy(*, logits, targets, N, count, **_) -> Bounds:
    rows = np.arange(N)
    p, p_off, lse_off = softmax_errors(logits, 0.0)
    lse_size = np.abs(logits).max(axis=1) + math.log(logits.shape[1])
    losses_off = lse_off + U * (lse_size + np.abs(logits[rows, targets]))
    gradient_size = p.copy()
    gradient_size[rows, targets] += 1
    # exp(z - lse) instead of exp(z - top) / sum carries the rounding of a large log-sum-exp.
    p_off = p_off + lse_off[:, None]
    return {"losses": losses_off, "dlogits": (p * p_off + 3 * U * gradient_size) / count}


def mean_loss(*, losses, loss, N, accumulate, count, **_) -> Bounds:
    return {"loss": gamma(N + 1) * (np.abs(losses).sum() / count + old(loss, accumulate)) + np.zeros(1)}


def sgd(*, grads, norm, rates, counters, weights, m, rows, momentum, **_) -> Bounds:
    lr, _decay = rates[counters[0] % rows]
    m_size = momentum * np.abs(m) + np.abs(grads * norm[1])
    m_off = 3 * U * m_size
    return {"weights": 3 * U * np.abs(weights) + lr * (2 * U * m_size + m_off), "m": m_off}


def grad_norm(*, grads, P, limit, **_) -> Bounds:
    norm = np.sqrt(np.square(grads).sum())
    relative = gamma(P + 1) / 2 + SQRT  # a square root halves a relative error
    factor = min(1.0, limit / (norm + 1e-6)) if limit else 0.0
    return {"norm": np.array([norm * relative, factor * (relative + DIVIDE + 2 * U)])}


def adamw(*, grads, norm, rates, counters, weights, m, v, rows, beta1, beta2, eps, **_) -> Bounds:
    step_size, root_correction, _decay = rates[counters[0] % rows]
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


def cache_fill(*, cache_k, cache_v, **_) -> Bounds:
    return {"cache_k": np.zeros_like(cache_k), "cache_v": np.zeros_like(cache_v)}


def copied(*, y, **_) -> Bounds:
    return {"y": np.zeros_like(y)}


def record(*, ring, **_) -> Bounds:
    return {"ring": np.zeros_like(ring)}


BOUNDS = {
    bound.__name__: bound
    for bound in (
        embed,
        embed_backward,
        embed_one,
        layernorm,
        layernorm_backward,
        rmsnorm,
        rmsnorm_backward,
        linear,
        linear_activation,
        linear_backward_input,
        linear_backward_weight,
        swiglu,
        swiglu_backward,
        qk_norm,
        qk_norm_backward,
        rotary_table,
        rotary,
        attention,
        attention_one,
        attention_backward,
        dropout,
        cross_entropy,
        mean_loss,
        sgd,
        grad_norm,
        adamw,
        cache_fill,
        record,
    )
} | dict.fromkeys(("pick_row", "normal", "constant"), copied)
