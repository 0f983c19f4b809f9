"""Gradients against finite differences, in float64.

The slope of f at x is taken from f(x ± h) and f(x ± 2h), which leaves an error of h^4 f^(5)(x) / 30 and rounding
of about eps |f| / h. Both are near eps^(4/5) = 3e-13 times the function's size at h = eps^(1/5); TOLERANCE leaves
a factor of 100 for fifth derivatives and for the terms of f that cancel.
"""

import numpy as np

EPS = np.finfo(np.float64).eps
STEP = EPS ** (1 / 5)
TOLERANCE = 100 * EPS ** (4 / 5)


def finite_differences(loss, x):
    """d loss() / dx, entry by entry; `loss` reads x, which is changed in place and put back."""
    slopes = np.empty_like(x)
    for i in np.ndindex(x.shape):
        start = x[i]
        f = {}
        for k in (-2, -1, 1, 2):
            x[i] = start + k * STEP
            f[k] = loss()
        x[i] = start
        slopes[i] = (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * STEP)
    return slopes


def assert_gradient(gradient, loss, x, size):
    """`size`: the sum of the absolute values that `loss` adds up."""
    wanted = finite_differences(loss, x)
    assert np.abs(gradient - wanted).max() <= TOLERANCE * max(size, np.abs(wanted).max(), 1.0)
