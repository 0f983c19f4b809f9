"""The .tinygpt file: what is written is read back, byte for byte, and the original's files load right."""

import hashlib
import json
import math
import struct
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from format_samples import (
    MODEL,
    OriginalFile,
    assert_same,
    halves_checkpoint,
    packed,
    sample_checkpoint,
    sgd_checkpoint,
)

from tinygpt.core.config import ModelConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import stored_bytes
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.train.progress import Progress
from tinygpt.store.formats import (
    Checkpoint,
    load_safetensors,
    load_tinygpt,
    read_header,
    save_safetensors,
    save_tinygpt,
)


def test_everything_round_trips(tmp_path):
    checkpoint = sample_checkpoint()
    save_tinygpt(tmp_path / "a.tinygpt", checkpoint)
    assert_same(checkpoint, load_tinygpt(tmp_path / "a.tinygpt"))


@pytest.mark.parametrize("save, load", [(save_tinygpt, load_tinygpt), (save_safetensors, load_safetensors)])
def test_every_option_round_trips(tmp_path, save, load):
    model = ModelConfig(
        layers=2, d_model=4, heads=2, ctx=3, norm="rmsnorm", norm_place="post", positions="rotary", activation="swiglu",
        biases="off", tied_head="off", qk_norm="on", kv_heads=1, logit_cap=30.0,
    )  # fmt: skip
    checkpoint = sample_checkpoint(model, optimizer=False)
    smooth = {"dropout": 0.1, "label_smoothing": 0.1}
    checkpoint = replace(checkpoint, config=RunConfig(model, checkpoint.config.train.replace(**smooth)))
    save(tmp_path / "a", checkpoint)
    assert_same(checkpoint, load(tmp_path / "a"), optimizer=False)


def test_an_option_that_is_not_stated_is_the_default(tmp_path):
    save_tinygpt(tmp_path / "a", sample_checkpoint())
    raw = (tmp_path / "a").read_bytes()
    (length,) = struct.unpack_from("<I", raw, 8)
    header = json.loads(raw[12 : 12 + length])
    for key in (
        "norm",
        "normPlace",
        "positions",
        "activation",
        "biases",
        "tiedHead",
        "qkNorm",
        "kvHeads",
        "logitCap",
        "dropout",
        "labelSmoothing",
    ):
        del header["config"][key]
    (tmp_path / "old").write_bytes(packed(2, header, raw[12 + length :]))
    assert_same(sample_checkpoint(), load_tinygpt(tmp_path / "old"))


def test_weights_alone_round_trip(tmp_path):
    full, bare = sample_checkpoint(), sample_checkpoint(optimizer=False)
    save_tinygpt(tmp_path / "a.tinygpt", full, include_optimizer=False)
    save_tinygpt(tmp_path / "b.tinygpt", bare)
    assert (tmp_path / "a.tinygpt").read_bytes() == (tmp_path / "b.tinygpt").read_bytes()
    assert_same(bare, load_tinygpt(tmp_path / "a.tinygpt"), optimizer=False)


def test_weights_in_float16(tmp_path):
    positive, negative = range(0x7C00), range(0x8000, 0xFC00)  # all but infinities and NaN
    for bits in (positive, negative):
        every = halves_checkpoint(bits)
        assert every.state.w.size > len(bits)
        save_tinygpt(tmp_path / "a", every, dtype="float16")
        loaded = load_tinygpt(tmp_path / "a")
        assert_same(every, loaded, optimizer=False)
        assert loaded.state.w.dtype == np.float32 and loaded.state.w.tobytes() == every.state.w.tobytes()
    raw = (tmp_path / "a").read_bytes()
    (length,) = struct.unpack_from("<I", raw, 8)
    header, state = json.loads(raw[12 : 12 + length]), raw[12 + length :]
    assert header["dtype"] == "float16"
    assert header["stateByteLength"] == len(state) == 4 + 2 * every.state.w.size
    assert header["sha256"] == hashlib.sha256(state).hexdigest()
    offsets = [row.offset for row in parameters(every.config.model)]
    assert [entry["floatOffset"] for entry in header["manifest"]] == offsets


