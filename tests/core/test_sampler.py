import math

import pytest
from toy import ToyEngine

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.write import sampler
from tinygpt.core.write.sampler import choose, generate

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


def made_by(engine, ctx, prompt, **settings):
    return run_now(generate(engine, ctx, prompt, SampleConfig(**settings)))


def test_generation_is_seeded_and_feeds_what_it_made():
    engine = ToyEngine()
    made = made_by(engine, 32, b"abc", tokens=20)
    assert made == made_by(ToyEngine(), 32, b"abc", tokens=20)
    assert made != made_by(ToyEngine(), 32, b"abc", tokens=20, seed=1)
    assert engine.tokens == b"abc" + made


def test_a_full_window_restarts_from_its_newer_half():
    engine = ToyEngine()
    made = made_by(engine, 8, b"0123456789", tokens=12)
    text = b"0123456789" + made
    assert len(made) == 12
    assert engine.windows == [text[2:10], text[6:11], text[10:15], text[14:19]]


@pytest.mark.parametrize("ctx", [1, 2, 3, 8, 200])
def test_any_context_is_written_beyond(ctx):
    assert len(made_by(ToyEngine(), ctx, b"ab", tokens=100)) == 100


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_it_stops_behind_the_first_stop_wherever_its_blocks_end(block, monkeypatch):
    monkeypatch.setattr(sampler, "BLOCK", block)
    endless = made_by(ToyEngine(), 32, b"abc", tokens=200)
    for stops in ((endless[10:11],), (endless[60:63],), (endless[90:93], endless[40:44], b"nowhere")):
        ends = [endless.find(stop) + len(stop) for stop in stops if stop in endless]
        seen = []
        made = generate(ToyEngine(), 32, b"abc", SampleConfig(tokens=200), stops, seen.append)
        assert run_now(made) == b"".join(seen) == endless[: min(ends)]
    prompted = generate(ToyEngine(), 32, endless[:20], SampleConfig(tokens=9), (endless[15:20],))
    assert len(run_now(prompted)) == 9  # what stands in the prompt was not written


def test_it_stops_when_told():
    seen = []
    told = run_now(
        generate(ToyEngine(), 32, b"", SampleConfig(tokens=90), on_bytes=lambda b: seen.append(b) or len(seen) < 4)
    )
    assert len(seen) == 4 and b"".join(seen) == told


@pytest.mark.parametrize("seconds, largest", [(0.012, 4), (0.2, 1), (1e-4, 64), (0.0, 64)])
def test_a_watched_text_flows_in_blocks_of_a_twentieth_of_a_second(seconds, largest):
    """A byte takes so many seconds. The first block is one byte, but not where a full window restarts."""
    engine, seen, asked, clock = ToyEngine(), [], [], [0.0]
    go_on = engine.continue_text

    async def timed(count):
        asked.append((len(engine.windows), count))
        clock[0] += seconds * count
        return await go_on(count)

    engine.continue_text = timed
    watched = generate(engine, 150, b"a", SampleConfig(tokens=300), on_bytes=seen.append, now=lambda: clock[0])
    assert run_now(watched) == made_by(ToyEngine(), 150, b"a", tokens=300) == b"".join(seen)
    assert asked[:2] == [(1, 1), (1, largest)] and max(asked)[0] > 1
    assert max(count for _, count in asked) == next(count for window, count in asked if window == 2) == largest
