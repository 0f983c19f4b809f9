"""One table of awkward cases for every kernel, for every engine.

A test of an engine builds a case, runs the engine in float32 and hands over what it wrote:

    case = make_case(kernel, dims, dtype=np.float32)
    outputs = ...                                    # the engine's, by the signature's names
    assert_matches_spec(kernel, dims, outputs)       # against the spec in float64, within `error_bound`

All numbers of a case are float32 numbers, whatever its dtype, so that both sides start from the same ones. Whole
numbers must come out exactly. What a kernel must overwrite, or must not read, is NaN or UNSET beforehand.
"""
# ruff: noqa: E741

import math
import struct
from typing import Any

import numpy as np
from error_bounds import SMALLEST, U, error_bound

from tinygpt.core.config import SampleConfig
from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.core.ops.op import KERNELS, Op, bits_float, float_bits
from tinygpt.core.rng import BATCH, EVAL, INIT
from tinygpt.core.run.engine import choice_words
from tinygpt.kernels.spec import SPEC

Dims = dict[str, Any]
Case = dict[str, Any]

SCALARS = {"eps": 1e-5, "limit": 1.0, "beta1": 0.9, "beta2": 0.95, "rate": 0.1}
UNSET = 0x5A5A5A5A  # of whole numbers
CPU_ONLY = ("normal", "constant")

NOI = [(1, 1, 1), (1, 7, 3), (3, 1, 5), (31, 48, 17), (64, 96, 64), (33, 65, 100), (129, 100, 48), (5, 256, 96)]
BTHD = [(1, 1, 1, 1), (2, 1, 3, 5), (3, 5, 1, 16), (1, 17, 2, 5), (2, 33, 3, 16), (1, 65, 2, 32), (1, 100, 1, 48)]
BTHD += [(2, 64, 2, 64), (1, 129, 1, 1)]
NC = [(1, 1), (1, 48), (3, 3), (31, 100), (64, 96), (129, 5), (5, 257)]
NHD = [(1, 1, 1), (3, 2, 5), (31, 3, 16), (17, 1, 100), (5, 2, 64), (129, 1, 3)]
ADAMW = [(1, 1), (1, 0), (5, 3), (64, 0), (100, 100), (1027, 1000), (4096, 2048)]


def normal_case(size: int, start: int, P: int, seed: int, index: int, std: float) -> Dims:
    high, low = struct.unpack(">II", struct.pack(">d", std))
    drawn = {"seed": seed, "purpose": INIT, "index": index, "std_high": high, "std_low": low}
    return {"size": size, "P": P, "start": start, **drawn}


def window_case(B: int, T: int, bytes: int, seed: int, purpose: int, *counters: int) -> Dims:
    """`counters`: steps done, batches of the step done, batches of the validation done."""
    sizes = {"B": B, "T": T, "bytes": bytes}
    return {**sizes, "seed": seed, "purpose": purpose, "counters": [*counters, 7]}


def sample_case(room: int = 40, drawn: int = 0, first: int = 0, stop: bytes = b"", **settings: Any) -> Dims:
    return {"room": room, "cursor": [drawn, 0], "choice": choice_words(SampleConfig(**settings), first, stop)}


def linear_cases(*optional: str) -> list[Dims]:
    """Every shape with all optional tensors, and one shape with each combination of absent ones."""
    shapes = [{"N": N, "O": O, "I": I} for N, O, I in NOI]
    absent = [{name: None for i, name in enumerate(optional) if mask >> i & 1} for mask in range(1, 1 << len(optional))]
    return shapes + [{"N": 31, "O": 33, "I": 17, **names} for names in absent]


