"""Small models, and files as the original app wrote them, built here from struct and json alone."""

import json
import struct
from dataclasses import replace

import numpy as np

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.train.progress import Progress
from tinygpt.engines.base import State
from tinygpt.store.formats import Checkpoint

MODEL = ModelConfig(layers=2, d_model=4, heads=2, ctx=3)


def sample_progress() -> Progress:
    progress = Progress()
    progress.step = 40
    progress.tokens_seen = 1920
    progress.loss = 2.25
    progress.best_val = 2.5
    progress.best_step = 30
    progress.evals_since_best = 1
    for step in range(1, 41):
        progress.history.add(step, 5.5 - step / 13)
    progress.sample = 'To be, or\n\tnot — "日本"'
    return progress


def sample_checkpoint(model: ModelConfig = MODEL, seed: int = 0, optimizer: bool = True) -> Checkpoint:
    random = np.random.default_rng(seed)
    count = parameter_count(model)
    vectors = [random.standard_normal(count, dtype=np.float32) * np.float32(0.3) for _ in range(3)]
    train = TrainConfig(
        batch=16, steps=77, lr=1.1e-3, schedule="cosine", warmup=3, min_lr=1e-7, weight_decay=0.03, seed=4294967295
    )
    return Checkpoint(
        config=RunConfig(model, train),
        state=State(40, vectors[0], {"m": vectors[1], "v": vectors[2]} if optimizer else {}),
        progress=sample_progress(),
        backend="native",
        data={"name": "shakespeare", "sha256": "ab" * 32},
        saved_at="2026-01-02T03:04:05Z",
        lora={"rank": 8, "alpha": 16.0, "targets": "q_proj,v_proj"},
        origin={"model": "base.tinygpt", "sha256": "cd" * 32},
    )


def sgd_checkpoint(model: ModelConfig = MODEL) -> Checkpoint:
    """Of another optimizer, which keeps one vector."""
    adamw = sample_checkpoint(model)
    config = adamw.config.replace(optimizer="sgd", momentum=0.8)
    return replace(adamw, config=config, state=adamw.state._replace(slots={"m": adamw.state.slots["m"]}))


def halves_checkpoint(bits: range) -> Checkpoint:
    """Weights alone: float16 with these bits, one after the other, again and again."""
    checkpoint = sample_checkpoint(ModelConfig(layers=1, d_model=72, heads=2, ctx=3), optimizer=False)
    halves = np.resize(np.array(bits, dtype="<u2"), checkpoint.state.w.size).view("<f2")
    return replace(checkpoint, state=State(40, halves.astype(np.float32)))


def assert_same(a: Checkpoint, b: Checkpoint, optimizer: bool = True) -> None:
    assert a.config == b.config
    assert a.progress.as_dict() == b.progress.as_dict()
    assert (a.backend, a.data, a.saved_at) == (b.backend, b.data, b.saved_at)
    assert (a.lora, a.origin) == (b.lora, b.origin)
    assert a.state.step == b.state.step
    np.testing.assert_array_equal(a.state.w, b.state.w)
    if optimizer:
        assert list(a.state.slots) == list(b.state.slots) and b.state.slots
        for name in a.state.slots:
            np.testing.assert_array_equal(a.state.slots[name], b.state.slots[name])
    else:
        assert not b.state.slots


# The original's own list of tensors, in its own words: (name, out or rows, in or None, is linear).
def original_tensors(layers: int, width: int, ctx: int) -> list[tuple[str, int, int | None, bool]]:
    rows: list[tuple[str, int, int | None, bool]] = [
        ("token_embedding.weight", 256, width, False),
        ("position_embedding.weight", ctx, width, False),
        ("ln_final.weight", width, None, False),
        ("ln_final.bias", width, None, False),
    ]
    for layer in range(layers):
        block = f"blocks.{layer}."
        rows += [(block + "ln1.weight", width, None, False), (block + "ln1.bias", width, None, False)]
        for name in "qkvo":
            rows.append((f"{block}attn.{name}_proj.weight", width, width, True))
            rows.append((f"{block}attn.{name}_proj.bias", width, None, False))
        rows += [(block + "ln2.weight", width, None, False), (block + "ln2.bias", width, None, False)]
        rows += [
            (block + "mlp.fc_in.weight", 4 * width, width, True),
            (block + "mlp.fc_in.bias", 4 * width, None, False),
        ]
        rows += [(block + "mlp.fc_out.weight", width, 4 * width, True), (block + "mlp.fc_out.bias", width, None, False)]
    return rows


class OriginalFile:
    """A file of the original: linear weights [in, out] in the state, [out, in] in the manifest."""

    def __init__(self, optimizer: bool = True, layers: int = 2, width: int = 6, ctx: int = 5) -> None:
        random = np.random.default_rng(3)
        self.arrays = 3 if optimizer else 1
        self.tensors: dict[str, list[np.ndarray]] = {}  # name: w, m, v as PyTorch holds them
        self.manifest = []
        self.state = struct.pack("<i", 123)
        offset = 0
        for name, rows, columns, linear in original_tensors(layers, width, ctx):
            shape = (rows,) if columns is None else (rows, columns)
            values = [random.standard_normal(shape).astype("<f4") for _ in range(self.arrays)]
            self.tensors[name] = values
            self.manifest.append({"name": name, "shape": list(shape), "floatOffset": offset})
            for value in values:
                self.state += np.ascontiguousarray(value.T if linear else value).tobytes()
                offset += value.size
        self.config = {
            "ctx": ctx, "layers": layers, "heads": 3, "dModel": width, "dMlp": 4 * width, "batchSize": 8,
            "learningRate": 3e-4, "gradClip": 1, "maxSteps": 500, "evalEvery": 50, "seed": 42, "backend": "webgpu",
        }  # fmt: skip

    def v1(self) -> bytes:
        return packed(1, {"config": self.config}, self.state)

    def header(self) -> dict:
        return {
            "config": self.config,
            "manifest": self.manifest,
            "lossHistory": [5.5, 4.0, 3.0],
            "finalLoss": 3.0,
            "bestVal": None,
            "sample": "ROMEO:",
            "savedAt": "2025-05-05T05:05:05.000Z",
            "includesOptimizerState": self.arrays == 3,
            "stateByteLength": len(self.state),
        }

    def v2(self, **changes: object) -> bytes:
        return packed(2, {**self.header(), **changes}, self.state)

    def assert_loaded(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.state.step == 123
        state = checkpoint.state
        assert list(state.slots) == ["m", "v"][: self.arrays - 1]
        vectors = [state.w, *state.slots.values()]
        for row in parameters(checkpoint.config.model):
            for vector, expected in zip(vectors, self.tensors[row.name], strict=True):
                actual = vector[row.offset : row.offset + row.size].reshape(row.shape)
                np.testing.assert_array_equal(actual, expected, err_msg=row.name)


def packed(version: int, header: object, state: bytes) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<4sII", b"TGPT", version, len(raw)) + raw + state
