"""The .tinygpt file: magic, version, JSON header, float32 state. docs/format.md shows every byte."""

from __future__ import annotations

import hashlib
import os
import struct
from io import BufferedReader, BufferedWriter
from typing import NamedTuple

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.header import OUT_IN, encode_state
from tinygpt.core.models.parameters import Parameter, is_linear_weight, parameter_count, parameters
from tinygpt.engines.base import FloatArray, State
from tinygpt.files import faults_of, open_regular
from tinygpt.formats.atomic import replacing
from tinygpt.formats.checkpoint import Checkpoint, checked_vectors, require_finite, require_finite_state
from tinygpt.formats.header import LARGEST_STEP, Run, decode_config, decode_run, encode_run, optional_text
from tinygpt.formats.manifest import IN_OUT, ordered_parameters
from tinygpt.formats.strict_json import LONGEST_HEADER, Json, dumps, parse_object, whole

MAGIC = b"TGPT"
VERSION = 2
PREFIX = struct.Struct("<4sII")  # magic, version, length of the header
STEP = struct.Struct("<i")
FLOAT = 4  # bytes
DIGEST_LENGTH = 64  # hex digits of a SHA-256


class Preamble(NamedTuple):
    """All of a file but its tensors, known to agree with itself and with the file's size."""

    version: int
    header: Json
    run: Run
    sha256: str  # "" where the file states none
    order: list[Parameter]  # as the state holds them
    linear_in_out: bool  # whether the state holds linear weights as [in, out]
    has_optimizer: bool
    step_bytes: bytes


def save_tinygpt(path: str | os.PathLike[str], checkpoint: Checkpoint, *, include_optimizer: bool = True) -> None:
    """Write version 2, atomically. The same checkpoint gives the same bytes."""
    with faults_of(path, "write"):
        vectors = checked_vectors(checkpoint)
        if not include_optimizer:
            vectors = vectors[:1]
        with replacing(path) as partial, partial.open("wb") as file:
            write_file(file, checkpoint, vectors)


def write_file(file: BufferedWriter, checkpoint: Checkpoint, vectors: list[FloatArray]) -> None:
    """Stream the state, then go back for its digest: the header before it has the same length."""
    header = encode_header(checkpoint, vectors, "0" * DIGEST_LENGTH)
    if len(header) > LONGEST_HEADER:
        raise TinyGPTError(f"the header has {len(header)} bytes; {LONGEST_HEADER} is the most: shorten data or lora")
    file.write(PREFIX.pack(MAGIC, VERSION, len(header)) + header)
    digest = write_state(file, checkpoint, vectors)
    file.seek(PREFIX.size)
    file.write(encode_header(checkpoint, vectors, digest))


def encode_header(checkpoint: Checkpoint, vectors: list[FloatArray], digest: str) -> bytes:
    header = {**encode_run(checkpoint), **encode_state(checkpoint.config.model, len(vectors), digest)}
    return dumps(header).encode("ascii")


def write_state(file: BufferedWriter, checkpoint: Checkpoint, vectors: list[FloatArray]) -> str:
    step = STEP.pack(whole(int(checkpoint.state.step), "the state's step", high=LARGEST_STEP))
    digest = hashlib.sha256(step)
    file.write(step)
    for row in parameters(checkpoint.config.model):
        for vector in vectors:
            tensor = vector[row.offset : row.offset + row.size]
            require_finite(row.name, tensor)
            digest.update(tensor.data)
            file.write(tensor.data)
    return digest.hexdigest()


def read_header(path: str | os.PathLike[str]) -> Json:
    """The header as it stands in the file, after every check that needs no look at the tensors."""
    with faults_of(path, "read"), open_regular(path) as file:
        return read_preamble(file).header


def load_tinygpt(path: str | os.PathLike[str]) -> Checkpoint:
    checkpoint, preamble, digest = read_tinygpt(path)
    with faults_of(path, "read"):
        if preamble.sha256 and preamble.sha256 != digest:
            raise TinyGPTError("the state does not match its sha256: the file is damaged")
        require_finite_state(checkpoint)
    return checkpoint


def read_tinygpt(path: str | os.PathLike[str]) -> tuple[Checkpoint, Preamble, str]:
    """All of a file and the digest that its state has. Neither digest nor values are judged here."""
    with faults_of(path, "read"), open_regular(path) as file:
        preamble = read_preamble(file)
        state, digest = read_state(file, preamble)
    return preamble.run.with_state(state), preamble, digest