# What a case fixes, by the signature's names: every dim, and where it matters a scalar, a `position`,
# or an optional tensor's absence (None). `make_case` fills in the rest.
CASES: dict[str, list[Dims]] = {
    "embed": [{"N": B * T, "T": T, "C": C} for B, T, C in [(1, 1, 1), (3, 1, 5), (2, 17, 48), (1, 33, 100)]]
    + [{"N": 34, "T": 17, "C": C, "wpe": None} for C in (5, 48)],
    "embed_backward": [
        {"N": B * T, "T": T, "V": 256, "C": C, "accumulate": accumulate, "tied": 1}
        for B, T, C in [(1, 1, 1), (3, 1, 5), (2, 17, 48), (7, 33, 100)]
        for accumulate in (0, 1)
    ]
    + [{"N": 65, "T": 13, "V": 2, "C": 3, "accumulate": 1, "tied": 1}]  # few tokens, each many times
    + [{"N": 51, "T": 17, "V": 256, "C": 48, "accumulate": accumulate, "tied": 0} for accumulate in (0, 1)]
    + [{"N": 51, "T": 17, "V": 100, "C": 5, "accumulate": 0, "tied": tied, "dwpe": None} for tied in (0, 1)],
    "layernorm": [{"N": N, "C": C} for N, C in NC] + [{"N": 31, "C": C, "bias": None} for C in (48, 5)],
    "layernorm_backward": [{"N": N, "C": C, "accumulate": i % 2} for i, (N, C) in enumerate(NC)]
    + [{"N": 31, "C": 48, "accumulate": accumulate, "dresidual": None} for accumulate in (0, 1)]
    + [{"N": 31, "C": C, "accumulate": accumulate, "dbias": None} for C, accumulate in [(48, 0), (5, 1)]],
    "rmsnorm": [{"N": N, "C": C} for N, C in NC],
    "rmsnorm_backward": [{"N": N, "C": C, "accumulate": i % 2} for i, (N, C) in enumerate(NC)]
    + [{"N": 31, "C": 48, "accumulate": accumulate, "dresidual": None} for accumulate in (0, 1)],
    "linear": linear_cases("bias", "residual"),
    "linear_activation": [{**dims, "kind": GELU} for dims in linear_cases("bias", "slope")]
    + [{**dims, "kind": RELU2} for dims in linear_cases("bias", "slope")[1::3]],
    "linear_backward_input": linear_cases("slope"),
    "linear_backward_weight": [
        {**dims, "accumulate": accumulate} for dims in linear_cases("dbias") for accumulate in (0, 1)
    ],
    "swiglu": [{"N": N, "F": F} for N, F in NC],
    "swiglu_backward": [{"N": N, "F": F} for N, F in NC],
    "qk_norm": [{"N": N, "H": H, "D": D} for N, H, D in NHD],
    "qk_norm_backward": [{"N": N, "H": H, "D": D} for N, H, D in NHD],
    "rotary_table": [
        {"T": T, "D": D, "base": base, "position": position}
        for T, D, base, position in [
            (1, 2, 10000, None),
            (5, 6, 10000, None),
            (33, 16, 2, None),
            (300, 34, 10000, None),
            (1, 64, 10000, 4095),
            (3, 128, 500000, 65000),
        ]
    ],
    "rotary": [
        {"N": N, "T": T, "H": H, "D": D, "inverse": i % 2}
        for i, (N, T, H, D) in enumerate([(1, 1, 1, 2), (6, 3, 2, 6), (34, 17, 3, 16), (31, 31, 1, 100), (5, 1, 2, 64)])
    ],
    "attention": [{"B": B, "T": T, "H": H, "D": D} for B, T, H, D in BTHD]
    + [{"B": 2, "T": 33, "H": 3, "D": 16, "lse": None}],
    "attention_backward": [{"B": B, "T": T, "H": H, "D": D} for B, T, H, D in BTHD],
    "dropout": [
        {"N": N, "C": C, "seed": seed, "site": site, "rate": rate}
        for N, C, seed, site, rate in [
            (1, 1, 1337, 0, 0.0),
            (3, 3, 0, 1, 0.5),
            (31, 48, 2**32 - 1, 7, 0.1),
            (5, 257, 1, 2, 0.9),
            (64, 96, 2**31, 3, 0.2),
        ]
    ]
    + [{"N": 31, "C": 17, "seed": 1337, "site": 1, "rate": 0.1, "residual": None}],
    "cross_entropy": [{"N": N, "V": V, "count": 3 * N} for N, V in [(1, 1), (3, 5), (1, 256), (31, 256), (129, 100)]]
    + [{"N": 17, "V": 256, "count": 17, "dlogits": None}],
    "sgd": [
        {"P": P, "decayed": decayed, "rows": 1 + i, "counters": [10 * i, 1, 2, 3], "momentum": 0.9}
        for i, (P, decayed) in enumerate(ADAMW)
    ],
    "mean_loss": [
        {"N": N, "accumulate": i % 2, "count": (1 + i) * N} for i, N in enumerate([1, 1, 3, 31, 64, 129, 1000, 1024])
    ],
    "grad_norm": [{"P": P, "limit": limit} for P in (1, 5, 64, 1027, 4096) for limit in (0.0, 1.0, 1000.0)],
    "adamw": [
        {"P": P, "decayed": decayed, "rows": 1 + i, "counters": [10 * i, 1, 2, 3], "eps": 1e-8}
        for i, (P, decayed) in enumerate(ADAMW)
    ],
    "embed_one": [{"C": C, "T": T, "position": p} for C, T, p in [(1, 1, 0), (5, 17, 16), (48, 33, 7)]]
    + [{"C": 48, "T": 33, "position": 7, "wpe": None}],
    "cache_fill": [{"T": T, "C": C} for T, C in [(1, 1), (5, 3), (17, 48), (33, 100)]],
    "attention_one": [
        {"T": T, "H": H, "D": D, "position": p}
        for T, H, D, p in [
            (1, 1, 1, 0),
            (5, 3, 5, 4),
            (17, 2, 16, 0),
            (33, 3, 32, 20),
            (65, 1, 48, 64),
            (100, 2, 64, 98),
        ]
    ],
    "pick_row": [{"N": N, "C": C, "position": p} for N, C, p in [(1, 1, 0), (5, 3, 4), (31, 48, 0), (64, 100, 33)]],
    "draw_windows": [
        window_case(*sizes, seed, purpose, *counters)
        for sizes in [(1, 1, 2), (3, 5, 6), (7, 17, 1001), (16, 32, 70_001)]
        for seed, purpose, counters in [
            (0, BATCH, (0, 0, 9)),
            (1337, BATCH, (41, 2, 9)),
            (2**32 - 1, BATCH, (2**31 - 2, 1, 0)),
            (2**31, EVAL, (5, 3, 0)),
            (7, EVAL, (0, 0, 3)),
        ]
    ],
    "record": [{"rows": rows, "counters": [done, 3, 4, 5]} for rows, done in [(1, 0), (5, 4), (5, 5), (64, 1_000_001)]],
    "count": [{"which": which, "counters": [9, 8, 7, 6]} for which in (0, 1, 2)],
    "sample": [
        sample_case(temperature=0.0),
        sample_case(temperature=0.0, top_k=3, top_p=0.1, seed=5, first=3),
        sample_case(room=1, drawn=7, first=90, temperature=1.0, seed=2**32 - 1),
        sample_case(room=5, drawn=12, temperature=0.3, top_k=1),
        sample_case(temperature=2.0, top_k=9, top_p=0.5, seed=2**31),
        sample_case(temperature=1.5, top_p=0.0, first=4),
        sample_case(temperature=1e-3, top_k=256, stop=bytes(range(0, 256, 2))),
        sample_case(temperature=100.0, stop=bytes(range(256))),
    ],
    "normal": [
        normal_case(*given)
        for given in [
            (1, 0, 1, 0, 0, 1.0),
            (5, 3, 2, 1, 3, 0.02),
            (93, 31, 31, 1337, 5, 0.02),
            (10_007, 0, 10_007, 2**32 - 1, 7, 1 / 3),
            (60_000, 1, 59_999, 42, 2, 0.005),
        ]
    ],
    "constant": [
        {"size": size, "P": P, "start": start, "value": value}
        for size, start, P, value in [(1, 0, 1, 1.0), (77, 7, 70, 0.0), (1000, 333, 333, 0.1)]
    ],
}

