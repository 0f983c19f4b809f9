"""Model files: .tinygpt, safetensors, GGUF, pages of one file, and folders that Hugging Face's transformers opens."""

from tinygpt.store.formats.checkpoint import Checkpoint
from tinygpt.store.formats.huggingface import is_gpt2, load_huggingface, save_huggingface
from tinygpt.store.formats.inspection import inspect_model
from tinygpt.store.formats.kinds import (
    FORMATS,
    HUGGINGFACE,
    PAGE,
    TINYGPT,
    known_format,
    load_file,
    save_model,
    usual_dtype,
)
from tinygpt.store.formats.safetensors_file import load_safetensors, save_safetensors
from tinygpt.store.formats.tinygpt_file import load_tinygpt, read_header, save_tinygpt

__all__ = [
    "FORMATS",
    "HUGGINGFACE",
    "PAGE",
    "TINYGPT",
    "Checkpoint",
    "inspect_model",
    "is_gpt2",
    "known_format",
    "load_file",
    "load_huggingface",
    "load_safetensors",
    "load_tinygpt",
    "read_header",
    "save_huggingface",
    "save_model",
    "save_safetensors",
    "save_tinygpt",
    "usual_dtype",
]
