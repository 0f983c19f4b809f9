"""N-gram tables in a .tinygpt file: of all rows, those that are not zero. They come last, after w and the slots.

a bit for each row, whether it is stored, from each byte's lowest bit on, padded to whole words
the stored rows: float32 or float16 numbers; of int8 a float32 scale for each row, then the numbers
with optimizer state: a float32 for each stored row, the sum of the squares of its gradients
"""

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.strict_json import json_object, quoted, whole
from tinygpt.core.models.memory import table_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

KEY = "tables"


def encode_tables(model: ModelConfig, stored: int) -> "Json":
    """What a header says of them: nothing where there are none."""
    return {KEY: {"rows": stored, "shape": list(table_shape(model))}} if model.ngram_tables else {}


def stored_rows(header: "Json", model: ModelConfig) -> int:
    """How many rows a file says that it has; 0 of a model without tables."""
    if not model.ngram_tables:
        return 0
    tables = json_object(header.get(KEY), KEY)
    stated, there = whole(tables.get("rows"), "tables.rows"), table_shape(model)[0]
    if tables.get("shape") != list(table_shape(model)):
        raise TinyGPTError(f"tables.shape must be {list(table_shape(model))}, not {quoted(tables.get('shape'))}")
    if stated > there:
        raise TinyGPTError(f"the file has {stated:,} rows of n-gram tables, but the model has {there:,}")
    return stated


def bitmap_bytes(model: ModelConfig) -> int:
    return (table_shape(model)[0] + 31) // 32 * 4


def row_bytes(model: ModelConfig, dtype: str) -> int:
    width = model.ngram_width
    return {"float32": 4 * width, "float16": 2 * width, "int8": 4 + width}[dtype]


def tables_bytes(model: ModelConfig, dtype: str, stored: int, has_optimizer: bool) -> int:
    """Of all of it."""
    if not model.ngram_tables:
        return 0
    return bitmap_bytes(model) + stored * (row_bytes(model, dtype) + (4 if has_optimizer else 0))