ALL_CASES = [(kernel, dims) for kernel in CASES for dims in CASES[kernel]]


def case_id(value: Any) -> str:
    """For pytest.mark.parametrize("kernel, dims", ALL_CASES, ids=case_id)."""
    if isinstance(value, str):
        return value
    short = {name: number for name, number in value.items() if not isinstance(number, list) or len(number) <= 4}
    return "-".join(f"no_{name}" if number is None else f"{name}{number}" for name, number in short.items())


def op_of(kernel: str, dims: Dims) -> Op:
    return Op(kernel, [], [dims[name] for name in KERNELS[kernel].dims], [])


def shape_of(kernel: str, name: str, dims: Dims) -> tuple[int, ...]:
    """As core says; the tables' own sizes are no dims of the kernels that look something up in them."""
    if name == "wte":
        return 256, dims["C"]
    if kernel in CPU_ONLY:
        return (dims["size"],)  # a tensor of which they write a part
    if kernel == "embed_one" and name in ("tokens", "wpe"):
        return (1,) if name == "tokens" else (dims["T"], dims["C"])
    return op_of(kernel, dims).shape(name)


def make_case(kernel: str, dims: Dims, seed: int = 0, dtype: Any = np.float64) -> Case:
    """All arguments of one call. Outputs hold what stands there before it: a number to add to, or NaN."""
    signature = KERNELS[kernel]
    random = np.random.default_rng([seed, 1, *kernel.encode()])
    case: Case = {name: dims[name] for name in signature.dims}
    for name in signature.scalars:
        case[name] = bits_float(float_bits(dims[name] if name in dims else SCALARS[name]))
    updated = op_of(kernel, dims).updated()
    for name in signature.tensors:
        if name in dims and dims[name] is None:
            case[name] = None
        elif name in signature.inputs or name in updated:
            case[name] = random_tensor(kernel, name, shape_of(kernel, name, dims), dims, random)
        else:
            is_whole = signature.dtypes.get(name) == "i32"
            case[name] = np.full(shape_of(kernel, name, dims), UNSET if is_whole else np.nan)
    make_consistent(kernel, case)
    return {
        name: value.astype(np.float32).astype(dtype) if is_float(value) else value  # the same numbers in either dtype
        for name, value in case.items()
    }


