"""Forward kernels against plain formulas and against PyTorch, in float64.

Both sides round, so the tolerance is the kernel's error bound (error_bounds.py) for twice float64's unit roundoff.
"""

import math
import struct

import numpy as np
import pytest
import torch
from cases import CASES, assert_matches_spec, case_id, make_case

from tinygpt.core.ops.linear import RELU2
from tinygpt.core.rng import BATCH, DROPOUT, INIT, philox, window_offsets
from tinygpt.kernels.linear import normal_cdf, normal_density
from tinygpt.kernels.spec import SPEC

BOTH_ROUND = 2 * 2.0**-53


def on_cases(kernel, *may_lack):
    """Run a test on the cases of a kernel, those left out that lack another tensor than it `may_lack`."""
    absent = [{name for name, value in dims.items() if value is None} for dims in CASES[kernel]]
    fit = [dims for dims, names in zip(CASES[kernel], absent, strict=True) if names <= set(may_lack)]
    return pytest.mark.parametrize("dims", fit, ids=case_id)


def check(kernel, dims, **outputs):
    assert_matches_spec(kernel, dims, outputs, unit=BOTH_ROUND)


def tensors(case):
    return {name: torch.from_numpy(value) for name, value in case.items() if isinstance(value, np.ndarray)}


@on_cases("embed", "wpe")
def test_embed_row_by_row(dims):
    case = make_case("embed", dims)
    wpe = np.zeros((dims["T"], dims["C"])) if case["wpe"] is None else case["wpe"]
    x = [case["wte"][token] + wpe[n % dims["T"]] for n, token in enumerate(case["tokens"])]
    check("embed", dims, x=x)


@on_cases("embed_one", "wpe")
def test_embed_one_is_a_row_of_embed(dims):
    case = make_case("embed_one", dims)
    T, C, position = dims["T"], dims["C"], dims["position"]
    x = np.empty((T, C))
    tokens = np.repeat(case["tokens"], T)
    SPEC["embed"](tokens=tokens, wte=case["wte"], wpe=case["wpe"], x=x, N=T, T=T, C=C)
    check("embed_one", dims, x=x[position])


@on_cases("layernorm", "bias")
def test_layernorm_is_torch(dims):
    case = make_case("layernorm", dims)
    t = tensors(case)
    y, mean, rstd = torch.native_layer_norm(t["x"], [dims["C"]], t["gain"], t.get("bias"), case["eps"])
    check("layernorm", dims, y=y, mean=mean, rstd=rstd)


@on_cases("rmsnorm")
def test_rmsnorm_is_torch(dims):
    case = make_case("rmsnorm", dims)
    t = tensors(case)
    y = torch.nn.functional.rms_norm(t["x"], [dims["C"]], t["gain"], case["eps"])
    check("rmsnorm", dims, y=y, rstd=torch.rsqrt(t["x"].square().mean(dim=1) + case["eps"]))


@on_cases("linear")
def test_linear_sum_by_sum(dims):
    case = make_case("linear", dims)
    y = np.einsum("ni,oi->no", case["x"], case["weight"]) + case["bias"] + case["residual"]
    check("linear", dims, y=y)


@on_cases("linear_activation", "bias")
def test_linear_activation_is_torch(dims):
    t = tensors(make_case("linear_activation", dims))
    h = torch.nn.functional.linear(t["x"], t["weight"], t.get("bias")).requires_grad_()
    y = h.relu().square() if dims["kind"] == RELU2 else torch.nn.functional.gelu(h)
    y.sum().backward()
    check("linear_activation", dims, y=y.detach(), slope=h.grad)


@on_cases("swiglu")
def test_swiglu_is_torch(dims):
    gate, up = tensors(make_case("swiglu", dims))["gate_up"].chunk(2, dim=1)
    check("swiglu", dims, y=torch.nn.functional.silu(gate) * up)


