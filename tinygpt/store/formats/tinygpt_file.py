"""The .tinygpt file on disk: core says what its front holds, the floats are read and written here."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import replace
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import (
    DAMAGED,
    LARGEST_STEP,
    MAGIC,
    PREFIX,
    PREFIX_BYTES,
    STEP,
    STEP_BYTES,
    VERSION,
    Front,
    Piece,
    header_length,
    read_front,
)
from tinygpt.core.file.header import encode_state, is_scaled, stored_bytes
from tinygpt.core.file.strict_json import LONGEST_TEXT, whole
from tinygpt.core.models.memory import TABLES
from tinygpt.core.models.parameters import Parameter, parameter_count, parameters
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import decoded, faults_of, open_regular
from tinygpt.engines.base import FloatArray, State, Tables
from tinygpt.engines.compact import CompactState
from tinygpt.store.formats.checkpoint import (
    Checkpoint,
    checked_state,
    describe,
    require_finite,
    require_finite_state,
    require_finite_tables,
    vectors_of,
    weights_alone,
    with_state,
)
from tinygpt.store.formats.plain_json import Json, dumps
from tinygpt.store.formats.table_rows import is_stored, read_tables, table_parts, tables_of

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

DIGEST_LENGTH = 64  # hex digits of a SHA-256
LARGEST_INT8 = 127


def save_tinygpt(
    path: str | os.PathLike[str], checkpoint: Checkpoint, *, include_optimizer: bool = True, dtype: str = "float32"
) -> None:
    """Write version 2, atomically. The same checkpoint gives the same bytes. Only weights alone can be "float16" or
    "int8"."""
    with faults_of(path, "write"):
        if not include_optimizer:
            checkpoint = weights_alone(checkpoint)
        with replacing(path) as partial, partial.open("wb") as file:
            write_model(file, checkpoint, dtype)


def write_model(file: BufferedIOBase, checkpoint: Checkpoint, dtype: str) -> None:
    """Stream the state, then go back for its digest: the header before it has the same length."""
    checkpoint = replace(checkpoint, state=checked_state(checkpoint))
    if checkpoint.state.slots and dtype != "float32":
        raise TinyGPTError(
            f"a file in {dtype} holds weights alone, and this model has optimizer state: leave that out, as "
            f"--weights-only does"
        )
    header = encode_header(checkpoint, "0" * DIGEST_LENGTH, dtype)
    if len(header) > LONGEST_TEXT:
        raise TinyGPTError(f"the header has {len(header)} bytes; {LONGEST_TEXT} is the most: shorten data or lora")
    file.write(struct.pack(PREFIX, MAGIC, VERSION, len(header)) + header)
    digest = write_state(file, checkpoint, dtype)
    file.seek(PREFIX_BYTES)
    file.write(encode_header(checkpoint, digest, dtype))


def encode_header(checkpoint: Checkpoint, digest: str, dtype: str) -> bytes:
    model, state = checkpoint.config.model, checkpoint.state
    rows = int(is_stored(tables_of(state, model)).sum()) if model.ngram_tables else 0
    stated = encode_state(model, list(state.slots), digest, dtype, rows)
    return dumps({**describe(checkpoint), **stated}).encode("ascii")


def write_state(file: BufferedIOBase, checkpoint: Checkpoint, dtype: str) -> str:
    step = struct.pack(STEP, whole(int(checkpoint.state.step), "the state's step", high=LARGEST_STEP))
    digest = hashlib.sha256(step)
    file.write(step)
    for row in parameters(checkpoint.config.model):
        for vector in vectors_of(checkpoint.state):
            tensor = vector[row.offset : row.offset + row.size]
            require_finite(row.name, tensor)
            for stored in stored_parts(row, tensor, dtype):
                digest.update(stored)
                file.write(stored)
    if checkpoint.config.model.ngram_tables:
        tables, has_optimizer = tables_of(checkpoint.state, checkpoint.config.model), len(checkpoint.state.slots) > 0
        require_finite_tables(tables)
        for part in table_parts(tables, dtype, has_optimizer, scaled, halved):
            digest.update(part.data)
            file.write(part.data)
    return digest.hexdigest()


def stored_parts(row: Parameter, tensor: FloatArray, dtype: str) -> list[memoryview | bytes]:
    """A tensor's bytes in a file, one after the other."""
    if is_scaled(row.shape, dtype):
        scales, values = scaled(tensor.reshape(row.shape))
        return [scales.data, values.data, bytes(-values.size % 4)]
    return [(halved(row.name, tensor) if dtype == "float16" else tensor).data]


def compacted(state: State, model: ModelConfig, dtype: str) -> CompactState:
    """A state's weights as a file of that dtype would keep them."""
    parts: list[npt.NDArray[Any]] = []
    for row in parameters(model):
        tensor = state.w[row.offset : row.offset + row.size]
        if dtype == "float16":
            halves = halved(row.name, tensor)
            parts.append(halves if len(row.shape) == 2 else halves.astype("<f4"))
        else:
            parts += scaled(tensor.reshape(row.shape)) if is_scaled(row.shape, dtype) else [tensor]
    return CompactState(state.step, model, dtype, joined(parts), compacted_tables(state, model, dtype))


def compacted_tables(state: State, model: ModelConfig, dtype: str) -> Tables | None:
    """As a file of that dtype would give them back."""
    if not model.ngram_tables:
        return None
    rows = tables_of(state, model).rows
    if dtype == "float16":
        return Tables(halved(TABLES, rows).astype(np.float32))
    scales, values = scaled(rows)
    return Tables(values * scales[:, None])