def random_tensor(kernel: str, name: str, shape: tuple[int, ...], dims: Dims, random: np.random.Generator) -> Any:
    """Numbers of the size that training meets."""
    normal = random.standard_normal(shape)
    dtype = KERNELS[kernel].dtypes.get(name, "f32")
    if name in dims:
        return np.array(dims[name], np.int64).reshape(shape)
    if name == "counters":
        return random.integers(0, 2**31, shape, dtype=np.int64)
    if dtype != "f32":
        return random.integers(0, dims.get("V", 256), shape, dtype=np.uint8 if dtype == "u8" else np.int64)
    if kernel == "sample":
        return np.round(2 * normal) / 2 + 0.25 * (np.arange(256) % 3)  # many are equal
    if name == "gain":
        return 1 + 0.2 * normal
    if name == "weight":
        return normal / math.sqrt(shape[1])
    if name == "x" and "norm" in kernel:
        return normal + 2 * random.standard_normal((shape[0], 1))  # rows off centre
    if name == "gate_up":
        return 3 * normal  # gates that are all but shut or open too
    if name == "turns":
        angles = 3 * normal[:, : shape[1] // 2]
        return np.hstack([np.cos(angles), np.sin(angles)])
    if name == "logits":
        normal *= 4
        normal[0] += 200  # exp would overflow
        return normal
    if kernel == "sgd" and name == "rates":
        return 0.03 * (1 + np.arange(shape[0]))[:, None] * [1, 0.1]  # lr, decay
    if name == "losses":
        return np.abs(normal) + 2
    if name == "norm":
        return np.array([2.5, 0.4])
    if name == "rates":
        lr, t = 3e-4, 7
        rates = np.full(shape, np.nan)
        rates[dims["counters"][0] % dims["rows"]] = lr / (1 - 0.9**t), 1 / math.sqrt(1 - 0.95**t), lr * 0.1
        return rates
    if name == "v":
        return 1e-4 * normal**2
    return 0.02 * normal if name in ("m", "weights") else normal


def make_consistent(kernel: str, case: Case) -> None:
    """What a backward kernel is given is what its forward kernel kept; a cache ends where the newest row goes."""
    if kernel == "layernorm_backward":
        case["mean"] = case["x"].mean(axis=1)
        case["rstd"] = 1 / np.sqrt(case["x"].var(axis=1) + SCALARS["eps"])
    if kernel == "rmsnorm_backward":
        case["rstd"] = 1 / np.sqrt(np.square(case["x"]).mean(axis=1) + SCALARS["eps"])
    if kernel == "qk_norm_backward":
        forward = {name: case[name] for name in ("y", "rstd", "N", "H", "D")}
        SPEC["qk_norm"](qkv=case["y"].copy(), eps=SCALARS["eps"], **forward)
    if kernel == "attention_backward":
        forward = {name: case[name] for name in ("qkv", "y", "lse", "B", "T", "H", "D")}
        SPEC["attention"](**forward)
    if kernel == "attention_one":
        for name in ("cache_k", "cache_v"):
            case[name][case["position"][0] :] = np.nan


def is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def run_spec(kernel: str, case: Case) -> dict[str, Any]:
    """The outputs of the specification, in the case's dtype; the case is left as it was."""
    arguments = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in case.items()}
    SPEC[kernel](**arguments)
    return {name: arguments[name] for name in KERNELS[kernel].outputs if arguments[name] is not None}


