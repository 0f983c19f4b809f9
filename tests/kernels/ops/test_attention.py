import math

import numpy as np
import pytest
import torch
from cases import assert_matches_spec, call_of, case_id, make_case
from kernel_tests import BOTH_ROUND, KernelTests, device_with, some

from tinygpt.core.ops import attention
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.kernels.attention import alibi_slopes, join_heads, split_heads
from tinygpt.kernels.spec import SPEC
from tinygpt.labs import bounds

BTHD = [(1, 1, 1, 1), (2, 1, 3, 5), (3, 5, 1, 16), (1, 17, 2, 5), (2, 33, 3, 16), (1, 65, 2, 32), (1, 100, 1, 48)]
BTHD += [(2, 64, 2, 64), (1, 129, 1, 1)]
CASES = [{"B": B, "T": T, "H": H, "D": D} for B, T, H, D in BTHD]
CASES += [
    {"B": B, "T": T, "H": H, "D": D, "alibi": 1} for B, T, H, D in [(2, 33, 2, 5), (1, 130, 3, 8), (1, 17, 8, 16)]
]
LARGE = [{"B": 1, "T": T, "H": 1, "D": D} for T, D in [(512, 32), (300, 20), (130, 64), (96, 128)]]
FOLDED = [{"B": 2, "T": 33, "H": 2, "D": D} for D in (5, 16)]
KERNELS = ("attention", "attention_backward")


def softmax_mean(q, keys, values, slope=0):
    """One row of attention, written out; and its log-sum-exp."""
    scores = [(q * k).sum() / math.sqrt(len(q)) - slope * (len(keys) - 1 - j) for j, k in enumerate(keys)]
    weights = [math.exp(score) for score in scores]
    mixed = sum(weight * value for weight, value in zip(weights, values, strict=True))
    return mixed / sum(weights), math.log(sum(weights))


