import itertools
import math

import pytest
from toy import ToyEngine, ToyHost

from tinygpt.core.config import TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.ops.record import RING
from tinygpt.core.optimizers.adamw import rates_of
from tinygpt.core.optimizers.schedule import learning_rate
from tinygpt.core.presets import preset
from tinygpt.core.train.film import FRAME_BYTES, frame_after, frames_until, in_film
from tinygpt.core.train.progress import LossHistory, Progress
from tinygpt.core.train.trainer import EXPLODED_LOSS, Diverged, Trainer

RUN = preset("tiny").replace(steps=60, eval_every=20, sample_every=0, checkpoint_every=25)


def train(run=RUN, engine=None, host=None, progress=None):
    engine, host = engine or ToyEngine(), host or ToyHost()
    reason = run_now(Trainer(run, engine, host, 100_000, 10_000, progress).run())
    return reason, engine, host


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("tick", [0.5, 0.03, 0.001, 0.0])
@pytest.mark.parametrize("block", [None, 1, 7, 1000])
def test_events_come_at_their_cadence_whatever_the_blocks(block, tick, ahead):
    reason, engine, host = train(engine=ToyEngine(block, ahead), host=ToyHost(tick=tick))
    assert reason == "finished"
    assert [event["step"] for event in host.of("step")] == list(range(1, 61))
    assert [event["step"] for event in host.of("eval")] == [20, 40, 60]
    assert [event["step"] for event in host.of("sample")] == [60]
    assert [event["step"] for event in host.of("checkpoint") if event["kind"] == "last"] == [0, 25, 50, 60]
    plain = train()[2]
    assert [event["loss"] for event in host.of("step")] == [event["loss"] for event in plain.of("step")]
    assert host.saves == plain.saves  # a state is that of the step that is named, whatever was under way
    assert sum(engine.blocks) == 60 and max(engine.blocks) <= min(20, block or 20)
    assert engine.under_way == (2 if ahead and block != 1000 else 0)


@pytest.mark.parametrize("block", [None, 7])
def test_every_nth_state_is_kept_once_it_is_proven_and_the_last_one_too(block):
    _, _, host = train(RUN.replace(keep_every=10), ToyEngine(block))
    saves = [f"{kind} {progress['step']}" for kind, _, progress in host.saves if kind != "best"]
    assert saves[:6] == ["last 0", "kept 10", "kept 20", "last 25", "kept 30", "kept 40"]
    assert saves[6:] == ["kept 50", "last 50", "kept 60", "last 60"]  # killed between the two, none is missing
    kept = [value for kind, value, _ in host.saves if kind == "kept"]
    assert kept == pytest.approx([5.5 * 0.96875**n for n in range(10, 61, 10)], rel=1e-12)
    host = ToyHost()
    with pytest.raises(Diverged, match="as of step 25 is kept"):
        train(RUN.replace(keep_every=10), ToyEngine(losses=[5.0] * 30 + [math.nan]), host)
    assert [progress["step"] for kind, _, progress in host.saves if kind == "kept"] == [10, 20]


def test_a_host_that_keeps_none_is_asked_for_none():
    host = ToyHost()
    host.keeps = lambda kind: False
    assert (
        train(RUN.replace(keep_every=1), ToyEngine(block=20), host)[1].blocks == train(engine=ToyEngine(20))[1].blocks
    )
    assert not [kind for kind, *_ in host.saves if kind == "kept"]


@pytest.mark.parametrize("tick, most", [(1.0, 1), (0.05, 2), (0.02, 5), (1e-6, RING)])
def test_blocks_are_a_tenth_of_a_second_and_no_more_than_the_ring(tick, most):
    """The clock moves by a tick for each look, and a step takes a tick's share of its block."""

    class Clock(ToyHost):
        def now(self):
            self.clock += self.tick * sum(engine.blocks[-1:]) / 2
            return self.clock

    engine = ToyEngine()
    run_now(
        Trainer(RUN.replace(steps=500, eval_every=0, checkpoint_every=0), engine, Clock(tick=tick), 100_000, 0).run()
    )
    assert engine.blocks[0] == 1
    assert max(engine.blocks) <= 2 * most and (most == 1 or max(engine.blocks) >= most)
    assert max(engine.blocks) <= RING


