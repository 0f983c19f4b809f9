"""N-gram tables in files: rows that are not zero, and nothing else; damage is noticed."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from format_samples import sample_checkpoint

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.base import Tables
from tinygpt.store.formats import load_safetensors, load_tinygpt, save_safetensors, save_tinygpt
from tinygpt.store.formats.checkpoint import state_sha256
from tinygpt.store.formats.inspection import inspect_model

MODEL = ModelConfig(layers=1, d_model=4, heads=2, ctx=3, ngrams="2,3", ngram_rows=256, ngram_width=4)
ROWS = [0, 7, 8, 300, 511]


def with_tables(optimizer=True, scale=1.0):
    checkpoint = sample_checkpoint(MODEL, optimizer=optimizer)
    rows, squares = np.zeros((512, 4), np.float32), np.zeros(512, np.float32)
    rows[ROWS] = scale * np.random.default_rng(1).standard_normal((len(ROWS), 4))
    squares[ROWS] = 0.5 + np.arange(len(ROWS))
    tables = Tables(rows, squares if optimizer else None)
    return replace(checkpoint, state=checkpoint.state._replace(tables=tables))


def same(a, b):
    return a is None or b is None if a is None or b is None else a.tobytes() == b.tobytes()


@pytest.mark.parametrize("optimizer", [True, False])
def test_rows_round_trip_with_what_the_optimizer_keeps_of_them(tmp_path, optimizer):
    checkpoint = with_tables(optimizer)
    save_tinygpt(tmp_path / "a", checkpoint)
    loaded = load_tinygpt(tmp_path / "a").state
    assert same(loaded.tables.rows, checkpoint.state.tables.rows) and (loaded.w == checkpoint.state.w).all()
    assert (loaded.tables.squares is not None) == optimizer and same(
        loaded.tables.squares, checkpoint.state.tables.squares
    )
    save_tinygpt(tmp_path / "b", replace(checkpoint, state=loaded))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert inspect_model(tmp_path / "a")["sha256_ok"]


def test_rows_that_are_zero_take_a_bit_each(tmp_path):
    full, empty = with_tables(False), with_tables(False)
    empty = replace(empty, state=empty.state._replace(tables=None))
    for name, checkpoint in (("full", full), ("empty", empty)):
        save_tinygpt(tmp_path / name, checkpoint)
    sizes = {name: (tmp_path / name).stat().st_size for name in ("full", "empty")}
    assert sizes["full"] - sizes["empty"] == len(ROWS) * 16  # the header's digits are as many
    assert not load_tinygpt(tmp_path / "empty").state.tables.rows.any()


@pytest.mark.parametrize("dtype, off", [("float16", 2.0**-11), ("int8", 0.5 / 127)])
def test_compact_rows_are_as_near_as_their_dtype_allows(tmp_path, dtype, off):
    checkpoint = with_tables(False)
    save_tinygpt(tmp_path / "a", checkpoint, dtype=dtype)
    rows, expected = load_tinygpt(tmp_path / "a").state.tables.rows, checkpoint.state.tables.rows
    assert ((rows == 0) | (expected != 0)).all()
    assert (np.abs(rows - expected) <= off * np.abs(expected).max(axis=1, keepdims=True)).all()


def test_safetensors_have_them_whole(tmp_path):
    checkpoint = with_tables(False)
    save_safetensors(tmp_path / "a", checkpoint)
    loaded = load_safetensors(tmp_path / "a")
    assert state_sha256(loaded.state) == state_sha256(checkpoint.state)


def test_weights_are_others_with_other_tables():
    state = with_tables(False).state
    assert (
        len(
            {
                state_sha256(state),
                state_sha256(with_tables(False, 2.0).state),
                state_sha256(state._replace(tables=None)),
            }
        )
        == 3
    )


def damaged(raw, **stated):
    (length,) = struct.unpack_from("<I", raw, 8)
    header = json.loads(raw[12 : 12 + length]) | stated
    text = json.dumps(header).encode()
    return raw[:8] + struct.pack("<I", len(text)) + text + raw[12 + length :]


@pytest.mark.parametrize(
    "stated, says",
    [
        ({"tables": None}, "tables must be a JSON object"),
        ({"tables": {"rows": 513, "shape": [512, 4]}}, "has 513 rows of n-gram tables, but the model has 512"),
        ({"tables": {"rows": 4, "shape": [512, 4]}}, "bytes of state, but"),
        ({"tables": {"rows": 5, "shape": [4, 512]}}, r"tables.shape must be \[512, 4\]"),
        ({"tables": {"rows": -1}}, "tables.rows"),
        ({"tables": {"rows": "5"}}, "tables.rows"),
    ],
)
def test_a_wrong_header_is_noticed(tmp_path, stated, says):
    save_tinygpt(tmp_path / "a", with_tables(False))
    (tmp_path / "a").write_bytes(damaged((tmp_path / "a").read_bytes(), **stated))
    with pytest.raises(TinyGPTError, match=says):
        load_tinygpt(tmp_path / "a")


def test_marks_that_are_not_those_of_the_rows_are_noticed(tmp_path):
    save_tinygpt(tmp_path / "a", with_tables(False))
    raw = bytearray(damaged((tmp_path / "a").read_bytes(), sha256=None))
    at = len(raw) - len(ROWS) * 16 - 64
    assert raw[at : at + 2] == bytes([0b10000001, 0b1])
    raw[at] = 0b10000011
    (tmp_path / "a").write_bytes(raw)
    with pytest.raises(TinyGPTError, match="promises 5 rows of n-gram tables, but 6 are marked"):
        load_tinygpt(tmp_path / "a")


def test_tables_that_are_not_finite_are_refused(tmp_path):
    checkpoint = with_tables()
    checkpoint.state.tables.rows[7, 1] = np.nan
    with pytest.raises(TinyGPTError, match="tables holds NaN or infinity"):
        save_tinygpt(tmp_path / "a", checkpoint)
