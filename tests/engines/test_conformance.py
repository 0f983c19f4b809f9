"""What every engine does, held to the specification in float64, to PyTorch and to itself.

An engine's own tests are beside this file, in tests/wasm, tests/webgpu and tests/reference.
"""

import math
import threading
import time

import numpy as np
import pytest
import torch
from engine_lab import (
    BRIEF,
    NAMES,
    TEXT,
    THREADED,
    Lab,
    assert_like_the_reference,
    bytes_of,
    loaded,
    named,
    rounding,
    state_of,
    trained,
    uneven,
)

from tinygpt.core.config import VOCAB, SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.train.validation import validate
from tinygpt.core.write.desk import Desk
from tinygpt.core.write.sampler import generate
from tinygpt.engines.base import State
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.model import GPT

# What models are made of that the other tests' have not.
OPTIONS = {"norm": "rmsnorm", "activation": "swiglu", "biases": "off", "tied_head": "off", "qk_norm": "on"}
OPTIONS |= {"norm_place": "post", "positions": "alibi", "logit_cap": 2.0, "label_smoothing": 0.1, "kv_heads": 1}
OPTIONS["eps"] = 1e-3  # else AdamW makes whole steps of gradients that are mere rounding


@pytest.fixture(scope="module", params=named(NAMES))
def lab(request):
    made = Lab(request.param, request)
    yield made
    made.close()


programmed = pytest.mark.parametrize("lab", named([name for name in NAMES if name != "torch"]), indirect=True)
# Where software compiles or interprets for long.
long_in_software = pytest.mark.parametrize("lab", named(NAMES, slow=[*BRIEF, "webgpu", "spec"]), indirect=True)
journey = pytest.mark.parametrize("lab", named(NAMES, slow=["webgpu-chromium", "webgpu-even"]), indirect=True)
on_most = pytest.mark.parametrize("lab", named(NAMES, slow=["webgpu-chromium"]), indirect=True)
without_webgpu = pytest.mark.parametrize("lab", named(NAMES, slow=[*BRIEF, "webgpu"]), indirect=True)

# --- training ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_it_starts_from_the_bytes_of_the_specification(lab, seed):
    state = state_of(lab.new(seed=seed))
    assert state.step == 0
    assert state.w.tobytes() == initial_weights(lab.config().model, seed).tobytes()


@long_in_software
def test_the_overfit_gate(lab):
    """One batch of random bytes whose windows begin differently: a model that can learn, learns it by heart."""
    engine = lab.new(**lab.gate)
    rows, ctx = engine.config.train.batch, engine.config.model.ctx
    text = np.random.default_rng(0).integers(0, 256, (rows, ctx + 1), dtype=np.uint8)
    text[:, 0] = np.arange(rows)
    losses = [math.inf]
    while len(losses) <= 150 and losses[-1] >= 0.01:
        for _ in range(30):
            run_now(engine.train_fed([row.tobytes() for row in text]))
        losses += [metrics.loss for metrics in run_now(engine.read_metrics())]
    assert 5.4 < losses[1] < 5.7
    assert losses[-1] < 0.01


@journey
def test_it_trains_and_validates_as_the_specification_does(lab):
    engine = lab.engine()
    metrics, state = trained(engine, lab.steps), state_of(engine)
    expected, reached, validation = lab.reference(lab.steps)
    assert_like_the_reference(metrics, state, expected, reached)
    whole = run_now(validate(engine))
    assert whole == pytest.approx(validation, rel=2e-6)
    assert [run_now(engine.validate(batch, 1)) for batch in (0, 0, 1)] == [1, 1, 1]  # the first is dropped
    assert run_now(engine.read_validation()) == whole
    assert bytes_of(state_of(engine)) == bytes_of(state)
    assert metrics[-1].loss < metrics[0].loss - 0.1  # it did train
    if engine.ahead:
        run_now(engine.validate(0, 2))
        begun = engine.begin_validation()
        run_now(engine.train(1))
        assert run_now(engine.end_validation(begun)) == whole


@long_in_software
def test_accumulated_batches_are_one_large_batch(lab):
    engine = lab.engine(grad_accum=3, grad_clip=0.0)
    metrics, state = trained(engine, 5, block=2), state_of(engine)
    expected, reached, _ = lab.reference(5, batch=3 * engine.config.train.batch, grad_clip=0.0)
    assert_like_the_reference(metrics, state, expected, reached)


