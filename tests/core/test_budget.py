"""Choosing a run for so many minutes, and ending on time, on machines that are nothing but a clock."""

import math

import pytest
from clocked import Clock, ClockedEngine, ClockedHost

from tinygpt.core.advice import choose
from tinygpt.core.advice.choose import DROPOUTS, FEWEST_STEPS, MARGIN, SOME, VALIDATED_BYTES, Asked, Survey
from tinygpt.core.advice.hardness import LEARNED, hardness
from tinygpt.core.advice.law import FLOOR, STEEPEST, Law, Laws, TextFacts, end_loss, known_size, predict
from tinygpt.core.advice.pace import MOST, Pace
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.optimizers.schedule import average_rate, learning_rate
from tinygpt.core.presets import preset
from tinygpt.core.train.film import in_film
from tinygpt.core.train.trainer import Trainer

# Larger ones end lower, and need more tokens for it.
LAW = Law(
    sizes={"tiny": 1.3, "small": 1.15, "medium": 1.1, "large": 1.08, "xl": 1.08},
    exponent=(0.3, 0.3, 0.1),
    batch=(10000.0, 0.02),
    repeats=(30.0, 0.3, 1.0, 1.3),
    dropout=(5.0, 0.2),
    harder=(1.0, 1.0),
    spread=0.03,
)
LAWS = Laws(LAW, LAW)
TEXT = TextFacts(10**6, 2.0)
SLOW, FAST = 2e9, 2e12  # FLOP per second: of a step of tiny 40 and 0.04 ms


@pytest.fixture(autouse=True)
def made_up_law(monkeypatch):
    monkeypatch.setattr(choose, "LAWS", LAWS)


class Machine:
    def __init__(self, flops, **kind):
        self.clock, self.flops, self.kind, self.opened = Clock(), flops, kind, []

    async def open(self, run):
        if run.model.d_model > self.kind.get("largest", 10**9):
            raise TinyGPTError("there is not enough memory")
        kind = {name: value for name, value in self.kind.items() if name != "largest"}
        self.opened.append(ClockedEngine(run, self.clock, self.flops, **kind))
        return self.opened[-1]

    def survey(self, seconds, text=TEXT, names=None, val_bytes=10**5, samples=SOME, **stated):
        asked = Asked(text, val_bytes, names or list(LAW.sizes), stated, 320, *samples)
        return Survey(asked, self.open, self.clock.now, self.clock.now() + seconds)


def chosen(flops, seconds, text=TEXT, names=None, val_bytes=10**5, kind=None, **stated):
    machine = Machine(flops, **(kind or {}))
    survey = machine.survey(seconds, text, names, val_bytes, **stated)
    return run_now(survey.choose()), machine, survey


def test_more_time_and_faster_machines_get_larger_models_and_lower_losses():
    losses = []
    for flops, seconds, expected in (
        (SLOW, 60, "tiny"),
        (1e11, 180, "small"),
        (1e11, 600, "medium"),
        (1e12, 600, "large"),
        (FAST, 600, "xl"),
    ):
        option, machine, survey = chosen(flops, seconds)
        assert option.preset == expected
        assert option.prediction.loss <= min(other.prediction.loss for other in survey.options) * 1.01
        assert all(engine.closed for engine in machine.opened)
        losses.append(option.prediction.loss)
    assert losses == sorted(losses, reverse=True) and len(set(losses)) == 5


def test_only_sizes_that_could_be_better_than_the_likely_one_are_measured():
    for flops, seconds, widths in ((1e11, 180, [96]), (1e12, 600, [96, 128, 192]), (SLOW, 60, [96, 48])):
        _, machine, _ = chosen(flops, seconds)
        assert [engine.config.model.d_model for engine in machine.opened] == widths
        assert all(engine.step for engine in machine.opened)
    assert machine.clock.seconds - 100 < 0.1 * 60


