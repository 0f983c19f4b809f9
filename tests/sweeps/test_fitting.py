"""The law that is fitted to the table of finished runs, and how well it foretells runs that it has not seen."""

import math

import pytest

from lab.law.fitting import fit, left_out, predicted, runs_of_the_law, spread_of, texts_left_out
from lab.law.reference_runs import TEXTS, Run
from tinygpt.core.advice.law import Law, TextFacts, end_loss
from tinygpt.core.advice.law_numbers import LAWS

WITHIN, MOST_WITHIN = 0.05, 0.02  # of the loss: what is asked of every prediction, and of two thirds of them
ELSEWHERE = 0.1  # on a text that is unlike all that the law has seen


def test_a_law_is_found_again_in_runs_that_follow_it():
    law = Law(
        sizes={"tiny": 1.3, "small": 1.1, "medium": 1.0},
        exponent=(0.2, 0.12, 0.15),
        batch=(6000.0, 0.03),
        repeats=(4.0, 0.3, 0.9, 1.3),
        dropout=(4.0, 0.4),
        harder=(0.8, 1.2),
        spread=0.0,
    )
    runs = []
    for name, ctx in (("tiny", 32), ("small", 64), ("medium", 96)):
        for text in TEXTS:
            for batch, steps, dropout in ((16, 300, 0.0), (4, 1200, 0.0), (64, 1200, 0.0), (16, 4800, 0.15)):
                tokens = batch * steps * ctx
                facts = TextFacts(text.train_bytes, text.hardness)
                reached = end_loss(law, name, tokens, batch * ctx, dropout, facts)
                runs.append(Run("modern", name, text.name, False, batch, steps, dropout, tokens, reached, ()))
    found = fit(runs)
    assert max(abs(math.log(predicted(found, run) / run.loss)) for run in runs) < 0.002
    assert found.exponent[0] == pytest.approx(0.2, rel=0.05) and found.sizes["small"] == pytest.approx(1.1, rel=0.02)


@pytest.fixture(params=["plain", "tables"])
def law(request):
    return getattr(LAWS, request.param), runs_of_the_law(request.param == "tables"), LAWS.plain


def given(law):
    return {"given": None if law[0] is law[2] else law[2]}


def test_the_numbers_in_core_are_those_that_the_table_gives(law):
    known, runs, plain = law
    made = fit(runs, **given(law))
    assert (
        list(made.sizes) == list(known.sizes) == ["tiny", "small", "medium", "large", "xl", "huge"][: len(known.sizes)]
    )
    assert len(known.sizes) == (6 if known is plain else 5)
    assert max(abs(predicted(made, run) / predicted(known, run) - 1) for run in runs) < 1e-3


def test_runs_that_the_law_has_not_seen_end_where_it_says(law):
    residuals = left_out(law[1], **given(law))
    off = sorted(abs(residual.off) for residual in residuals)
    assert off[-1] < WITHIN and off[2 * len(off) // 3] < MOST_WITHIN
    assert spread_of(residuals) <= law[0].spread + 1e-6


def test_so_do_runs_on_a_text_that_it_has_not_seen_though_not_as_near(law):
    assert max(abs(residual.off) for residual in texts_left_out(law[1], **given(law))) < ELSEWHERE
