import math

import pytest
from toy import ToyEngine

from tinygpt.core.config import SampleConfig
from tinygpt.core.sampler import choose, generate
from tinygpt.core.trainer import run_now

LOGITS = [0.0] * 256
LOGITS[65], LOGITS[66], LOGITS[67] = 5.0, 4.0, 3.0
GRID = [i / 5000 for i in range(5000)]


def shares(settings):
    draws = [choose(LOGITS, settings, uniform) for uniform in GRID]
    return {byte: draws.count(byte) / len(draws) for byte in set(draws)}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature):
    total = sum(math.exp(logit / temperature) for logit in LOGITS)
    got = shares(SampleConfig(temperature=temperature))
    for byte in (65, 66, 67):
        assert abs(got[byte] - math.exp(LOGITS[byte] / temperature) / total) <= 2 / len(GRID)


def test_greedy_takes_the_first_of_the_likeliest():
    assert shares(SampleConfig(temperature=0.0)) == {65: 1.0}
    assert choose([1.0] * 256, SampleConfig(temperature=0.0), 0.99) == 0


def test_top_k_keeps_k():
    assert set(shares(SampleConfig(temperature=1.0, top_k=2))) == {65, 66}


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    weights = sorted([math.exp(logit) for logit in LOGITS], reverse=True)
    first = weights[0] / sum(weights)
    second = first + weights[1] / sum(weights)
    assert set(shares(SampleConfig(temperature=1.0, top_p=first * 0.999))) == {65}
    assert set(shares(SampleConfig(temperature=1.0, top_p=first * 1.001))) == {65, 66}
    assert set(shares(SampleConfig(temperature=1.0, top_p=second * 1.001))) == {65, 66, 67}
    assert set(shares(SampleConfig(temperature=1.0, top_p=0.0))) == {65}


def test_generation_is_seeded_and_feeds_what_it_made():
    engine = ToyEngine()
    made = run_now(generate(engine, 32, b"abc", SampleConfig(tokens=20)))
    assert made == run_now(generate(ToyEngine(), 32, b"abc", SampleConfig(tokens=20)))
    assert made != run_now(generate(ToyEngine(), 32, b"abc", SampleConfig(tokens=20, seed=1)))
    assert engine.tokens == b"abc" + made[:-1]


def test_a_full_window_restarts_from_its_newer_half():
    engine = ToyEngine()
    made = run_now(generate(engine, 8, b"0123456789", SampleConfig(tokens=12)))
    assert len(made) == 12
    # 23456789 | restart 6789+1, +3 more | restart with 4+1, ...
    assert engine.prefills == 4
    assert engine.tokens == (b"0123456789" + made)[: 10 + 11][-len(engine.tokens) :]


def test_ctx_of_one_works():
    assert len(run_now(generate(ToyEngine(), 1, b"ab", SampleConfig(tokens=5)))) == 5


def test_it_stops_behind_a_stop_byte_and_when_told():
    endless = run_now(generate(ToyEngine(), 32, b"abc", SampleConfig(tokens=200)))
    stop = endless[10]
    made = run_now(generate(ToyEngine(), 32, b"abc", SampleConfig(tokens=200), stop_bytes=bytes([stop])))
    assert made == endless[: endless.index(stop) + 1]
    seen = []
    run_now(generate(ToyEngine(), 32, b"", SampleConfig(tokens=9), on_byte=lambda b: seen.append(b) or len(seen) < 4))
    assert len(seen) == 4