@pytest.mark.parametrize("seconds", [20, 60, 600])
@pytest.mark.parametrize("flops", [SLOW, 1e11])
def test_the_run_that_is_chosen_ends_within_the_time(flops, seconds):
    option, machine, survey = chosen(flops, seconds)
    began = survey.deadline - seconds
    engine, host = trained(machine, option, survey.deadline)
    assert 0.9 * seconds < machine.clock.now() - began <= seconds
    assert abs(engine.step / option.run.train.steps - 1) < 0.05
    assert option.run.train.eval_batches * option.run.train.batch * option.run.model.ctx >= VALIDATED_BYTES
    assert host.of("eval")[-1]["step"] == host.of("sample")[-1]["step"] == engine.step


@pytest.mark.parametrize("byte, frame, samples", [(0.0001, 120, 3), (0.002, 120, 2), (0.005, 61, 0), (0.08, 8, 0)])
def test_a_slow_machine_shows_shorter_samples_before_it_shows_fewer(byte, frame, samples):
    option, machine, survey = chosen(1e11, 60, names=["tiny"], kind={"byte": byte})
    assert option.frame == pytest.approx(frame, abs=3) and bool(option.sampled) == bool(samples)
    _, host = trained(machine, option, survey.deadline)
    told, steps = host.of("sample"), host.of("eval")[-1]["step"]
    film = [step for step in range(steps + 1) if in_film(step)]
    assert [event["step"] for event in told if in_film(event["step"])] == film
    assert len(told) == len(film) + samples + 1 and told[-1]["step"] == steps
    assert all(len(event["text"]) <= max(option.frame, option.sampled) for event in told[:-1])
    assert machine.clock.now() <= survey.deadline


def test_who_watches_sees_another_text_every_second():
    machine = Machine(1e11, byte=0.0004)
    survey = machine.survey(60, names=["small"], samples=(60, 0.1))
    option = run_now(survey.choose())
    _, host = trained(machine, option, survey.deadline)
    assert 50 < len(host.of("sample")) < 75 and 100 < option.sampled <= 320
    assert machine.clock.now() <= survey.deadline


def test_who_wants_no_samples_gets_none_at_the_start():
    option, machine, survey = chosen(1e11, 60, sample_every=0)
    _, host = trained(machine, option, survey.deadline)
    assert option.sampled == 0 and len(host.of("sample")) == 1


def trained(machine, option, deadline, drift=None):
    pace = Pace(machine.clock.now(), deadline, option)
    byte = machine.kind.get("byte", 0.001)
    engine = ClockedEngine(option.run, machine.clock, machine.flops, drift=drift, byte=byte)
    host = ClockedHost(machine.clock)
    assert run_now(Trainer(option.run, engine, host, 10**6, 10**5, pace=pace).run()) == "finished"
    return engine, host


def test_a_stated_size_batch_or_dropout_is_kept():
    option, machine, _ = chosen(1e11, 600, names=["small"], batch=4, dropout=0.3, seed=5)
    train = option.run.train
    assert (option.preset, train.batch, train.dropout, train.seed) == ("small", 4, 0.3, 5)
    assert len(machine.opened) == 1


def test_of_a_gpu_larger_batches_are_measured_as_long_as_they_help():
    """A step of this one takes 50 ms however small it is."""
    gpu = {"launch": 0.05, "threads": None}
    option, machine, _ = chosen(FAST, 60, kind=gpu)
    recipe = preset(option.preset, "modern").train.batch
    assert option.run.train.batch == 2 * recipe
    assert [engine.config.train.batch for engine in machine.opened[-2:]] == [2 * recipe, 4 * recipe]
    assert chosen(FAST, 60, kind=gpu, batch=8)[0].run.train.batch == 8
    assert chosen(FAST, 60, kind={"launch": 0.05})[0].run.train.batch == recipe


