"""What if?: the coach says of a change what was measured of it, and what follows from the run's own numbers."""

import json
import math

import pytest

from lab import whatif as measuring
from tinygpt.core.presets import cut_short, preset
from tinygpt.labs.whatif import SAME, Fork, asked, changes_of, derived, expected, outcome
from tinygpt.labs.whatif_numbers import FORKS, PRESET, STEPS

TEXT = 1_040_132  # bytes to train on, of the measured runs
MEASURED = cut_short(preset(PRESET, "modern", TEXT), {"steps": STEPS, "keep_every": 80})


def change(name, config=MEASURED):
    (found,) = [one for one in changes_of(config) if one.name == name]
    return found


def said(name, step, config=MEASURED):
    return expected(config, change(name, config), step, TEXT)


def test_every_change_of_the_measured_run_was_measured():
    assert [one.name for one in changes_of(MEASURED)] == list(FORKS)
    for rows in FORKS.values():
        for fork in [Fork(*row) for row in rows]:
            assert 0 < fork.step < STEPS and fork.low <= fork.mean <= fork.high


def test_the_nearest_fork_is_told():
    guess, text = said("without-ngrams", 300)
    fork = Fork(*FORKS["without-ngrams"][-1])
    assert guess == "worse" and f"after step {fork.step}, ended with a loss {fork.mean:.3f} higher" in text
    assert f"at once they were {fork.at_once:.2f} worse" in text and "it has 100 steps for that" in text
    assert "another kind of run" not in text
    assert said("without-ngrams", 90).guess == "the same"  # there was time to learn it again
    assert said("batch-4", 90).guess == "better"


@pytest.mark.parametrize(
    "name, step, words",
    [
        ("batch-4", 100, ["Each of its 300 steps reads 2,048 letters instead of 512", "half as noisy"]),
        ("batch-0.25", 100, ["reads 128 letters instead of 512", "twice as noisy"]),
        ("rate-4", 100, ["(matrix_lr) is 0.08 at its highest then, instead of 0.02"]),
        ("dropout-0.3", 100, ["reads its text 0.2 times, so there is nothing yet"]),
    ],
)
def test_what_follows_from_the_runs_own_numbers(name, step, words):
    text = derived(MEASURED, change(name), step, TEXT)
    assert all(word in text for word in words), text


def test_a_short_text_read_often_wants_dropout():
    assert "against learning it by heart" in derived(MEASURED, change("dropout-0.1"), 100, 10_000)
    with_it = MEASURED.replace(dropout=0.1)
    assert "may learn it by heart" in derived(with_it, change("dropout-0", with_it), 100, 10_000)


def test_of_what_was_not_measured_nothing_is_expected():
    deep = preset("small", "modern", TEXT)
    guess, text = said("without-blocks.2.mlp", 100, deep)
    assert guess is None and text.startswith("Nobody has measured this change.")
    assert "Yours is another kind of run" in said("rate-4", 100, deep).text
    single = MEASURED.replace(batch=1)
    assert "batch-0.25" not in [one.name for one in changes_of(single)]
    assert "dropout-0.1" not in [one.name for one in changes_of(MEASURED.replace(dropout=0.1))]
    assert [one.name for one in changes_of(preset("tiny", "classic").replace(kind="bigram"))][-1] == "dropout-0.3"


@pytest.mark.parametrize(
    "off, word",
    [(0.0, "the same"), (SAME, "the same"), (2 * SAME, "worse"), (-2 * SAME, "better"), (math.nan, "worse")],
)
def test_an_outcome_in_a_word(off, word):
    assert outcome(off) == word


@pytest.mark.slow
def test_a_fork_measured_again_says_the_same():
    (_, _, low, _, high) = FORKS["without-ngrams"][-1]
    text = measuring.Text(measuring.load_corpus(measuring.CORPUS).text)
    config = cut_short(preset("tiny", "modern", len(text.train)), {"steps": STEPS, "eval_batches": 40, "seed": 1})
    engine = measuring.opened(config, text)
    measuring.advanced(engine, 384)
    state = measuring.run_now(engine.export_state())
    measuring.advanced(engine, 16)
    end = measuring.loss_of(engine)
    _, reached = measuring.forked(config, text, state, change("without-ngrams"))
    assert low - SAME <= reached - end <= high + SAME


def test_what_the_page_asks():
    deeper = MEASURED.replace(layers=MEASURED.model.layers + 1)  # of one layer more nobody knows
    found = json.loads(asked(json.dumps({"config": deeper.as_dict(), "step": 96, "bytes": TEXT})))
    assert found["same"] == SAME
    assert {row["guess"] for row in found["changes"]} == {None, "better", "worse", "the same"}
    assert any(row["part"] for row in found["changes"]) and any(row["changes"] for row in found["changes"])
