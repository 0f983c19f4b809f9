"""safetensors: weights and run survive; a foreign or damaged file gets one sentence."""

import json
import resource
import struct

import numpy as np
import pytest
from format_samples import MODEL, assert_same, sample_checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.store.formats import load_safetensors, save_safetensors

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_round_trip(tmp_path):
    path = tmp_path / "a.safetensors"
    save_safetensors(path, sample_checkpoint())
    assert_same(sample_checkpoint(), load_safetensors(path), optimizer=False)
    first = path.read_bytes()
    save_safetensors(path, load_safetensors(path))
    assert path.read_bytes() == first


def test_any_reader_sees_our_names(tmp_path):
    checkpoint = sample_checkpoint()
    save_safetensors(tmp_path / "a.safetensors", checkpoint)
    tensors = load_file(tmp_path / "a.safetensors")
    assert sorted(tensors) == sorted(row.name for row in parameters(MODEL))
    for row in parameters(MODEL):
        expected = checkpoint.state.w[row.offset : row.offset + row.size].reshape(row.shape)
        np.testing.assert_array_equal(tensors[row.name], expected)


@pytest.fixture
def tensors_and_metadata(tmp_path):
    save_safetensors(tmp_path / "a.safetensors", sample_checkpoint())
    raw = (tmp_path / "a.safetensors").read_bytes()
    length = struct.unpack_from("<Q", raw)[0]
    return load_file(tmp_path / "a.safetensors"), json.loads(raw[8 : 8 + length])["__metadata__"]


def test_half_precision_is_widened(tmp_path, tensors_and_metadata):
    import torch
    from safetensors.torch import save_file as save_torch

    tensors, metadata = tensors_and_metadata
    for dtype in (torch.float16, torch.bfloat16):
        halves = {name: torch.from_numpy(values).to(dtype) for name, values in tensors.items()}
        save_torch(halves, tmp_path / "half.safetensors", metadata)
        w = load_safetensors(tmp_path / "half.safetensors").state.w
        for row in parameters(MODEL):
            actual = w[row.offset : row.offset + row.size].reshape(row.shape)
            np.testing.assert_array_equal(actual, halves[row.name].float().numpy())


def test_faults_of_tensors(tmp_path, tensors_and_metadata):
    tensors, metadata = tensors_and_metadata
    name = "blocks.0.attn.q_proj.weight"
    nan = tensors[name].copy()
    nan[0, 0] = np.nan
    without = {key: value for key, value in tensors.items() if key != name}
    cases = [
        ({**tensors, name: tensors[name].astype(np.float64)}, "is F64; only F32"),
        ({**tensors, name: tensors[name].astype(np.int32)}, "is I32; only F32"),
        ({**tensors, name: tensors[name][:3].copy()}, r"must have shape \[4, 4\], not \[3, 4\]"),
        ({**tensors, name: nan}, "holds NaN"),
        (without, f"lacks the tensor '{name}'"),
        ({**tensors, "extra\n": tensors[name]}, r"holds the tensor 'extra '"),
        ({}, "lacks the tensor"),
    ]
    for changed, fault in cases:
        save_file(changed, tmp_path / "b.safetensors", metadata)
        with pytest.raises(TinyGPTError, match=rf"b\.safetensors: .*{fault}"):
            load_safetensors(tmp_path / "b.safetensors")


def test_faults_of_metadata(tmp_path, tensors_and_metadata):
    tensors, metadata = tensors_and_metadata
    description = json.loads(metadata["tinygpt"])
    cases = [
        (None, "number of heads is unknown"),
        ({"format": "pt"}, "number of heads is unknown"),
        ({"tinygpt": "{"}, "broken JSON"),
        ({"tinygpt": "[" * 100_000}, "nested too deeply"),
        ({"tinygpt": "[]"}, "must be a JSON object"),
        ({"tinygpt": json.dumps({**description, "step": "x"})}, "step must be a whole number"),
        ({"tinygpt": json.dumps({**description, "config": None})}, "config must be a JSON object"),
        ({"tinygpt": json.dumps({**description, "config": {}})}, "config has no 'layers'"),
    ]
    for changed, fault in cases:
        save_file(tensors, tmp_path / "b.safetensors", changed)
        with pytest.raises(TinyGPTError, match=rf"b\.safetensors: .*{fault}"):
            load_safetensors(tmp_path / "b.safetensors")


def test_not_a_safetensors_file(tmp_path):
    for name, fault in (("", "is a folder"), ("none", "no such file")):
        with pytest.raises(TinyGPTError, match=fault):
            load_safetensors(tmp_path / name)
    path = tmp_path / "a"
    for raw in (b"", b"\xff" * 7, b"\2" + b"\0" * 7 + b"{", b"\0\0\x10" + b"\0" * 5, b"\xff" * 100):
        path.write_bytes(raw)
        with pytest.raises(TinyGPTError):
            load_safetensors(path)


def test_absurd_claims_allocate_nothing(tmp_path, tensors_and_metadata):
    _, metadata = tensors_and_metadata
    description = json.loads(metadata["tinygpt"])
    description["config"].update(dModel=65536, heads=1, dMlp=4 * 65536)
    shape = [256, 65536]
    claim = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * 256 * 65536]}
    header = json.dumps({"__metadata__": {"tinygpt": json.dumps(description)}, "token_embedding.weight": claim})
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(header)) + header.encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TinyGPTError, match="no sound safetensors"):
        load_safetensors(tmp_path / "a")
    with (tmp_path / "b").open("wb") as file:
        file.write(struct.pack("<Q", 90_000_000))
        file.truncate(100_000_000)
    with pytest.raises(TinyGPTError, match="is the most"):
        load_safetensors(tmp_path / "b")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "good.safetensors"
    save_safetensors(path, sample_checkpoint())
    return path.read_bytes()


def load_or_refuse(path, raw: bytes) -> None:
    path.write_bytes(raw)
    try:
        assert load_safetensors(path).state.w.size == sample_checkpoint().state.w.size
    except TinyGPTError as fault:
        assert str(fault).startswith(f"{path}: ") and str(fault).isprintable()


@FUZZ
@given(data=st.data(), flips=st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 255)), max_size=4))
def test_fuzz(tmp_path, good, data, flips):
    raw = bytearray(good)
    for position, bits in flips:
        raw[position % (len(raw) if position % 2 else 4500)] ^= bits
    load_or_refuse(tmp_path / "a", bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    load_or_refuse(tmp_path / "a", bytes(raw))


@FUZZ
@given(length=st.integers(0, 2**64 - 1), tail=st.binary(max_size=200))
def test_fuzz_noise(tmp_path, length, tail):
    load_or_refuse(tmp_path / "a", struct.pack("<Q", length) + tail)
    load_or_refuse(tmp_path / "a", struct.pack("<Q", len(tail)) + tail)