@pytest.mark.parametrize("ahead", [False, True])
def test_a_block_that_ends_early_is_a_stop(ahead):
    reason, engine, host = train(engine=ToyEngine(10, ahead, stops_after=33), host=ToyHost(tick=0.001))
    assert reason == "stopped" and engine.step == 33
    assert [event["step"] for event in host.of("step")] == list(range(1, 34))
    assert host.saves[-1][0] == "last" and host.saves[-1][1] == engine.value and host.saves[-1][2]["step"] == 33


def test_a_resumed_run_goes_on_as_if_never_stopped():
    _, _, straight = train()
    _, engine, first = train(RUN.replace(steps=25))
    kind, value, saved = first.saves[-1]
    assert (kind, value) == ("last", engine.value)
    resumed = ToyEngine()
    resumed.value, resumed.step = value, 25
    _, _, second = train(engine=resumed, progress=Progress.from_dict(saved))
    both = [e["loss"] for e in first.of("step") + second.of("step")]
    assert both == [e["loss"] for e in straight.of("step")]
    assert second.saves[-1][2]["history"] == straight.saves[-1][2]["history"]
    assert second.saves[-1][2]["tokens_seen"] == straight.saves[-1][2]["tokens_seen"] == 60 * 16 * 32


def test_a_stop_that_comes_into_a_sample_ends_it():
    engine, host = ToyEngine(), ToyHost()
    host.should_stop = lambda: engine.step == 10 and 20 < engine.drawn < 100
    reason, _, _ = train(RUN.replace(sample_every=10), engine, host)
    assert (reason, [event["step"] for event in host.of("sample")]) == ("stopped", [0])
    assert engine.step == host.saves[-1][2]["step"] == 10
    assert engine.drawn < 30


FILMED = RUN.replace(steps=120, sample_every=1000)


def test_a_film_has_frames_from_noise_to_words():
    _, _, host = train(FILMED)
    film = host.saves[-1][2]["film"]
    assert [step for step, _ in film] == [0, 10, 30, 100] == [event["step"] for event in host.of("sample")][:-1]
    texts = [event["text"] for event in host.of("sample")]
    # The last character of a frame may be cut.
    assert all(len(film[i][1]) <= FRAME_BYTES and texts[i].startswith(film[i][1][:-1]) for i in range(4))
    assert len(texts[-1]) > FRAME_BYTES
    assert [save[2]["film"][-1:] for save in host.saves if save[0] == "last"][:2] == [[], film[1:2]]
    assert train(FILMED.replace(sample_every=0))[2].saves[-1][2]["film"] == []
    made = [step for step in range(100_001) if in_film(step)]
    assert made == [0, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]
    assert [frame_after(step) for step in made[:-1]] == made[1:] and frame_after(299) == 300
    assert [frames_until(steps) for steps in (0, 9, 10, 1500, 100_000)] == [1, 1, 2, 6, 10]


@pytest.mark.parametrize("step", [0, 30, 57])
def test_a_stop_that_comes_into_a_frame_costs_the_film_nothing(step):
    _, whole, straight = train(FILMED)
    engine, host = ToyEngine(), ToyHost()
    host.should_stop = lambda: engine.step >= step and (not in_film(step) or 20 < engine.drawn < 100)
    assert train(FILMED, engine, host)[0] == "stopped"
    saved = Progress.from_dict(host.saves[-1][2])
    assert step <= engine.step < 100 and [frame[0] for frame in saved.film] == [s for s in (0, 10, 30) if s < step]
    _, resumed, again = train(FILMED, engine, ToyHost(), saved)
    assert resumed.value == whole.value and again.saves[-1][2] == straight.saves[-1][2]


