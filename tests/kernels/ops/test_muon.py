import math

import numpy as np
import pytest
import torch
from cases import assert_matches_spec, make_case, run_spec
from harness_cpp import cpu_lanes, run_kernel
from kernel_tests import KernelTests, device_with, some

from tinygpt.core.models.layout import aligned
from tinygpt.core.ops import linear_tiles, muon_gpu
from tinygpt.core.ops.muon import desks
from tinygpt.core.ops.muon_matrices import matrices_of
from tinygpt.core.optimizers.muon import POLAR, QUINTIC, run_length
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.rounding import DIVIDE, SQRT, U, gamma

LR, DECAY, MOMENTUM = 0.7, 0.05, 0.9
GEOMETRY = ("layers", "stride", "C", "W", "F", "gates", "o_at", "in_at", "out_at")


def sizes(layers, C, F, gates, steps, every, at_once=3, done=0, W=0):
    """Of a call: the blocks' matrices where a layout has them, and so many in work at once on a CPU."""
    o_at = aligned((C + 2 * (W or C)) * C)
    in_at = o_at + aligned(C * C)
    out_at = in_at + aligned(gates * F * C)
    stride = out_at + aligned(C * F)
    block = {
        "stride": stride,
        "C": C,
        "W": W or C,
        "F": F,
        "gates": gates,
        "o_at": o_at,
        "in_at": in_at,
        "out_at": out_at,
    }
    table = {"rows": 1 + done, "columns": 5 + 3 * steps, "counters": [10 * done, 1, 2, 3]}
    iterations = {"steps": steps, "every": every, "desks": at_once}
    return {"P": layers * stride, "layers": layers, **block, **table, **iterations}


def hidden(case):
    return matrices_of(*[case[name] for name in GEOMETRY])


def one_row_of_rates(normal, dims, random):
    rates = np.full_like(normal, np.nan)
    rates[dims["counters"][0] % dims["rows"], 3:] = [LR, DECAY, *QUINTIC * dims["steps"]]
    return rates


def well_conditioned(normal, dims, random):
    """Matrices whose singular values are within a factor of two of each other. Between them lies what counts not."""
    flat = np.full_like(normal, np.nan)
    for start, outputs, inputs in hidden(dims):
        left, _, right = np.linalg.svd(random.standard_normal((outputs, inputs)), full_matrices=False)
        values = random.uniform(0.6, 1, len(right))
        flat[start : start + outputs * inputs] = (left * values @ right).reshape(-1)
    return flat


class TestMuon(KernelTests):
    kernel = "muon"
    wgsl_every = 6
    cases = [
        sizes(1, 1, 4, 1, 5, 5),
        sizes(1, 3, 12, 1, 1, 1),
        sizes(2, 5, 20, 1, 3, 2, at_once=1, done=3),
        sizes(1, 12, 32, 2, 4, 4),
        sizes(2, 14, 56, 1, 5, 5, at_once=2, done=2),
        sizes(1, 13, 13, 1, 6, 3),
        sizes(1, 33, 100, 2, 2, 1),
        sizes(2, 6, 24, 1, 5, 5, W=2),
        sizes(1, 12, 32, 2, 4, 4, at_once=1, W=4),
    ]
    # Off every tile, several blocks of k: of an X, and of the squares.
    cpp_cases = [sizes(1, 50, 401, 1, 2, 2), sizes(1, 390, 392, 1, 1, 1, at_once=2), sizes(2, 70, 200, 1, 5, 5)]
    wgsl_cases = [sizes(1, 72, 132, 1, 3, 3), sizes(1, 36, 136, 2, 2, 2), sizes(1, 24, 96, 1, 5, 5)]
    fills = {
        "norm": lambda normal, dims, random: np.array([2.5, 0.4]),
        "rates": one_row_of_rates,
        "grads": well_conditioned,
        "weights": lambda normal, dims, random: 0.1 * normal,
    }
    scalars = {"momentum": MOMENTUM}

    def settle(self, case):
        """The momentum is of gradients like this one."""
        random = np.random.default_rng(1)
        case["m"] = np.nan_to_num(0.2 * case["grads"] + 0.005 * random.standard_normal(case["P"]))
        case["grads"] = np.nan_to_num(case["grads"])

    def formula(self, *, grads, norm, weights, m, steps, momentum, **case):
        """As torch.optim.Muon has it, in float64."""
        weights, m = weights.clone(), m.clone()
        for start, outputs, inputs in hidden(case):
            here = slice(start, start + outputs * inputs)
            m[here] = torch.lerp(m[here], grads[here] * norm[1], 1 - momentum)
            x = torch.lerp(grads[here] * norm[1], m[here], momentum).reshape(outputs, inputs)
            x = x / x.norm()
            for _ in range(steps):
                a, b, c = [np.float64(np.float32(number)) for number in QUINTIC]
                x = a * x + b * x @ x.mT @ x + c * x @ x.mT @ x @ x.mT @ x
            rate = np.float64(np.float32(LR)) * max(1, outputs / inputs) ** 0.5
            weights[here] = weights[here] * (1 - np.float64(np.float32(DECAY))) - rate * x.reshape(-1)
        return {"weights": weights, "m": m}

    def bound(self, *, grads, norm, weights, m, momentum, steps, every, **case):
        weights_off, m_off = 3 * U * np.abs(weights), np.zeros_like(m)
        for start, outputs, inputs in hidden(case):
            here = slice(start, start + outputs * inputs)
            g = grads[here] * norm[1]
            m_size = momentum * np.abs(m[here]) + (1 - momentum) * np.abs(g)
            m_off[here] = 4 * U * m_size
            ahead = momentum * (momentum * m[here] + (1 - momentum) * g) + (1 - momentum) * g
            ahead_off = (1 - momentum) * 3 * U * np.abs(g) + momentum * m_off[here] + 3 * U * np.abs(ahead)
            x = ahead.reshape(outputs, inputs)
            x, x_off = iterated(x.T if outputs < inputs else x, ahead_off, steps, every)
            rate = LR * math.sqrt(max(1, outputs / inputs))
            weights_off[here] += rate * (x_off + (SQRT + DIVIDE + 4 * U) * np.abs(x).max())
        return {"weights": weights_off, "m": m_off}