class TestAttention(KernelTests):
    kernel = "attention"
    bound = staticmethod(bounds.attention)
    wgsl_every = 3
    cases = [*CASES, {"B": 2, "T": 33, "H": 3, "D": 16, "lse": None}]
    cpp_cases = LARGE[:2]
    wgsl_cases = LARGE
    long_cases = FOLDED

    def formula(self, *, qkv, B, T, H, D, alibi, **_):
        q, k, v = qkv.reshape(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
        distance = torch.arange(T)[:, None] - torch.arange(T)
        slopes = torch.tensor([alibi * 2 ** (-8 * (h + 1) / H) for h in range(H)], dtype=torch.float64)
        mask = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        scores = q @ k.transpose(2, 3) / math.sqrt(D) + mask
        return {"y": y.transpose(1, 2), "lse": scores.logsumexp(dim=-1)}


class TestAttentionWeights(KernelTests):
    kernel = "attention_weights"
    cases = [CASES[0], CASES[3], CASES[4], CASES[9]]
    long_cases = FOLDED

    def settle(self, case):
        kept = {"y": np.empty((case["B"] * case["T"], case["H"] * case["D"])), "lse": case["lse"]}
        SPEC["attention"](qkv=case["qkv"], **kept, **{name: case[name] for name in ("B", "T", "H", "D", "alibi")})

    def formula(self, *, qkv, lse, B, T, H, D, alibi, **_):
        q, k, _v = qkv.reshape(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
        distance = torch.arange(T)[:, None] - torch.arange(T)
        slopes = torch.tensor([alibi * 2 ** (-8 * (h + 1) / H) for h in range(H)], dtype=torch.float64)
        mask = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf)
        scores = q @ k.transpose(2, 3) / math.sqrt(D) + mask
        rounded = (scores.logsumexp(dim=-1) - lse).exp()  # the log-sum-exp that is given is a float32
        return {"p": scores.softmax(dim=-1) * rounded[..., None]}

    def bound(self, *, qkv, lse, B, T, H, D, alibi, **_):
        q, k, _v = split_heads(qkv, B, T, H, D)
        p, p_off = bounds.weights_and_errors(q, k, lse, alibi)
        return {"p": p * p_off}


class TestAttentionBackward(KernelTests):
    kernel = "attention_backward"
    bound = staticmethod(bounds.attention_backward)
    wgsl_every = 13
    cases = CASES
    cpp_cases = LARGE[:2]
    wgsl_cases = LARGE
    long_cases = FOLDED
    forward = "attention"
    small_cases = [
        {"B": B, "T": T, "H": H, "D": D}
        for B, T, H, D in [(1, 1, 1, 1), (2, 1, 2, 3), (1, 2, 1, 1), (2, 5, 3, 3), (1, 9, 1, 5)]
    ]
    small_cases += [{"B": 1, "T": 7, "H": 2, "D": 3, "alibi": 1}]

    def settle(self, case):
        SPEC["attention"](**{name: case[name] for name in ("qkv", "y", "lse", "B", "T", "H", "D", "alibi")})


class TestCacheFill(KernelTests):
    kernel = "cache_fill"
    cases = [
        {"N": N, "T": T, "C": C, "R": R, "row": row}
        for N, T, C, R, row in [
            (1, 1, 1, 1, 0),
            (5, 5, 3, 3, 1),
            (8, 17, 48, 1, 0),
            (33, 33, 100, 4, 3),
            (1, 9, 4, 2, 1),
        ]
    ]
    long_cases = [{"N": 100, "T": 100, "C": 100, "row": 0}]
    exact = True

    def formula(self, *, qkv, row, cache_k, cache_v, N, T, C, R, **_):
        cache_k.view(R, T, C)[row, :N], cache_v.view(R, T, C)[row, :N] = qkv[:, C : 2 * C], qkv[:, 2 * C :]
        return {"cache_k": cache_k, "cache_v": cache_v}


class TestAttentionOne(KernelTests):
    kernel = "attention_one"
    wgsl_every = 4
    cases = [
        {"T": T, "H": H, "D": D, "position": p}
        for T, H, D, p in [
            (1, 1, 1, 0),
            (5, 3, 5, 4),
            (17, 2, 16, 0),
            (33, 3, 32, 20),
            (65, 1, 48, 64),
            (100, 2, 64, 98),
        ]
    ]
    cases += [{"T": T, "H": H, "D": D, "position": p, "alibi": 1} for T, H, D, p in [(33, 3, 5, 20), (65, 8, 32, 64)]]
    cases += [{"T": 19, "H": 2, "D": 12, "R": 4, "position": [18, 0, 7, 12], "alibi": 1}]
    wgsl_cases = [{"T": 700, "H": 5, "D": 36, "R": 2, "position": [600, 2]}]  # rows whose top grows, two tiles

    def settle(self, case):
        for name in ("cache_k", "cache_v"):
            for r, newest in enumerate(case["position"]):
                case[name].reshape(case["R"], case["T"], -1)[r, newest:] = np.nan

    def written(self, name, output, dims):
        if not name.startswith("cache"):
            return output
        newest, T = np.atleast_1d(dims["position"]), dims["T"]
        return np.concatenate([output[r * T : r * T + newest[r] + 1] for r in range(len(newest))])

    def formula(self, *, qkv, position, cache_k, cache_v, T, H, D, alibi, R, **_):
        slopes = [alibi * 2 ** (-8 * (h + 1) / H) for h in range(H)]
        y = []
        for r, newest in enumerate(position.tolist()):
            text = slice(r * T, r * T + newest + 1)
            q, cache_k[text][-1], cache_v[text][-1] = qkv[r].reshape(3, H * D)
            keys, values = (cache[text].reshape(-1, H, D) for cache in (cache_k, cache_v))
            y += [softmax_mean(q.reshape(H, D)[h], keys[:, h], values[:, h], slopes[h])[0] for h in range(H)]
        return {"y": torch.stack(y), "cache_k": cache_k, "cache_v": cache_v}

    def bound(self, *, qkv, position, cache_k, cache_v, T, H, D, alibi, **_):
        off = []
        for r, newest in enumerate(position):
            q, k, v = np.split(qkv[r : r + 1], 3, axis=1)  # [1,C]
            text = slice(r * T, r * T + newest)
            keys, values = np.concatenate([cache_k[text], k]), np.concatenate([cache_v[text], v])
            y_off, _lse_off = bounds.attend(
                *[split_heads(part, 1, len(part), H, D)[0] for part in (q, keys, values)], alibi
            )
            off.append(join_heads(y_off[None]))
        copied = np.zeros_like(cache_k)
        return {"y": np.concatenate(off), "cache_k": copied, "cache_v": copied}


@pytest.mark.parametrize("dims", CASES, ids=case_id)
def test_spec_step_by_step_and_row_by_row_is_attention(dims):
    """Written out; and with half of the sequence through cache_fill, the other half through attention_one."""
    dims = dims | {"B": 1}
    T, H, D = (dims[name] for name in "THD")
    slopes = dims.get("alibi", 0) * alibi_slopes(H)
    case = make_case("attention", dims)
    q, k, v = case["qkv"].reshape(T, 3, H, D).swapaxes(0, 1)
    rows = [[softmax_mean(q[t, h], k[: t + 1, h], v[: t + 1, h], slopes[h]) for t in range(T)] for h in range(H)]
    y = np.array([[mixed for mixed, _ in head] for head in rows]).swapaxes(0, 1).reshape(T, H * D)
    lse = [[lse for _, lse in head] for head in rows]
    assert_matches_spec("attention", dims, {"y": y, "lse": lse}, unit=BOTH_ROUND)

    C, half, qkv = H * D, T // 2, case["qkv"]
    cache_k, cache_v = np.full((T, C), np.nan), np.full((T, C), np.nan)
    first = {"qkv": qkv[:half], "row": np.array([0])}
    SPEC["cache_fill"](**first, cache_k=cache_k[:half], cache_v=cache_v[:half], N=half, T=half, C=C)
    for t in range(half, T):
        newest = {"qkv": qkv[t : t + 1], "position": np.array([t]), "y": y[t : t + 1]}
        SPEC["attention_one"](**newest, cache_k=cache_k, cache_v=cache_v, T=T, H=H, D=D, alibi=case["alibi"])
    assert_matches_spec("attention", dims, {"y": y, "lse": lse}, unit=BOTH_ROUND)
    assert (np.hstack([cache_k, cache_v]) == qkv[:, C:]).all()


# --- tiles of scores on a GPU --------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", some(LARGE, len(LARGE)), ids=case_id)
@pytest.mark.parametrize("kernel", some(KERNELS, len(KERNELS)))
def test_wgsl_large_tiles(kernel, dims, wgsl):
    """With as much workgroup memory as the adapter has."""
    roomy = device_with(max_shared=wgsl.gpu().limits["max-compute-workgroup-storage-size"])
    case = make_case(kernel, dims, dtype=np.float32)
    assert_matches_spec(kernel, dims, wgsl.run_kernel(kernel, case, roomy))


# Rows and columns of the tile, of which T is no multiple; one to four shares of a row; idle lanes.
TILES = [(8, 8), (8, 4), (4, 3), (2, 8), (3, 1), (16, 2)]


@pytest.mark.parametrize("tile", some(TILES, len(TILES)), ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_wgsl_every_tile_gives_the_same(kernel, tile, wgsl, monkeypatch):
    monkeypatch.setattr(attention, "attention_tiles", lambda op, device: tile)
    dims = {"B": 2, "T": 77, "H": 2, "D": 28, "alibi": int(tile[1] == 8)}
    case = make_case(kernel, dims, dtype=np.float32)
    assert_matches_spec(kernel, dims, wgsl.run_kernel(kernel, case, Device()))


@pytest.mark.parametrize("D", [1, 4, 5, 16, 20, 32, 48, 64, 128, 256])
@pytest.mark.parametrize("kernel", KERNELS)
def test_wgsl_tiles_keep_to_the_limits(kernel, D):
    op, limits = call_of(kernel, {"B": 8, "T": 512, "H": 12, "D": D}), Device()
    tile = attention.attention_tiles(op, limits)
    if D % 4 == 0 and D <= 64:
        assert tile is not None
    if tile is not None:
        assert attention.fits(op, tile, limits)


@pytest.mark.parametrize("D", [5, 32, 64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_wgsl_memory_is_linear_in_the_context(kernel, D):
    """The dispatches name the op's own tensors alone, and twice the context doubles them."""

    def bytes_of(T: int) -> int:
        op = call_of(kernel, {"B": 2, "T": T, "H": 3, "D": D})
        bound = [t for d in op.declared.dispatch(op, Target(Device())) for _, t in d.reads + d.writes if t is not None]
        assert {tensor.name for tensor in bound} == {tensor.name for tensor in op.tensors if tensor is not None}
        return sum(4 * tensor.size for tensor in bound)

    assert bytes_of(1024) == 2 * bytes_of(512)
