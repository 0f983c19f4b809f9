"""An adapter's file: what is refused, to write and to read."""

import json
import math
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lora_lab import MODEL, make_model, random_adapter

from tinygpt.core.config import LoraConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tab import file
from tinygpt.engines.base import State
from tinygpt.kernels.init import initial_weights
from tinygpt.store.formats import load_safetensors, save_safetensors
from tinygpt.store.formats.adapter_file import ADAPTER_KEY, Adapter, load_adapter, save_adapter
from tinygpt.store.formats.checkpoint import Checkpoint

HEADER_AT = 8  # a safetensors file: 8 bytes of length, the header, the tensors


def test_an_adapter_that_diverged_is_not_written(tmp_path):
    adapter = random_adapter(make_model(), 16)
    adapter.run.state.w[5] = np.nan
    path = tmp_path / "a.safetensors"
    with pytest.raises(TinyGPTError, match="NaN or infinity"):
        save_adapter(path, adapter)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TinyGPTError, match="there is no folder"):
        save_adapter(tmp_path / "missing" / "a.safetensors", random_adapter(make_model(), 16))


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "a.safetensors"
    save_adapter(path, random_adapter(make_model(), 17, LoraConfig(rank=1, targets="q_proj")))
    return path.read_bytes()


def refusal(path, raw: bytes) -> str:
    """The one sentence for a bad file, once it is known that little was allocated on the way to it."""
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(TinyGPTError) as caught:
            load_adapter(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ") and str(caught.value).isprintable()
    assert in_the_page(raw) is None or in_the_page(raw) == "NaN"
    return str(caught.value)


def in_the_page(raw: bytes) -> dict | str | None:
    """What core's own reader finds in a file, by which the page moves its floats; None where it refuses it."""
    request = {"prefix": list(raw[:12]), "size": len(raw), "step": list(raw[-4:])}
    told = json.loads(file.measure(json.dumps(request)))
    if "error" in told:
        assert told["error"].isprintable()
        return None
    begin, end = told["start"], told["start"] + told["length"]
    try:
        text = raw[begin:end].decode()
        json.loads(text)
    except ValueError:  # JavaScript takes the text first
        return None
    found = json.loads(file.front(json.dumps(request), text))
    if "error" in found:
        assert found["error"].isprintable()
        return None
    for _, places, _, size, *_ in found["pieces"]:
        for place in places:
            if not np.isfinite(np.frombuffer(raw, "<f4", size, end + place)).all():
                return "NaN"
    return found


def rewritten(raw: bytes, change) -> bytes:
    """The file with `change` done to its header (parsed) and its description (parsed)."""
    length = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[HEADER_AT : HEADER_AT + length])
    description = json.loads(header["__metadata__"][ADAPTER_KEY])
    change(header, description)
    header["__metadata__"].setdefault(ADAPTER_KEY, "")
    header["__metadata__"][ADAPTER_KEY] = json.dumps(description)
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + raw[HEADER_AT + length :]


def test_faults_in_a_file_are_named(tmp_path, good):
    path = tmp_path / "a.safetensors"

    def told(change) -> str:
        return refusal(path, rewritten(good, change))

    assert load_adapter_from(path, rewritten(good, lambda header, about: None)).name == "wild"
    assert in_the_page(good)["adapter"] == {"name": "wild", "baseSha256": load_adapter_from(path, good).base_sha256}
    assert "no sound safetensors file" in refusal(path, b"")
    assert "no sound safetensors file" in refusal(path, good[:-4])
    assert "4194304 is the most" in refusal(path, b"\xff" * 8 + good[8:])
    assert "lora must be a JSON object" in told(lambda header, about: about.pop("lora"))
    assert "lora.rank must be a number" in told(lambda header, about: about["lora"].pop("rank"))
    assert "must have shape [4096, 24]" in told(lambda header, about: about["lora"].update(rank=4096))
    assert "did you mean 'q_proj'" in told(lambda header, about: about["lora"].update(targets="q_pro"))
    assert "more than 200 characters" in told(lambda header, about: about["lora"].update(targets="x" * 1_000_000))
    assert "lacks the tensor" in told(lambda header, about: about["lora"].update(targets="q_proj,k_proj"))
    assert "lacks the tensor" in told(lambda header, about: about["config"].update(layers=1024))
    assert "holds the tensor" in told(lambda header, about: about["config"].update(layers=1))
    assert "must have shape [1, 65536]" in told(
        lambda header, about: about["config"].update(dModel=65536, dMlp=None, heads=1)
    )
    assert "baseSha256 must be text" in told(lambda header, about: about["lora"].pop("baseSha256"))
    assert "step must be" in told(lambda header, about: about.update(step=-1))
    assert "NaN or infinity" in refusal(path, good[:-4] + struct.pack("<f", math.nan))
    path.unlink()
    with pytest.raises(TinyGPTError, match="there is no such file"):
        load_adapter(path)


def load_adapter_from(path, raw: bytes) -> Adapter:
    path.write_bytes(raw)
    return load_adapter(path)


def test_models_and_adapters_are_not_taken_for_each_other(tmp_path, good):
    path = tmp_path / "a.safetensors"
    save_safetensors(path, Checkpoint(RunConfig(MODEL, TrainConfig()), State(0, initial_weights(MODEL, 1))))
    with pytest.raises(TinyGPTError, match="this is no adapter"):
        load_adapter(path)
    path.write_bytes(good)
    with pytest.raises(TinyGPTError):
        load_safetensors(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_end_in_a_traceback(tmp_path, good, data):
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))]
    in_the_page(bytes(raw))
    try:
        load_adapter_from(tmp_path / "a.safetensors", bytes(raw))
    except TinyGPTError as fault:
        assert str(fault).isprintable()