def test_a_short_text_gets_dropout_and_less_than_all_the_time():
    short = TextFacts(30_000, 2.2)
    option, _, _ = chosen(1e11, 600, short, val_bytes=3000)
    assert option.run.train.steps < 0.9 * option.all_steps and option.run.train.dropout == max(DROPOUTS)
    for factor in (0.8, 1.2):
        other = option.run.replace(steps=int(factor * option.run.train.steps))
        assert predict(LAWS, option.preset, other, short).loss >= option.prediction.loss
    long, _, _ = chosen(1e11, 600)
    assert long.run.train.steps == long.all_steps and long.run.train.dropout == 0.0


def test_where_memory_ends_the_sizes_before_are_chosen_from():
    option, _, _ = chosen(FAST, 600, kind={"largest": 128})
    assert option.preset == "medium"
    with pytest.raises(TinyGPTError, match="not enough memory"):
        chosen(FAST, 600, kind={"largest": 10})


def test_what_cannot_be_is_said_in_a_sentence():
    with pytest.raises(TinyGPTError, match=f"no time for {FEWEST_STEPS} steps of tiny; give it more minutes"):
        chosen(1e6, 10)
    with pytest.raises(TinyGPTError, match="33 bytes of each at least; there are 20 and 100,000"):
        chosen(FAST, 60, TextFacts(20, 3.0))
    with pytest.raises(TinyGPTError, match="there are 1,000,000 and 7"):
        chosen(FAST, 60, val_bytes=7)


# --- pace ----------------------------------------------------------------------------------------------------------