@on_cases("swiglu_backward")
def test_swiglu_backward_is_torch(dims):
    t = tensors(make_case("swiglu_backward", dims))
    gate, up = t["gate_up"].requires_grad_().chunk(2, dim=1)
    (torch.nn.functional.silu(gate) * up).backward(t["dy"])
    check("swiglu_backward", dims, dgate_up=t["gate_up"].grad)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gates_shut_and_open_without_overflow(dtype):
    gate_up = np.array([[-1e4, -1e30, 1e4, 1e30, 0, *[1] * 5]], dtype)
    y, dgate_up = np.empty((1, 5), dtype), np.empty((1, 10), dtype)
    with np.errstate(over="raise", invalid="raise"):
        SPEC["swiglu"](gate_up=gate_up, y=y, N=1, F=5)
        SPEC["swiglu_backward"](dy=np.ones_like(y), gate_up=gate_up, dgate_up=dgate_up, N=1, F=5)
    assert y.tolist() == [[0, 0, gate_up[0, 2], gate_up[0, 3], 0]]
    assert dgate_up[0].tolist() == [0, 0, 1, 1, 0.5, *y[0]]


@on_cases("qk_norm")
def test_qk_norm_is_torch(dims):
    N, H, D = (dims[name] for name in "NHD")
    case = make_case("qk_norm", dims)
    q, k, v = tensors(case)["qkv"].reshape(N, 3, H, D).unbind(1)
    normal = [torch.nn.functional.rms_norm(x, [D], eps=case["eps"]) for x in (q, k)]
    rstd = [torch.rsqrt(x.square().mean(dim=2) + case["eps"]) for x in (q, k)]
    check("qk_norm", dims, y=torch.stack([*normal, v], dim=1), rstd=torch.cat(rstd, dim=1))


