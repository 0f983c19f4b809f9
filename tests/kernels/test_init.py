"""Start values against the scalar generator, the libraries' log and cos, and the moments of a normal."""

import hashlib

import numpy as np

from tinygpt.core.models.parameters import parameters
from tinygpt.core.presets import preset
from tinygpt.core.rng import INIT, philox
from tinygpt.kernels.init import exact_cos_sin, exact_log, initial_weights, normal_draws
from tinygpt.kernels.philox import philox_words


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
