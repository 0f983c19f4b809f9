"""The one reader of .tinygpt files, but for their floats: it says where those lie. docs/format.md shows every byte.

A host reads the first PREFIX_BYTES, asks `header_length`, reads so much text and the step behind it, and `read_front`
checks it all, before memory is taken for what the header claims. What is left is to move floats, to compare the
state's SHA-256, and to refuse weights that are not finite.
"""

import struct
from collections import namedtuple

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import DTYPES, INT8, OUT_IN, array_bytes, decode_run, is_scaled, stored_bytes
from tinygpt.core.file.strict_json import LONGEST_TEXT, json_object, parse_object, quoted, text_of, whole
from tinygpt.core.file.tables import stored_rows, tables_bytes
from tinygpt.core.models.parameters import Parameter, parameters, tensor_count
from tinygpt.core.names import is_linear_weight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

MAGIC = b"TGPT"
VERSION = 2
PREFIX = "<4sII"  # magic, version, length of the header
PREFIX_BYTES = 12
STEP = "<i"
STEP_BYTES = 4
IN_OUT = "in_out"
UNNAMED_SLOTS = ("m", "v")  # of the files that do not say: the original's, and ours while AdamW was all there was
LARGEST_STEP = 2**31 - 1
LARGEST_DIM = 2**31

DAMAGED = "the state does not match its sha256: the file is damaged"
NOT_FINITE = "holds NaN or infinity, so the model is of no use: its training has diverged"  # behind a tensor's name

# Where a tensor lies: w at byte `at` behind the step, then the slots; in the model's order at float `offset`.
# `turned`: the file has it as [in, out], and the model as its shape says.
# `scaled`: a float32 scale per row, then an int8 for each number.
Piece = namedtuple("Piece", ("name", "at", "offset", "shape", "size", "turned", "scaled"))

# slots: names of the vectors that follow w. sha256: "" where the file states none. pieces: in the file's order.
# stored_rows: how many rows of n-gram tables follow them (core/file/tables.py).
Front = namedtuple("Front", ("version", "header", "run", "step", "sha256", "dtype", "slots", "pieces", "stored_rows"))


def header_length(prefix: bytes, size: int) -> int:
    """In bytes, of a file of `size` bytes that begins with `prefix`."""
    if prefix[: len(MAGIC)] != MAGIC:
        raise TinyGPTError("this is no .tinygpt file: it does not start with 'TGPT'")
    if len(prefix) < PREFIX_BYTES:
        raise TinyGPTError(f"the file ends within its first {PREFIX_BYTES} bytes")
    _, version, length = struct.unpack(PREFIX, prefix)
    if version not in (1, VERSION):
        raise TinyGPTError(f"version {version} is unknown; this program reads 1 and {VERSION}")
    if PREFIX_BYTES + length > size:
        raise TinyGPTError(f"the header is said to have {length} bytes, but the file has only {size}")
    if length > LONGEST_TEXT:
        raise TinyGPTError(f"the header is said to have {length} bytes; {LONGEST_TEXT} is the most")
    return int(length)


def read_front(prefix: bytes, text: str, step_bytes: bytes, size: int) -> Front:
    """All of a file but its tensors, once it agrees with itself and with the file's size."""
    version = struct.unpack(PREFIX, prefix)[1]
    state_bytes = size - PREFIX_BYTES - header_length(prefix, size)
    header = parse_object(text, "the header")
    run = decode_run(header, read_step(step_bytes))
    dtype = read_dtype(header)
    slots = read_slots(header, run.config.model, state_bytes, dtype)
    arrays = 1 + len(slots)
    layout = header.get("layout")
    if layout not in (None, IN_OUT, OUT_IN):
        raise TinyGPTError(f"layout must be '{IN_OUT}' or '{OUT_IN}', not {quoted(layout)}")
    if dtype == INT8 and layout != OUT_IN:
        raise TinyGPTError(f"a file in int8 has rows of outputs: its layout must be '{OUT_IN}', not {quoted(layout)}")
    if version == 1:
        order = parameters(run.config.model)
    else:
        order = manifest_order(header.get("manifest"), run.config.model, layout, arrays)
    return Front(
        version=version,
        header=header,
        run=run,
        step=read_step(step_bytes),
        sha256="" if header.get("sha256") is None else text_of(header["sha256"], "sha256").lower(),
        dtype=dtype,
        slots=slots,
        pieces=pieces_of(order, arrays, dtype, layout != OUT_IN),  # no layout: the original wrote it, as [in, out]
        stored_rows=stored_rows(header, run.config.model),
    )


def read_step(step_bytes: bytes) -> int:
    if len(step_bytes) < STEP_BYTES:
        raise TinyGPTError("the file ends before its state")
    return whole(struct.unpack(STEP, step_bytes)[0], "the state's step", 0, LARGEST_STEP)


