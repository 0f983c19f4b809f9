"""Every hand-derived backward kernel against finite differences of its forward kernel, in float64.

The slope of f at x is taken from f(x ± h) and f(x ± 2h), which leaves an error of h^4 f^(5)(x) / 30 and rounding
of about eps |f| / h. Both are near eps^(4/5) = 3e-13 times the function's size at h = eps^(1/5); TOLERANCE leaves
a factor of 100 for fifth derivatives and for the terms of f that cancel.
"""

import numpy as np
import pytest

from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.kernels.spec import SPEC

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


@pytest.fixture
def random():
    return np.random.default_rng(20)


def blank(*shape):
    return np.full(shape, np.nan)


@pytest.mark.parametrize("B, T, C, V", [(1, 1, 1, 1), (3, 1, 2, 4), (2, 5, 3, 4)])
def test_embed(random, B, T, C, V):
    N = B * T
    tokens = random.integers(0, V, N)
    wte, wpe, dx = random.normal(size=(V, C)), random.normal(size=(T, C)), random.normal(size=(N, C))

    def loss():
        x = blank(N, C)
        SPEC["embed"](tokens=tokens, wte=wte, wpe=wpe, x=x, N=N, T=T, C=C)
        return (dx * x).sum()

    head = random.normal(size=(V, C))  # the tied head's part, there before
    for tied in (0, 1):
        dwte, dwpe = head.copy() if tied else blank(V, C), blank(T, C)
        sizes = {"N": N, "T": T, "V": V, "C": C}
        SPEC["embed_backward"](tokens=tokens, dx=dx, dwte=dwte, dwpe=dwpe, **sizes, accumulate=0, tied=tied)
        assert_gradient(dwte - head * tied, loss, wte, N * C)
        assert_gradient(dwpe, loss, wpe, N * C)


@pytest.mark.parametrize("N, C", [(1, 1), (1, 3), (3, 5), (2, 16)])
@pytest.mark.parametrize("residual", [False, True])
def test_layernorm(random, N, C, residual):
    x = random.permuted(np.tile(np.linspace(-1.5, 1.5, C), (N, 1)), axis=1) + 0.1 * random.normal(size=(N, C)) + 1
    gain, bias = random.normal(size=C), random.normal(size=C)
    y, mean, rstd = blank(N, C), blank(N), blank(N)
    dy = random.normal(size=(N, C))
    dresidual = random.normal(size=(N, C)) if residual else None

    def loss():
        SPEC["layernorm"](x=x, gain=gain, bias=bias, y=y, mean=mean, rstd=rstd, N=N, C=C, eps=1e-5)
        return (dy * y).sum() + (0 if dresidual is None else (dresidual * x).sum())

    loss()
    dx, dgain, dbias = blank(N, C), blank(C), blank(C)
    SPEC["layernorm_backward"](
        dy=dy,
        x=x,
        gain=gain,
        mean=mean,
        rstd=rstd,
        dresidual=dresidual,
        dx=dx,
        dgain=dgain,
        dbias=dbias,
        N=N,
        C=C,
        accumulate=0,
    )
    size = np.abs(dy * y).sum() + N * C
    assert_gradient(dx, loss, x, size)
    assert_gradient(dgain, loss, gain, size)
    assert_gradient(dbias, loss, bias, size)


@pytest.mark.parametrize("N, C", [(1, 1), (1, 3), (3, 5), (2, 16)])
@pytest.mark.parametrize("residual", [False, True])
def test_rmsnorm(random, N, C, residual):
    x = random.normal(size=(N, C)) + 1
    gain, dy = random.normal(size=C), random.normal(size=(N, C))
    y, rstd = blank(N, C), blank(N)
    dresidual = random.normal(size=(N, C)) if residual else None

    def loss():
        SPEC["rmsnorm"](x=x, gain=gain, y=y, rstd=rstd, N=N, C=C, eps=1e-5)
        return (dy * y).sum() + (0 if dresidual is None else (dresidual * x).sum())

    loss()
    kept = {"dy": dy, "x": x, "gain": gain, "rstd": rstd, "dresidual": dresidual}
    dx, dgain = blank(N, C), blank(C)
    SPEC["rmsnorm_backward"](**kept, dx=dx, dgain=dgain, N=N, C=C, accumulate=0)
    size = np.abs(dy * y).sum() + N * C
    assert_gradient(dx, loss, x, size)
    assert_gradient(dgain, loss, gain, size)


