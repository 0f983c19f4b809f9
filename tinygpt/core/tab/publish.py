"""What a tab puts on the Hugging Face Hub beside a model's file: its card, and the front of a safetensors file."""

import json

from tinygpt.core.file.adapter import METADATA_KEY
from tinygpt.core.file.front import read_front
from tinygpt.core.hub.card import model_card
from tinygpt.core.models.memory import TABLES, table_shape
from tinygpt.core.models.parameters import parameters
from tinygpt.core.tab.file import alone

FLOAT_BYTES = 4


def published(request: str, header: str, facts: str) -> str:
    """Of a model's file; `facts` are the repository, the title and the licence of the text."""
    asked = json.loads(request)
    run = read_front(bytes(asked["prefix"]), header, bytes(asked["step"]), asked["size"]).run
    told = json.loads(facts)
    name = run.data.get("name")
    told["text"] = name if isinstance(name, str) else ""
    told.update({"config": run.config.as_dict(), "progress": run.progress.as_dict()})
    description = json.loads(alone(request, header, "float32"))
    description["step"] = run.progress.step
    shapes = [(row.name, list(row.shape)) for row in parameters(run.config.model)]
    if run.config.model.ngram_tables:
        shapes.append((TABLES, list(table_shape(run.config.model))))
    tensors = []
    at = 0
    for name, shape in shapes:
        size = FLOAT_BYTES
        for axis in shape:
            size *= axis
        tensors.append([name, {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}])
        at += size
    return json.dumps(
        {"card": model_card(told), "header": {"key": METADATA_KEY, "description": description, "tensors": tensors}}
    )