def read_preamble(file: BufferedReader) -> Preamble:
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(PREFIX.size)
    if prefix[: len(MAGIC)] != MAGIC:
        raise TinyGPTError("this is no .tinygpt file: it does not start with 'TGPT'")
    if len(prefix) < PREFIX.size:
        raise TinyGPTError(f"the file ends within its first {PREFIX.size} bytes")
    _, version, header_bytes = PREFIX.unpack(prefix)
    if version not in (1, VERSION):
        raise TinyGPTError(f"version {version} is unknown; this program reads 1 and {VERSION}")
    state_bytes = size - PREFIX.size - header_bytes
    if state_bytes < 0:
        raise TinyGPTError(f"the header is said to have {header_bytes} bytes, but the file has only {size}")
    if header_bytes > LONGEST_HEADER:
        raise TinyGPTError(f"the header is said to have {header_bytes} bytes; {LONGEST_HEADER} is the most")
    header = parse_object(file.read(header_bytes), "the header")

    config = decode_config(header.get("config"))
    has_optimizer = check_sizes(header, config, state_bytes)
    layout = header.get("layout")
    if layout not in (None, IN_OUT, OUT_IN):
        raise TinyGPTError(f"layout must be '{IN_OUT}' or '{OUT_IN}', not {layout!r}")
    if header.get("dtype") not in (None, "float32"):
        raise TinyGPTError(f"dtype must be 'float32', not {header['dtype']!r}")
    if version == 1:
        order = parameters(config.model)
    else:
        order = ordered_parameters(header.get("manifest"), config.model, layout, 3 if has_optimizer else 1)
    step_bytes = file.read(STEP.size)
    step = whole(STEP.unpack(step_bytes)[0], "the state's step", high=LARGEST_STEP)
    return Preamble(
        version=version,
        header=header,
        run=decode_run(header, step),
        sha256=optional_text(header, "sha256").lower(),
        order=order,
        linear_in_out=layout != OUT_IN,  # no layout: the original wrote it, as [in, out]
        has_optimizer=has_optimizer,
        step_bytes=step_bytes,
    )


def state_size(config: RunConfig, arrays: int) -> int:
    return STEP.size + FLOAT * arrays * parameter_count(config.model)


def check_sizes(header: Json, config: RunConfig, state_bytes: int) -> bool:
    """Whether m and v are there, once the file's size agrees with all that the header says of it."""
    stated_bytes = header.get("stateByteLength")
    if stated_bytes is not None and whole(stated_bytes, "stateByteLength") != state_bytes:
        raise TinyGPTError(f"the header promises {stated_bytes} bytes of state, but {state_bytes} follow it")
    with_optimizer, weights_only = state_size(config, 3), state_size(config, 1)
    has_optimizer = header.get("includesOptimizerState")
    if has_optimizer is None:
        has_optimizer = state_bytes == with_optimizer
    if not isinstance(has_optimizer, bool):
        raise TinyGPTError(f"includesOptimizerState must be true or false, not {has_optimizer!r}")
    expected = with_optimizer if has_optimizer else weights_only
    if state_bytes != expected:
        raise TinyGPTError(f"the config's model takes {expected} bytes of state, but {state_bytes} follow the header")
    return has_optimizer


def read_state(file: BufferedReader, preamble: Preamble) -> tuple[State, str]:
    """The tensors behind the step, and the SHA-256 of both."""
    count = parameter_count(preamble.run.config.model)
    vectors = [np.empty(count, dtype="<f4") for _ in range(3 if preamble.has_optimizer else 1)]
    digest = hashlib.sha256(preamble.step_bytes)
    for row in preamble.order:
        transposed = preamble.linear_in_out and is_linear_weight(row.name)
        for vector in vectors:
            tensor = vector[row.offset : row.offset + row.size]
            stored = np.empty_like(tensor) if transposed else tensor
            if file.readinto(stored.data) != stored.nbytes:
                raise TinyGPTError("the file became shorter while it was read")
            digest.update(stored.data)
            if transposed:
                tensor.reshape(row.shape)[...] = stored.reshape(row.shape[::-1]).T
    return State(STEP.unpack(preamble.step_bytes)[0], *vectors), digest.hexdigest()