@pytest.mark.parametrize("tick, parts", [(0.04, [1] * 8), (0.002, [1, 7]), (0.0, [1, 7])])
def test_a_validation_comes_in_parts_of_a_twentieth_of_a_second(tick, parts):
    engine = ToyEngine()
    train(RUN.replace(steps=20), engine, ToyHost(tick=tick))
    assert engine.validated == [(sum(parts[:i]), part) for i, part in enumerate(parts)]
    train(RUN.replace(steps=20), engine := ToyEngine(block=3), ToyHost(tick=tick))
    assert engine.validated == [(0, 3), (3, 3), (6, 2)]


@pytest.mark.parametrize("steps", [60, 40])
@pytest.mark.parametrize("when", ["before it", "in its midst"])
def test_a_validation_that_a_stop_comes_into_is_dropped_and_made_up_for_by_who_goes_on(when, steps):
    """Patience counts on it, and it may be the best: whoever goes on does as the run that was never stopped."""
    run = RUN.replace(steps=steps, checkpoint_every=0)
    losses = [4.0, 3.0, 5.0]
    _, _, straight = train(run, ToyEngine(val_losses=list(losses)))

    engine, host = ToyEngine(val_losses=losses), ToyHost()
    host.should_stop = lambda: engine.step == 40 and (when == "before it" or engine.validated[-1] == (3, 1))
    reason, _, _ = train(run, engine, host)
    assert (reason, engine.step) == ("stopped", 40) and [event["step"] for event in host.of("eval")] == [20]
    saved = Progress.from_dict(host.saves[-1][2])
    assert saved.validation_due and saved.best_val == 4.0

    again, host.stop_at = ToyHost(), None
    reason, _, _ = train(run, engine, again, saved)
    assert reason == "finished" and not losses[steps // 20 :]
    assert [event["val_loss"] for event in host.of("eval") + again.of("eval")] == [
        event["val_loss"] for event in straight.of("eval")
    ]
    assert again.saves[-1][1:] == straight.saves[-1][1:]
    assert [save[0] for save in again.saves][:1] == ["best"]


class Passing(ToyHost):
    """Keeps nothing, so that nothing waits for a validation."""

    def keeps(self, kind):
        return False

    def told(self):
        facts = {"step": "loss", "eval": "val_loss", "sample": "text", "advice": "kind"}
        return [(event["event"], event["step"], event[facts[event["event"]]]) for event in self.events]


LONG = RUN.replace(steps=200, checkpoint_every=0)


def test_an_engine_that_answers_ahead_is_asked_for_more_steps_before_a_validation_is_read():
    _, plain, waited = train(LONG, ToyEngine(), Passing(tick=0.001))
    _, engine, host = train(LONG, ToyEngine(ahead=True), Passing(tick=0.001))
    assert host.told() == waited.told() and plain.passed == []
    assert [step for step, _ in engine.passed] == list(range(40, 200, 20))  # of the first nobody knew how long it takes
    assert all(asked > step for step, asked in engine.passed)
    assert engine.value == plain.value


@pytest.mark.parametrize(
    "changes, host",
    [
        ({}, ToyHost(tick=0.001)),  # the best model is kept
        ({"patience": 100}, Passing(tick=0.001)),
        ({"checkpoint_every": 20}, Passing(tick=0.001)),
        ({"sample_every": 20}, Passing(tick=0.0)),
        ({}, Passing(tick=0.04)),  # a validation takes long, and a stop must be heard in its midst
    ],
)
def test_a_validation_that_something_waits_for_is_not_passed_by(changes, host):
    _, engine, _ = train(LONG.replace(**changes), ToyEngine(ahead=True), host)
    assert engine.passed == [] and [event["step"] for event in host.of("eval")] == list(range(20, 201, 20))


def test_a_validation_that_was_passed_by_can_end_the_run():
    engine, host = ToyEngine(ahead=True, val_losses=[3.0, 2.0, math.nan]), Passing(tick=0.001)
    with pytest.raises(Diverged, match="step 60 because the validation loss is nan"):
        train(LONG, engine, host)
    assert engine.passed[-1][0] == 60 < engine.step and host.of("step")[-1]["step"] == 60 and host.went_back


def test_a_stop_that_comes_into_a_validation_that_is_passed_by_drops_it():
    class Stopped(ToyEngine):
        async def validate(self, first, batches):
            return 3 if self.step == 60 and not host.stop_at else await ToyEngine.validate(self, first, batches)

    engine, host, progress = Stopped(ahead=True), Passing(tick=0.001), Progress()
    reason, _, _ = train(LONG, engine, host, progress)
    assert (reason, engine.step, progress.step, progress.validation_due) == ("stopped", 60, 60, True)
    assert [event["step"] for event in host.of("eval")] == [20, 40]
    host.stop_at = math.inf  # none any more
    assert train(LONG, engine, host, progress)[0] == "finished"
    assert host.told() == train(LONG, ToyEngine(), Passing(tick=0.001))[2].told()


def test_a_stop_that_comes_while_a_state_is_saved_ends_the_run_before_another_step():
    engine, host = ToyEngine(), ToyHost()
    host.should_stop = lambda: len(host.saves) > 1
    reason, _, _ = train(RUN.replace(eval_every=0), engine, host)
    assert (reason, engine.step) == ("stopped", 26)  # the state of step 25 was proven by one more


class Clocked(ToyEngine):
    """Counts the bytes that it writes: they take time."""

    bytes = 0

    def draw(self):
        self.bytes += 1
        return ToyEngine.draw(self)


def test_samples_take_a_tenth_of_the_time_and_one_is_always_at_the_end():
    """Steps take a second each, and a text ten. The film's frames are never left out; all but the first are short."""
    film = [0, 10, 30, 100]
    for every, on_the_way in ((0, []), (20, [*film, 200]), (100, [*film, 200]), (5, [*film, 195])):
        engine, host = Clocked(), ToyHost()
        host.now = lambda: engine.step + engine.bytes / 32  # noqa: B023
        train(RUN.replace(steps=205, sample_every=every, eval_every=5), engine, host)
        assert [event["step"] for event in host.of("sample")] == [*on_the_way, 205]
        lengths = [len(event["text"]) for event in host.of("sample") if event["step"] in film[1:]]
        assert all(length <= FRAME_BYTES for length in lengths)
        assert len(host.of("eval")) == 41  # what decides on a run is never left out
    engine, host = Clocked(), ToyHost()
    host.now = lambda: engine.bytes / 3200  # a tenth of a second each, and steps take none
    train(RUN.replace(steps=100, sample_every=10), engine, host)
    assert [event["step"] for event in host.of("sample")] == [0, 10, 20, 30, 40, 50, 100]


def test_what_is_saved_does_not_depend_on_the_clock():
    """A slow machine leaves samples out, and saves the same."""

    def hosted(seconds, **changes):
        engine, host = Clocked(val_losses=[3.0, 2.0] + [2.5] * 9 if "patience" in changes else None), ToyHost()
        host.now = lambda: engine.step + seconds * engine.bytes
        reason = train(RUN.replace(sample_every=10, keep_every=10, **changes), engine, host)[0]
        return reason, [event["step"] for event in host.of("sample")], host.saves

    for changes, reason, end in (({}, "finished", 60), ({"steps": 500, "patience": 2}, "early-stop", 80)):
        fast, slow = hosted(0.0, **changes), hosted(1.0, **changes)
        assert fast[0] == slow[0] == reason
        assert fast[1] == list(range(0, end + 1, 10)) and slow[1] == [0, 10, 30, end]
        assert fast[2] == slow[2]
        assert all(bool(saved["sample"]) == (saved["step"] == end) for *_, saved in fast[2])
        best = ["best"] if reason == "finished" else []
        assert [kind for kind, *_, saved in fast[2] if saved["step"] == end] == [*best, "kept", "last"]


def test_a_run_that_goes_on_saves_no_sample_of_its_earlier_end():
    progress, host = Progress(), ToyHost()
    _, engine, _ = train(RUN.replace(steps=20), progress=progress)
    assert progress.sample
    train(RUN, engine, host, progress)
    assert [bool(saved["sample"]) for *_, saved in host.saves if saved["step"] < 60] == [False] * 3 and progress.sample


@pytest.mark.parametrize("ahead", [False, True])
def test_a_stop_request_saves_and_ends(ahead):
    reason, engine, host = train(engine=ToyEngine(ahead=ahead), host=ToyHost(stop_at=10.0))
    assert reason == "stopped"
    assert 1 < engine.step < 60
    assert host.saves[-1][0] == "last"
    assert host.saves[-1][2]["step"] == engine.step


def test_the_best_model_is_kept_and_patience_ends_the_run():
    engine = ToyEngine(val_losses=[3.0, 2.0, 2.5, 2.0, 1.0])
    reason, _, host = train(RUN.replace(steps=1000, patience=2, checkpoint_every=0), engine)
    assert reason == "early-stop"
    assert [e["step"] for e in host.of("checkpoint") if e["kind"] == "best"] == [20, 40]
    assert [e["step"] for e in host.of("checkpoint") if e["kind"] == "last"] == [0, 80]
    assert host.saves[-1][2]["best_val"] == 2.0


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(bad, ahead):
    engine = ToyEngine(ahead=ahead, losses=[5.0] * 29 + [bad] + [5.0] * 100)
    host = ToyHost(tick=0.01)
    with pytest.raises(Diverged, match="step 30 because the loss is"):
        train(engine=engine, host=host)
    assert host.saves[-1][2]["step"] == 25


def test_a_run_that_diverged_stands_where_its_last_checkpoint_stands():
    host, progress = ToyHost(), Progress()
    with pytest.raises(Diverged, match="The model as of step 25 is kept"):
        train(engine=ToyEngine(losses=[5.0] * 29 + [math.nan]), host=host, progress=progress)
    assert progress.as_dict() == host.saves[-1][2]
    assert [step for step, _ in progress.history.points][-1] == progress.step == 25
    assert host.went_back


@pytest.mark.parametrize(("high", "block"), [(1e4, 1), (math.inf, 1), (1e4, 3)])
def test_a_state_that_an_update_has_ruined_is_never_saved(high, block):
    """The loss of a step is that of the state before it: the update of step 4 shows in the loss of step 5."""
    engine, host = ToyEngine(block, losses=[5.0] * 4 + [high] * 60), ToyHost()
    with pytest.raises(Diverged):
        train(RUN.replace(checkpoint_every=1), engine, host)
    assert host.saves[-1][2]["step"] == 3
    assert host.saves[-1][1] == 5.5 * 0.96875**3  # the state of that step, whatever came since


def test_a_state_is_proven_by_the_very_next_step():
    """However seldom an engine would like to be read: until then it is not saved."""
    engine = ToyEngine(block=50)
    host = ToyHost()
    saved = []

    async def noted(kind, state, progress):
        saved.append((progress.step, engine.step))

    host.save = noted
    train(RUN, engine, host)
    assert saved == [(0, 0), (20, 20), (25, 26), (40, 40), (50, 51), (60, 60), (60, 60)]


def test_a_host_that_could_not_save_is_not_said_to_have_saved():
    class Full(ToyHost):
        async def save(self, kind, state, progress):
            await super().save(kind, state, progress)
            return progress.step == 0

    progress = Progress()
    with pytest.raises(Diverged, match="The model as of step 0 is kept"):
        train(engine=ToyEngine(losses=[5.0] * 29 + [math.nan]), host=Full(), progress=progress)
    assert progress.step == 0


def test_a_validation_loss_that_is_no_number_is_a_divergence():
    with pytest.raises(Diverged, match="the validation loss is nan"):
        train(engine=ToyEngine(val_losses=[math.nan]))


def test_logits_that_are_no_numbers_are_a_divergence():
    engine, host = ToyEngine(), ToyHost()
    engine.logits = lambda: [math.nan if engine.step else 0.0] * 256
    with pytest.raises(Diverged, match="step 10 because the model's logits are not finite"):
        train(RUN.replace(sample_every=30), engine, host)
    assert host.saves[-1][2]["step"] < 10


def test_an_infinite_gradient_stops_before_its_weights_are_saved():
    engine = ToyEngine(grad_norms=[1.0] * 24 + [math.inf] + [1.0] * 100)
    host = ToyHost()
    with pytest.raises(Diverged, match="gradient's norm is inf"):
        train(engine=engine, host=host)
    assert host.saves[-1][2]["step"] < 25


def test_an_exploding_loss_stops_the_run_but_a_single_bad_batch_does_not():
    high = EXPLODED_LOSS + 1
    reason, _, _ = train(engine=ToyEngine(losses=[5.0] * 10 + [high] * 4 + [5.0] * 100))
    assert reason == "finished"
    with pytest.raises(Diverged, match="far above an untrained model's"):
        train(engine=ToyEngine(losses=[5.0] * 10 + [high] * 5 + [5.0] * 100))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grad_clip": 0.0}, "clipping is off"),
        ({"lr": 0.1}, "0.1 is likely too high: try 0.0003"),
        ({}, "lower learning rate"),
    ],
)
def test_divergence_names_the_likely_cause(changes, says):
    with pytest.raises(Diverged, match=says):
        train(RUN.replace(**changes), ToyEngine(losses=[math.nan] * 60))


