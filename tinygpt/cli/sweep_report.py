"""What `sweep` says before the first run and after the last one."""

from __future__ import annotations

import json
import math
import shlex

from rich.table import Table

from tinygpt.cli.output import Output
from tinygpt.cli.sweep_settings import SweepSettings
from tinygpt.core.config import TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import DEFAULT_RECIPE
from tinygpt.jobs.texts import Texts
from tinygpt.sweeps.folder import SweepFolder
from tinygpt.sweeps.plan import LEARNING_RATES, PRESET, RATES, RECIPE, SEED, Plan, described, shown
from tinygpt.sweeps.results import FAILED, Result, Standing, edge_notes, standings


def before(
    output: Output, settings: SweepSettings, folder: SweepFolder, texts: Texts, device: str, done: list[Result]
) -> None:
    plan = settings.plan
    axes = " × ".join(f"{axis.name} ({len(axis.values)})" for axis in plan.over)
    facts = [
        ("sweep", f"{axes}: {amount(plan)}"),
        ("engine", device),
        ("corpus", texts.describe()),
        ("folder", str(folder.path)),
    ]
    if done:
        facts.insert(1, ("done", f"{len(done)} runs"))
    output.facts(facts)
    output.say()
    if output.json:
        start = {"event": "start", "folder": str(folder.path), "device": device, "plan": plan.as_dict()}
        output.console.file.write(json.dumps(start) + "\n")


def amount(plan: Plan) -> str:
    seeds, rungs = len(plan.seeds()), plan.rungs()
    steps = sorted({plan.config(candidate).train.steps for candidate in plan.candidates()})
    length = f"{steps[0]:,} steps" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,} steps"
    counts = [len(plan.candidates()) * seeds, *[rung.keep * seeds for rung in rungs[:-1]]]
    if len(rungs) == 1:
        return f"{counts[0]} run{'s' * (counts[0] > 1)} of {length}"
    rounds = ", then ".join(
        f"{count} of a {ordinal(r.parts)}" for count, r in zip(counts, rungs, strict=True) if r.parts > 1
    )
    return f"{rounds}, then {counts[-1]} whole, of {length}"


def ordinal(parts: int) -> str:
    return {2: "half", 3: "third", 4: "quarter"}.get(parts, f"{parts}th part")


def report(output: Output, settings: SweepSettings, folder: SweepFolder, results: list[Result]) -> None:
    """The table, what it leaves open, and a picture."""
    from tinygpt.sweeps.picture import save_sweep_picture

    plan = settings.plan
    ranked = standings(results)
    best = ranked[0]
    found = math.isfinite(best.loss)
    notes = edge_notes(plan.over, best) + rate_notes(plan) if found else []
    save_sweep_picture(folder.picture, f"{folder.path.resolve().name}: {settings.data.title()}", plan, results)
    output.console.print(table_of(plan, ranked))
    output.say()
    for standing in ranked:
        for result in standing.results:
            if not result.sound:
                output.say(f"{described(result.settings)}: {result.reason}")
    for note in notes:
        output.say(f"Note: {note}.")
    if found:
        output.say(f"Train the best: {command(settings, best)}")
    output.say(f"The picture is in {folder.picture}.")
    if output.json:
        end = {"event": "end", "best": best.settings if found else None, "loss": best.loss if found else None}
        output.console.file.write(json.dumps({**end, "notes": notes}) + "\n")


def table_of(plan: Plan, ranked: list[Standing]) -> Table:
    names = [axis.name for axis in plan.over if axis.name != SEED]
    seeds = len(plan.seeds()) > 1
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    headings = ["whole text" if plan.whole_text else "best val", *(["±"] if seeds else []), "last val", "train"]
    for heading in (*headings, "steps", "tokens", "seconds", "tokens/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for i, standing in enumerate(ranked):
        found = i == 0 and math.isfinite(standing.loss)
        row = ["▶" if found else "", *[shown(standing.settings[name]) for name in names], *figures(standing, seeds)]
        table.add_row(*row, style="bold" if found else "")
    return table


def figures(standing: Standing, seeds: bool) -> list[str]:
    spread = standing.spread
    return [
        loss_words(standing),
        *([f"{spread:.4f}" if spread is not None else ""] if seeds else []),
        number(standing.mean(lambda result: result.val_loss)),
        number(standing.mean(lambda result: result.train_loss)),
        f"{standing.mean(lambda result: result.steps):,.0f}",
        f"{standing.mean(lambda result: result.tokens):,.0f}",
        f"{standing.mean(lambda result: result.seconds):,.1f}",
        f"{standing.mean(lambda result: result.tokens_per_second):,.0f}",
    ]


def loss_words(standing: Standing) -> str:
    if standing.sound:
        return f"{standing.loss:.4f}"
    bad = [result.outcome for result in standing.results if not result.sound]
    return bad[0] if len(standing.results) == 1 else f"{len(bad)} of {len(standing.results)} {bad[0]}"


def number(loss: float) -> str:
    return f"{loss:.4f}" if math.isfinite(loss) else "–"


def rate_notes(plan: Plan) -> list[str]:
    """Where one of two rates was varied and the other was not."""
    names = [axis.name for axis in plan.over]
    matrices = plan.config(plan.candidates()[0]).train
    if "lr" not in names or matrices.optimizer != "muon" or "matrix_lr" in (*names, *plan.fixed):
        return []
    return [
        f"lr is the rate of embeddings, norms and biases here; the matrices kept theirs, matrix_lr "
        f"{matrices.matrix_lr:g}. --over {RATES}=0.5,1,2 varies all rates of the recipe together"
    ]


def rates_of_recipe(train: TrainConfig) -> list[str]:
    """Of all learning rates those that the run has a use for."""
    unused = [] if train.optimizer == "muon" else ["matrix_lr"]
    unused += [] if train.schedule == "cosine" else ["min_lr"]
    return [name for name in LEARNING_RATES if name not in unused]


def command(settings: SweepSettings, best: Standing) -> str:
    values = {**settings.plan.fixed, **best.settings}
    if values.pop(RATES, 1.0) != 1.0:
        train = settings.plan.config(best.settings).train
        values |= {name: getattr(train, name) for name in rates_of_recipe(train)}
    recipe = values.pop(RECIPE, settings.plan.recipe)
    preset = {PRESET: values.pop(PRESET, settings.plan.preset)} | ({} if recipe == DEFAULT_RECIPE else {RECIPE: recipe})
    texts = {"data": settings.data.name, "file": settings.data.file}
    texts |= {"val_data": settings.validation.name, "val_file": settings.validation.file}
    if any(settings.validation):
        values.pop("val_fraction", None)
    words = {**preset, **{name: text for name, text in texts.items() if text}, **values}
    flags = [f"--{key.replace('_', '-')} {shlex.quote(shown(value))}" for key, value in words.items()]
    return " ".join(["tinygpt train", *flags])


def ended(results: list[Result]) -> None:
    """Where this machine could do none of the runs, the command has failed."""
    if results and all(result.outcome == FAILED for result in results):
        raise TinyGPTError(f"none of the runs could be done: {results[0].reason}")
