"""What a sweep tries and whom it lets go on, with an objective that costs nothing."""

import math

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.sweeps import Axis, Plan, Result, edge_notes, standings
from tinygpt.sweeps.plan import LEARNING_RATES
from tinygpt.sweeps.results import DIVERGED, FAILED, FINISHED
from tinygpt.sweeps.sweeping import sweep

LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)


def grid(**axes):
    return tuple(Axis(name, values) for name, values in axes.items())


def result(run, loss, outcome=FINISHED):
    return Result(run.rung, run.settings, run.config.as_dict(), 1, outcome, best_val=loss, steps=run.config.train.steps)


def doing(objective, done, stop_after=math.inf):
    """Runs as `sweep` wants them done, which end early after some of them."""

    def do(runs):
        for run in runs:
            if len(done) >= stop_after:
                return
            done.append(run)
            yield objective(run)

    return do


def test_a_grid_is_every_combination_with_every_seed():
    plan = Plan(grid(preset=("tiny", "small"), lr=(0.1, 0.2), seed=(1, 2, 3)), fixed={"steps": 50, "ctx": 8})
    (rung,) = plan.rungs()
    runs = plan.runs(rung, plan.candidates())
    assert len(runs) == 12 and len({run.key for run in runs}) == 12
    assert [run.settings for run in runs[:2]] == [
        {"preset": "tiny", "lr": 0.1, "seed": 1},
        {"preset": "tiny", "lr": 0.2, "seed": 1},
    ]
    assert runs[-1].config == preset("small").replace(steps=50, ctx=8, lr=0.2, seed=3)


def test_runs_that_one_engine_can_do_are_next_to_each_other():
    plan = Plan(grid(lr=(0.1, 0.2, 0.3), batch=(2, 4), weight_decay=(0.0, 0.1)))
    batches = [run.config.train.batch for run in plan.runs(plan.rungs()[0], plan.candidates())]
    assert batches == [2] * 6 + [4] * 6


