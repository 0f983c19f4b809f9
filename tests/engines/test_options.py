"""The model's options: every gradient against autograd, one engine against the other, cached decoding, dropout."""

import numpy as np
import pytest
import torch
from gpu_here import MISSING, gpu_here

from tinygpt.bench.parity import parity
from tinygpt.bench.workload import Run
from tinygpt.core.config import VOCAB, ModelConfig, SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.passes import program_of
from tinygpt.core.presets import preset
from tinygpt.core.rng import DROPOUT, batch_offsets, philox
from tinygpt.core.train.validation import validate
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.model import make_model
from tinygpt.reference.modules import keep_all

RELATIVE = 1e-9
TEXT = np.random.default_rng(0).integers(0, 256, 3000, dtype=np.uint8).tobytes()
BASE = preset("tiny").replace(layers=2, d_model=24, heads=3, ctx=11, batch=3)
MODERN = {"norm": "rmsnorm", "positions": "rotary", "qk_norm": "on", "activation": "relu2", "biases": "off"}
GATED = {**MODERN, "activation": "swiglu", "tied_head": "off"}
ODD = {"layers": 1, "d_model": 30, "heads": 3, "ctx": 7, "batch": 2}
FEW_ROWS = {"ngram_rows": 256, "ngram_width": 4}  # so few that n-grams share them
OPTIONS = {
    "rmsnorm": {"norm": "rmsnorm"},
    "rotary": {"positions": "rotary", "tied_head": "off", "grad_accum": 3},
    "none": {"positions": "none", "activation": "relu2"},
    "swiglu": {"activation": "swiglu"},
    "unbiased": {"biases": "off", "tied_head": "off", "positions": "none"},
    "qk_norm": {"qk_norm": "on", "activation": "relu2", "heads": 1},
    "dropout": {"dropout": 0.25},
    "alibi": {"positions": "alibi"},
    "grouped": {"heads": 6, "kv_heads": 2, "positions": "rotary", "qk_norm": "on"},
    "one key": {"kv_heads": 1, "biases": "off"},
    "post": {"norm_place": "post", "dropout": 0.25, "grad_accum": 2},
    "capped": {"logit_cap": 2.0, "tied_head": "off"},
    "smooth": {"label_smoothing": 0.25, "grad_accum": 2},
    "modern": MODERN,
    "gated": {**GATED, **ODD, "norm_place": "post"},
    "bigram": {"kind": "bigram", "grad_accum": 2},
    "recurrent": {"kind": "recurrent", "dropout": 0.25, "grad_accum": 2},
    "recurrent, modern": {**GATED, "kind": "recurrent", "norm_place": "post", "logit_cap": 2.0},
    "all": {**GATED, "dropout": 0.1, "grad_accum": 2},
    "ngrams": {"ngrams": "1,2,4", **FEW_ROWS, "windows": "shuffled"},
    "ngrams, modern": {**GATED, "ngrams": "2,3,5", **FEW_ROWS, "dropout": 0.25, "grad_accum": 2, "windows": "shuffled"},
    "ngrams, recurrent": {"kind": "recurrent", "ngrams": "3,8", **FEW_ROWS},
}
ON_A_GPU = {
    "ngrams": {"ngrams": "2,3", **FEW_ROWS, **ODD, "grad_accum": 2, "windows": "shuffled"},
    "bigram": OPTIONS["bigram"],
    "recurrent": {"kind": "recurrent", "layers": 1, "d_model": 24, "optimizer": "muon"},
    "odd": {**MODERN, **ODD, "dropout": 0.1, "logit_cap": 3.0, "norm_place": "post"},
    "even": {**GATED, "layers": 1, "positions": "alibi", "norm": "layernorm", "grad_accum": 2, "dropout": 0.3},
}
ON_A_GPU["even"] |= {"label_smoothing": 0.1, "kv_heads": 1}


def config_of(name):
    return BASE.replace(**OPTIONS[name])


def webgpu_engine(config):
    if gpu_here() is None:
        pytest.skip(MISSING)
    from tinygpt.engines.webgpu import WebGPUMachine

    return terminal_engine(config, WebGPUMachine(gpu=gpu_here()))


