"""A GGUF file, which llama.cpp and its tools open: GPT-2's architecture with a vocabulary of bytes. It is written only.

A header, keys with values, the tensors' names, shapes and places, then their numbers, each tensor at a multiple of
ALIGNMENT. Linear weights are [out, in], as ours are; dims are written the other way round, the one that lies side by
side first.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import LAYERNORM_EPS, VOCAB, ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import Parameter, parameters
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import faults_of
from tinygpt.engines.base import FloatArray
from tinygpt.store.formats.byte_tokenizer import byte_letters
from tinygpt.store.formats.checkpoint import Checkpoint, checked_state, require_finite, weights_alone

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # types of values
NORMAL_TOKEN = 1
END = 0  # the token that ends a text: a byte that no text has
BLOCK = 32  # numbers that share a scale in Q8_0
# Of tensors with two dims, by the dtype asked for: their type, and what the file as a whole is called.
TYPES = {"float32": (0, 0), "float16": (1, 1), "int8": (8, 7)}
BLOCK_NAMES = (
    ("attn_norm", ("ln1",)),
    ("attn_qkv", ("attn.q_proj", "attn.k_proj", "attn.v_proj")),
    ("attn_output", ("attn.o_proj",)),
    ("ffn_norm", ("ln2",)),
    ("ffn_up", ("mlp.fc_in",)),
    ("ffn_down", ("mlp.fc_out",)),
)


class Stacked(NamedTuple):
    """A tensor of the file, and those of ours whose rows stand one below the other in it."""

    name: str
    parts: list[Parameter]

    def values(self, w: FloatArray) -> FloatArray:
        tensors = [w[row.offset : row.offset + row.size].reshape(row.shape) for row in self.parts]
        stacked: FloatArray = np.concatenate(tensors, axis=0)
        return stacked


def save_gguf(path: str | os.PathLike[str], checkpoint: Checkpoint, *, dtype: str = "float32", name: str = "") -> None:
    """Matrices in float32, float16 or, as "int8", in Q8_0; vectors in float32."""
    with faults_of(path, "write"):
        model = checkpoint.config.model
        require_counterpart(model)
        if dtype == "int8" and model.d_model % BLOCK:
            raise TinyGPTError(
                f"GGUF's int8 scales blocks of {BLOCK} numbers, and this model's rows have {model.d_model}; "
                f"write it in float16, or a .tinygpt file"
            )
        w = checked_state(weights_alone(checkpoint)).w
        tensors = stacked_tensors(model)
        encoded = [encode(tensor.name, tensor.values(w), dtype) for tensor in tensors]
        entries, at = [], 0
        for tensor, (kind, shape, data) in zip(tensors, encoded, strict=True):
            entries.append(text(tensor.name) + numbers("I", len(shape)) + numbers("Q", *reversed(shape)))
            entries[-1] += numbers("I", kind) + numbers("Q", at)
            at += len(data) + -len(data) % ALIGNMENT
        keys = described(model, name or "tinygpt", TYPES[dtype][1])
        head = MAGIC + numbers("I", VERSION) + numbers("Q", len(entries), len(keys)) + b"".join(keys + entries)
        with replacing(path) as partial, partial.open("wb") as file:
            file.write(head + bytes(-len(head) % ALIGNMENT))
            for _, _, data in encoded:
                file.write(data + bytes(-len(data) % ALIGNMENT))


def require_counterpart(model: ModelConfig) -> None:
    if model.options():
        raise TinyGPTError(
            f"GPT-2, as GGUF's readers know it, has no counterpart of {', '.join(model.options())}; "
            f"train with --recipe classic for llama.cpp, or export for transformers with --to huggingface"
        )


def stacked_tensors(model: ModelConfig) -> list[Stacked]:
    ours = {row.name: row for row in parameters(model)}
    names = {
        "token_embd.weight": ["token_embedding.weight"],
        "position_embd.weight": ["position_embedding.weight"],
        "output_norm.weight": ["ln_final.weight"],
        "output_norm.bias": ["ln_final.bias"],
    }
    for layer in range(model.layers):
        for theirs, parts in BLOCK_NAMES:
            for kind in ("weight", "bias"):
                names[f"blk.{layer}.{theirs}.{kind}"] = [f"blocks.{layer}.{part}.{kind}" for part in parts]
    return [Stacked(theirs, [ours[part] for part in parts]) for theirs, parts in names.items()]


def encode(name: str, values: FloatArray, dtype: str) -> tuple[int, tuple[int, ...], bytes]:
    """Type, shape and bytes."""
    require_finite(name, values)
    if values.ndim == 1 or dtype == "float32":
        return TYPES["float32"][0], values.shape, values.astype("<f4").tobytes()
    if dtype == "float16":
        return TYPES["float16"][0], values.shape, require_held(name, values.astype("<f2")).tobytes()
    return TYPES["int8"][0], values.shape, blocks_of(name, values).tobytes()


def require_held(name: str, halves: npt.NDArray[np.float16]) -> npt.NDArray[np.float16]:
    if not np.isfinite(halves).all():
        raise TinyGPTError(f"{name} holds a number that float16 does not reach: write it in float32")
    return halves


def blocks_of(name: str, values: FloatArray) -> npt.NDArray[np.void]:
    """Q8_0: of 32 numbers a scale in float16, which brings their largest to 127, then an int8 each."""
    rows = values.reshape(-1, BLOCK).astype(np.float64)
    blocks = np.empty(len(rows), dtype=[("scale", "<f2"), ("values", "i1", BLOCK)])
    blocks["scale"] = require_held(name, (np.abs(rows).max(axis=1) / 127).astype("<f2"))
    scales = blocks["scale"].astype(np.float64)
    blocks["values"] = np.clip(np.rint(rows / np.where(scales > 0, scales, 1)[:, None]), -127, 127)
    return blocks


# --- keys and values -----------------------------------------------------------------------------------------


def described(model: ModelConfig, name: str, file_type: int) -> list[bytes]:
    """The model and its tokenizer: 256 tokens that no merge joins, so that each byte of a text is one."""
    letters = b"".join(text(letter) for letter in byte_letters())
    kinds = numbers("i", *[NORMAL_TOKEN] * VOCAB)
    return [
        key("general.architecture", STRING, text("gpt2")),
        key("general.name", STRING, text(name)),
        key("general.file_type", U32, numbers("I", file_type)),
        key("general.quantization_version", U32, numbers("I", 2)),
        key("gpt2.context_length", U32, numbers("I", model.ctx)),
        key("gpt2.embedding_length", U32, numbers("I", model.d_model)),
        key("gpt2.feed_forward_length", U32, numbers("I", model.d_mlp)),
        key("gpt2.block_count", U32, numbers("I", model.layers)),
        key("gpt2.attention.head_count", U32, numbers("I", model.heads)),
        key("gpt2.attention.layer_norm_epsilon", F32, numbers("f", LAYERNORM_EPS)),
        key("tokenizer.ggml.model", STRING, text("gpt2")),
        key("tokenizer.ggml.pre", STRING, text("gpt-2")),
        key("tokenizer.ggml.tokens", ARRAY, numbers("I", STRING) + numbers("Q", VOCAB) + letters),
        key("tokenizer.ggml.token_type", ARRAY, numbers("I", I32) + numbers("Q", VOCAB) + kinds),
        key("tokenizer.ggml.merges", ARRAY, numbers("I", STRING) + numbers("Q", 0)),
        key("tokenizer.ggml.bos_token_id", U32, numbers("I", END)),
        key("tokenizer.ggml.eos_token_id", U32, numbers("I", END)),
        key("tokenizer.ggml.add_bos_token", BOOL, numbers("?", False)),
    ]


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + numbers("I", kind) + value


def text(value: str) -> bytes:
    encoded = value.encode()
    return numbers("Q", len(encoded)) + encoded


def numbers(kind: str, *values: float) -> bytes:
    return struct.pack(f"<{len(values)}{kind}", *values)