@without_webgpu
@pytest.mark.parametrize("changes", [{}, {"grad_accum": 3, "grad_clip": 0.0}], ids=["limit", "no limit"])
def test_gradients_are_clipped_to_the_limit_or_not_at_all(lab, changes):
    """After one step AdamW's first moment is (1 - beta1) times the gradient that it was given."""
    engine = lab.engine(**changes)
    train, ((_, _, norm),) = engine.config.train, trained(engine, 1)
    assert norm > 1.2
    given = np.linalg.norm(state_of(engine).slots["m"].astype(np.float64)) / (1 - train.beta1)
    assert given == pytest.approx(train.grad_clip or norm, rel=1e-5)


@on_most
def test_a_run_goes_on_to_the_bit_whatever_its_blocks_and_wherever_it_is_resumed(lab):
    straight = lab.engine()
    before, state, behind = trained(straight, 4, block=1), state_of(straight), trained(straight, 5, block=5)
    after = bytes_of(state_of(straight))
    assert state.step == 4

    again = lab.engine()
    assert trained(again, 9, block=4) == before + behind
    assert bytes_of(state_of(again)) == after
    run_now(again.import_state(state))
    assert trained(again, 5, block=2) == behind
    assert bytes_of(state_of(again)) == after

    fresh = loaded(lab.new(state))
    assert bytes_of(state_of(fresh)) == bytes_of(state)
    assert trained(fresh, 5) == behind
    assert bytes_of(state_of(fresh)) == after

    idle = lab.new()
    run_now(idle.import_state(state))  # before it has memory
    assert idle.step == state_of(idle).step == state.step


@long_in_software
def test_muon_steps_as_the_specification_does_and_goes_on_to_the_bit(lab):
    changes = {"optimizer": "muon", "weight_decay": 0.3, "ns_steps": 6, "grad_accum": 2}
    engine = lab.engine(**changes)
    before, middle = trained(engine, 3), state_of(engine)
    behind, state = trained(engine, 5), state_of(engine)
    expected, reached, _ = lab.reference(8, **changes)
    assert_like_the_reference(before + behind, state, expected, reached)
    run_now(engine.import_state(middle))
    assert trained(engine, 5, block=2) == behind
    assert bytes_of(state_of(engine)) == bytes_of(state)


def test_options_train_and_write_as_the_specification_does(lab):
    engine, (expected, reached, validation) = lab.engine(**OPTIONS), lab.reference(3, **OPTIONS)
    metrics, state = trained(engine, 3), state_of(engine)
    assert_like_the_reference(metrics, state, expected, reached)
    assert run_now(validate(engine)) == pytest.approx(validation, rel=2e-6)
    uneven_state, logits = uneven(engine.config), []
    run_now(engine.import_state(uneven_state))
    for each in (engine, spec_engine(engine.config, uneven_state, dtype=np.float64)):
        logits.append([run_now(each.prefill(TEXT[:3])), *[run_now(each.decode(byte)) for byte in TEXT[3:7]]])
    np.testing.assert_allclose(logits[0], logits[1], rtol=0, atol=1e-5 * np.abs(logits[1]).max())


def test_a_restart_is_a_new_model(lab):
    engine = lab.engine()
    first = trained(engine, 2)
    assert run_now(engine.restart())
    start = state_of(engine)
    assert start.step == 0 and start.w.tobytes() == initial_weights(lab.config().model, 1337).tobytes()
    assert not any(slot.any() for slot in start.slots.values())
    assert trained(engine, 2) == first


@without_webgpu
@pytest.mark.parametrize("planned", [{}, {"average": 0.5}], ids=["plain", "averaged"])
def test_a_restart_under_other_rates_is_a_run_of_its_own(lab, planned):
    changes = {**planned, "lr": 1e-2, "schedule": "constant", "warmup": 1, "steps": 3, "eval_every": 7}
    engine, wanted = loaded(lab.new(**planned)), loaded(lab.new(**changes))
    trained(engine, 2)
    assert run_now(engine.restart(lab.config(**changes)))
    assert trained(engine, 3) == trained(wanted, 3)
    assert run_now(validate(engine)) == run_now(validate(wanted))
    assert bytes_of(state_of(engine)) == bytes_of(state_of(wanted))
    before = bytes_of(state_of(engine))
    for other in ({"batch": 1}, {"beta2": 0.5}, {"heads": 1}, {"optimizer": "sgd"}):
        assert not run_now(engine.restart(lab.config(**{**changes, **other})))
    assert bytes_of(state_of(engine)) == before


