"""What core asks of a player: the rates it writes, the ring it reads, stops, padding, memory that grows."""

import struct

import pytest
from fake_player import fake_engine

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.engine.program_engine import UNPLANNED
from tinygpt.core.engine.rate import HEARD, Rate
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import all_modes, training_modes
from tinygpt.core.ops.record import RING
from tinygpt.core.optimizers import OPTIMIZERS
from tinygpt.core.optimizers.adamw import rates_of
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import preset
from tinygpt.core.train.validation import validate

SIZES = {"layers": 1, "d_model": 10, "heads": 2, "ctx": 9, "batch": 2, "eval_batches": 3}
CONFIG = preset("tiny").replace(**SIZES, schedule="cosine", warmup=5, steps=400)
TEXT = bytes(byte % 251 for byte in range(1000))


def loaded(config=CONFIG, text=TEXT):
    engine = fake_engine(config)
    run_now(engine.load_corpus(text, text[500:]))
    return engine


@pytest.mark.parametrize("block", [1, 7, RING - 1, RING])
def test_every_step_finds_its_rates_and_its_metrics_are_read_once(block):
    engine, metrics = loaded(), []
    while engine.step < 200:
        assert run_now(engine.train(block)) == block
        metrics += run_now(engine.read_metrics())
    assert [tuple(row) for row in metrics] == [(n, float(n), 2.0 * n) for n in range(1, engine.step + 1)]
    for step, found in engine.player.rates:
        wanted = struct.unpack("<3f", struct.pack("<3f", *rates_of(CONFIG.train, step)))
        assert tuple(found) == wanted, step
    assert run_now(engine.read_metrics()) == []


def test_a_player_that_answers_ahead_is_asked_for_more_before_it_is_waited_for():
    engine = loaded()
    engine.player.ahead = True
    metrics, player = [], engine.player
    assert run_now(engine.train(RING)) == RING
    for _ in range(3):
        assert run_now(engine.train(RING)) == RING
        metrics += run_now(engine.read_metrics(1))
    assert player.log[-6:] == ["train", "read", "train", "read", "train", "read"]
    metrics += run_now(engine.read_metrics())
    assert [tuple(row) for row in metrics] == [(n, float(n), 2.0 * n) for n in range(1, 4 * RING + 1)]
    run_now(engine.train(5))
    run_now(engine.set_step(2))  # what was under way is another run's
    run_now(engine.train(3))
    assert [row.step for row in run_now(engine.read_metrics())] == [3, 4, 5]


def test_no_more_steps_are_asked_for_than_the_ring_has_room_for():
    engine = loaded()
    assert run_now(engine.train(40)) == 40
    assert run_now(engine.train(40)) == RING - 40
    assert run_now(engine.train(40)) == 0
    assert len(run_now(engine.read_metrics())) == RING
    assert run_now(engine.train(40)) == 40


def test_a_player_that_stops_early_has_done_as_many_as_it_says():
    engine = loaded()
    engine.player.left = 5
    assert run_now(engine.train(20)) == 5
    assert [row.step for row in run_now(engine.read_metrics())] == [1, 2, 3, 4, 5]
    engine.player.left = None
    assert run_now(engine.train(2)) == 2
    assert [row.step for row in run_now(engine.read_metrics())] == [6, 7]


@pytest.mark.parametrize("left, done", [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2)])
def test_a_step_of_several_batches_that_is_stopped_is_dropped_whole(left, done):
    engine = loaded(CONFIG.replace(grad_accum=2))
    engine.player.left = left
    assert run_now(engine.train(2)) == done
    assert engine.player.get("counters", 0) == done and engine.player.get("counters", 1) == 0
    assert len(run_now(engine.read_metrics())) == done


def test_a_stop_between_two_runs_of_a_step_is_heard():
    engine = loaded(CONFIG.replace(grad_accum=2))
    run, player = engine.player.run, engine.player

    async def stopped_behind(mode, times):
        done = await run(mode, times)
        if mode == "gradient" and player.get("counters") == 3:
            engine.stop()
        return done

    player.run = stopped_behind
    assert run_now(engine.train(10)) == 3
    player.run = run
    assert run_now(engine.train(1)) == 1  # a stop is for one block


@pytest.mark.parametrize("heard_by", ["player", "host"])
def test_a_validation_that_is_stopped_has_no_loss_and_the_next_one_begins_anew(heard_by):
    engine, asked = loaded(), []
    player = engine.player
    player.left = 2 if heard_by == "player" else None
    rate = Rate()
    rate.add(1, HEARD / (3 if heard_by == "player" else 2))  # so many batches are a part

    async def stops(halted=False):
        asked.append(halted)
        return halted or heard_by == "host"

    assert run_now(validate(engine, stops, lambda: 0.0, rate)) is None
    assert asked == [heard_by == "player"]
    assert player.get("counters", 2) == 2
    player.left = None
    assert run_now(validate(engine)) == 0.75
    assert player.get("counters", 2) == CONFIG.train.eval_batches