@pytest.mark.parametrize("model", [MODEL, ModelConfig(layers=1, d_model=9, heads=3, ctx=5, activation="swiglu")])
def test_weights_in_int8(model, tmp_path):
    """A scale per row of a matrix: no weight is off by more than half of it, and the row's largest by nothing but
    rounding. Vectors stay as they are, and so does what was read once."""
    checkpoint = sample_checkpoint(model, optimizer=False)
    rows = parameters(model)
    table = rows[0]
    checkpoint.state.w[table.offset : table.offset + table.shape[1]] = 0  # a byte that no text has
    save_tinygpt(tmp_path / "a", checkpoint, dtype="int8")
    loaded = load_tinygpt(tmp_path / "a")
    assert_same(replace(checkpoint, state=loaded.state), loaded, optimizer=False)
    for row in rows:
        exact, got = (c.state.w[row.offset : row.offset + row.size].reshape(row.shape) for c in (checkpoint, loaded))
        if len(row.shape) == 1:
            assert np.array_equal(exact, got), row.name
            continue
        scale = np.abs(exact).max(axis=1, keepdims=True) / 127
        assert (np.abs(got - exact) <= 0.5001 * scale).all(), row.name
        assert not np.array_equal(got, exact) and len(np.unique(got[1] / scale[1])) <= 255
    save_tinygpt(tmp_path / "b", loaded, dtype="int8")
    again = load_tinygpt(tmp_path / "b").state.w
    np.testing.assert_allclose(again, loaded.state.w, rtol=2.0**-22)
    raw = (tmp_path / "a").read_bytes()
    (length,) = struct.unpack_from("<I", raw, 8)
    header, state = json.loads(raw[12 : 12 + length]), raw[12 + length :]
    matrices, vectors = ([row for row in rows if len(row.shape) == dims] for dims in (2, 1))
    size = sum(4 * row.shape[0] + row.size + -row.size % 4 for row in matrices) + sum(4 * row.size for row in vectors)
    assert header["dtype"] == "int8" and header["stateByteLength"] == len(state) == 4 + size
    assert header["sha256"] == hashlib.sha256(state).hexdigest()

    ends = 4 + np.cumsum([stored_bytes(row.shape, "int8") for row in rows])
    chunks = [state[begin:end] for begin, end in zip([4, *ends], ends, strict=False)]
    turned = {**header, "manifest": header["manifest"][::-1], "sha256": None}
    for entry, row in zip(turned["manifest"], rows[::-1], strict=True):
        entry["floatOffset"] = sum(later.size for later in rows if later.offset > row.offset)
    (tmp_path / "turned").write_bytes(packed(2, turned, state[:4] + b"".join(chunks[::-1])))
    assert load_tinygpt(tmp_path / "turned").state.w.tobytes() == loaded.state.w.tobytes()


def test_what_int8_cannot_hold(tmp_path):
    checkpoint = sample_checkpoint()
    with pytest.raises(TinyGPTError, match="a file in int8 holds weights alone, and this model has optimizer state"):
        save_tinygpt(tmp_path / "a", checkpoint, dtype="int8")
    save_tinygpt(tmp_path / "a", checkpoint, include_optimizer=False, dtype="int8")
    raw = (tmp_path / "a").read_bytes()
    (length,) = struct.unpack_from("<I", raw, 8)
    header, state = json.loads(raw[12 : 12 + length]), raw[12 + length :]
    del header["sha256"]

    def fault(header, state):
        text = json.dumps(header).encode()
        (tmp_path / "b").write_bytes(struct.pack("<4sII", b"TGPT", 2, len(text)) + text + state)
        with pytest.raises(TinyGPTError) as caught:
            load_tinygpt(tmp_path / "b")
        return str(caught.value)

    for scale in (math.inf, 3e38):  # times 127 is more than a float32 holds
        assert "token_embedding.weight holds NaN" in fault(header, state[:4] + struct.pack("<f", scale) + state[8:])
    assert "its layout must be 'out_in'" in fault({**header, "layout": None}, state)
    assert "bytes of state" in fault(header, state[:-4])
    assert "bytes of state" in fault({**header, "dtype": "float16", "stateByteLength": None}, state)


