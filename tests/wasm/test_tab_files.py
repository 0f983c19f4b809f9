"""A file in the tab: what the page's reader takes, refuses and loads is what Python's takes, refuses and loads."""

import base64
import hashlib
import json
import math
import random
import struct
from dataclasses import replace

import numpy as np
import pytest
from bad_headers import CHANGES, JSON_FAULTS, parts, put
from format_samples import OriginalFile, halves_checkpoint, packed, sample_checkpoint, sgd_checkpoint
from recording import evaluate
from test_tables import with_tables

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import left_out_sentence
from tinygpt.core.models.parameters import parameters
from tinygpt.core.optimizers import optimizer_of
from tinygpt.store.formats import load_tinygpt, save_tinygpt

OPEN = """
const { ModelFile } = await import("/worker/modelfile.ts");
const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));
const opened = [];
for (const text of FILES) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  try {
    const file = await ModelFile.open(bytes, python.file);
    const { config, progress, leftOut } = file.front;
    const { step, loss, history, sample } = progress;
    opened.push({ step, state: await digest(file.body()), config, loss, history, sample, leftOut });
  } catch (error) {
    opened.push({ error: error.message });
  }
}
return opened;
"""


def in_the_tab(chromium, *files: bytes) -> list[dict]:
    return evaluate(chromium, OPEN, FILES=[base64.b64encode(file).decode() for file in files])


def in_python(path, file: bytes) -> dict:
    path.write_bytes(file)
    try:
        found = load_tinygpt(path)
    except TinyGPTError as fault:
        return {"error": str(fault).removeprefix(f"{path}: ")}
    w, slots = found.state.w, found.state.slots
    vectors = [w] + [slots.get(name, np.zeros_like(w)) for name in optimizer_of(found.config.train).slots]
    every = parameters(found.config.model)
    state = b"".join(vector[row.offset : row.offset + row.size] for row in every for vector in vectors)
    if found.state.tables is not None:
        rows, squares = found.state.tables
        state += rows.tobytes() + (np.zeros(len(rows), np.float32) if squares is None else squares).tobytes()
    progress = found.progress
    return {
        "step": found.state.step,
        "state": hashlib.sha256(state).hexdigest(),
        "config": found.config.as_dict(),
        "loss": progress.loss,
        "history": [list(point) for point in progress.history.points],
        "sample": progress.sample,
        "leftOut": left_out_sentence(found.left_out),
    }


def in_words(result: dict) -> dict:
    """The two interpreters word the fault within a broken text differently."""
    return {"error": result["error"].partition(" (")[0]} if "error" in result else result


def assert_agree(chromium, tmp_path, files: list[bytes]) -> list[dict]:
    expected = [in_python(tmp_path / "a.tinygpt", file) for file in files]
    for got, wanted, file in zip(in_the_tab(chromium, *files), expected, files, strict=True):
        assert in_words(got) == in_words(wanted), file[:200]
    return expected


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "good.tinygpt"
    save_tinygpt(path, sample_checkpoint())
    return path.read_bytes()


