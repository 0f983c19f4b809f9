"""Causal self-attention: each row takes a weighted mean of the values of the rows up to itself."""

from __future__ import annotations

import math

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints


def split_heads(rows: Floats, B: int, T: int, H: int, D: int) -> Floats:
    """[N, k H D] -> [k, B, H, T, D]; k is 3 for q, k, v side by side."""
    return rows.reshape(B, T, -1, H, D).transpose(2, 0, 3, 1, 4)


def join_heads(heads: Floats) -> Floats:
    """[k, B, H, T, D] -> [N, k H D]."""
    _, B, _, T, _ = heads.shape
    return heads.transpose(1, 3, 0, 2, 4).reshape(B * T, -1)


def causal_scores(q: Floats, k: Floats, alibi: int) -> Floats:
    """s[i,j] = q_i . k_j / sqrt(D), with `alibi` less the distance's share; -inf where j is after i: [B,H,T,T]."""
    H, T, D = q.shape[-3:]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(D)
    if alibi:
        rows = np.arange(T)
        scores -= (alibi_slopes(H)[:, None, None] * (rows[:, None] - rows)).astype(scores.dtype)
    return np.where(np.tri(T, dtype=bool), scores, -np.inf)


def alibi_slopes(H: int) -> Floats:
    """What each head's scores lose per row between key and query."""
    slopes: Floats = 2.0 ** (-8 * np.arange(1, H + 1) / H)
    return slopes


def log_sum_exp(scores: Floats) -> Floats:
    """Over the last axis; the largest score is taken out first, so that no exp overflows."""
    top: Floats = scores.max(axis=-1, keepdims=True)
    sums: Floats = np.exp(scores - top).sum(axis=-1)
    return top[..., 0] + np.log(sums)


def attention(*, qkv: Floats, y: Floats, lse: Floats | None, B: int, T: int, H: int, D: int, alibi: int = 0) -> None:
    """qkv [N,3C] -> y [N,C], and lse [B,H,T], kept for the backward pass.

    With s the causal scores and lse_i = log sum_j exp(s_ij), the softmax is p_ij = exp(s_ij - lse_i), and y = p v.
    """
    q, k, v = split_heads(qkv, B, T, H, D)
    scores = causal_scores(q, k, alibi)
    sums = log_sum_exp(scores)
    p = np.exp(scores - sums[..., None])
    y[...] = join_heads((p @ v)[None])
    if lse is not None:
        lse[...] = sums


def attention_weights(*, qkv: Floats, lse: Floats, p: Floats, B: int, T: int, H: int, D: int, alibi: int = 0) -> None:
    """qkv [N,3C], lse [B,H,T] -> the softmax itself, p [B,H,T,T]: how much row i takes of each up to itself."""
    q, k, _ = split_heads(qkv, B, T, H, D)
    p[...] = np.exp(causal_scores(q, k, alibi) - lse[..., None])


def attention_backward(
    *, dy: Floats, qkv: Floats, y: Floats, lse: Floats, dqkv: Floats, B: int, T: int, H: int, D: int, alibi: int = 0
) -> None:
    """dy [N,C] -> dqkv [N,3C]. The matrix p is not kept: it is made again from q, k and lse.

    y = p v                   gives  dv = p^T dy  and  dp = dy v^T
    p = softmax(s) by rows:   dp_ij/ds_ik = p_ij ([j=k] - p_ik), so ds_ik = p_ik (dp_ik - sum_j p_ij dp_ij),
                              and that sum is dy_i . sum_j p_ij v_j = dy_i . y_i
    s = q k^T / sqrt(D) - …   gives  dq = ds k / sqrt(D)  and  dk = ds^T q / sqrt(D)
    """
    q, k, v = split_heads(qkv, B, T, H, D)
    (dY,), (Y,) = split_heads(dy, B, T, H, D), split_heads(y, B, T, H, D)
    p = np.exp(causal_scores(q, k, alibi) - lse[..., None])
    dp = dY @ v.swapaxes(-1, -2)
    ds = p * (dp - (dY * Y).sum(axis=-1, keepdims=True)) / math.sqrt(D)
    dqkv[...] = join_heads(np.stack([ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dY]))


def cache_fill(*, qkv: Floats, row: Ints, cache_k: Floats, cache_v: Floats, N: int, T: int, C: int, R: int = 1) -> None:
    """The k and v of a sequence's N rows, qkv [N,3C] -> the first of text row[0] in cache_k, cache_v [R T,C]."""
    first = int(row[0]) * T
    cache_k[first : first + N] = qkv[:, C : 2 * C]
    cache_v[first : first + N] = qkv[:, 2 * C :]


def attention_one(
    *,
    qkv: Floats,
    position: Ints,
    y: Floats,
    cache_k: Floats,
    cache_v: Floats,
    T: int,
    H: int,
    D: int,
    alibi: int = 0,
    R: int = 1,
) -> None:
    """The newest row of each text alone: its k and v join the text's cache [T,C] at place position[r], its q looks at
    places 0 to there.

    qkv [R,3C] -> y [R,C]; caches are [R T,C]. What lies there behind the newest is neither read nor written.
    """
    for r in range(R):
        rows = int(position[r]) + 1
        q, k, v = qkv[r].reshape(3, H, D)
        own_k, own_v = cache_k[r * T : r * T + rows], cache_v[r * T : r * T + rows]
        own_k[-1] = k.reshape(-1)
        own_v[-1] = v.reshape(-1)
        keys = own_k.reshape(rows, H, D).swapaxes(0, 1)  # [H, rows, D]
        values = own_v.reshape(rows, H, D).swapaxes(0, 1)
        scores = (keys @ q[:, :, None])[:, :, 0] / math.sqrt(D)
        if alibi:
            scores -= (alibi_slopes(H)[:, None] * np.arange(rows)[::-1]).astype(scores.dtype)
        p = np.exp(scores - log_sum_exp(scores)[:, None])  # [H, rows]
        y[r] = (p[:, None, :] @ values).reshape(-1)
