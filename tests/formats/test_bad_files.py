"""Whatever a .tinygpt file holds, its reader gives a Checkpoint or one clear sentence, and allocates little."""

import json
import os
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from bad_headers import CHANGES, JSON_FAULTS, parts, put
from format_samples import OriginalFile, packed, sample_checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.optimizers import slot_names
from tinygpt.store.formats import load_tinygpt, read_header, save_tinygpt

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SMALL_ALLOCATION = 8 << 20  # bytes; the sample file has some 20 KB


@contextmanager
def allocating_little() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < SMALL_ALLOCATION
    finally:
        tracemalloc.stop()


def refusal(path: Path, raw: bytes, load=load_tinygpt) -> str:
    path.write_bytes(raw)
    with allocating_little(), pytest.raises(TinyGPTError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and message.isprintable() and len(message) < len(str(path)) + 400
    return message


def load_or_refuse(path: Path, raw: bytes):
    path.write_bytes(raw)
    with allocating_little():
        try:
            return load_tinygpt(path)
        except TinyGPTError as fault:
            assert str(fault).startswith(f"{path}: ") and str(fault).isprintable()
            return None


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "good.tinygpt"
    save_tinygpt(path, sample_checkpoint())
    return path.read_bytes()


def test_faults_of_the_frame(tmp_path, good):
    path = tmp_path / "a.tinygpt"
    assert "does not start with 'TGPT'" in refusal(path, b"")
    assert "does not start with 'TGPT'" in refusal(path, b"PK\3\4" + good[4:])
    assert "first 12 bytes" in refusal(path, good[:11])
    assert "version 3 is unknown" in refusal(path, good[:4] + struct.pack("<I", 3) + good[8:])
    assert "version 0 is unknown" in refusal(path, good[:4] + struct.pack("<I", 0) + good[8:])
    assert "header is said to have 4294967295 bytes" in refusal(path, good[:8] + b"\xff" * 4 + good[12:])
    assert "bytes of state" in refusal(path, good[:-1])
    assert "bytes of state" in refusal(path, good + b"\0")


def test_long_header_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.tinygpt"
    with path.open("wb") as file:
        file.write(struct.pack("<4sII", b"TGPT", 2, 1 << 31))
        file.truncate(1 << 33)  # sparse: takes no room
    with allocating_little(), pytest.raises(TinyGPTError, match="is the most"):
        load_tinygpt(path)


@pytest.mark.parametrize(("header", "fault"), JSON_FAULTS)
def test_faults_of_the_json(tmp_path, header, fault):
    path = tmp_path / "a.tinygpt"
    path.write_bytes(packed(2, header, bytes(4)))
    with pytest.raises(TinyGPTError, match=fault):
        load_tinygpt(path)


@pytest.mark.parametrize(("route", "value", "fault"), CHANGES)
def test_faults_of_the_header(tmp_path, good, route, value, fault):
    header, state = parts(good)
    put(header, route, value)
    path = tmp_path / "a.tinygpt"
    path.write_bytes(packed(2, header, state))
    with allocating_little(), pytest.raises(TinyGPTError, match=fault):
        load_tinygpt(path)
    if route != "sha256" or not isinstance(value, str):
        with pytest.raises(TinyGPTError, match=fault):
            read_header(path)


def test_a_giant_model_in_a_small_file_allocates_nothing(tmp_path, good):
    header, state = parts(good)
    header["config"].update(layers=1024, dModel=65536, heads=1024, ctx=1048576, dMlp=4 * 65536)
    path = tmp_path / "a.tinygpt"
    path.write_bytes(packed(2, header, state))
    tracemalloc.start()
    try:
        with pytest.raises(TinyGPTError, match="bytes of state"):
            load_tinygpt(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * SMALL_ALLOCATION  # the list of its 16k tensors
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("vector", ["w", "m", "v"])
def test_weights_that_are_not_finite(tmp_path, bad, vector):
    original = OriginalFile()
    floats = np.frombuffer(original.state[4:], "<f4").copy()
    index = {"w": 0, "m": 256 * 6, "v": 2 * 256 * 6}[vector]
    floats[index] = bad
    raw = packed(2, original.header(), original.state[:4] + floats.tobytes())
    assert "token_embedding.weight holds NaN or infinity" in refusal(tmp_path / "a", raw)


def test_negative_step(tmp_path):
    original = OriginalFile()
    raw = packed(2, original.header(), struct.pack("<i", -1) + original.state[4:])
    assert "step must be from" in refusal(tmp_path / "a", raw)


def test_version_1_of_a_wrong_size(tmp_path):
    raw = OriginalFile().v1()
    assert "bytes of state" in refusal(tmp_path / "a", raw + b"\0\0\0\0")
    assert "bytes of state" in refusal(tmp_path / "a", raw[:-4])


def test_not_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, fault in (("", "is a folder"), ("none", "no such file"), ("pipe", "not a plain file")):
        with pytest.raises(TinyGPTError, match=fault):
            load_tinygpt(tmp_path / name)
    with pytest.raises(TinyGPTError, match="no file name"):
        load_tinygpt("a\0b")


@FUZZ
@given(data=st.data())
def test_fuzz_truncation(tmp_path, good, data):
    cut = data.draw(st.integers(0, len(good) - 1))
    assert load_or_refuse(tmp_path / "a", good[:cut]) is None


@FUZZ
@given(flips=st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 255)), min_size=1, max_size=4))
def test_fuzz_flipped_bytes(tmp_path, good, flips):
    raw = bytearray(good)
    for position, bits in flips:
        raw[position % len(raw)] ^= bits
    loaded = load_or_refuse(tmp_path / "a", bytes(raw))
    if loaded is not None and {"layout", "sha256"} <= parts(bytes(raw))[0].keys():
        np.testing.assert_array_equal(loaded.state.w, sample_checkpoint().state.w)


@FUZZ
@given(words=st.binary(min_size=8, max_size=8), tail=st.binary(max_size=400))
def test_fuzz_noise(tmp_path, words, tail):
    load_or_refuse(tmp_path / "a", b"TGPT" + words + tail)
    load_or_refuse(tmp_path / "a", b"TGPT\2\0\0\0" + words[:2] + b"\0\0" + tail)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def routes(value: object, prefix: tuple = ()) -> Iterator[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*prefix, key)
        yield from routes(inner, (*prefix, key))


@FUZZ
@given(data=st.data(), replacement=JSON, delete=st.booleans())
def test_fuzz_header_mutations(tmp_path, good, data, replacement, delete):
    header, state = parts(good)
    everywhere = [route for route in routes(header) if route[0] not in ("manifest", "lossHistory")]
    everywhere += [route for route in routes(header) if route[0] == "manifest"][:8]
    everywhere += [("lossHistory",), ("lossHistory", 0), ("lossHistory", 0, 0), ("lossHistory", 0, 1)]
    *folders, last = data.draw(st.sampled_from(everywhere))
    target: object = header
    for key in folders:
        target = target[key]
    if delete:
        del target[last]
    else:
        target[last] = replacement
    raw = packed(2, json.dumps(header).encode(), state)
    loaded = load_or_refuse(tmp_path / "a", raw)
    if loaded is not None:  # then it is sound all through
        known = tuple(loaded.state.slots) == slot_names(loaded.config.train)  # of another optimizer weights are written
        save_tinygpt(tmp_path / "b", loaded, include_optimizer=known)
        again = load_tinygpt(tmp_path / "b")
        np.testing.assert_array_equal(again.state.w, loaded.state.w)
        assert again.config == loaded.config