def test_what_float16_cannot_hold(tmp_path):
    checkpoint = sample_checkpoint()
    with pytest.raises(TinyGPTError, match="a file in float16 holds weights alone, and this model has optimizer state"):
        save_tinygpt(tmp_path / "a", checkpoint, dtype="float16")
    row = parameters(MODEL)[1]
    checkpoint.state.w[row.offset] = 65519  # is nearer to 65504 than to the next one there would be
    save_tinygpt(tmp_path / "a", checkpoint, include_optimizer=False, dtype="float16")
    assert load_tinygpt(tmp_path / "a").state.w[row.offset] == 65504
    before = (tmp_path / "a").read_bytes()
    checkpoint.state.w[row.offset] = -65520
    with pytest.raises(TinyGPTError, match=f"{row.name} holds -65520, and float16 reaches no further than 65504"):
        save_tinygpt(tmp_path / "a", checkpoint, include_optimizer=False, dtype="float16")
    assert (tmp_path / "a").read_bytes() == before


def test_same_checkpoint_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_tinygpt(tmp_path / name, sample_checkpoint())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    save_tinygpt(tmp_path / "c", load_tinygpt(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()


def test_another_optimizer_has_its_own_slots(tmp_path):
    checkpoint = sgd_checkpoint()
    save_tinygpt(tmp_path / "a.tinygpt", checkpoint)
    header = read_header(tmp_path / "a.tinygpt")
    assert (header["slots"], header["stateByteLength"]) == (["m"], 4 + 8 * parameter_count(MODEL))
    assert_same(checkpoint, load_tinygpt(tmp_path / "a.tinygpt"))


def test_slots_are_written_in_the_optimizers_order(tmp_path):
    checkpoint = sample_checkpoint()
    turned = checkpoint.state._replace(slots={name: checkpoint.state.slots[name] for name in ("v", "m")})
    save_tinygpt(tmp_path / "a", checkpoint)
    save_tinygpt(tmp_path / "b", replace(checkpoint, state=turned))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_an_unknown_optimizer_kept_is_read_and_only_its_weights_are_written_again(tmp_path):
    original = OriginalFile()
    config = {**original.config, "optimizer": "adafactor"}
    (tmp_path / "a").write_bytes(original.v2(slots=["rows", "columns"], config=config))
    found = load_tinygpt(tmp_path / "a")
    assert list(found.state.slots) == ["rows", "columns"] and found.left_out == ["config.optimizer"]
    with pytest.raises(TinyGPTError, match="keeps rows, columns trained this model, but adamw keeps m, v"):
        save_tinygpt(tmp_path / "b", found)
    save_tinygpt(tmp_path / "b", found, include_optimizer=False)
    assert load_tinygpt(tmp_path / "b").state.w.tobytes() == found.state.w.tobytes()


def test_bytes_are_as_documented(tmp_path):
    checkpoint = sample_checkpoint()
    save_tinygpt(tmp_path / "a.tinygpt", checkpoint)
    raw = (tmp_path / "a.tinygpt").read_bytes()
    magic, version, length = struct.unpack_from("<4sII", raw)
    header, state = json.loads(raw[12 : 12 + length]), raw[12 + length :]
    assert (magic, version) == (b"TGPT", 2)
    assert header["sha256"] == hashlib.sha256(state).hexdigest()
    assert header["stateByteLength"] == len(state)
    assert (header["layout"], header["dtype"], header["includesOptimizerState"]) == ("out_in", "float32", True)
    assert header["slots"] == ["m", "v"]
    assert header["config"]["dModel"] == 4 and header["config"]["learningRate"] == 1.1e-3
    assert header["config"]["maxSteps"] == 77 and header["config"]["backend"] == "native"
    assert header["rng"] == {"generator": "philox4x32-10", "seed": 4294967295, "step": 40}
    assert struct.unpack_from("<i", state) == (40,)
    floats = np.frombuffer(state, "<f4", offset=4)
    for row, entry in zip(parameters(MODEL), header["manifest"], strict=True):
        assert (entry["name"], tuple(entry["shape"])) == (row.name, row.shape)
        for index, vector in enumerate((checkpoint.state.w, *checkpoint.state.slots.values())):
            start = entry["floatOffset"] + index * row.size
            np.testing.assert_array_equal(floats[start : start + row.size], vector[row.offset : row.offset + row.size])
    assert read_header(tmp_path / "a.tinygpt") == header


@pytest.mark.parametrize("optimizer", [True, False])
def test_original_files_load_untransposed(tmp_path, optimizer):
    original = OriginalFile(optimizer)
    for name, raw in (("v1", original.v1()), ("v2", original.v2())):
        (tmp_path / name).write_bytes(raw)
        checkpoint = load_tinygpt(tmp_path / name)
        original.assert_loaded(checkpoint)
        assert checkpoint.backend == "webgpu"
        assert (checkpoint.config.train.batch, checkpoint.config.train.eval_every) == (8, 50)
        assert checkpoint.config.train.beta2 == 0.95  # a key the original lacks takes its default


def test_original_loaded_and_saved_as_ours_is_the_same_model(tmp_path):
    original = OriginalFile()
    (tmp_path / "theirs").write_bytes(original.v2())
    save_tinygpt(tmp_path / "ours", load_tinygpt(tmp_path / "theirs"))
    assert read_header(tmp_path / "ours")["layout"] == "out_in"
    original.assert_loaded(load_tinygpt(tmp_path / "ours"))


def test_layout_in_out_states_its_true_shapes(tmp_path):
    original = OriginalFile()
    manifest = [
        {
            **entry,
            "shape": entry["shape"][::-1] if "_proj" in entry["name"] or "fc_" in entry["name"] else entry["shape"],
        }
        for entry in original.manifest
    ]
    (tmp_path / "a").write_bytes(original.v2(layout="in_out", manifest=manifest))
    original.assert_loaded(load_tinygpt(tmp_path / "a"))


def test_layout_out_in_is_not_transposed(tmp_path):
    original = OriginalFile()
    (tmp_path / "a").write_bytes(original.v2(layout="out_in"))
    with pytest.raises(AssertionError):
        original.assert_loaded(load_tinygpt(tmp_path / "a"))


def test_offsets_may_count_weights_alone(tmp_path):
    original = OriginalFile()
    manifest = [{**entry, "floatOffset": entry["floatOffset"] // 3} for entry in original.manifest]
    (tmp_path / "a").write_bytes(original.v2(manifest=manifest))
    original.assert_loaded(load_tinygpt(tmp_path / "a"))


def test_state_follows_the_manifest_order(tmp_path):
    original = OriginalFile(optimizer=False)
    sizes = [math.prod(entry["shape"]) * 4 for entry in original.manifest]
    ends = np.cumsum(sizes) + 4
    chunks = [original.state[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    manifest, offset = [], 0
    for entry, chunk in zip(original.manifest[::-1], chunks[::-1], strict=True):
        manifest.append({**entry, "floatOffset": offset})
        offset += len(chunk) // 4
    raw = packed(2, {**original.header(), "manifest": manifest}, original.state[:4] + b"".join(chunks[::-1]))
    (tmp_path / "a").write_bytes(raw)
    original.assert_loaded(load_tinygpt(tmp_path / "a"))


@pytest.mark.parametrize(
    ("history", "points"),
    [
        ([5.5, 4.0, 3.0], [(1, 5.5), (62, 4.0), (123, 3.0)]),
        ([[1, 5.5], [9, 4]], [(1, 5.5), (9, 4.0)]),
        ([{"step": 2, "loss": 5.5}, {"step": 7, "loss": 1, "val": 2}], [(2, 5.5), (7, 1.0)]),
        ([{"step": 2, "train": 5.5, "val": None}, {"step": 7, "train": 1}], [(2, 5.5), (7, 1.0)]),
        ([[1, 5], [2, None], [3, 4]], [(1, 5.0), (3, 4.0)]),
        ([], []),
        (None, []),
        ([2.5], [(1, 2.5)]),
    ],
)
def test_loss_history_in_any_form(tmp_path, history, points):
    (tmp_path / "a").write_bytes(OriginalFile().v2(lossHistory=history))
    loaded = load_tinygpt(tmp_path / "a")
    assert loaded.progress.history.points == points and not loaded.left_out


def test_only_required_keys_are_required(tmp_path):
    original = OriginalFile()
    config = {key: original.config[key] for key in ("ctx", "layers", "heads", "dModel")} | {"colour": "red"}
    header = {"config": config, "manifest": original.manifest, "unknown": [1]}
    (tmp_path / "a").write_bytes(packed(2, header, original.state))
    checkpoint = load_tinygpt(tmp_path / "a")
    original.assert_loaded(checkpoint)
    assert (checkpoint.backend, checkpoint.saved_at, checkpoint.data, checkpoint.lora) == ("", "", {}, None)


def test_json_is_strict_where_losses_are_not_finite(tmp_path):
    checkpoint = sample_checkpoint()
    checkpoint.progress.loss = float("nan")
    checkpoint.progress.best_val = float("inf")
    checkpoint.progress.history.points = [(1, 5.5), (2, float("nan")), (3, np.float32(4.5))]
    save_tinygpt(tmp_path / "a", checkpoint)
    header = read_header(tmp_path / "a")
    assert (header["finalLoss"], header["bestVal"]) == (None, None)
    assert header["lossHistory"] == [[1, 5.5], [2, None], [3, 4.5]]
    loaded = load_tinygpt(tmp_path / "a")
    assert loaded.progress.loss is None and loaded.progress.history.points == [(1, 5.5), (3, 4.5)]
    assert not loaded.left_out


def test_sample_is_cut_to_320_characters(tmp_path):
    checkpoint = sample_checkpoint()
    checkpoint.progress.sample = "日" * 1000
    save_tinygpt(tmp_path / "a", checkpoint)
    assert load_tinygpt(tmp_path / "a").progress.sample == "日" * 320


def test_memory_stays_near_the_state(tmp_path):
    model = ModelConfig(layers=4, d_model=256, heads=8, ctx=64)
    state_bytes = 12 * parameter_count(model)
    checkpoint = sample_checkpoint(model)
    slack = 3 << 20  # headers, and one tensor of this model at a time
    tracemalloc.start()
    try:
        save_tinygpt(tmp_path / "a", checkpoint)
        assert tracemalloc.get_traced_memory()[1] < slack
        tracemalloc.reset_peak()
        load_tinygpt(tmp_path / "a")
        assert tracemalloc.get_traced_memory()[1] < state_bytes + slack
    finally:
        tracemalloc.stop()


def test_defaults_of_a_checkpoint(tmp_path):
    sample = sample_checkpoint()
    save_tinygpt(tmp_path / "a", Checkpoint(sample.config, sample.state))
    assert load_tinygpt(tmp_path / "a").progress.as_dict() == {**Progress().as_dict(), "step": sample.state.step}
