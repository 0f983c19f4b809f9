"""The step of every preset as a page of the site: the data, the script and the markup of `tinygpt program --html`."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

from tinygpt.core.models.programs import all_modes, step_modes
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import PRESETS, RECIPES, preset
from tinygpt.inside import step as drawn
from tinygpt.site.hosting import addressed

FOLDER = "steps"
MADE = Path(drawn.__file__).parent  # step.html, step.css, step.js


def write_steps(public: Path, generated: Path) -> None:
    """The data of each, packed; the list of them; and what draws them, fitted into the site."""
    shutil.rmtree(public / FOLDER, ignore_errors=True)
    (public / FOLDER).mkdir(parents=True)
    rows = [write_step(public, size.name, recipe.name) for size in PRESETS for recipe in RECIPES]
    (generated / "steps.json").write_text(json.dumps(rows), encoding="utf-8")
    markup, style, script = ((MADE / f"step.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    for name, text in (("step.html", body(markup)), ("step.css", within(style)), ("step.js", script)):
        (generated / name).write_text(text, encoding="utf-8")


def write_step(public: Path, size: str, recipe: str) -> dict[str, Any]:
    config = preset(size, recipe)
    window = config.model.ctx + 1  # texts of the least length
    lowered = Lowered(config, all_modes(config), window, window)
    data = drawn.step_data(f"A training step of {size}, {recipe}", step_modes(config)[0], lowered, [], "")
    packed = gzip.compress(json.dumps(data).encode(), mtime=0)
    name = f"{FOLDER}/{size}-{recipe}.json.gz"
    (public / name).write_bytes(packed)
    told = {"preset": size, "recipe": recipe, "ops": len(data["ops"]), "bytes": 4 * data["arena"]}
    return {**told, "file": addressed(name, packed)}


def body(markup: str) -> str:
    """What the page shows: its head and title are the site's."""
    found = re.search(r"<main>(.*)</main>", markup, re.S)
    assert found is not None
    return '<h1 id="title"></h1><p id="facts"></p>' + found[1]


def within(style: str) -> str:
    """Its rules for what it draws, below the class `step`. Colours of paper and ink are the site's."""
    rules = re.sub(r"(?:@media \(prefers-color-scheme: dark\) \{\s*)?:root \{[^}]*\}\s*\}?", "", style, count=2)
    return ".step {\n" + rules + "}\n"