def reordered(original: OriginalFile, first: str, second: str) -> bytes:
    """The same model with two tensors swapped, in the manifest and in the state."""
    arrays = original.arrays
    chunks = {}
    for entry in original.manifest:
        start = 4 + 4 * entry["floatOffset"]
        chunks[entry["name"]] = original.state[start : start + 4 * arrays * math.prod(entry["shape"])]
    names = {first: second, second: first}
    by_name = {entry["name"]: entry for entry in original.manifest}
    manifest, state = [], original.state[:4]
    for entry in original.manifest:
        name = names.get(entry["name"], entry["name"])
        manifest.append({**by_name[name], "floatOffset": (len(state) - 4) // 4})
        state += chunks[name]
    return packed(2, {**original.header(), "manifest": manifest}, state)


def test_good_files(chromium, tmp_path, good):
    full, bare = OriginalFile(), OriginalFile(optimizer=False)
    linear = ("_proj.weight", "fc_in.weight", "fc_out.weight")
    turned = [
        {**entry, "shape": entry["shape"][::-1] if entry["name"].endswith(linear) else entry["shape"]}
        for entry in full.manifest
    ]
    alone = [{**entry, "floatOffset": entry["floatOffset"] // 3} for entry in full.manifest]
    files = [good, full.v1(), full.v2(), bare.v1(), bare.v2(), full.v2(layout="out_in")]
    files += [full.v2(layout="in_out", manifest=turned), full.v2(manifest=turned), full.v2(manifest=alone)]
    files.append(full.v2(sample="\ud83d\ude00 \ud83d!", colour=1, lossHistory=[[1, 5], [2, None], "x", [3, 4]]))
    files.append(full.v2(finalLoss={"step": 9, "train": 3.5, "val": None}, bestVal={"loss": 3.0, "step": 2}))
    save_tinygpt(tmp_path / "sgd.tinygpt", sgd_checkpoint())
    files += [(tmp_path / "sgd.tinygpt").read_bytes(), full.v2(slots=["rows", "columns"])]
    results = assert_agree(chromium, tmp_path, files)
    assert not any("error" in result for result in results)
    assert results[1]["state"] == results[2]["state"] == results[6]["state"] != results[5]["state"]


def test_float16(chromium, tmp_path):
    """Each of them, and files that only claim to be in it."""
    files = []
    for bits in (range(0x7C00), range(0x8000, 0xFC00)):
        save_tinygpt(tmp_path / "half", halves_checkpoint(bits), dtype="float16")
        files.append((tmp_path / "half").read_bytes())
    header, state = parts(files[-1])
    del header["sha256"]
    files.append(packed(2, {**header, "layout": None}, state))  # its matrices are turned
    results = assert_agree(chromium, tmp_path, files)
    assert len({result["state"] for result in results}) == 3
    bad = [packed(2, {**header, "dtype": "float32"}, state), files[0][:-1], packed(2, header, state[:-2] + b"\x00\x7c")]
    bad += [packed(2, header, state[:-2] + b"\x01\xfc"), files[0][:-2] + b"\0\0"]
    assert all("error" in result for result in assert_agree(chromium, tmp_path, bad))


def test_int8(chromium, tmp_path):
    save_tinygpt(tmp_path / "small", sample_checkpoint(optimizer=False), dtype="int8")
    whole = (tmp_path / "small").read_bytes()
    header, state = parts(whole)
    del header["sha256"]
    assert "error" not in assert_agree(chromium, tmp_path, [whole])[0]
    bad = [whole[:-4], packed(2, header, state[:4] + b"\0\0\x80\x7f" + state[8:])]  # a scale that is infinite
    assert all("error" in result for result in assert_agree(chromium, tmp_path, [*bad, packed(1, header, state[:-1])]))


def test_tables(chromium, tmp_path):
    files = []
    for optimizer, dtype in ((True, "float32"), (False, "float32"), (False, "float16"), (False, "int8")):
        save_tinygpt(tmp_path / "tables", with_tables(optimizer), dtype=dtype)
        files.append((tmp_path / "tables").read_bytes())
    results = assert_agree(chromium, tmp_path, files)
    assert len({result["state"] for result in results}) == 4
    header, state = parts(files[1])
    del header["sha256"]
    rows = len(state) - 5 * 16  # where the stored ones begin
    bad = [packed(2, {**header, "tables": {**header["tables"], "rows": 4}}, state), files[0][:-4]]
    bad += [packed(2, header, state[: rows - 64] + b"\xff" + state[rows - 63 :])]
    bad += [packed(2, header, state[:-4] + b"\0\0\x80\x7f")]  # infinity
    assert all("error" in result for result in assert_agree(chromium, tmp_path, bad))


def test_the_manifest_says_the_order(chromium, tmp_path):
    original = OriginalFile()
    swapped = reordered(original, "blocks.0.attn.q_proj.weight", "blocks.0.attn.k_proj.weight")
    results = assert_agree(chromium, tmp_path, [original.v2(), swapped])
    assert swapped != original.v2() and results[0]["state"] == results[1]["state"]


def test_bad_files(chromium, tmp_path, good):
    original = OriginalFile()
    files = [b"", b"PK\3\4" + good[4:], good[:11], good[:4] + struct.pack("<I", 3) + good[8:], good[:-1], good + b"\0"]
    files += [
        good[:8] + b"\xff" * 4 + good[12:],
        packed(2, b'{"a" 1}', bytes(4)),
        packed(2, b"\xef\xbb\xbf{}", bytes(4)),
    ]
    files.append(packed(2, original.header(), struct.pack("<i", -1) + original.state[4:]))
    files.append(packed(2, b" " * (4 << 20) + b"{}", bytes(4)))
    files += [packed(2, header, bytes(4)) for header, _ in JSON_FAULTS if len(header) < 1000]
    for route, value, _ in CHANGES:
        header, state = parts(good)
        put(header, route, value)
        files.append(packed(2, header, state))
    for bad in (np.nan, np.inf, -np.inf):
        floats = np.frombuffer(original.state[4:], "<f4").copy()
        floats[2 * 256 * 6] = bad
        files.append(packed(2, original.header(), original.state[:4] + floats.tobytes()))
    assert all("error" in result for result in assert_agree(chromium, tmp_path, files))


def test_flipped_bytes(chromium, tmp_path, good):
    draw = random.Random(5)
    files = []
    for _ in range(60):
        raw = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            raw[draw.randrange(len(raw) // 3)] ^= draw.randrange(1, 256)
        files.append(bytes(raw))
    assert_agree(chromium, tmp_path, files)


@pytest.mark.parametrize("layers", [256, pytest.param(1024, marks=pytest.mark.slow)])
def test_a_giant_in_name_and_many_thin_layers(chromium, tmp_path, good, layers):
    header, state = parts(good)
    header["config"].update(layers=1024, dModel=65536, heads=1024, ctx=1048576, dMlp=4 * 65536)
    header["stateByteLength"] = None
    save_tinygpt(
        tmp_path / "thin", sample_checkpoint(ModelConfig(layers=layers, d_model=1, heads=1, ctx=2), optimizer=False)
    )
    giant, thin = assert_agree(chromium, tmp_path, [packed(2, header, state), (tmp_path / "thin").read_bytes()])
    assert "bytes of state" in giant["error"] and thin["config"]["model"]["layers"] == layers


SAVE = """
const { ModelFile, writeModelFile } = await import("/worker/modelfile.ts");
const bytes = Uint8Array.from(atob(FILE), (letter) => letter.charCodeAt(0));
const file = await ModelFile.open(bytes, python.file);
const request = { preset: "", recipe: "", changes: {}, bytes: null, origin: file.origin };
const session = python.session.Session(JSON.stringify(request));
const saved = await writeModelFile(JSON.parse(session.header_text()), file.front.progress.step, file.body());
return btoa(String.fromCharCode(...saved));
"""


@pytest.mark.parametrize("optimizer", [True, False])
def test_an_originals_file_is_saved_as_one_of_ours(chromium, tmp_path, optimizer):
    original = OriginalFile(optimizer)
    saved = evaluate(chromium, SAVE, FILE=base64.b64encode(original.v2()).decode())
    (tmp_path / "saved.tinygpt").write_bytes(base64.b64decode(saved))
    checkpoint = load_tinygpt(tmp_path / "saved.tinygpt")
    if not optimizer:
        assert not checkpoint.state.slots["m"].any() and not checkpoint.state.slots["v"].any()
        checkpoint = replace(checkpoint, state=checkpoint.state._replace(slots={}))
    original.assert_loaded(checkpoint)
    assert checkpoint.progress.history.points == [(1, 5.5), (62, 4.0), (123, 3.0)]


def test_json_that_only_python_could_mistake(chromium, tmp_path, good):
    """Texts and keys with quotes, backslashes and colons in them are not counted as what they look like."""
    header, state = parts(good)
    header["data"] = {'a":1,"a': "b\\", "\\": '\\"', ":": ["{[,:", "\\\\"]}
    [result] = assert_agree(chromium, tmp_path, [packed(2, json.dumps(header).encode(), state)])
    assert "error" not in result
