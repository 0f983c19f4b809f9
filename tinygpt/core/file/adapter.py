"""What a file of adapters (LoRA) says: the only copy of its spelling. docs/lora.md shows it.

It is a safetensors file: the length of a JSON text, the text, floats. What the run was stands in that text's metadata.
A terminal reads it with the safetensors package; `read_front` is for hosts that have none.
"""

import struct
from collections import namedtuple

from tinygpt.core.config import LoraConfig, ModelConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import LARGEST_STEP
from tinygpt.core.file.header import Run, decode_run, encode_run
from tinygpt.core.file.strict_json import LONGEST_TEXT, json_object, parse_object, quoted, text_of, whole
from tinygpt.core.models.adapters import adapter_parameters
from tinygpt.core.optimizers import slot_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.models.parameters import Parameter
    from tinygpt.core.train.progress import Progress

    Json = dict[str, Any]

METADATA_KEY = "tinygpt"  # of a whole model's file: one key, because the library writes several in any order
ADAPTER_KEY = "tinygpt-lora"
METADATA = "__metadata__"
LENGTH_BYTES = 8  # the file starts with its header's length, little-endian
LONGEST_TARGETS = 200  # characters; a hostile file's would be searched for the nearest name
FLOAT = "F32"

# run: as of a model file, with the adapters in its config. base_sha256: of the weights that they stand on.
Described = namedtuple("Described", ("name", "base_sha256", "run"))
# places: of w and of each slot, in bytes behind the header.
Piece = namedtuple("Piece", ("row", "places"))
Front = namedtuple("Front", ("name", "base_sha256", "run", "slots", "pieces"))


def encode_lora(name: str, base_sha256: str, lora: LoraConfig) -> "Json":
    values = {"name": name, "baseSha256": base_sha256}
    values.update(lora.as_dict())
    return values


def encode_adapter(
    config: RunConfig, progress: "Progress", backend: str, data: "Json", name: str, base_sha256: str, saved_at: str
) -> "Json":
    """The metadata of a file that is there to go on from; one to give away needs no lossHistory."""
    assert config.lora is not None
    description = {"step": progress.step}
    lora = encode_lora(name, base_sha256, config.lora)
    description.update(encode_run(config, progress, backend, data, lora, saved_at))
    return description


def decode_adapter(text: str) -> Described:
    """Of the metadata's text."""
    description = parse_object(text, "its metadata")
    run = decode_run(description, whole(description.get("step"), "step", high=LARGEST_STEP))
    stated = json_object(run.lora, "lora")
    if len(text_of(stated.get("targets"), "lora.targets")) > LONGEST_TARGETS:
        raise TinyGPTError(f"lora.targets has more than {LONGEST_TARGETS} characters")
    lora = LoraConfig(**{field.name: stated.get(field.name) for field in LoraConfig.FIELDS})
    adapted = Run(
        config=RunConfig(run.config.model, run.config.train, lora),
        progress=run.progress,
        backend=run.backend,
        data=run.data,
        saved_at=run.saved_at,
        lora=None,
        origin=run.origin,
        left_out=run.left_out,
        edit=run.edit,
    )
    name, sha256 = text_of(stated.get("name"), "lora.name"), text_of(stated.get("baseSha256"), "lora.baseSha256")
    return Described(name, sha256, adapted)


def slots_in(names: "list[str]", config: RunConfig) -> "tuple[str, ...]":
    """Those of the optimizer, where a file with tensors of these names has any."""
    slots = slot_names(config.train)
    return slots if [name for name in names if name.split(".")[0] in slots] else ()


def tensor_names(row: "Parameter", slots: "tuple[str, ...]") -> "list[str]":
    """Of a parameter: its own, and those of the slots."""
    return [row.name] + [slot + "." + row.name for slot in slots]


def require_names(found: "list[str]", expected: "list[str]") -> None:
    missing = sorted(set(expected) - set(found))
    extra = sorted(set(found) - set(expected))
    if missing:
        raise TinyGPTError(f"it lacks the tensor '{missing[0]}' ({len(missing)} of {len(expected)} are missing)")
    if extra:
        raise TinyGPTError(f"it holds the tensor '{extra[0]}', which this model does not have")


def require_shape(name: str, found: "Any", shape: "tuple[int, ...]") -> None:
    if found != list(shape):
        raise TinyGPTError(f"{name} must have shape {list(shape)}, not {quoted(found)}")


