"""A page of one file: a model, the engine and a place to write, in HTML that opens from a disk (docs/share.md).

The site's build makes the template (tinygpt/site/single.py). A model goes into it as a .tinygpt file, beside what core
has planned for it, both packed with gzip and in base64: nothing that a name or a text holds can break out of that.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import PREFIX, PREFIX_BYTES, STEP_BYTES
from tinygpt.core.tab.single import writing_plan
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import faults_of, open_regular
from tinygpt.store.formats.checkpoint import Checkpoint, weights_alone
from tinygpt.store.formats.tinygpt_file import load_model, write_model

TEMPLATE = Path(__file__).parents[2] / "page" / "single" / "template.txt"
TITLE, PLAN, MODEL = "@@TITLE@@", "@@PLAN@@", "@@MODEL@@"  # what is put in their place
START = b"<!doctype html>"
HELD = re.compile(rb'<script type="text/plain" id="model">([A-Za-z0-9+/=]+)</script>')
MOST_UNPACKED = 64  # times its size in the page: weights hardly get smaller


def save_web_page(
    path: str | os.PathLike[str], checkpoint: Checkpoint, *, dtype: str = "int8", title: str = "", prompt: str = ""
) -> None:
    """Write the weights of a model as a page, under this title and with this text to begin with."""
    with faults_of(path, "write"):
        page = web_page(template(), checkpoint, dtype, title, prompt)
        with replacing(path) as partial:
            partial.write_text(page, encoding="utf-8", newline="\n")


def template() -> str:
    try:
        return TEMPLATE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TinyGPTError("the page that goes with the model is not built here: run `make site` first") from None


def web_page(template: str, checkpoint: Checkpoint, dtype: str, title: str, prompt: str) -> str:
    packed = BytesIO()
    write_model(packed, weights_alone(checkpoint), dtype)
    model = packed.getvalue()
    plan = {**plan_of(model), "title": title, "prompt": prompt}
    parts = {TITLE: html.escape(title), PLAN: in_base64(json.dumps(plan).encode()), MODEL: in_base64(model)}
    return re.sub("|".join(parts), lambda found: parts[found[0]], template)


def plan_of(model: bytes) -> dict[str, Any]:
    """What core plans for the model of a .tinygpt file."""
    start = PREFIX_BYTES + struct.unpack(PREFIX, model[:PREFIX_BYTES])[2]
    step = list(model[start : start + STEP_BYTES])
    request = {"prefix": list(model[:PREFIX_BYTES]), "step": step, "size": len(model)}
    plan: dict[str, Any] = json.loads(writing_plan(json.dumps(request), model[PREFIX_BYTES:start].decode()))
    if "error" in plan:
        raise TinyGPTError(plan["error"])
    return plan


def in_base64(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def load_web_page(path: str | os.PathLike[str]) -> Checkpoint:
    """The model that is in a page."""
    with faults_of(path, "read"), open_regular(path) as file:
        found = HELD.search(file.read())
        if found is None:
            raise TinyGPTError("this page holds no model: give one that `tinygpt convert MODEL page.html` wrote")
        return load_model(BytesIO(unpacked(base64.b64decode(found[1]))))


def unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(packed, MOST_UNPACKED * len(packed))
    except zlib.error:
        raise TinyGPTError("the model in this page is damaged: get the page again") from None
    if not unpacker.eof:
        raise TinyGPTError("the model in this page is cut off or far too large: get the page again")
    return content
