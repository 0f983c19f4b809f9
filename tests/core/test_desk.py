"""Several texts at once, on engines that know how much room there is: each is the one that is written alone."""

import random

import pytest
from toy import ToyEngine

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import NotFinite
from tinygpt.core.presets import preset
from tinygpt.core.write.desk import Desk
from tinygpt.core.write.sampler import generate


class ToyRows:
    """An engine per text, of which none may be asked for more than its window has room for."""

    def __init__(self, ctx):
        self.config = preset("tiny").replace(ctx=ctx)
        self.engines, self.asked = [], []
        self.no_numbers = None  # the prompt behind which there are none

    async def make_room(self, texts):
        assert not self.engines
        self.engines = [None] * texts

    async def begin_text(self, window, settings, first, stop, row=0):
        if window == self.no_numbers:
            raise NotFinite("no numbers")
        self.engines[row] = ToyEngine()
        return await self.engines[row].begin_text(window, settings, first, stop)

    async def continue_texts(self, count):
        self.asked.append(count)
        texts = [engine for engine in self.engines if engine]
        # the newest byte is not read yet
        assert texts and all(len(text.tokens) - 1 + count <= self.config.model.ctx for text in texts)
        return [await engine.continue_text(count) if engine else b"" for engine in self.engines]

    async def drop_text(self, row):
        self.engines[row] = None


def alone(ctx, prompt, settings, stops=()):
    return run_now(generate(ToyEngine(), ctx, prompt, settings, stops))


@pytest.mark.parametrize("rows, ctx", [(1, 8), (2, 2), (3, 1), (3, 8), (4, 40)])
def test_texts_are_those_written_alone_whoever_comes_and_goes(rows, ctx):
    wish = random.Random(rows * ctx)
    desk, texts, left = Desk(ToyRows(ctx), rows), [], []
    said = {}
    for turn in range(400):
        if turn < 40 and wish.random() < 0.4:
            settings = SampleConfig(tokens=wish.randint(1, 60), seed=turn)
            prompt = bytes(wish.choices(b"abc", k=wish.randint(0, 12)))
            stops = tuple(wish.sample([bytes([byte]) for byte in range(256)], 2)) if wish.random() < 0.3 else ()
            texts.append((desk.join(prompt, settings, stops), alone(ctx, prompt, settings, stops)))
        if texts and turn < 40 and wish.random() < 0.1:
            left.append(wish.choice(texts)[0])
            desk.leave(left[-1])
        seated = [ticket for ticket, _ in texts if not ticket.ended][:rows]
        before = {ticket: len(ticket.out) for ticket in seated}
        for ticket, made in run_now(desk.more()).items():
            said[ticket] = said.get(ticket, b"") + made
        assert all(len(ticket.out) > before[ticket] for ticket in seated)  # first come, first served; none is starved
    assert desk.empty() and len(texts) > 3 * rows > 0 and left
    for ticket, whole in texts:
        assert ticket.ended and ticket.out == said.get(ticket, b"")
        assert ticket.out == (whole if ticket not in left else whole[: len(ticket.out)])


def test_texts_that_take_turns_on_a_row_are_those_written_alone():
    desk, settings = Desk(ToyRows(8), 1), SampleConfig(tokens=50)
    texts = [desk.join(prompt, settings) for prompt in (b"first", b"second", b"third")]
    rested, together = [], 0
    while not desk.empty():
        run_now(desk.more())
        together = max(together, len([text for text in texts if text.out and not text.ended]))
        for ticket in rested:
            desk.resume(ticket)
        rested = [ticket for ticket in desk.seats if ticket is not None and ticket.full()]
        for ticket in rested:
            desk.rest(ticket)
    assert together == 3
    assert [text.out for text in texts] == [alone(8, prompt, settings) for prompt in (b"first", b"second", b"third")]


def test_a_text_that_cannot_go_on_is_told_and_the_others_go_on():
    engine = ToyRows(16)
    engine.no_numbers = b"bad"
    desk, settings = Desk(engine, 3), SampleConfig(tokens=9)
    good, bad = desk.join(b"good", settings), desk.join(b"bad", settings)
    while not desk.empty():
        made = run_now(desk.more())
        if bad in made:
            assert made[bad] == b""
    assert bad.ended and bad.problem == "no numbers" and bad.out == b""
    assert good.out == alone(16, b"good", settings) and not good.problem


def test_with_a_clock_texts_flow_in_blocks_of_a_twentieth_of_a_second():
    engine, clock = ToyRows(300), [0.0]
    go_on = engine.continue_texts

    async def timed(count):
        clock[0] += 0.012 * count
        return await go_on(count)

    engine.continue_texts = timed
    desk = Desk(engine, 2, now=lambda: clock[0])
    text = desk.join(b"a", SampleConfig(tokens=30))
    while not desk.empty():
        run_now(desk.more())
    assert engine.asked[:3] == [1, 4, 4] and max(engine.asked) == 4 and len(text.out) == 30
