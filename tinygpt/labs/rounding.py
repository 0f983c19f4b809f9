"""How far a float32 kernel may be from the float64 specification: bounds from the arithmetic, not guesses.

Each operation of + - * rounds with a relative error of at most U = 2^-24. A sum of k products, in any order,
with or without fused multiply-adds, is off by at most gamma(k) = k U / (1 - k U) times the sum of its terms'
absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). The kernels' bounds follow
the errors of intermediate results to the outputs to first order, and so depend on the case's numbers.

Library functions are held to the table of the WGSL standard, the loosest of the engines (1 ulp is at most 2 U).
"""

import math

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Bounds = dict[str, Any]

U = 2.0**-24
SMALLEST = 2.0**-126  # a result below it may be flushed to 0

DIVIDE = 5 * U  # 2.5 ulp
RSQRT = 4 * U  # 2 ulp
SQRT = RSQRT + DIVIDE  # 1 / inverseSqrt
ERF = 16 * U  # WGSL has none; absolute, as of a rational approximation with one exp
GELU_STEEPEST = 1.13  # the largest |gelu'|
GELU_BENDIEST = 0.8  # the largest |gelu''|, 2 / sqrt(2 pi)


def gamma(k: int) -> float:
    return k * U / (1 - k * U)


def exp_error(x: "Any") -> "Any":
    """Relative, of exp(x): 3 + 2 |x| ulp, and x itself is the rounded difference of two numbers."""
    return (6 + 5 * np.abs(x)) * U


def log_error(x: "Any") -> "Any":
    """Of log(x), absolute: 2^-21 near 1, else 3 ulp."""
    return 2.0**-21 + 6 * U * np.abs(np.log(x))


def gelu_errors(h: "Any") -> "tuple[Any, Any]":
    """Of gelu(h), and of its slope, absolute, where h is exact."""
    density = np.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)
    slope_off = 0.5 * ERF + 4 * U + np.abs(h) * density * (exp_error(0.5 * h * h) + 4 * U)
    return np.abs(h) * (0.5 * ERF + 4 * U), slope_off


def old(tensor: "Any", accumulate: int) -> "Any":
    """What an accumulating output starts from, in absolute value."""
    return np.abs(tensor) if accumulate else 0.0


def inverse_root_mean_square(x: "Any", eps: float) -> "tuple[Any, Any]":
    """1 / sqrt(mean(x^2) + eps) along the last axis, and its relative error: a root halves that of the mean."""
    mean_off = gamma(x.shape[-1]) + DIVIDE + U
    return 1 / np.sqrt(np.square(x).mean(axis=-1) + eps), mean_off / 2 + RSQRT


def softmax_errors(scores: "Any", scores_off: "Any") -> "tuple[Any, Any, Any]":
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
