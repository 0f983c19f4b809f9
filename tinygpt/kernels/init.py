"""Start values: normal draws that are the same bytes on every machine and engine.

Libraries' log and cos differ in their last bits. Here everything is built from operations that
IEEE 754 rounds exactly (+ - * / sqrt, in float64, in a stated order), so NumPy, native C++ and
WebAssembly agree to the bit. Box and Muller: with u1 in (0, 1] and u2 in [0, 1),
sqrt(-2 ln u1) cos(2 pi u2) and sqrt(-2 ln u1) sin(2 pi u2) are two independent normal draws.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import ModelConfig, RunConfig
from tinygpt.core.models.adapters import start_purpose, trained_parameters
from tinygpt.core.models.parameters import Parameter, parameters
from tinygpt.core.rng import INIT
from tinygpt.kernels.arrays import Floats
from tinygpt.kernels.philox import U64, philox_words

F64 = npt.NDArray[np.float64]

LN2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476
HALF_PI = 1.5707963267948966
LOG_TERMS = 11  # of 2 (s + s^3/3 + s^5/5 + ...), |s| <= 0.1716: below one float64 ulp
TRIG_TERMS = 9  # of the Taylor series on [-pi/4, pi/4]


def exact_log(x: F64) -> F64:
    """ln x for x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1))."""
    m, e = np.frexp(x)
    low = m < SQRT_HALF
    m = np.where(low, m * 2.0, m)
    e = np.where(low, e - 1, e)
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    series = np.full_like(s, 1.0 / (2 * LOG_TERMS - 1))
    for k in range(LOG_TERMS - 2, -1, -1):
        series = series * s2 + 1.0 / (2 * k + 1)
    return e * LN2 + 2.0 * s * series


def exact_cos_sin(word: U64) -> tuple[F64, F64]:
    """cos and sin of 2 pi word / 2^32: the nearest quarter turn exactly, the rest by Taylor."""
    quarter = (word + np.uint64(1 << 29)) >> np.uint64(30)  # 0..4
    rest = (word.astype(np.float64) - quarter.astype(np.float64) * float(1 << 30)) / float(1 << 30)
    angle = rest * HALF_PI
    a2 = angle * angle
    cos = np.ones_like(angle)
    sin = np.ones_like(angle)
    for k in range(TRIG_TERMS - 1, 0, -1):
        cos = 1.0 - a2 / ((2 * k - 1) * (2 * k)) * cos
        sin = 1.0 - a2 / ((2 * k) * (2 * k + 1)) * sin
    sin = angle * sin
    turn = quarter & np.uint64(3)
    turned_cos = np.choose(turn.astype(np.int64), [cos, -sin, -cos, sin])
    turned_sin = np.choose(turn.astype(np.int64), [sin, cos, -sin, -cos])
    return turned_cos, turned_sin


def normal_draws(seed: int, purpose: int, tensor: int, size: int, std: float) -> npt.NDArray[np.float32]:
    """`size` draws of normal(0, std), four to a Philox call."""
    words = philox_words((seed, purpose), 0, (size + 3) // 4, c2=tensor)
    u1 = (words[:, 0::2].astype(np.float64) + 1.0) / 4294967296.0
    radius = np.sqrt(-2.0 * exact_log(u1))
    cos, sin = exact_cos_sin(words[:, 1::2])
    draws = np.stack([radius * cos, radius * sin], axis=2)  # [calls, pair, 2]
    return (draws.reshape(-1)[:size] * std).astype(np.float32)


def normal(*, y: Floats, P: int, start: int, seed: int, purpose: int, index: int, std_high: int, std_low: int) -> None:
    """P numbers of y from `start` on, by the stream (seed, purpose) of tensor number `index`."""
    (std,) = struct.unpack(">d", struct.pack(">II", std_high, std_low))
    y.reshape(-1)[start : start + P] = normal_draws(seed, purpose, index, P, std)


def constant(*, y: Floats, P: int, start: int, value: float) -> None:
    """P numbers of y from `start` on."""
    y.reshape(-1)[start : start + P] = value


def initial_weights(model: ModelConfig, seed: int) -> npt.NDArray[np.float32]:
    """The flat vector of all parameters of an untrained model."""
    return start_values(parameters(model), seed, INIT)


def initial_values(config: RunConfig) -> npt.NDArray[np.float32]:
    """Of all that a run trains."""
    return start_values(trained_parameters(config), config.train.seed, start_purpose(config))


def start_values(rows: list[Parameter], seed: int, purpose: int) -> npt.NDArray[np.float32]:
    return np.concatenate(
        [
            normal_draws(seed, purpose, index, row.size, row.std)
            if row.std
            else np.full(row.size, row.fill, dtype=np.float32)
            for index, row in enumerate(rows)
        ]
    )