def test_a_state_moves_to_another_engine(lab):
    engine = lab.engine()
    trained(engine, 3)
    other = loaded(native_engine(engine.config, state_of(engine), threads=1))
    losses = [[row.loss for row in trained(one, 3)] for one in (engine, other)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-6)


def test_a_state_without_moments_begins_anew_and_nothing_is_drawn(lab):
    w = np.linspace(-1, 1, state_of(lab.new()).w.size, dtype=np.float32)
    assert np.array_equal(state_of(lab.new(State(7, w))).w, w)
    engine = lab.engine()
    trained(engine, 2)
    run_now(engine.import_state(State(7, w)))
    state = state_of(engine)
    assert state.step == 7 and np.array_equal(state.w, w)
    assert len(state.slots) == 2 and not any(slot.any() for slot in state.slots.values())


@without_webgpu
def test_what_is_done_between_steps_leaves_them_alone(lab):
    engine = lab.engine()
    expected = trained(engine, 6)
    engine, metrics = lab.engine(), []
    for _ in range(3):
        assert run_now(engine.train(2)) == 2
        run_now(engine.validate(0, 1))
        run_now(engine.window_losses([TEXT[:5]]))
        run_now(engine.likeliest_bytes([TEXT[:5], TEXT[:3]]))
        run_now(engine.begin_text(b"a", SampleConfig(), 0, b""))
        metrics += run_now(engine.read_metrics())
    assert metrics == expected


@without_webgpu
@pytest.mark.parametrize("where", ["w", "m"])
def test_a_weight_that_is_no_number_shows(lab, where):
    engine = lab.engine()
    trained(engine, 1)
    state = state_of(engine)
    bad = {"w": state.w, **state.slots}[where].copy()
    bad[len(bad) // 2] = np.nan
    spoiled = state._replace(w=bad) if where == "w" else state._replace(slots={**state.slots, where: bad})
    run_now(engine.import_state(spoiled))
    first, second = trained(engine, 2)
    assert math.isnan(first.loss) == (where == "w")
    assert math.isnan(second.loss) and math.isnan(second.grad_norm)
    for said in (engine.begin_text(b"a", SampleConfig(), 0, b""), engine.likeliest_bytes([b"a"])):
        with pytest.raises(TinyGPTError, match="logits are not finite"):
            run_now(said)


# --- measuring and writing -----------------------------------------------------------------------------------


def plain_losses(config, state, windows):
    """In float64, by PyTorch's own functions; and the largest logit."""
    tokens = torch.tensor([list(window) for window in windows])
    with torch.no_grad():
        logits = GPT(config.model, state.w).double()(tokens[:, :-1])
    losses = -torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None])[:, :, 0]
    return losses.numpy(), logits.abs().max().item()


def test_losses_of_any_windows_are_those_of_a_plain_pytorch_model(lab):
    engine = lab.engine()
    config, state = engine.config, uneven(engine.config)
    run_now(engine.import_state(state))
    batch, ctx = config.train.batch, config.model.ctx
    for B, T in [(1, 1), (1, ctx), (batch, 2), (batch + 1, ctx - 1), (3 * batch + 2, ctx), (2 * batch, 5)]:
        windows = [TEXT[i * (T + 1) : (i + 1) * (T + 1)] for i in range(B)]
        losses = run_now(engine.window_losses(windows))
        expected, largest_logit = plain_losses(config, state, windows)
        assert [len(row) for row in losses] == [T] * B
        np.testing.assert_allclose(losses, expected, rtol=0, atol=rounding(config, largest_logit))
    assert run_now(engine.window_losses([])) == []
    for wrong in ([b"a"], [b"a" * (ctx + 2)], [b"abc", b"ab"]):
        with pytest.raises(TinyGPTError, match=f"rows of 2 to {ctx + 1} bytes"):
            run_now(engine.window_losses(wrong))