def read_dtype(header: "Json") -> str:
    stated = header.get("dtype")
    if stated is None:
        return "float32"
    if not isinstance(stated, str) or stated not in DTYPES:
        raise TinyGPTError(f"dtype must be 'float32', 'float16' or 'int8', not {quoted(stated)}")
    return stated


def read_slots(header: "Json", model: ModelConfig, state_bytes: int, dtype: str) -> "tuple[str, ...]":
    """Those that are there, once the file's size agrees with all that the header says of it."""
    stated_bytes = header.get("stateByteLength")
    if stated_bytes is not None and whole(stated_bytes, "stateByteLength") != state_bytes:
        raise TinyGPTError(f"the header promises {stated_bytes} bytes of state, but {state_bytes} follow it")
    named = slot_names(header.get("slots"))
    each, rows = array_bytes(model, dtype), stored_rows(header, model)
    has_optimizer = header.get("includesOptimizerState")
    if has_optimizer is None:
        has_optimizer = state_bytes == STEP_BYTES + (1 + len(named)) * each + tables_bytes(model, dtype, rows, True)
    if has_optimizer is not True and has_optimizer is not False:
        raise TinyGPTError(f"includesOptimizerState must be true or false, not {quoted(has_optimizer)}")
    slots = named if has_optimizer else ()
    if slots and dtype != "float32":
        raise TinyGPTError(f"a file in {dtype} holds weights alone, but this one has optimizer state")
    expected = STEP_BYTES + (1 + len(slots)) * each + tables_bytes(model, dtype, rows, len(slots) > 0)
    if state_bytes != expected:
        raise TinyGPTError(f"the config's model takes {expected} bytes of state, but {state_bytes} follow the header")
    return slots


def slot_names(stated: "Any") -> "tuple[str, ...]":
    """Those that a file with optimizer state has."""
    if stated is None:
        return UNNAMED_SLOTS
    strange = not isinstance(stated, list) or [name for name in stated if not isinstance(name, str)]
    if strange or len(set(stated)) < len(stated):
        raise TinyGPTError(f"slots must be a list of names, each another, not {quoted(stated)}")
    return tuple(stated)


def manifest_order(manifest: "Any", model: ModelConfig, layout: str | None, arrays: int) -> list[Parameter]:
    """The parameters in the manifest's order, once every entry agrees with the config.

    A floatOffset may count the state's floats (w and the slots) or the weights' alone: both are in use.
    """
    if not isinstance(manifest, list):
        raise TinyGPTError(f"manifest must be a list, not {quoted(manifest)}")
    if len(manifest) != tensor_count(model):
        raise TinyGPTError(f"manifest lists {len(manifest)} tensors, but the config's model has {tensor_count(model)}")
    expected = {row.name: row for row in parameters(model)}
    order: list[Parameter] = []
    strides = [1, arrays]
    offset = 0
    for index in range(len(manifest)):
        entry = json_object(manifest[index], f"manifest[{index}]")
        name = entry.get("name")
        row = expected.pop(name, None) if isinstance(name, str) else None
        if row is None:
            raise TinyGPTError(f"manifest[{index}].name {quoted(name)} is no tensor of this model, or listed twice")
        check_shape(entry.get("shape"), row, layout)
        stated = whole(entry.get("floatOffset"), f"floatOffset of {name}")
        strides = [stride for stride in strides if stated == stride * offset]
        if not strides:
            raise TinyGPTError(f"floatOffset of {name} must be {arrays * offset}, not {stated}")
        order.append(row)
        offset += row.size
    return order


def check_shape(shape: "Any", row: Parameter, layout: str | None) -> None:
    """Without a layout (a file of the original) a linear weight's stated shape tells nothing: take either."""
    if not isinstance(shape, list):
        raise TinyGPTError(f"shape of {row.name} must be a list, not {quoted(shape)}")
    for dim in shape:
        whole(dim, f"a dimension of {row.name}", 1, LARGEST_DIM)
    straight = list(row.shape)
    allowed = [straight]
    if is_linear_weight(row.name) and layout != OUT_IN:
        turned = [straight[1], straight[0]]
        allowed = [turned] if layout == IN_OUT else [straight, turned]
    if shape not in allowed:
        raise TinyGPTError(f"shape of {row.name} must be {allowed[0]}, not {quoted(shape)}")


def pieces_of(order: list[Parameter], arrays: int, dtype: str, linear_in_out: bool) -> list[Piece]:
    pieces = []
    at = 0
    for row in order:
        turned = linear_in_out and is_linear_weight(row.name)
        scaled = is_scaled(row.shape, dtype)
        pieces.append(Piece(row.name, at, row.offset, row.shape, row.size, turned, scaled))
        at += arrays * stored_bytes(row.shape, dtype)
    return pieces
