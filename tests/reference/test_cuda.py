"""The PyTorch engine on CUDA: eager, and with the whole step in one graph."""

import numpy as np
import pytest
import torch

from tinygpt.core.config import RunConfig, preset
from tinygpt.core.rng import batch_offsets, eval_offsets
from tinygpt.core.trainer import run_now
from tinygpt.reference.engine import RING, TorchEngine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

TEXT = b"Pack my box with five dozen liquor jugs; how vexingly quick daft zebras jump! " * 40
EACH_MODE = pytest.mark.parametrize("compile", [False, True], ids=["eager", "graph"])


@pytest.fixture
def config() -> RunConfig:
    return preset("tiny").replace(layers=2, d_model=32, heads=2, ctx=24, batch=4, lr=3e-3)


def loaded(config: RunConfig, device: str = "cuda", **options) -> TorchEngine:
    engine = TorchEngine(config, device=device, **{"precision": "float32", **options})
    run_now(engine.load_corpus(TEXT, TEXT[:800]))
    return engine


def train(engine: TorchEngine, steps: range, lr: float | None = None) -> list[float]:
    settings = engine.config.train
    for step in steps:
        rows = settings.batch * settings.grad_accum
        offsets = batch_offsets(settings.seed, step, rows, len(engine.train), engine.config.model.ctx)
        run_now(engine.train_step(step, settings.lr if lr is None else lr, offsets))
    rows = run_now(engine.read_metrics())
    assert [row.step for row in rows] == list(steps)
    return [row.loss for row in rows]


@EACH_MODE
@pytest.mark.parametrize("changes", [{}, {"grad_accum": 3}, {"grad_clip": 0.0}, {"grad_clip": 0.1}], ids=str)
def test_it_trains_like_the_cpu(config, compile, changes):
    config = config.replace(**changes)
    cpu = train(loaded(config, device="cpu"), range(1, 31))
    gpu = train(loaded(config, compile=compile), range(1, 31))
    assert cpu[0] > 5.5 and cpu[-1] < 3.5
    assert np.allclose(gpu, cpu, rtol=0, atol=1e-3)


@pytest.mark.parametrize("precision, close", [("float32", 1e-3), ("tf32", 2e-3), ("bf16", 1e-2)])
def test_the_graph_trains_like_eager(config, precision, close):
    eager = train(loaded(config, precision=precision), range(1, 41))
    graph = train(loaded(config, precision=precision, compile=True), range(1, 41))
    assert np.allclose(graph, eager, rtol=0, atol=close)


def test_capturing_leaves_no_trace(config):
    """After the first replay the state is that of one step, not of the warm-up's as well."""
    graph, eager = loaded(config, compile=True), loaded(config)
    train(graph, range(1, 2))
    train(eager, range(1, 2))
    a, b = run_now(graph.export_state()), run_now(eager.export_state())
    assert a.step == b.step == 1
    assert np.allclose(a.slots["m"], b.slots["m"], rtol=1e-3, atol=1e-5 * np.abs(b.slots["m"]).max())
    assert np.allclose(a.slots["v"], b.slots["v"], rtol=1e-3, atol=1e-5 * np.abs(b.slots["v"]).max())
    assert all(count.item() == 1 for count in graph.moments("step"))


def test_the_rate_is_read_at_every_replay(config):
    graph = loaded(config, compile=True)
    train(graph, range(1, 3))
    before = run_now(graph.export_state())
    train(graph, range(3, 5), lr=0.0)
    after = run_now(graph.export_state())
    assert np.array_equal(after.w, before.w) and not np.array_equal(after.slots["m"], before.slots["m"])


@EACH_MODE
def test_a_state_goes_out_and_in(config, compile):
    straight = loaded(config, compile=compile)
    losses = train(straight, range(1, 13))
    first = loaded(config, compile=compile)
    train(first, range(1, 7))
    kept = run_now(first.export_state())
    second = loaded(config, compile=compile)
    train(second, range(1, 4))  # captured before the import: the graph has to see the new values
    run_now(second.import_state(kept))
    for mine, theirs in zip(run_now(second.export_state()), kept, strict=True):
        assert np.array_equal(mine, theirs)
    assert np.allclose(train(second, range(7, 13)), losses[6:], rtol=0, atol=1e-3)


def test_validation_and_sampling_between_replays_change_nothing(config):
    alone, busy = loaded(config, compile=True), loaded(config, compile=True)
    expected = train(alone, range(1, 13))
    seen = []
    for step in range(1, 13):
        seen += train(busy, range(step, step + 1))
        offsets = eval_offsets(1, 10, len(busy.val), config.model.ctx)
        assert 2 < run_now(busy.eval_loss(offsets)) < 7
        run_now(busy.prefill(TEXT[:5]))
        assert len(run_now(busy.decode(65))) == 256
    assert np.allclose(seen, expected, rtol=0, atol=1e-3)


def test_a_new_corpus_is_captured_anew(config):
    engine = loaded(config, compile=True)
    train(engine, range(1, 3))
    run_now(engine.load_corpus(b"a" * 500, b"a" * 500))
    assert train(engine, range(3, 40))[-1] < 1


@EACH_MODE
def test_metrics_wait_on_the_device(config, compile):
    losses = train(loaded(config, compile=compile), range(1, RING + 10))
    assert len(set(losses)) > RING


def test_the_cache_gives_the_logits_of_reading_everything_again(config):
    engine = loaded(config)
    text = TEXT[: config.model.ctx]
    rows = [run_now(engine.prefill(text[:5]))] + [run_now(engine.decode(byte)) for byte in text[5:]]
    with torch.no_grad():
        whole = engine.model(torch.tensor([list(text)], device="cuda"))[0, 4:].tolist()
    assert np.allclose(rows, whole, rtol=0, atol=1e-5)


def test_auto_is_cuda_in_bf16(config):
    engine = TorchEngine(config)
    assert engine.device.type == "cuda"
    assert engine.precision == ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32")
    assert engine.metrics_every == 20