def assert_matches_spec(kernel: str, dims: Dims, outputs: dict[str, Any], seed: int = 0, unit: float = U) -> None:
    """Every output that `make_case(kernel, dims, seed)` has, within the rounding errors of float32.

    The bounds are of first order in the unit roundoff, so another precision's are theirs in proportion.
    """
    case = make_case(kernel, dims, seed)
    expected = run_spec(kernel, case)
    bounds = {name: bound * (unit / U) for name, bound in error_bound(kernel, case).items()}
    assert set(bounds) == {name for name, wanted in expected.items() if is_float(wanted)}
    for name, wanted in expected.items():
        if name not in bounds:
            assert np.array_equal(np.reshape(outputs[name], wanted.shape), wanted), f"{kernel} {dims}: {name}"
            continue
        got = np.asarray(outputs[name], dtype=np.float64).reshape(wanted.shape)
        untouched = np.isnan(wanted) & np.isnan(got)  # cache rows that are not there yet
        excess = np.where(untouched, 0, np.abs(got - wanted) / np.maximum(bounds[name], SMALLEST))
        excess = np.where(np.isnan(excess), np.inf, excess)
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        assert excess[worst] <= 1, (
            f"{kernel} {dims}: {name}{[int(i) for i in worst]} is {got[worst]}, not {wanted[worst]}: off by "
            f"{abs(got[worst] - wanted[worst]):.3g}, {excess[worst]:.3g} times the bound; "
            f"{int((excess > 1).sum())} of {excess.size} entries are wrong"
        )