def test_the_likeliest_bytes_are_those_that_it_would_write(lab):
    """Behind every byte, in windows of unequal length."""
    engine = lab.engine()
    run_now(engine.import_state(uneven(engine.config)))
    batch, ctx = engine.config.train.batch, engine.config.model.ctx
    windows = [TEXT[7 * i :][:length] for i, length in enumerate([ctx, 1, *range(2, 2 + batch)])]
    found = run_now(engine.likeliest_bytes(windows))
    assert [len(best) for best in found] == [len(window) for window in windows]
    for window, best in zip(windows, found, strict=True):
        for length in {1, len(window) // 2 + 1, len(window)}:
            logits = run_now(engine.prefill(window[:length]))
            assert best[length - 1] == max(range(VOCAB), key=logits.__getitem__)
    assert run_now(engine.likeliest_bytes([])) == []
    for wrong in (b"", b"a" * (ctx + 1)):
        with pytest.raises(TinyGPTError, match=f"1 to {ctx} bytes"):
            run_now(engine.likeliest_bytes([b"a", wrong]))


@pytest.fixture
def writers(lab):
    """The engine and the specification, with the same uneven weights."""
    engine = lab.engine()
    state = uneven(engine.config)
    run_now(engine.import_state(state))
    return engine, spec_engine(engine.config, state, dtype=np.float64)


@on_most
def test_logits_are_the_specifications(writers):
    """Of prompts of any length, and of bytes that follow one; read at once or one by one, they are the same."""
    ctx, read, decoded = writers[0].config.model.ctx, [], []
    prompts = sorted({1, 7, 8, 9, ctx - 1, ctx}, reverse=True)
    for engine in writers:
        read.append(np.array([run_now(engine.prefill(TEXT[:prompt])) for prompt in prompts]))
        decoded.append(np.array([run_now(engine.decode(TEXT[i])) for i in range(1, ctx)]))
    bound = 1e-5 * np.abs(decoded[1]).max()
    np.testing.assert_allclose(decoded[0], decoded[1], rtol=0, atol=bound)
    np.testing.assert_allclose(read[0], read[1], rtol=0, atol=bound)
    np.testing.assert_allclose(read[0][:-1], decoded[0][[prompt - 2 for prompt in prompts[:-1]]], rtol=0, atol=bound)


@pytest.mark.parametrize(
    "settings",
    [
        SampleConfig(tokens=256, temperature=0.0),
        SampleConfig(tokens=100, temperature=1.0, seed=2**32 - 1),
        SampleConfig(tokens=100, temperature=1.3, top_k=40, top_p=0.9, seed=5),
    ],
    ids=["greedy", "sampled", "top"],
)
def test_text_is_the_specifications_far_beyond_the_context(writers, settings):
    made = [run_now(generate(engine, engine.config.model.ctx, b"To be", settings)) for engine in writers]
    assert len(made[0]) == settings.tokens
    assert made[0] == made[1]


def test_a_text_ends_behind_a_stop_and_comes_in_any_blocks(writers):
    engine, _ = writers
    settings = SampleConfig(tokens=200, temperature=1.0)
    ctx = engine.config.model.ctx
    text = run_now(generate(engine, ctx, b"To be", settings))
    middle = len(text) // 2
    for stops in ((text[middle : middle + 1], b"\0"), (text[middle : middle + 2], b"nowhere")):
        end = min(text.index(stop) + len(stop) for stop in stops if stop in text)
        assert run_now(generate(engine, ctx, b"To be", settings, stops)) == text[:end]
    parts = run_now(engine.begin_text(b"To be", settings, 0, b""))
    for count in (1, 2, ctx):  # no more than the window has room for
        parts += run_now(engine.continue_text(min(count, ctx - 4 - len(parts))))
    assert parts == text[: len(parts)] and len(parts) == ctx - 4


def test_texts_written_at_once_are_those_written_alone(writers):
    """Byte for byte on the same engine, beyond the context, while others come and go."""
    engine, ctx = writers[0], writers[0].config.model.ctx
    wishes = [
        (b"To be", SampleConfig(tokens=ctx + 9, temperature=0.0), ()),
        (TEXT[:ctx], SampleConfig(tokens=30, temperature=1.0, seed=2**32 - 1), ()),
        (b"", SampleConfig(tokens=ctx + 5, temperature=1.3, top_k=40, top_p=0.9, seed=5), (b"\0\1",)),
        (b"q", SampleConfig(tokens=4, seed=9), ()),
        (TEXT[5:11], SampleConfig(tokens=20, temperature=1.0, seed=1), ()),
    ]
    alone = [run_now(generate(engine, ctx, *wish)) for wish in wishes]
    desk = Desk(engine, 3)
    texts = [desk.join(*wish) for wish in wishes[:2]]
    run_now(desk.more())
    goes = desk.join(b"whoever", SampleConfig(tokens=50))
    texts += [desk.join(*wish) for wish in wishes[2:]]
    run_now(desk.more())
    desk.leave(goes)
    while not desk.empty():
        run_now(desk.more())
    run_now(engine.make_room(1))
    assert 0 < len(goes.out) < 50
    assert [text.out for text in texts] == alone
    assert run_now(generate(engine, ctx, *wishes[0])) == alone[0]


# --- threads and stops ---------------------------------------------------------------------------------------

threaded = pytest.mark.parametrize("lab", named(THREADED), indirect=True)


@threaded
def test_any_number_of_threads_gives_the_same_bytes(lab):
    results = []
    wide = [] if lab.name == "native" else [(2, True)]
    for threads, force64 in [(1, False), (2, False), (3, False), *wide]:
        engine = loaded(lab.new(threads=threads, force64=force64))
        metrics = trained(engine, 5)
        assert engine.threads == threads
        text = run_now(generate(engine, engine.config.model.ctx, b"a", SampleConfig(tokens=50)))
        results.append((metrics, bytes_of(state_of(engine)), run_now(validate(engine)), text))
    assert all(result == results[0] for result in results)


@threaded
@pytest.mark.parametrize("threads", [-1, 65])
def test_a_senseless_number_of_threads_is_refused(lab, threads):
    with pytest.raises(TinyGPTError, match="threads must be from 1 to 64"):
        lab.new(threads=threads)


def stopped(engine, steps, seconds):
    """Steps done of a block that another thread stops after some time."""
    done = []
    work = threading.Thread(target=lambda: done.append(run_now(engine.train(steps))))
    work.start()
    time.sleep(seconds)
    engine.stop()
    work.join(60)
    return done[0]


@threaded
@pytest.mark.parametrize("threads, grad_accum", [(1, 2), (3, 1)])
def test_a_stop_ends_a_block_and_drops_the_step_it_is_in(lab, threads, grad_accum):
    changes = {"batch": 128, "d_model": 60, "grad_accum": grad_accum}
    engine, straight = (loaded(lab.new(threads=threads, **changes)) for _ in range(2))
    began = time.perf_counter()
    metrics = trained(engine, 1)
    step = time.perf_counter() - began
    assert stopped(engine, 2000, 2 * step) < 2000  # far more than fit in, however slow the first one was
    metrics += run_now(engine.read_metrics())
    before = engine.step
    tries = 0
    while tries < 100 and stopped(engine, 1, step * (tries % 10) / 10):  # until one comes in the midst of a step
        tries += 1
    metrics += run_now(engine.read_metrics())
    state = state_of(engine)
    assert tries < 100 and state.step == engine.step == before + tries
    assert trained(straight, state.step) == metrics
    assert bytes_of(state_of(straight)) == bytes_of(state)
    assert trained(engine, 2) == trained(straight, 2)  # a stop is for one block


# --- failures ------------------------------------------------------------------------------------------------


def test_a_state_of_another_model_is_refused(lab):
    engine = lab.engine()
    wrong = State(0, np.zeros(state_of(engine).w.size + 1, dtype=np.float32))
    for give in (lambda: run_now(engine.import_state(wrong)), lambda: lab.new(wrong)):
        with pytest.raises(TinyGPTError, match=r"parameters, but this model has|of a model with other settings"):
            give()


@programmed
def test_what_no_program_can_do_is_refused_before_a_kernel_sees_it(lab):
    engine = lab.engine()
    ctx = engine.config.model.ctx
    for wrong in (b"", b"a" * (ctx + 1)):
        with pytest.raises(TinyGPTError, match=f"1 to {ctx} bytes, not {len(wrong)}"):
            run_now(engine.prefill(wrong))
    run_now(engine.prefill(b"a" * ctx))
    for token in (256, -1):
        with pytest.raises(TinyGPTError, match=f"0 to 255, not {token}"):
            run_now(engine.decode(token))
    with pytest.raises(TinyGPTError, match=f"context of {ctx} bytes is full"):
        run_now(engine.decode(1))
    assert len(run_now(engine.begin_text(b"a" * ctx, SampleConfig(), 0, b""))) == 1
    assert run_now(engine.continue_text(5)) == b""


@pytest.mark.parametrize("lab", named([name for name in NAMES if name not in ("torch", "spec")]), indirect=True)
def test_every_op_has_its_time(lab):
    engine = lab.engine()
    for mode in ("train", "decode"):
        clocked = run_now(engine.memory.clock(mode))
        assert [op.kernel for op, _ in clocked] == [op.kernel for op in engine.lowered.programs[mode].ops]
        assert all(seconds >= 0 for _, seconds in clocked) and sum(seconds for _, seconds in clocked) > 0
