"""The PyTorch engine on CUDA: eager, and with the whole step in one graph."""

import numpy as np
import pytest
import torch

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.core.train.validation import validate
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


def train(engine: TorchEngine, steps: int) -> list[float]:
    """The losses of so many more steps."""
    first = engine.step + 1
    assert run_now(engine.train(steps)) == steps
    rows = run_now(engine.read_metrics())
    assert [row.step for row in rows] == list(range(first, first + steps))
    return [row.loss for row in rows]


@EACH_MODE
@pytest.mark.parametrize(
    "changes", [{}, {"grad_accum": 3}, {"grad_clip": 0.0}, {"grad_clip": 0.1}, {"optimizer": "muon"}], ids=str
)
def test_it_trains_like_the_cpu(config, compile, changes):
    config = config.replace(**changes)
    cpu = train(loaded(config, device="cpu"), 30)
    gpu = train(loaded(config, compile=compile), 30)
    assert cpu[0] > 5.5 and cpu[-1] < 3.5
    assert np.allclose(gpu, cpu, rtol=0, atol=1e-3)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("precision, close", [("float32", 1e-3), ("tf32", 2e-3), ("bf16", 1e-2)])
def test_the_graph_trains_like_eager(config, precision, close, optimizer):
    config = config.replace(optimizer=optimizer)
    eager = train(loaded(config, precision=precision), 40)
    graph = train(loaded(config, precision=precision, compile=True), 40)
    assert np.allclose(graph, eager, rtol=0, atol=close)


def test_capturing_leaves_no_trace(config):
    """After the first replay the state is that of one step, not of the warm-up's as well."""
    graph, eager = loaded(config, compile=True), loaded(config)
    train(graph, 1)
    train(eager, 1)
    a, b = run_now(graph.export_state()), run_now(eager.export_state())
    assert a.step == b.step == 1
    assert np.allclose(a.slots["m"], b.slots["m"], rtol=1e-3, atol=1e-5 * np.abs(b.slots["m"]).max())
    assert np.allclose(a.slots["v"], b.slots["v"], rtol=1e-3, atol=1e-5 * np.abs(b.slots["v"]).max())
    assert all(count.item() == 1 for count in graph.moments("step"))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_rate_is_read_at_every_replay(config, optimizer):
    graph = loaded(config.replace(optimizer=optimizer, warmup=2, schedule="cosine", steps=4, min_lr=0.0), compile=True)
    train(graph, 3)
    before = run_now(graph.export_state())
    train(graph, 1)  # of rate 0
    after = run_now(graph.export_state())
    assert np.array_equal(after.w, before.w) and not np.array_equal(after.slots["m"], before.slots["m"])


@EACH_MODE
def test_a_state_goes_out_and_in(config, compile):
    straight = loaded(config, compile=compile)
    losses = train(straight, 12)
    first = loaded(config, compile=compile)
    train(first, 6)
    kept = run_now(first.export_state())
    second = loaded(config, compile=compile)
    train(second, 3)  # captured before the import: the graph has to see the new values
    run_now(second.import_state(kept))
    for mine, theirs in zip(run_now(second.export_state()), kept, strict=True):
        assert np.array_equal(mine, theirs)
    assert np.allclose(train(second, 6), losses[6:], rtol=0, atol=1e-3)


def test_validation_and_sampling_between_replays_change_nothing(config):
    alone, busy = loaded(config, compile=True), loaded(config, compile=True)
    expected = train(alone, 12)
    seen = []
    for _ in range(12):
        seen += train(busy, 1)
        assert 2 < run_now(validate(busy)) < 7
        run_now(busy.prefill(TEXT[:5]))
        assert len(run_now(busy.decode(65))) == 256
    assert np.allclose(seen, expected, rtol=0, atol=1e-3)


def test_a_new_corpus_is_captured_anew(config):
    engine = loaded(config, compile=True)
    train(engine, 2)
    run_now(engine.load_corpus(b"a" * 500, b"a" * 500))
    assert train(engine, 37)[-1] < 1


@EACH_MODE
def test_metrics_wait_on_the_device(config, compile):
    losses = train(loaded(config, compile=compile), RING + 9)
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
    assert engine.block == 20