def scaled(matrix: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int8]]:
    """A scale per row, which brings its largest number to 127, and the numbers that, times it, come nearest."""
    scales = (np.abs(matrix).max(axis=1) / np.float32(LARGEST_INT8)).astype("<f4")
    divisors = np.where(scales > 0, scales, 1).astype(np.float64)[:, None]
    values = np.clip(np.rint(matrix / divisors), -LARGEST_INT8, LARGEST_INT8)
    return scales, values.astype(np.int8)


def halved(name: str, tensor: FloatArray) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):
        stored: npt.NDArray[np.float16] = tensor.astype("<f2")
    if not np.isfinite(stored).all():
        largest = tensor[np.abs(tensor).argmax()]
        raise TinyGPTError(
            f"{name} holds {largest:g}, and float16 reaches no further than {np.finfo(np.float16).max}: "
            f"write it in float32"
        )
    return stored


def read_header(path: str | os.PathLike[str]) -> Json:
    """The header as it stands in the file, after every check that needs no look at the tensors."""
    with faults_of(path, "read"), open_regular(path) as file:
        header: Json = open_front(file)[0].header
    return header


def load_tinygpt(path: str | os.PathLike[str]) -> Checkpoint:
    with faults_of(path, "read"), open_regular(path) as file:
        return load_model(file)


def load_model(file: BufferedIOBase) -> Checkpoint:
    """What an open file holds, once its digest and every number are found right."""
    checkpoint, front, digest = read_model(file)
    if front.sha256 and front.sha256 != digest:
        raise TinyGPTError(DAMAGED)
    require_finite_state(checkpoint)
    return checkpoint


def read_tinygpt(path: str | os.PathLike[str]) -> tuple[Checkpoint, Front, str]:
    """All of a file and the digest that its state has. Neither digest nor values are judged here."""
    with faults_of(path, "read"), open_regular(path) as file:
        return read_model(file)


def read_model(file: BufferedIOBase) -> tuple[Checkpoint, Front, str]:
    front, step_bytes = open_front(file)
    state, digest = read_state(file, front, step_bytes)
    return with_state(front.run, state), front, digest


def open_front(file: BufferedIOBase) -> tuple[Front, bytes]:
    """All but the tensors, and the step's own bytes, with which the state begins."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    prefix = file.read(PREFIX_BYTES)
    text = decoded(file.read(header_length(prefix, size)), "the header")
    step_bytes = file.read(STEP_BYTES)
    return read_front(prefix, text, step_bytes, size), step_bytes


def read_state(file: BufferedIOBase, front: Front, step_bytes: bytes) -> tuple[State, str]:
    """The tensors behind the step, and the SHA-256 of both."""
    digest = hashlib.sha256(step_bytes)
    if front.dtype != "float32":
        return read_compact(file, front, digest), digest.hexdigest()
    count = parameter_count(front.run.config.model)
    slots = {name: np.empty(count, dtype="<f4") for name in front.slots}
    state = State(front.step, np.empty(count, dtype="<f4"), slots)
    for piece in front.pieces:
        for vector in vectors_of(state):
            floats = taken(file, front, piece, digest).view("<f4")
            vector[piece.offset : piece.offset + piece.size].reshape(piece.shape)[...] = straight(floats, piece)
    return state._replace(tables=taken_tables(file, front, digest)), digest.hexdigest()


def taken_tables(file: BufferedIOBase, front: Front, digest: Digest) -> Tables | None:
    model = front.run.config.model
    if not model.ngram_tables:
        return None
    take = lambda size: taken_bytes(file, size, digest)  # noqa: E731
    return read_tables(model, front.dtype, front.stored_rows, len(front.slots) > 0, take)


def read_compact(file: BufferedIOBase, front: Front, digest: Digest) -> CompactState:
    """As the file has it, but in the model's order, and vectors as floats."""
    model = front.run.config.model
    found: dict[str, npt.NDArray[Any]] = {}
    for piece in front.pieces:
        stored: npt.NDArray[Any] = taken(file, front, piece, digest)
        if front.dtype == "float16":
            halves = straight(stored.view("<f2"), piece)
            stored = halves if len(piece.shape) == 2 else halves.astype("<f4")
        found[piece.name] = stored
    packed = joined([found[row.name] for row in parameters(model)])
    return CompactState(front.step, model, front.dtype, packed, taken_tables(file, front, digest))


def straight(floats: npt.NDArray[Any], piece: Piece) -> npt.NDArray[Any]:
    """In the model's shape."""
    return floats.reshape(piece.shape[::-1]).T if piece.turned else floats.reshape(piece.shape)


def joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
    """Their bytes, each padded to whole words."""
    flat = [np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts]
    return np.concatenate([np.pad(part, (0, -part.size % 4)) for part in flat])


def taken(file: BufferedIOBase, front: Front, piece: Piece, digest: Digest) -> npt.NDArray[np.uint8]:
    return taken_bytes(file, stored_bytes(piece.shape, front.dtype), digest)


def taken_bytes(file: BufferedIOBase, size: int, digest: Digest) -> npt.NDArray[np.uint8]:
    stored = np.empty(size, dtype=np.uint8)
    if file.readinto(stored.data) != stored.nbytes:
        raise TinyGPTError("the file became shorter while it was read")
    digest.update(stored.data)
    return stored