def test_without_validation_text_there_is_no_validation():
    engine, host = ToyEngine(), ToyHost()
    run_now(Trainer(RUN, engine, host, 100_000, 32).run())
    assert host.of("eval") == []


def test_rates_leave_out_time_between_steps():
    _, _, host = train(RUN.replace(eval_every=1))
    # ToyHost's clock moves half a second per look: every block takes one, and is a step.
    assert host.of("step")[-1]["tokens_per_s"] == pytest.approx(16 * 32 / 0.5)


def test_schedules():
    constant = TrainConfig(steps=100, warmup=4)
    assert [learning_rate(constant, step) for step in (1, 2, 4, 5, 100)] == pytest.approx(
        [0.75e-4, 1.5e-4, 3e-4, 3e-4, 3e-4]
    )
    cosine = constant.replace(schedule="cosine", min_lr=1e-4)
    rates = [learning_rate(cosine, step) for step in range(5, 101)]
    assert rates[0] == pytest.approx(3e-4)
    assert rates[-1] == pytest.approx(1e-4)
    assert rates == sorted(rates, reverse=True)
    assert learning_rate(cosine, 5000) == pytest.approx(1e-4)


@pytest.mark.parametrize("steps", [1, 511, 512, 513, 1024, 5000])
def test_history_keeps_the_first_the_last_and_at_most_512(steps):
    history = LossHistory()
    for step in range(1, steps + 1):
        history.add(step, float(step))
    kept = [step for step, _ in history.points]
    assert len(kept) <= 512
    assert (kept[0], kept[-1]) == (1, steps)
    assert kept == sorted(set(kept))
    gaps = {b - a for a, b in itertools.pairwise(kept[:-1])}
    assert len(gaps) <= 1  # evenly spread
    in_blocks = LossHistory()
    for first in range(0, steps, 37):
        in_blocks.add_all([(step, float(step), 0.0) for step in range(first + 1, min(first + 37, steps) + 1)])
    assert in_blocks.points == history.points


def test_adamws_rates_are_the_corrections_of_its_moments():
    train = TrainConfig(steps=100, warmup=4, weight_decay=0.2)
    for step in (1, 4, 50):
        size, root, decay = rates_of(train, step)
        lr = learning_rate(train, step)
        assert size == pytest.approx(lr / (1 - 0.9**step)) and decay == pytest.approx(0.2 * lr)
        assert root == pytest.approx((1 - 0.95**step) ** -0.5)