def started(config, texts=1):
    """A spec engine in float64 away from its start values (where many gradients are tiny), and PyTorch's model."""
    engine = spec_engine(config, dtype=np.float64)
    run_now(engine.make_room(texts))
    run_now(engine.load_corpus(TEXT, TEXT))
    w = np.concatenate([engine.player.view("weights")[m.start : m.start + m.size] for m in file_order(engine)])
    w += np.random.default_rng(1).normal(0, 0.1, w.shape)
    for move in file_order(engine):
        engine.player.view("weights")[move.start : move.start + move.size] = w[move.offset : move.offset + move.size]
    model = make_model(config.model, w.astype(np.float32)).double()
    model.load_flat(w)
    if config.model.ngram_tables:
        rows = np.random.default_rng(2).normal(0, 0.3, model.tables.shape)
        engine.player.view("tables")[...] = rows.reshape(-1)
        model.tables.data = torch.tensor(rows)
    return engine, model


def file_order(engine):
    return sorted(engine.lowered.memory.layout.moves, key=lambda move: move.offset)


def mask(config, shape, step, site, micro):
    """Word by word, as core/rng.py states it."""
    size = int(np.prod(shape))
    key = (config.train.seed, DROPOUT)
    words = [word for i in range((size + 3) // 4) for word in philox(key, (i, step, site, micro))][:size]
    kept = torch.tensor([word >= config.train.dropout * 2**32 for word in words], dtype=torch.float64)
    return kept.reshape(shape) / (1 - np.float64(np.float32(config.train.dropout)))


def oracle(config, model, step):
    """The loss of the step whose number this is, its gradients made by autograd."""
    train, ctx = config.train, config.model.ctx
    offsets = batch_offsets(train.seed, step, train.batch * train.grad_accum, len(TEXT), ctx, train.windows)
    total = torch.zeros((), dtype=torch.float64)
    for micro in range(train.grad_accum):
        rows = offsets[micro * train.batch : (micro + 1) * train.batch]
        windows = torch.tensor([list(TEXT[o : o + ctx + 1]) for o in rows])

        def drop(x, site, micro=micro):
            return x * mask(config, x.shape, step - 1, site, micro)

        training = {"drop": drop if train.dropout else keep_all, "smoothing": train.label_smoothing}
        total = total + model(windows[:, :-1], windows[:, 1:], **training)[1]
    (total / train.grad_accum).backward()
    return total.item() / train.grad_accum


@pytest.mark.parametrize("name", OPTIONS)
def test_loss_and_every_gradient_equal_autograd(name):
    config = config_of(name)
    engine, model = started(config)
    loss, expected = oracle(config, model, 1), model.flat_grad()
    run_now(engine.train(1))
    assert engine.player.view("loss")[0] == pytest.approx(loss, rel=RELATIVE)
    grads, largest = engine.player.view("grads"), np.abs(expected).max()
    for move, parameter in zip(file_order(engine), parameters(config.model), strict=True):
        a, b = grads[move.start : move.start + move.size], expected[move.offset : move.offset + move.size]
        # A bias on the keys shifts a row's scores alike, and softmax cancels it: 0 but for rounding.
        scale = np.abs(b).max() if np.abs(b).max() > 1e-12 * largest else largest
        assert np.abs(a - b).max() <= RELATIVE * scale, parameter.name
    if config.model.ngram_tables:
        expected = model.tables.grad.to_dense().numpy()
        gradient = table_gradient(engine.player, *expected.shape)
        assert np.abs(gradient - expected).max() <= RELATIVE * np.abs(expected).max() > 0


def table_gradient(player, rows, width):
    """Of all that a step has left for its optimizer, the dense gradient."""
    picked, entries = player.view("picked").reshape(-1), player.view("drows").reshape(-1, width)
    gradient = np.zeros((rows, width))
    np.add.at(gradient, picked[picked >= 0], entries[picked >= 0])
    return gradient


@pytest.mark.parametrize("name", OPTIONS)
def test_prefill_and_cached_decoding_give_the_logits_of_the_whole_window(name):
    """Without dropout, whatever the run's; of texts that are written at once, begin apart and have other lengths."""
    config = config_of(name)
    ctx, texts = config.model.ctx, 3
    engine, model = started(config, texts)
    windows = [TEXT[7 * row :][:ctx] for row in range(texts)]
    with torch.no_grad():
        expected = model(torch.tensor([list(window) for window in windows])).numpy()
    bound = RELATIVE * np.abs(expected).max()
    places, begun = [0] * texts, []  # of the newest byte of each; those that are begun

    def begin(row, length):
        run_now(engine.begin_text(windows[row][:length], SampleConfig(temperature=0.0), 0, b"", row))
        begun.append(row)
        places[row] = length - 1
        logits = engine.player.view("prompt_logits")
        np.testing.assert_allclose(logits, expected[row, length - 1], rtol=0, atol=bound)

    begin(1, ctx // 2)
    begin(0, 1)
    for step in range(ctx // 2):
        if step == 2:
            begin(2, ctx // 3)  # while the others are under way
        run_now(engine.memory.write_ints("token", [windows[row][places[row] + 1] for row in range(texts)]))
        run_now(engine.continue_texts(1))
        for row in begun:
            places[row] += 1
            logits = engine.player.view("next_logits").reshape(texts, VOCAB)[row]
            np.testing.assert_allclose(logits, expected[row, places[row]], rtol=0, atol=bound)
    assert places == [ctx // 2, 2 * (ctx // 2) - 1, ctx // 3 - 1 + ctx // 2 - 2]


@pytest.mark.parametrize("name", OPTIONS)
def test_the_oracles_cache_agrees_with_itself(name):
    config = config_of(name)
    engine = TorchEngine(config, device="cpu", threads=1)
    tokens = torch.tensor([list(TEXT[: config.model.ctx])])
    with torch.no_grad():
        expected = engine.model(tokens)[0].numpy()
    rows = [run_now(engine.prefill(TEXT[:3]))] + [run_now(engine.decode(b)) for b in TEXT[3 : config.model.ctx]]
    np.testing.assert_allclose(rows, expected[2:], atol=1e-5 * np.abs(expected).max())


COMPOSITES = ("modern", "gated", "grouped", "bigram", "recurrent", "all", "ngrams", "ngrams, modern")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in COMPOSITES else pytest.mark.slow) for name in OPTIONS]
)
def test_native_begins_trains_and_writes_as_the_spec_does(name):
    config = config_of(name)
    native, spec = native_engine(config, threads=1), spec_engine(config, dtype=np.float64)
    assert run_now(native.export_state()).w.tobytes() == initial_weights(config.model, config.train.seed).tobytes()
    assert parity(config, native, spec, steps=10).drift < 1e-6
    assert_same_tables(native, spec)
    assert_measure_and_write_alike(native, spec)


@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("name", ["bigram", "odd", "ngrams", pytest.param("even", marks=pytest.mark.slow)])
def test_webgpu_trains_and_writes_as_the_spec_does(name):
    config = BASE.replace(**ON_A_GPU[name])
    webgpu, spec = webgpu_engine(config), spec_engine(config, dtype=np.float64)
    assert parity(config, webgpu, spec, steps=4).drift < 1e-6
    assert_same_tables(webgpu, spec)
    assert_measure_and_write_alike(webgpu, spec)


def assert_same_tables(engine, spec):
    """Rows and squares after some steps; where no step came by, exactly zero."""
    if not engine.config.model.ngram_tables:
        return
    (rows, squares), (expected, expected_squares) = (run_now(each.export_state()).tables for each in (engine, spec))
    assert ((rows == 0) == (expected == 0)).all() and (rows != 0).any()
    np.testing.assert_allclose(rows, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(squares, expected_squares, rtol=1e-3, atol=1e-12)


def assert_measure_and_write_alike(engine, spec):
    assert run_now(validate(engine)) == pytest.approx(run_now(validate(spec)), rel=1e-5)
    for each in (engine, spec):
        run_now(each.prefill(TEXT[:4]))
    a, b = (run_now(each.decode(7)) for each in (engine, spec))
    np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


@pytest.mark.slow
def test_a_modern_model_learns_a_batch_by_heart():
    config = preset("small").replace(**MODERN, lr=3e-3)
    rows, ctx = config.train.batch, config.model.ctx
    text = np.random.default_rng(0).integers(0, 256, (rows, ctx + 1), dtype=np.uint8)
    text[:, 0] = np.arange(rows)
    engine = native_engine(config, threads=2)
    run_now(engine.load_corpus(text.tobytes(), b""))
    losses = []
    for _ in range(150):
        run_now(engine.train_fed([row.tobytes() for row in text]))
        losses += [metrics.loss for metrics in run_now(engine.read_metrics())]
    assert 5.4 < losses[0] < 5.7
    assert losses[-1] < 0.01


def test_a_bigram_learns_how_often_each_byte_follows_each():
    random = np.random.default_rng(0)
    follows = random.dirichlet([0.5] * 5, size=5)
    text = [0]
    for _ in range(20_000):
        text.append(int(random.choice(5, p=follows[text[-1]])))
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (text[:-1], text[1:]), 1)
    entropy = -(pairs * np.log(pairs / pairs.sum(axis=1, keepdims=True))).sum() / pairs.sum()
    config = preset("tiny").replace(kind="bigram", lr=0.05, weight_decay=0.0, eval_batches=40)
    engine = native_engine(config, threads=1)
    run_now(engine.load_corpus(bytes(text), bytes(text)))
    run_now(engine.train(64))
    run_now(engine.read_metrics())
    assert run_now(validate(engine)) > entropy + 0.2
    for _ in range(6):
        run_now(engine.train(64))
        run_now(engine.read_metrics())
    assert run_now(validate(engine)) == pytest.approx(entropy, abs=0.02)


@pytest.mark.parametrize("mode", ["prefill", "prefill_8", "decode"])
def test_what_a_recurrent_model_keeps_of_a_text_changes_after_the_commit_alone(mode):
    """A run may be abandoned before it, and made again: a state would then have taken in a byte twice."""
    config = config_of("recurrent")
    memory = Memory(config, texts=3)
    program = program_of(mode, config, memory)
    writers = [i for i, op in enumerate(program.ops) for t in op.writes() if t.name in memory.state]
    assert len(writers) == config.model.layers and min(writers) >= program.committed


@pytest.mark.parametrize("name", ["ngrams", "ngrams, modern"])
def test_pytorch_steps_its_tables_as_the_spec_does(name):
    config = config_of(name).replace(dropout=0.0, average=0.1, optimizer="adamw")
    torch_engine, spec = TorchEngine(config, device="cpu", threads=1), spec_engine(config, dtype=np.float64)
    assert parity(config, torch_engine, spec, steps=10).drift < 1e-6
    assert_same_tables(torch_engine, spec)
    run_now(spec.import_state(run_now(torch_engine.export_state())))
    assert_same_tables(torch_engine, spec)


def test_every_place_and_batch_and_step_has_a_mask_of_its_own():
    config = BASE.replace(dropout=0.5, grad_accum=2)
    memory = Memory(config, len(TEXT), len(TEXT))
    for mode in ("gradient", "accumulate"):
        sites = [op.dim("site") for op in program_of(mode, config, memory).ops if op.kernel == "dropout"]
        forward, backward = sites[: len(sites) // 2], sites[len(sites) // 2 :]
        assert forward == list(range(2 * config.model.layers + 1)) == backward[::-1]
    engine = native_engine(BASE.replace(dropout=0.5, lr=1e-12), threads=1)
    run_now(engine.load_corpus(TEXT, TEXT))
    windows = [TEXT[o : o + 12] for o in (0, 100, 200)]
    for _ in range(3):
        run_now(engine.train_fed(windows))
    assert len({metrics.loss for metrics in run_now(engine.read_metrics())}) == 3


@pytest.mark.parametrize("mode", ["validate", "eval", "prefill", "decode", "init"])
def test_dropout_and_smoothing_are_for_training_only(mode):
    configs = BASE.replace(dropout=0.5, label_smoothing=0.5), BASE
    blurred, plain = (program_of(mode, config, Memory(config, 99, 99)) for config in configs)
    assert [(repr(op), op.numbers()) for op in blurred.ops] == [(repr(op), op.numbers()) for op in plain.ops]


def test_pytorchs_masks_come_again_when_a_run_is_resumed():
    config = BASE.replace(dropout=0.3)
    straight, first, second = (TorchEngine(config, device="cpu", threads=1) for _ in range(3))
    expected = [metrics.loss for metrics in Run(config, straight).advance(4)]
    losses = [metrics.loss for metrics in Run(config, first).advance(2)]
    run_now(second.import_state(run_now(first.export_state())))
    losses += [metrics.loss for metrics in Run(config, second).advance(2)]
    assert losses == expected != [metrics.loss for metrics in Run(BASE, TorchEngine(BASE, device="cpu")).advance(4)]


def test_parameters_follow_the_options():
    names = [row.name for row in parameters(config_of("gated").model)]
    assert not [name for name in names if name.endswith(".bias") or name.startswith("position")]
    assert "lm_head.weight" in names and "blocks.0.mlp.fc_gate.weight" in names
    gelu, swiglu = (parameter_count(ModelConfig(d_model=384, heads=6, activation=a)) for a in ("gelu", "swiglu"))
    assert swiglu == pytest.approx(gelu, rel=0.01)
    assert ModelConfig(d_model=48, activation="swiglu").d_mlp == 128
    assert ModelConfig(d_model=49, heads=7, activation="swiglu").d_mlp == 160


def test_odd_heads_cannot_turn():
    with pytest.raises(TinyGPTError, match="d_model 15 gives each of 3 heads 5; choose sizes that give an even"):
        ModelConfig(d_model=15, heads=3, positions="rotary")
