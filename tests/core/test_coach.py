"""The coach: silent for sound runs, one sentence for those that are broken on purpose."""

import math

import numpy as np
import pytest

from tinygpt.core.advice.band import band_of
from tinygpt.core.advice.coach import Coach
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.core.train.host import Host
from tinygpt.core.train.trainer import Trainer
from tinygpt.data import load_corpus
from tinygpt.engines.native import native_engine

SMALL = preset("small", "modern")
TEXT = 1_000_000


def sound(step):
    return 1.6 + 3.9 * math.exp(-step / 80) + 0.05 * math.sin(7 * step)


def follow(coach, losses, norms=None, first=1):
    said = []
    for i, loss in enumerate(losses):
        said.append(coach.step(first + i, loss, norms[i] if norms else 1.0))
    return [advice for advice in said if advice is not None]


def only(said, kind, *words):
    assert [advice[0] for advice in said] == [kind]
    for word in words:
        assert word in said[0][1]


def test_a_sound_run_hears_nothing():
    coach = Coach(SMALL, TEXT, band=lambda tokens: (1.0, 4.0))
    assert not follow(coach, [sound(step) for step in range(1500)], [3 * math.exp(-i / 300) + 0.5 for i in range(1500)])
    assert not [advice for step in range(100, 1500, 100) if (advice := coach.validated(step, sound(step) + 0.1))]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": 1e-6, "matrix_lr": 1e-6}, ["far below the usual", "lr 0.005, matrix_lr 0.02"]),
        ({"matrix_lr": 5.0}, ["far above the usual", "matrix_lr 0.02"]),
        ({}, ["random bytes cannot be learned"]),
    ],
)
def test_a_loss_that_does_not_move(changes, words):
    said = follow(Coach(SMALL.replace(**changes), TEXT), [5.54 - 0.0001 * i for i in range(400)])
    only(said, "flat", "hardly moved from 5.54", *words)


def test_a_loss_that_rises_again():
    losses = [sound(step) for step in range(300)] + [sound(300) + 0.02 * i for i in range(100)]
    only(follow(Coach(SMALL, TEXT), losses), "rising", "try a lower rate, as lr 0.0017")


def test_a_gradient_that_explodes():
    norms = [1.0] * 300 + [40.0] * 100
    losses = [sound(step) for step in range(300)] + [sound(300) + 0.2] * 100
    only(follow(Coach(SMALL, TEXT), losses, norms), "norm", "grown to 40")
    said = follow(Coach(SMALL.replace(grad_clip=0), TEXT), losses, norms)
    only(said, "norm", "turn clipping on")


@pytest.mark.parametrize(("lr", "kind", "word"), [(2e-4, "low rate", "is low"), (0.1, "high rate", "is high")])
def test_a_run_above_the_band_of_sound_ones(lr, kind, word):
    run = SMALL.replace(lr=lr)
    slow = [2.8 + 2.5 * math.exp(-step / 200) for step in range(300)]
    only(follow(Coach(run, TEXT, band=lambda tokens: (1.7, 2.3)), slow), kind, word, "have 1.70 to 2.30")
    assert not follow(Coach(SMALL, TEXT, band=lambda tokens: (1.7, 2.3)), slow)  # a hard text, perhaps


def test_overfitting_is_told_with_what_would_help():
    for text, word in ((TEXT, "dropout, more text"), (20_000, "has been read 36 times")):
        coach = Coach(SMALL, text)
        follow(coach, [sound(step) for step in range(1, 501)])
        assert coach.validated(500, 1.9) is None
        follow(coach, [1.3] * 200, first=501)
        assert coach.validated(600, 2.0) is None  # one may be chance
        said = coach.validated(700, 2.1)
        only([said], "overfitting", "2.10, up from 1.90", word)
        assert coach.validated(800, 2.3) is None  # it has been said


def test_a_text_that_repeats_itself():
    coach = Coach(SMALL, TEXT, band=lambda tokens: (1.7, 2.5))
    only([coach.validated(100, 0.2)], "repeating", "give a text of its own to validate on")
    assert Coach(SMALL, TEXT).validated(100, 0.2) is None


SHORT = 200_000  # bytes, as texts are here


class Listener(Host):
    def __init__(self):
        self.advice, self.evals = [], []

    def now(self):
        return 0.0

    def emit(self, event):
        if event["event"] == "advice":
            self.advice.append(event)
        elif event["event"] == "eval":
            self.evals.append(event)

    def keeps(self, kind):
        return False


def trained(run, text):
    """What was heard of a real run."""
    engine, listener = native_engine(run, threads=1), Listener()
    cut = len(text) * 9 // 10
    run_now(engine.load_corpus(text[:cut], text[cut:]))
    coach = Coach(run, cut, band=band_of(run, cut))
    run_now(Trainer(run, engine, listener, cut, len(text) - cut, coach=coach).run())
    run_now(engine.close())
    return listener


def train(run, text):
    return [advice["kind"] for advice in trained(run, text).advice]


def made_up(sentences, seed=1):
    """A text with something to learn: words of a small language, in an order of its own."""
    random = np.random.default_rng(seed)
    words = ["".join(random.choice(list("abcdefghijklmno"), random.integers(2, 7))) for _ in range(300)]
    return " ".join(words[i] for i in random.zipf(1.3, 8 * sentences) % 300).encode()


@pytest.mark.parametrize("recipe", ["modern", "classic"])
def test_real_runs_that_are_sound(recipe):
    run = preset("tiny", recipe, SHORT).replace(steps=240, eval_every=60, sample_every=0)
    assert train(run if recipe == "modern" else run.replace(lr=2e-3), made_up(4000)) == []


def test_a_validation_tells_what_is_normal_by_then():
    run = preset("tiny", "modern", SHORT).replace(steps=200, eval_every=50, sample_every=0)
    heard = trained(run, load_corpus("shakespeare").text[:200_000])
    assert not heard.advice
    assert ["band" in event for event in heard.evals] == [False, True, True, True]
    assert all(event["band"][0] < event["val_loss"] < event["band"][1] for event in heard.evals[1:])


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"lr": 1e-4, "matrix_lr": 4e-4}, "low rate", "try lr 0.005, matrix_lr 0.02"),
        ({"dropout": 0.8}, "above", "dropout 0.8 leaves out much, try 0"),
        ({"weight_decay": 8.0}, "above", "weight_decay 8 is high, try 0.1"),
    ],
)
def test_real_runs_above_the_band(changes, kind, words):
    run = preset("tiny", "modern", SHORT).replace(steps=300, sample_every=0, **changes)
    (advice,) = trained(run, load_corpus("shakespeare").text[:200_000]).advice
    assert advice["kind"] == kind and "where runs like this one have" in advice["text"] and words in advice["text"]


@pytest.mark.parametrize(
    ("changes", "sentences", "kind"),
    [
        ({"lr": 1e-7, "matrix_lr": 1e-7, "steps": 200}, 4000, "flat"),
        ({"steps": 900, "eval_every": 75}, 12, "overfitting"),
    ],
)
def test_real_runs_that_are_broken(changes, sentences, kind):
    run = preset("tiny", "modern", SHORT).replace(sample_every=0, **changes)
    assert train(run, made_up(sentences))[:1] == [kind]


def test_bytes_at_random_are_no_text():
    run = preset("tiny", "modern", SHORT).replace(steps=200, sample_every=0)
    assert train(run, np.random.default_rng(0).integers(0, 256, 40_000, dtype=np.uint8).tobytes())[:1] == ["flat"]