def retimed(drift, seconds=60, shorter=1):
    """What becomes of a run on a machine whose speed changes, and which share of its time it took."""
    machine = Machine(1e11)
    began = machine.clock.now()
    survey = machine.survey(seconds, names=["medium"])
    option = run_now(survey.choose())
    option = option._replace(run=option.run.replace(steps=option.run.train.steps // shorter))
    engine, host = trained(machine, option, survey.deadline, lambda now: drift((now - began) / seconds))
    return option, engine, host, (machine.clock.now() - began) / seconds


def test_a_machine_that_keeps_its_speed_keeps_the_run():
    option, engine, host, took = retimed(lambda share: 1.0)
    assert engine.step == option.run.train.steps and not host.of("retime") and 1 - 2 * MARGIN < took <= 1


@pytest.mark.parametrize("slower", [1.3, 2.5, 0.9])
def test_a_machine_of_another_speed_changes_the_run_once_and_before_any_rate_depends_on_it(slower):
    option, engine, host, took = retimed(lambda share: slower)
    (event,) = host.of("retime")
    assert event["step"] == option.run.train.warmup and event["steps"] == engine.step == engine.config.train.steps
    assert 0.94 < took <= 1.0
    before, after = option.run.train, engine.config.train
    for step in range(1, event["step"] + 1):
        assert learning_rate(before, step) == learning_rate(after, step)
        assert average_rate(before, step) == average_rate(after, step)


def test_a_machine_that_becomes_much_faster_lengthens_the_run_by_no_more_than_a_quarter():
    option, engine, _, _ = retimed(lambda share: 0.2)
    assert engine.step == int(MOST * option.run.train.steps)


@pytest.mark.parametrize("when", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("slower", [2.0, 5.0])
def test_a_machine_that_slows_down_on_the_way_still_ends_on_time(when, slower):
    option, engine, host, took = retimed(lambda share: slower if share > when else 1.0)
    assert 0.95 < took < 1.02
    assert engine.step < option.run.train.steps or (when, slower) == (0.9, 2.0)  # what is kept back is enough then
    assert len(host.of("retime")) <= 12
    assert host.of("eval")[-1]["step"] == host.of("sample")[-1]["step"] == engine.step == engine.config.train.steps


def test_a_run_that_was_meant_to_be_short_is_not_lengthened():
    option, engine, _, _ = retimed(lambda share: 0.5, shorter=2)
    assert engine.step == option.run.train.steps


# --- the law and the text ------------------------------------------------------------------------------------------


def loss(name="medium", tokens=10**6, batch_tokens=1536, train_bytes=10**6, dropout=0.0, hardness=2.0):
    return end_loss(LAW, name, tokens, batch_tokens, dropout, TextFacts(train_bytes, hardness))


def test_the_law_says_what_its_numbers_say():
    slope = 0.3 * known_size("small")[0] ** 0.3 * STEEPEST  # of so much text
    plenty = 10**15
    recipe = known_size("small")[1]
    worth = 1 + recipe / 10000
    for tokens in (10**6, 4 * 10**6):
        expected = FLOOR + 1.15 * (tokens / 1e6 / worth) ** -slope
        assert loss("small", tokens, recipe, plenty) == pytest.approx(expected)
    twice = loss("small", 2 * 10**6, 10000, plenty)
    assert twice == pytest.approx(FLOOR + 1.15)  # a critical batch is worth half its tokens
    assert loss("small", 10**6, recipe // 4, plenty) > 1.02 * loss("small", 10**6, recipe, plenty)
    assert loss(dropout=0.15, train_bytes=plenty) == pytest.approx(1.03 * loss(train_bytes=plenty))


def test_reading_a_text_again_helps_less_and_less_and_then_not_at_all():
    losses = [loss(tokens=tokens, train_bytes=10**5) for tokens in (10**5, 10**6, 5 * 10**6, 10**9)]
    assert losses[0] > losses[1] > losses[2] and losses[3] > losses[2]
    assert loss(tokens=10**7, train_bytes=10**5, dropout=0.15) < loss(tokens=10**7, train_bytes=10**5)
    assert loss(tokens=10**7, train_bytes=10**7) < loss(tokens=10**7, train_bytes=10**6)


def test_harder_texts_are_higher_and_fall_less():
    """The exponent keeps within what was tried."""
    plenty = 10**15
    law = LAW._replace(sizes={"medium": 1.0}, exponent=(0.3, 0.3, 0.0), batch=(1e15, 0.0))

    def height(hard, tokens):
        return end_loss(law, "medium", tokens, 1536, 0.0, TextFacts(plenty, hard)) - FLOOR * hard / 2

    assert [height(hard, 10**6) for hard in (1.0, 2.0, 3.0)] == pytest.approx([0.5, 1.0, 1.5])
    falls = [-math.log10(height(hard, 10**7) / height(hard, 10**6)) for hard in (0.5, 1.0, 1.6, 2.0, 2.2, 20.0)]
    usual = falls[3]
    assert [fall / usual for fall in falls[:5]] == pytest.approx([1.5, 1.5, 1.25, 1.0, 1 / 1.1])


def test_a_prediction_is_of_the_run_as_it_is_and_has_a_range():
    run = preset("medium", "modern").replace(steps=2000, batch=8, grad_accum=4, dropout=0.1)
    prediction = predict(LAWS, "medium", run, TEXT)
    assert prediction.loss == loss(tokens=2000 * 8 * 4 * 96, batch_tokens=8 * 4 * 96, dropout=0.1)
    assert (prediction.low, prediction.high) == pytest.approx((0.97 * prediction.loss, 1.03 * prediction.loss))


def test_hardness_is_the_loss_of_what_follows_what():
    text = b"".join(b"%d bottles of beer on the wall, %d bottles of beer.\n" % (n * n % 89, n) for n in range(9000))
    noise = bytes(n * 2654435761 % 2**32 >> 24 for n in range(1, 40000))
    assert 0.0 < hardness(text[:100000], text[100000:120000]) < 1.0
    assert hardness(noise, noise[::-1]) > 5.0
    assert hardness(text[:5000], text[100000:]) > hardness(text[:100000], text[100000:])
    assert hardness(text[: 2 * LEARNED], b"ab") == pytest.approx(5.545, abs=1e-3)  # too short to say anything


def test_hardness_by_hand():
    """Held out is `aaab`: only the last byte is predicted from three. In `aaaa` an `a` follows every context."""
    chance = 1 / 256
    for seen in (4, 3, 2, 1):  # a's behind contexts of 0 to 3 bytes
        chance = (0 + 1 * chance) / (seen + 1)
    assert hardness(b"aaaa", b"aaab") == pytest.approx(-math.log(chance))