@pytest.mark.parametrize("N, O, I", [(1, 1, 1), (1, 3, 5), (4, 2, 3), (3, 5, 1)])
def test_linear(random, N, O, I):  # noqa: E741
    x, weight, bias = random.normal(size=(N, I)), random.normal(size=(O, I)), random.normal(size=O)
    residual, dy = random.normal(size=(N, O)), random.normal(size=(N, O))

    def loss():
        y = blank(N, O)
        SPEC["linear"](x=x, weight=weight, bias=bias, residual=residual, y=y, N=N, O=O, I=I)
        return (dy * y).sum()

    dx, dweight, dbias = blank(N, I), blank(O, I), blank(O)
    SPEC["linear_backward_input"](dy=dy, weight=weight, slope=None, dx=dx, N=N, O=O, I=I)
    SPEC["linear_backward_weight"](dy=dy, x=x, dweight=dweight, dbias=dbias, N=N, O=O, I=I, accumulate=0)
    size = N * O * (I + 2)
    assert_gradient(dx, loss, x, size)
    assert_gradient(dweight, loss, weight, size)
    assert_gradient(dbias, loss, bias, size)
    assert_gradient(dy, loss, residual, size)  # a residual's gradient is dy itself


@pytest.mark.parametrize("kind", [GELU, RELU2])
@pytest.mark.parametrize("N, O, I", [(1, 1, 1), (1, 4, 3), (3, 5, 2)])
def test_linear_activation(random, N, O, I, kind):  # noqa: E741
    """The MLP: z = f(x inner^T + bias) outer^T, whose slope meets the gradient in linear_backward_input."""
    x, inner, bias = random.normal(size=(N, I)), random.normal(size=(O, I)), random.normal(size=O)
    outer, dz = random.normal(size=(I, O)), random.normal(size=(N, I))
    y, slope, z = blank(N, O), blank(N, O), blank(N, I)

    def loss():
        SPEC["linear_activation"](x=x, weight=inner, bias=bias, y=y, slope=slope, N=N, O=O, I=I, kind=kind)
        SPEC["linear"](x=y, weight=outer, bias=None, residual=None, y=z, N=N, O=I, I=O)
        return (dz * z).sum()

    loss()
    dh, dx, dinner, dbias, douter = blank(N, O), blank(N, I), blank(O, I), blank(O), blank(I, O)
    SPEC["linear_backward_weight"](dy=dz, x=y, dweight=douter, dbias=None, N=N, O=I, I=O, accumulate=0)
    SPEC["linear_backward_input"](dy=dz, weight=outer, slope=slope, dx=dh, N=N, O=I, I=O)
    SPEC["linear_backward_weight"](dy=dh, x=x, dweight=dinner, dbias=dbias, N=N, O=O, I=I, accumulate=0)
    SPEC["linear_backward_input"](dy=dh, weight=inner, slope=None, dx=dx, N=N, O=O, I=I)
    size = N * O * I
    assert_gradient(douter, loss, outer, size)
    assert_gradient(dinner, loss, inner, size)
    assert_gradient(dbias, loss, bias, size)
    assert_gradient(dx, loss, x, size)


@pytest.mark.parametrize("N, F", [(1, 1), (3, 5)])
def test_swiglu(random, N, F):
    gate_up, dy = 2 * random.normal(size=(N, 2 * F)), random.normal(size=(N, F))
    y, dgate_up = blank(N, F), blank(N, 2 * F)

    def loss():
        SPEC["swiglu"](gate_up=gate_up, y=y, N=N, F=F)
        return (dy * y).sum()

    loss()
    SPEC["swiglu_backward"](dy=dy, gate_up=gate_up, dgate_up=dgate_up, N=N, F=F)
    assert_gradient(dgate_up, loss, gate_up, np.abs(dy * y).sum())