def iterated(u, u_off, steps, every):
    """X [K, C] after all iterations, and a bound of its error's norm, to first order.

    With the singular vectors of X as bases all squares are diagonal, and each product multiplies an error's part [i, j]
    by a number. So, going backward, each product's rounding errors, of which the norm is known, get the largest factor
    by which any part of them can arrive.
    """
    K, C = u.shape
    left, values, right = np.linalg.svd(u, full_matrices=False)
    length = np.linalg.norm(values)
    values = values / length
    # The scale, from a sum of K * C squares, is of every value alike.
    error = np.linalg.norm(u_off) / length + (gamma(K + C) / 2 + SQRT + DIVIDE) + 2 * U
    for begin in range(0, steps, every):
        values, error = run_of_iterations((left, values, right), error, min(every, steps - begin))
    return left * values @ right, error


def run_of_iterations(x, error, count):
    (left, values, right), (a, b, c) = x, QUINTIC
    K, C = left.shape

    def square(diagonal):
        return right.T * diagonal @ right

    def rounding(depth, one, other):
        return gamma(depth + 3) * np.linalg.norm(np.abs(one) @ np.abs(other))

    run, squares, q = [], values**2, np.ones(C)
    for _ in range(count):
        p = a + b * squares + c * squares**2
        run.append((squares, p, q))
        squares, q = p * squares * p, p * q
    of_q, of_a, added = np.ones((C, C)), np.zeros((C, C)), 0.0

    def arrives(weight, size):
        return np.abs(values[:, None] * weight).max() * size

    for squares, p, q_before in reversed(run):
        matrix, bent = square(squares), square(p)
        of_pa = of_a * p
        of_p = of_q * q_before + of_a * (p * squares)[:, None] + of_pa * squares
        added += arrives(of_q, rounding(C, bent, square(q_before)))
        added += arrives(of_a, rounding(C, square(p * squares), bent)) + arrives(of_pa, rounding(C, bent, matrix))
        added += arrives(of_p, abs(c) * rounding(C, matrix, matrix) + 3 * U * np.linalg.norm(bent))
        of_q = of_q * p[:, None]
        of_a = of_p * (b + c * (squares[:, None] + squares)) + of_pa * p[:, None]
    whole = left * values @ right
    added += arrives(of_a, rounding(K, whole.T, whole) + 4 * U * np.linalg.norm(values**2))
    added += rounding(C, whole, square(q))
    # An error of X itself is multiplied by Q, and makes one of X^T X.
    through = np.abs(q) + np.abs(of_a) * (values[:, None] ** 2 + values[:, None] * values)
    return values * q, error * through.max() + added


# --- against torch.optim.Muon --------------------------------------------------------------------------------

STEPS = 6


