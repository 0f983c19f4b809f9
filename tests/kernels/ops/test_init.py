"""Start values against the scalar generator, the libraries' log and cos, and the moments of a normal."""

import hashlib
import struct

import numpy as np
from cases import make_case, run_spec
from kernel_tests import KernelTests, on

from tinygpt.core.models.parameters import parameters
from tinygpt.core.presets import preset
from tinygpt.core.rng import INIT, philox
from tinygpt.kernels.init import exact_cos_sin, exact_log, initial_weights, normal_draws
from tinygpt.kernels.philox import philox_words


def normal_case(size, start, P, seed, index, std):
    high, low = struct.unpack(">II", struct.pack(">d", std))
    drawn = {"seed": seed, "purpose": INIT, "index": index, "std_high": high, "std_low": low}
    return {"size": size, "P": P, "start": start, **drawn}


class Filling(KernelTests, register=False):
    """Of a part of a tensor."""

    exact = True
    on_gpu = False

    def shape(self, name, dims):
        return (dims["size"],)


class TestNormal(Filling):
    kernel = "normal"
    cases = [
        normal_case(*given)
        for given in [
            (1, 0, 1, 0, 0, 1.0),
            (5, 3, 2, 1, 3, 0.02),
            (93, 31, 31, 1337, 5, 0.02),
            (10_007, 0, 10_007, 2**32 - 1, 7, 1 / 3),
            (60_000, 1, 59_999, 42, 2, 0.005),
        ]
    ]

    @on("cases")
    def test_spec_is_the_formula(self, dims):
        """Of Box and Muller."""
        case = make_case("normal", dims)
        (std,) = struct.unpack(">d", struct.pack(">II", dims["std_high"], dims["std_low"]))
        words = [philox((dims["seed"], INIT), (i, 0, dims["index"], 0)) for i in range(-(-dims["P"] // 4))]
        u = np.array(words, float)[:1000].reshape(-1, 2) / 2**32
        radius, angle = np.sqrt(-2 * np.log(u[:, 0] + 2.0**-32)), 2 * np.pi * u[:, 1]
        draws = (std * np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)).reshape(-1)[: dims["P"]]
        y, first, end = run_spec("normal", case)["y"], dims["start"], dims["start"] + dims["P"]
        assert np.array_equal(np.delete(y, np.s_[first:end]), np.delete(case["y"], np.s_[first:end]))
        np.testing.assert_allclose(y[first : first + len(draws)], draws, rtol=2**-23, atol=1e-15 * std)


class TestConstant(Filling):
    kernel = "constant"
    cases = [
        {"size": size, "P": P, "start": start, "value": value}
        for size, start, P, value in [(1, 0, 1, 1.0), (77, 7, 70, 0.0), (1000, 333, 333, 0.1)]
    ]

    def formula(self, *, y, P, start, value):
        y[start : start + P] = value
        return {"y": y}


def test_vectorised_philox_equals_the_scalar_one():
    words = philox_words((99, INIT), first=5, calls=50, c1=2**32 - 1, c2=7, c3=3)
    wanted = [philox((99, INIT), (i, 2**32 - 1, 7, 3)) for i in range(5, 55)]
    assert [tuple(int(w) for w in row) for row in words] == wanted


def test_exact_log_is_the_log():
    x = np.concatenate([np.array([2.0**-32, 0.5, 1.0]), np.random.default_rng(0).random(10000) + 2.0**-32])
    assert np.allclose(exact_log(x), np.log(x), rtol=4e-16, atol=4e-16)


def test_exact_cos_sin_are_cos_and_sin():
    words = np.random.default_rng(1).integers(0, 2**32, 10000, dtype=np.uint64)
    words = np.concatenate([words, np.array([0, 2**29, 2**30, 2**31, 2**32 - 1], dtype=np.uint64)])
    angle = words.astype(np.float64) * (2 * np.pi / 2**32)
    cos, sin = exact_cos_sin(words)
    assert np.allclose(cos, np.cos(angle), atol=2e-15, rtol=0)
    assert np.allclose(sin, np.sin(angle), atol=2e-15, rtol=0)


def test_draws_are_normal():
    draws = normal_draws(seed=3, purpose=INIT, tensor=0, size=400_000, std=1.0).astype(np.float64)
    standard_error = 1 / np.sqrt(len(draws))
    assert abs(draws.mean()) < 4 * standard_error
    assert abs(draws.var() - 1) < 4 * standard_error * np.sqrt(2)
    assert abs((draws**3).mean()) < 4 * standard_error * np.sqrt(15)
    assert abs((draws**4).mean() - 3) < 4 * standard_error * np.sqrt(96)
    assert abs(np.corrcoef(draws[0::2], draws[1::2])[0, 1]) < 4 * standard_error * np.sqrt(2)


def test_each_tensor_starts_as_the_parameter_list_says():
    config = preset("tiny")
    weights = initial_weights(config.model, seed=1)
    for parameter in parameters(config.model):
        tensor = weights[parameter.offset : parameter.offset + parameter.size]
        if parameter.std:
            assert abs(tensor.std() / parameter.std - 1) < 0.1, parameter.name
        else:
            assert (tensor == parameter.fill).all(), parameter.name
    assert weights.size == 70464


def test_the_bytes_of_the_start_values_never_change():
    weights = initial_weights(preset("tiny").model, seed=1337)
    assert hashlib.sha256(weights.tobytes()).hexdigest() == (
        "40b748aa53fd78e376e72a9aef352f79ef1a71f1abb793109dac95ac2fd5982e"
    )
