"""The law that is fitted to the table of finished runs, and how well it foretells runs that it has not seen."""

import math

import pytest

from tinygpt.core.budget.law import Law, TextFacts, end_loss
from tinygpt.core.budget.law_numbers import LAW
from tinygpt.core.budget.reference_runs import TEXTS, Run
from tinygpt.sweeps.fitting import fit, left_out, other_texts, predicted, runs_of_the_law, spread_of

WITHIN = 0.05  # of the loss: what is asked of every prediction


def test_a_law_is_found_again_in_runs_that_follow_it():
    usual = LAW.usual
    law = Law(
        {"tiny": (1.7, 0.12), "small": (1.5, 0.17), "medium": (1.4, 0.2)},
        0.45,
        6000.0,
        (0.03, 0.4, 0.9, 1.2),
        (4.0, 0.4),
        (1.2, 1.5),
        usual,
        0.0,
    )
    runs = []
    for name, ctx in (("tiny", 32), ("small", 64), ("medium", 96)):
        for text in TEXTS:
            for batch, steps, dropout in ((16, 300, 0.0), (16, 1200, 0.0), (64, 1200, 0.0), (16, 4800, 0.15)):
                tokens = batch * steps * ctx
                facts = TextFacts(text.train_bytes, text.hardness)
                reached = end_loss(law, name, tokens, batch * ctx, dropout, facts)
                runs.append(Run("modern", name, text.name, batch, steps, dropout, tokens, reached, ()))
    found = fit(runs, usual)
    assert max(abs(math.log(predicted(found, run) / run.loss)) for run in runs) < 0.002
    assert found.exponent == pytest.approx(0.45, rel=0.05) and found.sizes["small"][0] == pytest.approx(1.5, rel=0.02)


def test_the_numbers_in_core_are_those_that_the_table_gives():
    runs = runs_of_the_law()
    made = fit(runs, LAW.usual)
    assert list(made.sizes) == list(LAW.sizes)
    assert max(abs(predicted(made, run) / predicted(LAW, run) - 1) for run in runs) < 1e-3


def test_runs_that_the_law_has_not_seen_end_where_it_says():
    residuals = left_out(runs_of_the_law(), LAW.usual)
    assert max(abs(residual.off) for residual in residuals) < WITHIN
    assert spread_of(residuals) <= LAW.spread + 1e-6


def test_so_do_runs_on_a_text_that_it_has_not_seen():
    residuals = other_texts(runs_of_the_law(), LAW.usual)
    assert residuals and max(abs(residual.off) for residual in residuals) < WITHIN