@pytest.mark.parametrize(
    "count, halving, wanted",
    [
        (9, 3, [(9, 9), (3, 3), (1, 1)]),
        (8, 2, [(8, 8), (4, 4), (2, 2), (1, 1)]),
        (7, 3, [(7, 9), (2, 3), (1, 1)]),
        (4, 5, [(4, 5), (1, 1)]),
        (5, 0, [(5, 1)]),
    ],
)
def test_rounds_are_as_many_as_it_takes_to_choose_one(count, halving, wanted):
    seen = []

    def objective(run):
        seen.append((run.rung, preset("small").train.steps // run.config.train.steps))
        return result(run, run.config.train.lr)

    plan = Plan(grid(lr=tuple(1.0 + n for n in range(count))), halving=halving)
    sweep(plan, [], doing(objective, []), lambda result: None)
    assert [(len([s for s in seen if s[0] == rung]), parts) for rung, parts in dict.fromkeys(seen)] == wanted


def test_a_round_has_a_schedule_of_its_own():
    fixed = {"steps": 900, "warmup": 100, "eval_every": 100, "schedule": "cosine"}
    plan = Plan(grid(lr=LRS), fixed=fixed, halving=3)
    first, second, last = (plan.runs(rung, plan.candidates())[0].config.train for rung in plan.rungs())
    assert (first.steps, first.warmup, first.eval_every) == (100, 12, 11)
    assert (second.steps, second.warmup, second.eval_every) == (300, 34, 33)
    assert (last.steps, last.warmup, last.eval_every) == (900, 100, 100)


def shallow_first(run):
    """Small rates win as long as runs are short; 0.1 and above diverge."""
    lr, steps = run.config.train.lr, run.config.train.steps
    if lr >= 0.1:
        return result(run, 0.5, DIVERGED)
    return result(
        run, abs(math.log10(lr) + (2.0 if steps >= 600 else 2.45)) + (0.01 if run.config.train.seed == 2 else 0)
    )


def test_the_best_third_goes_on_and_what_diverged_never_does():
    plan, done, recorded = Plan(grid(lr=LRS, seed=(1, 2)), fixed={"steps": 1800}, halving=3), [], []
    results = sweep(plan, [], doing(shallow_first, done), recorded.append)
    by_rung = [
        [run.settings["lr"] for run in done if run.rung == rung and run.settings["seed"] == 1] for rung in range(3)
    ]
    assert by_rung == [list(LRS), [3e-3, 1e-2, 1e-3], [1e-2]]
    assert results == recorded
    ranked = standings(results)
    assert ranked[0].settings == {"lr": 1e-2} and ranked[0].rung == 2 and len(ranked[0].results) == 2
    assert ranked[0].spread == pytest.approx(0.01 / math.sqrt(2))
    assert [standing.rung for standing in ranked] == [2, 1, 1, 0, 0, 0, 0, 0, 0]
    assert [standing.sound for standing in ranked[-3:]] == [False] * 3


def test_one_seed_that_diverges_spoils_its_combination():
    def objective(run):
        lost = run.settings == {"lr": 0.1, "seed": 2}
        return result(run, run.settings["lr"], DIVERGED if lost else FINISHED)

    plan = Plan(grid(lr=(0.1, 0.2), seed=(1, 2)))
    ranked = standings(sweep(plan, [], doing(objective, []), lambda result: None))
    assert [standing.settings["lr"] for standing in ranked] == [0.2, 0.1]
    assert ranked[1].loss == math.inf and ranked[1].spread is None


@pytest.mark.parametrize("stop_after", range(14))
def test_a_sweep_that_was_stopped_anywhere_goes_on_where_it_stood(stop_after):
    plan = Plan(grid(lr=LRS), fixed={"steps": 1800}, halving=3)
    whole = sweep(plan, [], doing(shallow_first, []), lambda result: None)
    done, kept = [], []
    sweep(plan, [], doing(shallow_first, done, stop_after), kept.append)
    assert len(kept) == min(stop_after, 13)
    again = sweep(plan, kept, doing(shallow_first, done), kept.append)
    assert sorted(again, key=lambda one: one.key) == sorted(whole, key=lambda one: one.key)
    assert len(done) == len({run.key for run in done}) == 13


def test_where_nothing_is_sound_no_round_follows_and_failed_runs_are_tried_again():
    plan, done = Plan(grid(lr=LRS), halving=3), []
    failed = sweep(plan, [], doing(lambda run: result(run, None, FAILED), done), lambda result: None)
    assert len(failed) == 9 and all(run.rung == 0 for run in done)
    assert len(sweep(plan, failed, doing(shallow_first, done), lambda result: None)) == 13


def test_results_of_another_plan_are_not_counted():
    plan = Plan(grid(lr=(0.01, 0.02)))
    other = sweep(Plan(grid(lr=(0.02, 0.03))), [], doing(shallow_first, []), lambda result: None)
    done = []
    results = sweep(plan, other, doing(shallow_first, done), lambda result: None)
    assert [run.settings for run in done] == [{"lr": 0.01}]
    assert sorted(one.settings["lr"] for one in results) == [0.01, 0.02]


@pytest.mark.parametrize(
    "axes, best, wanted",
    [
        ({"lr": (0.1, 0.2, 0.3)}, {"lr": 0.3}, ["the best lr, 0.3, is the largest tried: try larger ones too"]),
        ({"lr": (0.1, 0.2, 0.3)}, {"lr": 0.1}, ["the best lr, 0.1, is the smallest tried: try smaller ones too"]),
        ({"lr": (0.3, 0.2, 0.1)}, {"lr": 0.2}, []),
        ({"warmup": (0, 10)}, {"warmup": 0}, []),  # there is nothing below
        ({"preset": ("tiny", "small")}, {"preset": "small"}, []),
        (
            {"lr": (0.1,), "batch": (2, 4)},
            {"lr": 0.1, "batch": 4},
            ["the best batch, 4, is the largest tried: try larger ones too"],
        ),
    ],
)
def test_a_best_value_at_the_edge_is_pointed_out(axes, best, wanted):
    results = sweep(
        Plan(grid(**axes)), [], doing(lambda run: result(run, 1.0 - (run.settings == best)), []), lambda r: None
    )
    assert edge_notes(grid(**axes), standings(results)[0]) == wanted


@pytest.mark.parametrize(
    "plan, sentence",
    [
        (Plan(()), "needs something to vary"),
        (Plan(grid(lr=(0.1, 0.1))), "lr has a value twice: 0.1, 0.1"),
        (Plan((*grid(lr=(0.1,)), *grid(lr=(0.2,)))), "lr is given twice"),
        (Plan(grid(lr=(0.1,)), fixed={"lr": 0.2}), "lr is fixed for all runs and also swept over"),
        (Plan(grid(lr=(0.1, 100.0))), "a run with lr 100 cannot be: train.lr must be from"),
        (Plan(grid(heads=(3, 5))), "a run with heads 5 cannot be: d_model 96 is not divisible by 5 heads"),
        (Plan(grid(temperature=(0.1, 0.2))), "there is no setting 'temperature'"),
        (Plan(grid(preset=("small", "smal"))), "there is no preset 'smal'"),
        (Plan(grid(val_fraction=(0.1, 0.2))), "a sweep cannot be over val_fraction: runs that hold out"),
        (Plan(grid(lr=LRS), fixed={"eval_every": 0}), "eval_every must be above 0"),
        (Plan(grid(lr=LRS), fixed={"steps": 50}, halving=3), "would have 5 of 50 steps, which tells little"),
        (Plan(grid(lr=(0.1,)), halving=3), "more than one combination of settings to choose from"),
        (Plan(grid(lr=LRS), halving=1), "halving takes 2 or more"),
        (Plan(grid(seed=tuple(range(200)), batch=tuple(range(1, 101)))), "these are 20,000 runs, more than 10,000"),
    ],
)
def test_a_plan_that_cannot_be_is_one_clear_sentence(plan, sentence):
    with pytest.raises(TinyGPTError) as raised:
        plan.check()
    assert sentence in str(raised.value)


def test_rates_scale_every_learning_rate_of_a_recipe():
    plan = Plan(over=(Axis("rates", (0.5, 1.0, 2.0)),), preset="tiny", recipe="modern")
    plan.check()
    usual = plan.config({"rates": 1.0}).train
    assert usual == plan.config({}).train
    for factor in (0.5, 2.0):
        train = plan.config({"rates": factor}).train
        for name in LEARNING_RATES:
            assert getattr(train, name) == pytest.approx(factor * getattr(usual, name), rel=1e-6)
        assert (
            train.replace(lr=usual.lr, min_lr=usual.min_lr, matrix_lr=usual.matrix_lr, ngram_lr=usual.ngram_lr) == usual
        )
