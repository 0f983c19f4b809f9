"""Builds the page: what Python knows is written into web/, then Astro turns web/ into tinygpt/page.

python -m tinygpt.site             builds, unless nothing has changed
python -m tinygpt.site check       types and accessibility of the page's sources
python -m tinygpt.site lint        their layout (prettier), and faults that types do not show (eslint)
python -m tinygpt.site format      lays them out
python -m tinygpt.site test        the page's logic, without a browser
python -m tinygpt.site generate    only writes what Python knows
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from tinygpt import __version__
from tinygpt.core.advice.hardness import hardness
from tinygpt.core.config import (
    GROUPS,
    LN_VOCAB,
    OPTIONS,
    PROJECTIONS,
    LoraConfig,
    ModelConfig,
    SampleConfig,
    TrainConfig,
)
from tinygpt.core.corpus import train_bytes
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.names import SERVER
from tinygpt.core.hub.reading import DEFAULT_BUDGET
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.programs import training_modes
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import DEFAULT_CORPUS, DEFAULT_PRESET, DEFAULT_RECIPE, PRESETS, RECIPES, preset
from tinygpt.core.tab.measure import PRESET
from tinygpt.core.tasks import TASKS, exercises
from tinygpt.core.tasks.task import PREFIX, Task
from tinygpt.data.corpus import Corpus
from tinygpt.data.tasks import load_task
from tinygpt.engines.shipped import python_files
from tinygpt.engines.typescript import GENERATED, write_generated
from tinygpt.labs.shipped import lab_facts, room_files
from tinygpt.serve.headers import HEADERS_FILE, allow_inline
from tinygpt.site import figures
from tinygpt.site.hosting import addressed, settle, write_service_worker
from tinygpt.site.single import template_of
from tinygpt.site.sources import shown_sources
from tinygpt.site.steps import write_steps
from tinygpt.store import bundled as zoo
from tinygpt.store.formats.web_page import TEMPLATE

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
DIST = ROOT / "tinygpt" / "page"  # in the package, so that a wheel has it
STAMP = DIST / ".inputs"  # the digest of what the built site was made from
INPUTS = (
    "web/src/**/*",
    "web/public/*",
    "web/*.*",
    "tinygpt/core/**/*.py",
    "tinygpt/data/assembled.py",
    "tinygpt/data/catalog.*",
    "tinygpt/data/survey.py",
    "tinygpt/kernels/*",
    "docs/**/*",
    "*.md",
    "tinygpt/labs/**/*",
    "tinygpt/edits/*/*.patch",
    "tinygpt/bench/gradients.py",
    "tinygpt/engines/spec_player.py",
    "tinygpt/serve/headers.py",
    "tinygpt/engines/shipped.py",
    "tinygpt/site/*.py",
    "tinygpt/inside/step.*",
    "tinygpt/engines/typescript.py",
    "tinygpt/store/bundled/models/*",
    "tinygpt/store/formats/web_page.py",
)
TASK_BYTES = 200_000  # of a text of questions and answers
BUNDLED = ("shakespeare", DEFAULT_CORPUS, "moby-dick")  # what is there at once first
PACKED = ".gz"  # of the texts' files: not every host compresses what it serves
FIGURES = ROOT / "docs" / "figures"
SPEEDS = (("browser.json", "wasm"), ("chromium-gpu.json", "webgpu"))  # what our machines do in a browser
KERNELS = WEB / "public" / "kernels"
SINGLE = WEB / "src" / "single"  # the page of one file
VITE = WEB / "node_modules" / "vite" / "bin" / "vite.js"
ASTRO = WEB / "node_modules" / "astro" / "bin" / "astro.mjs"
STRIP_TYPES = WEB / "scripts" / "strip-types.mjs"
SVELTE_CHECK = WEB / "node_modules" / "svelte-check" / "bin" / "svelte-check"
PRETTIER = WEB / "node_modules" / "prettier" / "bin" / "prettier.cjs"
ESLINT = WEB / "node_modules" / "eslint" / "bin" / "eslint.js"
VITEST = WEB / "node_modules" / "vitest" / "vitest.mjs"


def run_facts(name: str, recipe: str) -> dict[str, Any]:
    config = preset(name, recipe)
    window = config.model.ctx + 1  # the text comes on top
    arena = Lowered(config, training_modes(config, window), window, window).bytes()
    settings = config.as_dict()
    return {"name": name, "parameters": parameter_count(config.model), "arenaBytes": arena, **settings}


def facts() -> dict[str, Any]:
    """What the page states of presets, settings and texts: core's values, and nobody else's."""
    from tinygpt.data.catalog import catalog

    recipes = [
        {"name": recipe.name, "help": recipe.help, "presets": [run_facts(row.name, recipe.name) for row in PRESETS]}
        for recipe in RECIPES
    ]
    knobs = [
        {"section": section.SECTION, **field._asdict()}
        for section in (ModelConfig, TrainConfig, LoraConfig, SampleConfig)
        for field in section.FIELDS
    ]
    return {
        "version": __version__,
        "defaultPreset": DEFAULT_PRESET,
        "defaultRecipe": DEFAULT_RECIPE,
        "recipes": recipes,
        "knobs": knobs,
        "groups": [{"title": title, "fields": names.split()} for title, names in GROUPS],
        "modelOptions": OPTIONS,
        "projections": PROJECTIONS,
        "untrainedLoss": LN_VOCAB,
        "speeds": [speed_facts(file, engine) for file, engine in SPEEDS],
        "benchPreset": PRESET,
        "corpora": [corpus_facts(name) for name in BUNDLED],
        "tasks": [task_facts(task) for task in TASKS],
        "catalog": [asdict(entry) for entry in catalog().values()],
        "hubServer": SERVER,
        "hubBudget": DEFAULT_BUDGET,
    }


def corpus_facts(name: str) -> dict[str, Any]:
    from tinygpt.data import corpus_info, load_corpus

    info, corpus = corpus_info(name), load_corpus(name)
    text = whole_text(corpus)
    learned = train_bytes(len(text), val_fraction(corpus))
    hard = hardness(text[:learned], text[learned:])
    return {**text_facts(name, info.title, info.description, corpus), "hardness": hard}


def task_facts(task: Task) -> dict[str, Any]:
    name = PREFIX + task.name
    title = task.name.replace("-", " ").capitalize()
    shown = f"{task.help.capitalize()}, as in {exercises(name).example()}: the model is asked what its text never asks."
    return text_facts(name, title, shown, load_task(name, TASK_BYTES))


def text_facts(name: str, title: str, description: str, corpus: Corpus) -> dict[str, Any]:
    from tinygpt.data.survey import survey

    text = whole_text(corpus)
    return {
        "name": name,
        "title": title,
        "description": description,
        "file": addressed(corpus_file(name), text),
        "bytes": len(text),
        "sha256": corpus.sha256,
        "valFraction": val_fraction(corpus),
        "survey": survey(text),
    }


def write_text(name: str, corpus: Corpus) -> None:
    (WEB / "public" / corpus_file(name)).write_bytes(gzip.compress(whole_text(corpus), mtime=0))


def corpus_file(name: str) -> str:
    return f"corpora/{name.replace(PREFIX, '')}.txt{PACKED}"


def whole_text(corpus: Corpus) -> bytes:
    """What is held out is at its end, as the page divides texts."""
    return corpus.text + (corpus.held_out or b"")


def val_fraction(corpus: Corpus) -> float:
    """The setting with which the page holds out what the source holds out."""
    if corpus.held_out is None:
        return TrainConfig().val_fraction
    return (len(corpus.held_out) + 0.5) / len(whole_text(corpus))  # a half, so that no rounding makes it a byte less


def speed_facts(file: str, engine: str) -> dict[str, Any]:
    """Milliseconds per step by preset; of several rows for one, their median."""
    figures = json.loads((FIGURES / file).read_text(encoding="utf-8"))
    by_preset: dict[str, list[float]] = {}
    for row in figures["rows"]:
        if row["engine"] == f"{engine}-chromium":
            by_preset.setdefault(row["preset"], []).append(row["ms_per_step"])
    points = [[name, median(times)] for name, times in by_preset.items()]
    return {"engine": engine, "machine": figures["machine"], "points": points}


def generate() -> None:
    """Write what the page takes from Python: itself, its facts, where its kernels are, the texts, the models."""
    from tinygpt.data import load_corpus

    write_generated()
    stated = facts()
    (GENERATED / "site.json").write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")
    compiled = {path.name: addressed(f"kernels/{path.name}", path.read_bytes()) for path in sorted(KERNELS.glob("*"))}
    (GENERATED / "python.json").write_text(json.dumps(python_files()), encoding="utf-8")
    (GENERATED / "labs.json").write_text(json.dumps(lab_facts()), encoding="utf-8")
    (GENERATED / "rooms.json").write_text(json.dumps(room_files()), encoding="utf-8")
    (GENERATED / "kernels.json").write_text(json.dumps(compiled), encoding="utf-8")
    (GENERATED / "passes.json").write_text(json.dumps(figures.passes()), encoding="utf-8")
    (GENERATED / "sources.json").write_text(json.dumps(shown_sources()), encoding="utf-8")
    (WEB / "public" / "corpora").mkdir(parents=True, exist_ok=True)
    for name in BUNDLED:
        write_text(name, load_corpus(name))
    for task in TASKS:
        write_text(PREFIX + task.name, load_task(PREFIX + task.name, TASK_BYTES))
    write_models(WEB / "public")
    write_steps(WEB / "public", GENERATED)


def model_rows() -> list[dict[str, Any]]:
    """Those that write before those that calculate, and what loads fast first."""
    rows = []
    for name in sorted(zoo.named(), key=lambda name: (bool(zoo.card_of(name).get("exam")), zoo.card_of(name)["bytes"])):
        card, path = zoo.card_of(name), zoo.named()[name]
        shown = {key: card[key] for key in ("name", "title", "parameters", "bytes", "preset", "config")}
        named = {"file": addressed(f"models/{path.name}", path.read_bytes()), "weightsSha256": card["weights_sha256"]}
        rows.append({**shown, **named})
    return rows


def write_models(site: Path) -> None:
    """The bundled models, their cards, and the list that the page shows."""
    folder = site / "models"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, path in zoo.named().items():
        shutil.copyfile(path, folder / path.name)
        (folder / f"{name}.json").write_text(json.dumps(zoo.card_of(name)), encoding="utf-8")
    (folder / "list.json").write_text(json.dumps(model_rows()), encoding="utf-8")


def digest() -> str:
    """Of everything the built site depends on."""
    total = hashlib.sha256()
    for pattern in (*INPUTS, *shown_sources()):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and GENERATED not in path.parents:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                total.update(f"{path.relative_to(ROOT).as_posix()} {content}\n".encode())
    return total.hexdigest()


def is_fresh() -> bool:
    return STAMP.exists() and STAMP.read_text(encoding="utf-8") == digest()


def build() -> Path:
    """The folder of the built site, made anew if any of its sources has changed."""
    with one_at_a_time():
        if not is_fresh():
            inputs = digest()
            run([sys.executable, "-m", "tinygpt.kernels.wasm", str(KERNELS)], ROOT)
            generate()
            run(node(ASTRO, "build", "--outDir", str(DIST)), WEB)
            state_headers()
            settle(DIST)
            write_template()
            write_service_worker(DIST, service_worker())
            STAMP.write_text(inputs, encoding="utf-8")
    return DIST


def state_headers() -> None:
    """Astro puts scripts into its pages; the policy that the site is served with names each by its hash."""
    pages = (path.read_text(encoding="utf-8") for path in sorted(DIST.rglob("*.html")))
    stated = DIST / HEADERS_FILE
    stated.write_text(allow_inline(stated.read_text(encoding="utf-8"), pages), encoding="utf-8")


def write_template() -> None:
    """Of a page of one file."""
    with tempfile.TemporaryDirectory() as folder:
        run(node(VITE, "build", "--config", "single.config.ts", "--outDir", folder), WEB)
        outline = (SINGLE / "template.html").read_text(encoding="utf-8")
        TEMPLATE.parent.mkdir(exist_ok=True)
        TEMPLATE.write_text(template_of(outline, Path(folder), KERNELS), encoding="utf-8", newline="\n")


def service_worker() -> str:
    """Its script, without types."""
    with tempfile.TemporaryDirectory() as folder:
        run([*node(STRIP_TYPES, str(WEB / "src" / "offline"), folder)], WEB)
        return (Path(folder) / "serviceworker.ts").read_text(encoding="utf-8")


def check() -> None:
    """Types, unused code and styles, accessibility: any finding is a failure."""
    generate()
    run(node(ASTRO, "check", "--minimumFailingSeverity", "hint"), WEB)
    run(node(SVELTE_CHECK, "--fail-on-warnings"), WEB)


def lint() -> None:
    """Layout, and faults that types do not show: any finding is a failure."""
    try:
        run(node(PRETTIER, "--check", "."), WEB)
    except TinyGPTError as fault:
        raise TinyGPTError(f"{fault}To format these files, run: make format") from None
    run(node(ESLINT, "--max-warnings", "0", "."), WEB)


def format_sources() -> None:
    run(node(PRETTIER, "--write", "."), WEB)


def test() -> None:
    """The page's logic, without a browser."""
    with one_at_a_time():
        if not is_fresh():
            generate()
        run(node(VITEST, "run", "--config", "tests/vitest.config.ts"), WEB)


def node(script: Path, *arguments: str) -> list[str]:
    from tinygpt.engines.runner import node_command

    if not script.exists():
        raise TinyGPTError("the page's packages are not installed; run: make setup")
    return [*node_command(), str(script), *arguments]


def run(command: list[str], folder: Path) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "ASTRO_TELEMETRY_DISABLED": "1", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise TinyGPTError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")


def one_at_a_time() -> AbstractContextManager[object]:
    """Processes that want the site at once (parallel tests) build it once."""
    from filelock import FileLock

    (WEB / ".astro").mkdir(exist_ok=True)
    return FileLock(WEB / ".astro" / "lock")


def main(arguments: list[str]) -> None:
    try:
        match arguments:
            case []:
                print(f"the page is in {build().relative_to(ROOT)}")
            case ["check"]:
                check()
            case ["lint"]:
                lint()
            case ["format"]:
                format_sources()
            case ["test"]:
                test()
            case ["generate"]:
                generate()
            case _:
                sys.exit(__doc__)
    except TinyGPTError as fault:
        sys.exit(f"error: {fault}")