@on_cases("rotary_table", "position")
def test_rotary_table_angle_by_angle(dims):
    T, D, first = dims["T"], dims["D"], dims["position"] or 0
    angles = [[t * dims["base"] ** (-2 * i / D) for i in range(D // 2)] for t in range(first, first + T)]
    turns = [[*map(math.cos, row), *map(math.sin, row)] for row in angles]
    # The bound is for angles rounded to a small part of a turn; here both round the products of t and a frequency.
    wanted = make_case("rotary_table", dims)
    SPEC["rotary_table"](**wanted)
    assert np.abs(wanted["turns"] - turns).max() <= 8 * 2.0**-53 * (first + T)


@on_cases("rotary")
def test_rotary_is_a_product_of_complex_numbers(dims):
    N, T, H, D = (dims[name] for name in "NTHD")
    t = tensors(make_case("rotary", dims))
    turn = torch.complex(*t["turns"].chunk(2, dim=1))[torch.arange(N) % T]
    turn = turn.conj() if dims["inverse"] else turn
    heads = t["qkv"].reshape(N, 3 * H, D)
    turned = torch.complex(*heads.chunk(2, dim=2)) * turn[:, None]
    y = torch.cat([torch.cat([turned.real, turned.imag], dim=2)[:, : 2 * H], heads[:, 2 * H :]], dim=1)
    check("rotary", dims, y=y)


def test_turned_queries_and_keys_know_their_distance_only():
    T, H, D = 50, 1, 8
    random = np.random.default_rng(4)
    qkv = np.tile(random.normal(size=(1, 3 * H * D)), (T, 1))
    turns, y = np.empty((T, D)), np.empty_like(qkv)
    SPEC["rotary_table"](position=np.array([1000]), turns=turns, T=T, D=D, base=10000)
    SPEC["rotary"](qkv=qkv, turns=turns, y=y, N=T, T=T, H=H, D=D, inverse=0)
    scores = y[:, :D] @ y[:, D : 2 * D].T
    for distance in range(T):
        assert np.ptp(np.diagonal(scores, distance)) < 1e-10


def test_the_normal_distribution_at_known_points_and_in_the_tail():
    known = {0.0: 0.5, 1.0: 0.8413447460685429, -1.0: 0.15865525393145707, -8.0: 6.220960574271785e-16}
    for h, cdf in known.items():
        assert normal_cdf(np.array([h]))[0] == pytest.approx(cdf, rel=4e-15)
    assert normal_density(np.array([0.0]))[0] == pytest.approx(1 / math.sqrt(2 * math.pi), rel=4e-16)


def softmax_mean(q, keys, values):
    """One row of attention, written out; and its log-sum-exp."""
    scores = [(q * k).sum() / math.sqrt(len(q)) for k in keys]
    weights = [math.exp(score) for score in scores]
    mixed = sum(weight * value for weight, value in zip(weights, values, strict=True))
    return mixed / sum(weights), math.log(sum(weights))


@on_cases("attention")
def test_attention_row_by_row(dims):
    B, T, H, D = (dims[name] for name in "BTHD")
    qkv = make_case("attention", dims)["qkv"].reshape(B, T, 3, H, D)
    y, lse = np.empty((B, T, H, D)), np.empty((B, H, T))
    for b, t, h in np.ndindex(B, T, H):
        q, keys, values = qkv[b, t, 0, h], qkv[b, : t + 1, 1, h], qkv[b, : t + 1, 2, h]
        y[b, t, h], lse[b, h, t] = softmax_mean(q, keys, values)
    check("attention", dims, y=y, lse=lse)


@on_cases("attention")
def test_attention_is_torch(dims):
    B, T, H, D = (dims[name] for name in "BTHD")
    qkv = tensors(make_case("attention", dims))["qkv"]
    q, k, v = qkv.reshape(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(2, 3) / math.sqrt(D)).masked_fill(hidden, -math.inf)
    check("attention", dims, y=y.transpose(1, 2), lse=scores.logsumexp(dim=-1))


@on_cases("attention")
def test_attention_one_step_by_step_is_attention(dims):
    """Half of the sequence through cache_fill, the other half row by row."""
    T, H, D = (dims[name] for name in "THD")
    C = H * D
    case = make_case("attention", {**dims, "B": 1})
    qkv, y = case["qkv"], np.empty((T, C))
    SPEC["attention"](qkv=qkv, y=y, lse=case["lse"], B=1, T=T, H=H, D=D)
    cache_k, cache_v = np.full((T, C), np.nan), np.full((T, C), np.nan)
    half = T // 2
    SPEC["cache_fill"](qkv=qkv[:half], cache_k=cache_k[:half], cache_v=cache_v[:half], T=half, C=C)
    for t in range(half, T):
        newest = {"qkv": qkv[t : t + 1], "position": np.array([t]), "y": y[t : t + 1]}
        SPEC["attention_one"](**newest, cache_k=cache_k, cache_v=cache_v, T=T, H=H, D=D)
    check("attention", {**dims, "B": 1}, y=y, lse=case["lse"])
    assert (cache_k == qkv[:, C : 2 * C]).all()
    assert (cache_v == qkv[:, 2 * C :]).all()


@on_cases("attention_one")
def test_attention_one_written_out(dims):
    H, D, position = dims["H"], dims["D"], dims["position"]
    case = make_case("attention_one", dims)
    q, k, v = case["qkv"].reshape(3, H * D)
    cache_k, cache_v = case["cache_k"], case["cache_v"]
    cache_k[position], cache_v[position] = k, v
    keys, values = (cache[: position + 1].reshape(-1, H, D) for cache in (cache_k, cache_v))
    y = [softmax_mean(q.reshape(H, D)[h], keys[:, h], values[:, h])[0] for h in range(H)]
    check("attention_one", dims, y=y, cache_k=cache_k, cache_v=cache_v)


@on_cases("cross_entropy")
def test_cross_entropy_is_torch(dims):
    case = make_case("cross_entropy", dims)
    logits, targets = torch.from_numpy(case["logits"]).requires_grad_(), torch.from_numpy(case["targets"]).long()
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    (losses.sum() / case["count"]).backward()
    check("cross_entropy", dims, losses=losses.detach(), dlogits=logits.grad)


@on_cases("dropout", "residual")
def test_dropout_element_by_element(dims):
    case = make_case("dropout", dims)
    step, micro = (int(counter) for counter in case["counters"][:2])
    y = np.zeros(dims["N"] * dims["C"])
    for i, x in enumerate(case["x"].reshape(-1)):
        word = philox((dims["seed"], DROPOUT), (i // 4, step, dims["site"], micro))[i % 4]
        y[i] = x / (1 - case["rate"]) if word / 2**32 >= case["rate"] else 0
    check("dropout", dims, y=y.reshape(case["x"].shape) + (0 if case["residual"] is None else case["residual"]))


def dropped(step=1, micro=0, site=0, rate=0.25):
    y = np.empty((100, 100))
    counters = np.array([step, micro, 0, 0], np.int32)
    SPEC["dropout"](
        x=np.ones_like(y), counters=counters, residual=None, y=y, N=100, C=100, seed=1, site=site, rate=rate
    )
    return y


def test_dropout_keeps_the_mean_and_every_mask_is_another():
    masks = [dropped(), dropped(step=2), dropped(micro=1), dropped(site=1)]
    for mask in masks:
        kept = np.count_nonzero(mask) / mask.size
        assert abs(kept - 0.75) < 4 * math.sqrt(0.25 * 0.75 / mask.size)
        assert set(np.unique(mask)) == {0, 1 / 0.75}
    assert len({mask.tobytes() for mask in masks}) == 4
    assert (dropped() == masks[0]).all() and (dropped(rate=0.0) == 1).all()


@on_cases("mean_loss")
def test_mean_loss_is_an_exact_sum(dims):
    case = make_case("mean_loss", dims)
    total = math.fsum(case["losses"]) / case["count"] + (case["loss"][0] if dims["accumulate"] else 0)
    check("mean_loss", dims, loss=[total])


@on_cases("pick_row")
def test_pick_row_takes_the_row(dims):
    check("pick_row", dims, y=make_case("pick_row", dims)["x"][dims["position"]])


@on_cases("draw_windows")
def test_windows_are_where_core_says(dims):
    case = make_case("draw_windows", dims)
    steps, of_step, of_validation, _ = case["counters"].tolist()
    step, part = (steps + 1, of_step) if dims["purpose"] == BATCH else (0, of_validation)
    B, T = dims["B"], dims["T"]
    starts = window_offsets(dims["seed"], dims["purpose"], step, (part + 1) * B, dims["bytes"], T)[-B:]
    windows = np.array([case["corpus"][start : start + T + 1] for start in starts], int)
    check("draw_windows", dims, tokens=windows[:, :-1], targets=windows[:, 1:])


@on_cases("record")
def test_record_keeps_a_step_in_its_row(dims):
    case = make_case("record", dims)
    ring, (done, _, *others) = case["ring"].copy(), case["counters"]
    ring[done % dims["rows"]] = case["loss"][0], case["norm"][0]
    check("record", dims, ring=ring, counters=[done + 1, 0, *others])


@on_cases("count")
def test_count_adds_one(dims):
    counters = make_case("count", dims)["counters"]
    counters[dims["which"]] += 1
    check("count", dims, counters=counters)


@on_cases("normal")
def test_normal_draws_are_box_and_mullers(dims):
    case = make_case("normal", dims)
    (std,) = struct.unpack(">d", struct.pack(">II", dims["std_high"], dims["std_low"]))
    words = [philox((dims["seed"], INIT), (i, 0, dims["index"], 0)) for i in range(-(-dims["P"] // 4))]
    u = np.array(words, float)[:1000].reshape(-1, 2) / 2**32
    radius, angle = np.sqrt(-2 * np.log(u[:, 0] + 2.0**-32)), 2 * np.pi * u[:, 1]
    draws = (std * np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)).reshape(-1)
    before, first, end = case["y"].copy(), dims["start"], dims["start"] + dims["P"]
    SPEC["normal"](**case)
    drawn, draws = case["y"][first : first + len(draws)][: dims["P"]], draws[: dims["P"]]
    assert np.array_equal(np.delete(case["y"], np.s_[first:end]), np.delete(before, np.s_[first:end]))
    np.testing.assert_allclose(drawn, draws, rtol=2**-23, atol=1e-15 * std)


@on_cases("constant")
def test_constant_is_the_number(dims):
    case = make_case("constant", dims)
    case["y"][dims["start"] :][: dims["P"]] = case["value"]
    check("constant", dims, y=case["y"])