def require_base(name: str, made_for: ModelConfig, base_sha256: str, model: ModelConfig, sha256: str) -> None:
    """Refuse a model that the adapter of that name was not trained on."""
    if made_for != model:
        raise TinyGPTError(f"the adapter '{name}' is for {made_for.describe()}, but this model is {model.describe()}")
    if sha256 != base_sha256:
        raise TinyGPTError(
            f"the adapter '{name}' was trained on other base weights (sha256 {base_sha256[:12]}, "
            f"not {sha256[:12]}); give the model file that it was trained on"
        )


# --- the file's own bytes ------------------------------------------------------------------------------------


def is_tensors(prefix: bytes) -> bool:
    """Whether a file that begins so is a safetensors file."""
    return prefix[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{"


def header_length(prefix: bytes, size: int) -> int:
    (length,) = struct.unpack("<Q", prefix[:LENGTH_BYTES])
    if length > LONGEST_TEXT:
        raise TinyGPTError(
            f"this is no sound safetensors file (a header of {length} bytes; {LONGEST_TEXT} is the most)"
        )
    if LENGTH_BYTES + length > size:
        raise TinyGPTError(f"this is no sound safetensors file (a header of {length} bytes in a file of {size} bytes)")
    return int(length)


def read_front(text: str, data_bytes: int) -> Front:
    """All of a file but its floats, once it agrees with itself; so many bytes follow the header."""
    header = parse_object(text, "the header")
    metadata = json_object(header.pop(METADATA, {}), "its metadata")
    if ADAPTER_KEY not in metadata:
        if METADATA_KEY in metadata:
            raise TinyGPTError(
                "this is a whole model, and of safetensors files the page opens adapters alone; "
                "convert it: tinygpt convert FILE MODEL.tinygpt"
            )
        raise TinyGPTError(f"this is no adapter: its metadata has no '{ADAPTER_KEY}' entry")
    told = decode_adapter(text_of(metadata[ADAPTER_KEY], "its metadata"))
    config = told.run.config
    names = list(header)
    slots = slots_in(names, config)
    rows = adapter_parameters(config.model, config.lora)
    require_names(names, [name for row in rows for name in tensor_names(row, slots)])
    ends = check_places(header, data_bytes)
    pieces = []
    for row in rows:
        for name in tensor_names(row, slots):
            require_shape(name, header[name].get("shape"), row.shape)
            if header[name].get("dtype") != FLOAT:
                raise TinyGPTError(f"{name} is {quoted(header[name].get('dtype'))}; the page reads {FLOAT} alone")
            if ends[name][1] - ends[name][0] != 4 * row.size:
                raise TinyGPTError(f"{name} must have {4 * row.size} bytes, not {ends[name][1] - ends[name][0]}")
        pieces.append(Piece(row, [ends[name][0] for name in tensor_names(row, slots)]))
    return Front(told.name, told.base_sha256, told.run, slots, pieces)


def check_places(header: "Json", data_bytes: int) -> "dict[str, list[int]]":
    """Where each tensor begins and ends, once they lie one behind the other and fill the file."""
    ends = {}
    for name in header:
        stated = json_object(header[name], f"the entry of {name}").get("data_offsets")
        if not isinstance(stated, list) or len(stated) != 2:
            raise TinyGPTError(f"data_offsets of {name} must be two numbers, not {quoted(stated)}")
        ends[name] = [whole(number, f"an offset of {name}") for number in stated]
    end = 0
    for first, last in sorted(ends.values()):
        if first != end or last < first:
            raise TinyGPTError(f"this is no sound safetensors file (a tensor begins at byte {first}, not {end})")
        end = last
    if end != data_bytes:
        raise TinyGPTError(
            f"this is no sound safetensors file ({end} bytes of tensors are promised, {data_bytes} follow)"
        )
    return ends


def tensors_of(config: RunConfig, slots: "tuple[str, ...]") -> "list[list[Any]]":
    """[name, entry] of each tensor in a file whose floats lie as a state does: w and the slots of each parameter."""
    assert config.lora is not None
    entries: list[list[Any]] = []
    at = 0
    for row in adapter_parameters(config.model, config.lora):
        for name in tensor_names(row, slots):
            end = at + 4 * row.size
            entries.append([name, {"dtype": FLOAT, "shape": list(row.shape), "data_offsets": [at, end]}])
            at = end
    return entries
