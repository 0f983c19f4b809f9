"""Bands of normal losses: every run of ours lies in the band of the others, and what is broken on purpose does not."""

import pytest

from lab.law.banding import bands_of, text_named
from lab.law.reference_runs import RUNS
from tinygpt.core.advice import band
from tinygpt.core.advice.band import BANDS, band_of
from tinygpt.core.advice.coach import Coach
from tinygpt.core.presets import preset


def test_the_bands_in_core_are_those_of_the_table():
    assert bands_of(RUNS) == BANDS


def config_of(run):
    usual = preset(run.preset, run.recipe).replace(batch=run.batch, steps=run.steps, dropout=run.dropout)
    return usual if run.tables else usual.replace(ngrams="")


def test_every_run_of_ours_lies_in_the_band_of_the_others(monkeypatch):
    """Of other batches too. Losses that rise again are not normal, and another advice's."""
    compared = 0
    for run in RUNS:
        monkeypatch.setattr(band, "BANDS", bands_of([other for other in RUNS if other != run]))
        known = band_of(config_of(run), text_named(run.text).train_bytes)
        best = 9.9
        for tokens, loss in run.curve:
            best = min(best, loss)
            bounds = known(tokens) if known is not None else None
            if bounds is not None:
                assert bounds[0] < best < bounds[1], (run[:7], tokens, best, bounds)
                compared += 1
    assert compared > 500


def test_sound_runs_hear_nothing_though_their_text_is_another():
    """Curves of all runs as training losses: between two validations they are drawn out."""
    for run in RUNS:
        config = config_of(run)
        text = text_named(run.text).train_bytes
        coach = Coach(config, text, band=band_of(config, text))
        last, best = 5.5, 5.5
        for tokens, loss in run.curve:
            step = tokens * run.steps // run.tokens
            best = min(best, loss)
            said = [
                coach.step(at, last + (best - last) * i / 40, 1.0) for i, at in enumerate(range(step - 39, step + 1))
            ]
            assert not any(said), (run[:7], said)
            last = best


def test_what_is_not_like_any_run_of_ours_has_no_band():
    run = preset("small", "modern")
    assert band_of(run, 10**6)(10**6) is not None
    assert band_of(run, 10**6)(1000) is None  # nobody has looked so early
    for other in (run.replace(d_model=48), run.replace(qk_norm="off"), run.replace(batch=128), run.replace(batch=2)):
        assert band_of(other, 10**6) is None
    assert band_of(preset("behemoth", "modern"), 10**6) is None


def test_a_larger_batch_may_be_as_far_as_its_steps():
    run = preset("small", "modern")
    usual, larger = band_of(run, 10**6), band_of(run.replace(batch=64), 10**6)
    assert larger(10**6) == pytest.approx((usual(10**6)[0], usual(250_000)[1]))


def test_more_text_makes_for_lower_losses():
    lows = [band_of(preset("large", "modern", size), size)(3 * 10**6)[0] for size in (10**5, 10**6, 10**7)]
    assert lows == sorted(lows, reverse=True) and len(set(lows)) == 3