def stepped(dims, exact, monkeypatch):
    """The spec's weights and torch.optim.Muon's after some steps with other rates and gradients each."""
    if exact:
        monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    case = make_case("muon", dims)
    theirs = [
        torch.tensor(case["weights"][s : s + o * i].reshape(o, i), requires_grad=True) for s, o, i in hidden(case)
    ]
    optimizer = torch.optim.Muon(theirs, weight_decay=DECAY, momentum=MOMENTUM, ns_steps=dims["steps"])
    case["m"][:], case["momentum"] = 0, MOMENTUM
    random = np.random.default_rng(4)
    for step in range(STEPS):
        lr = 0.1 / (1 + step)
        case["rates"][...] = [np.nan, np.nan, np.nan, lr, lr * DECAY, *QUINTIC * dims["steps"]]
        case["grads"] = random.standard_normal(case["P"]) * (0 if step == 3 else 1)
        for weight, (start, outputs, inputs) in zip(theirs, hidden(case), strict=True):
            g = case["grads"][start : start + outputs * inputs] * case["norm"][1]
            weight.grad = torch.tensor(g.reshape(outputs, inputs))
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        SPEC["muon"](**case)
    ours = [case["weights"][s : s + o * i].reshape(o, i) for s, o, i in hidden(case)]
    return ours, [weight.detach().numpy() for weight in theirs]


@pytest.mark.parametrize("C, F, gates, W", [(7, 28, 1, 7), (12, 32, 2, 4), (1, 4, 1, 1)])
def test_spec_is_torchs_muon_once_that_iterates_in_float64(C, F, gates, W, monkeypatch):
    for ours, theirs in zip(*stepped(sizes(2, C, F, gates, 5, 5, W=W), True, monkeypatch), strict=True):
        assert np.abs(ours - theirs).max() <= 1e-9


def test_spec_is_torchs_muon_within_bfloat16(monkeypatch):
    ours, theirs = stepped(sizes(1, 24, 96, 1, 5, 5), False, monkeypatch)
    for a, b in zip(ours, theirs, strict=True):
        off = np.linalg.norm(a - b) / np.linalg.norm(b)
        assert 2.0**-12 < off < 2.0**-4, "float64 against bfloat16, of which 8 bits a number are left"


# --- hard matrices -------------------------------------------------------------------------------------------


def hard_case(kind):
    """Momentum of which an engine's squares keep but rounding errors in most directions."""
    dims = sizes(1, 40, 160, 1, 5, run_length((QUINTIC,) * 5))
    case = make_case("muon", dims, dtype=np.float32)
    case["m"][:], case["weights"][:] = 0, 0
    random = np.random.default_rng(9)
    for start, outputs, inputs in hidden(case):
        n = min(outputs, inputs)
        left, right = (
            np.linalg.qr(random.standard_normal((outputs, n)))[0],
            np.linalg.qr(random.standard_normal((inputs, n)))[0],
        )
        number = np.arange(n)
        values = {"rank 1": number < 1, "low rank": number < 5, "steep": 1.0 / (1 + number) ** 2, "zero": 0 * number}[
            kind
        ]
        case["grads"][start : start + outputs * inputs] = (left * values @ right.T).reshape(-1)
    return case


@pytest.mark.parametrize("engine", some(["cpp", "wgsl"]))
@pytest.mark.parametrize("kind", some(["low rank", "zero", "rank 1", "steep"], 4))
def test_cpp_wgsl_hard_matrices_are_no_worse_than_bfloat16(kind, engine, request):
    case = hard_case(kind)
    exact = run_spec(
        "muon", {name: np.float64(v) if np.asarray(v).dtype == np.float32 else v for name, v in case.items()}
    )
    if engine == "cpp":
        outputs = run_kernel("muon", case, cpu_lanes()[-1])
    else:
        outputs = request.getfixturevalue("wgsl").run_kernel("muon", case, device_with())
    for start, outputs_, inputs in hidden(case):
        here = slice(start, start + outputs_ * inputs)
        off = np.linalg.norm(outputs["weights"][here] - exact["weights"][here], 2)
        assert off <= 2.0**-8 * np.linalg.norm(exact["weights"][here], 2)


# --- tiles on a GPU ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tile", some(linear_tiles.TILES, len(linear_tiles.TILES)), ids=lambda tile: "x".join(map(str, tile[:5]))
)
def test_wgsl_every_tile_is_the_spec(tile, wgsl, monkeypatch):
    monkeypatch.setattr(muon_gpu, "tile_of", lambda *_: tile)
    dims = sizes(1, 72, 140, 1, 3, 3)
    device = device_with(max_shared=49152, max_invocations=1024)
    assert_matches_spec("muon", dims, wgsl.run_kernel("muon", make_case("muon", dims, dtype=np.float32), device, 2))


# --- settings ------------------------------------------------------------------------------------------------


def test_runs_are_short_enough_for_float32():
    assert [run_length((QUINTIC,) * n) for n in range(1, 11)] == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5]
    assert [run_length(POLAR[n]) for n in POLAR] == [3, 4]


def test_desks_are_few_where_matrices_are_large():
    assert desks(12, 48, 192) == 12 and desks(72, 256, 1024) == 20 and desks(144, 1280, 5120) == 1