@pytest.mark.parametrize("N, H, D", [(1, 1, 1), (2, 3, 5)])
def test_qk_norm(random, N, H, D):
    qkv, dy = random.normal(size=(N, 3 * H * D)) + 1, random.normal(size=(N, 3 * H * D))
    y, rstd, dqkv = blank(N, 3 * H * D), blank(N, 2 * H), blank(N, 3 * H * D)

    def loss():
        SPEC["qk_norm"](qkv=qkv, y=y, rstd=rstd, N=N, H=H, D=D, eps=1e-5)
        return (dy * y).sum()

    loss()
    SPEC["qk_norm_backward"](dy=dy, y=y, rstd=rstd, dqkv=dqkv, N=N, H=H, D=D)
    assert_gradient(dqkv, loss, qkv, np.abs(dy * y).sum())


@pytest.mark.parametrize("N, T, H, D", [(1, 1, 1, 2), (4, 2, 2, 6)])
def test_rotary(random, N, T, H, D):
    qkv, dy = random.normal(size=(N, 3 * H * D)), random.normal(size=(N, 3 * H * D))
    turns, dqkv = blank(T, D), blank(N, 3 * H * D)
    SPEC["rotary_table"](position=None, turns=turns, T=T, D=D, base=10)

    def loss():
        y = blank(N, 3 * H * D)
        SPEC["rotary"](qkv=qkv, turns=turns, y=y, N=N, T=T, H=H, D=D, inverse=0)
        return (dy * y).sum()

    SPEC["rotary"](qkv=dy, turns=turns, y=dqkv, N=N, T=T, H=H, D=D, inverse=1)
    assert_gradient(dqkv, loss, qkv, np.abs(dy).sum())


@pytest.mark.parametrize("B, T, H, D", [(1, 1, 1, 1), (2, 1, 2, 3), (1, 2, 1, 1), (2, 5, 3, 3), (1, 9, 1, 5)])
def test_attention(random, B, T, H, D):
    N, C = B * T, H * D
    qkv, dy = random.normal(size=(N, 3 * C)), random.normal(size=(N, C))
    y, lse = blank(N, C), blank(B, H, T)

    def loss():
        SPEC["attention"](qkv=qkv, y=y, lse=lse, B=B, T=T, H=H, D=D)
        return (dy * y).sum()

    loss()
    dqkv = blank(N, 3 * C)
    SPEC["attention_backward"](dy=dy, qkv=qkv, y=y, lse=lse, dqkv=dqkv, B=B, T=T, H=H, D=D)
    assert_gradient(dqkv, loss, qkv, N * C)


def test_dropout(random):
    N, C = 5, 7
    x, dy, residual = random.normal(size=(N, C)), random.normal(size=(N, C)), random.normal(size=(N, C))
    same = {"counters": np.array([3, 1, 0, 0], np.int32), "N": N, "C": C, "seed": 7, "site": 2, "rate": 0.5}

    def loss():
        y = blank(N, C)
        SPEC["dropout"](x=x, residual=residual, y=y, **same)
        return (dy * y).sum()

    dx = blank(N, C)
    SPEC["dropout"](x=dy, residual=None, y=dx, **same)
    assert_gradient(dx, loss, x, np.abs(dy).sum())
    assert_gradient(dy, loss, residual, np.abs(dy).sum())


@pytest.mark.parametrize("N, V", [(1, 1), (1, 2), (3, 7), (2, 33)])
def test_cross_entropy(random, N, V):
    logits, targets, count = 2 * random.normal(size=(N, V)), random.integers(0, V, N), 7
    losses, dlogits = blank(N), blank(N, V)

    def loss():
        SPEC["cross_entropy"](logits=logits, targets=targets, losses=losses, dlogits=None, N=N, V=V, count=count)
        total = blank(1)
        SPEC["mean_loss"](losses=losses, loss=total, N=N, accumulate=0, count=count)
        return total[0]

    SPEC["cross_entropy"](logits=logits, targets=targets, losses=losses, dlogits=dlogits, N=N, V=V, count=count)
    assert_gradient(dlogits, loss, logits, np.abs(losses).sum())