def test_the_texts_and_a_validation_from_its_start():
    engine = loaded()
    at = engine.player.start("train_text")
    assert bytes(engine.player.memory[at : at + len(TEXT)]) == TEXT
    for _ in range(2):
        assert run_now(validate(engine)) == 0.75
        assert engine.player.get("counters", 2) == 3


def test_windows_are_padded_with_zeros():
    engine = loaded()
    run_now(engine.window_losses([bytes([1] * 10), bytes([2] * 10)]))
    losses = run_now(engine.window_losses([bytes([3, 4, 5]), bytes([6, 7, 8]), bytes([9, 10, 11])]))
    assert losses == [[3 + 4 / 256, 4 + 5 / 256], [6 + 7 / 256, 7 + 8 / 256], [9 + 10 / 256, 10 + 11 / 256]]
    tokens = [engine.player.get("tokens", i) for i in range(18)]
    assert tokens == [9, 10] + [0] * 16  # the last batch has one window


def test_bytes_come_as_they_are_drawn_until_the_text_is_over():
    engine = loaded()
    settings = SampleConfig(temperature=0.5, top_k=7, top_p=0.25, seed=2**32 - 1)
    assert run_now(engine.begin_text(b"abc", settings, 11, b"H\xff")) == b"C"
    assert [engine.player.get("choice", i) for i in (0, 1, 4)] == [-1, 11, 7]
    assert run_now(engine.continue_text(2)) == b"DE"
    assert run_now(engine.continue_text(3)) == b"FGH"
    assert run_now(engine.continue_text(1)) == b""  # H has ended it
    assert run_now(engine.begin_text(b"abcdefgh", settings, 0, b"")) == b"H"
    assert run_now(engine.continue_text(5)) == b"I"  # there is room for one
    engine.player.no_numbers = True
    with pytest.raises(TinyGPTError, match="logits are not finite"):
        run_now(engine.begin_text(b"a", settings, 0, b""))


def test_memory_grows_by_what_is_asked_for_and_what_lives_in_it_lives_on():
    engine = fake_engine(CONFIG)
    run_now(engine.begin_text(b"ab", SampleConfig(), 0, b""))
    writing = engine.player
    assert engine.lowered.modes == ["prefill", "decode", "init"] and writing.asked[0] == ("init", 1)
    run_now(engine.window_losses([b"abc"]))
    run_now(engine.load_corpus(TEXT, TEXT[500:]))
    assert writing.closed and engine.lowered.modes == [*training_modes(CONFIG, 500), "init", "eval"]
    assert ("init", 1) not in engine.player.asked and engine.player.get("weights", 0, "f") == 1.5
    run_now(engine.train(3))
    training = engine.player
    run_now(engine.window_losses([b"abc"]))
    assert engine.player is training  # it had been asked for before
    run_now(engine.require(["train_fed"]))
    assert training.closed and engine.player is not training and "train_fed" in engine.lowered.modes
    assert engine.player.get("counters") == 3 and run_now(engine.train(1)) == 1
    assert [row.step for row in run_now(engine.read_metrics())] == [1, 2, 3, 4]


def test_a_player_that_cannot_be_had_leaves_the_one_before():
    engine = loaded()
    run_now(engine.train(2))
    before, opened = engine.player, engine.machine.open

    async def broken(lowered):
        player = await opened(lowered)

        async def fails(places, data):
            raise TinyGPTError("no memory")

        player.write = fails
        return player

    engine.machine.open = broken
    with pytest.raises(TinyGPTError, match="no memory"):
        run_now(engine.window_losses([b"abc"]))
    assert engine.player is before and not before.closed and engine.machine.opened[-1].closed
    assert run_now(engine.train(1)) == 1


def test_a_text_beyond_what_a_program_counts_is_refused():
    class Long(bytes):
        def __len__(self):
            return 2**31

    with pytest.raises(TinyGPTError, match="more than 2,147,483,647 bytes"):
        loaded(text=Long())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", UNPLANNED)
def test_no_program_knows_what_may_change_with_a_restart(name, optimizer):
    config = CONFIG.replace(optimizer=optimizer, dropout=0.1)
    value = {"schedule": "constant"}.get(name, 1)
    other = config.replace(**{name: value})
    assert other != config
    programs = [Lowered(each, [*all_modes(each), "reset"], 1000, 500).playbook() for each in (config, other)]
    assert programs[0] == programs[1]
    assert loaded(config).serves(other)


@pytest.mark.parametrize("change", [{"seed": 2}, {"eval_batches": 4}, {"batch": 3}, {"eval_every": 0}], ids=str)
def test_settings_of_other_programs_need_an_engine_of_their_own(change):
    engine = loaded()
    assert not run_now(engine.restart(CONFIG.replace(**change)))
    assert engine.config == CONFIG
