"""A sweep as a picture: loss over the setting that has most values, and over the time of training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinygpt.plots import INK, LINES, panels, save
from tinygpt.sweeps.plan import SEED, Axis, Plan, described, shown
from tinygpt.sweeps.results import Result, Standing, standings

LOSS = "validation loss (nats per byte)"
WIDE = 8  # values whose largest is so many times the smallest stand on a logarithmic axis


def save_sweep_picture(path: Path, title: str, plan: Plan, results: Sequence[Result]) -> None:
    axis = longest(plan.over)
    figure, (left, right) = panels((title, axis.name, LOSS), ("", "seconds of training", LOSS))
    of_rungs = [
        standing
        for rung in sorted({result.rung for result in results})
        for standing in standings(result for result in results if result.rung == rung)
    ]
    name_of = line_names(plan, axis, of_rungs)
    names = list(dict.fromkeys(name_of(standing) for standing in of_rungs))
    colours = {name: LINES[i % len(LINES)] for i, name in enumerate(names)}
    draw_settings(left, axis, of_rungs, name_of, colours)
    best = standings(results)[0]
    for standing in of_rungs:
        draw_curves(right, standing, colours[name_of(standing)], standing != best)
    limit(right, of_rungs)
    if len(names) > 1:
        left.legend(frameon=False, labelcolor=INK, fontsize=8)
    if math.isfinite(best.loss):
        right.set_title(f"best {best.loss:.4f}: {described(best.settings)}", loc="left", fontsize=10, color=INK)
    save(figure, path)


def longest(over: Sequence[Axis]) -> Axis:
    """The axis to draw along: numbers before words, seeds last."""

    def weight(axis: Axis) -> tuple[bool, bool, int]:
        return axis.name != SEED, all(isinstance(value, (int, float)) for value in axis.values), len(axis.values)

    return max(over, key=weight)


def line_names(plan: Plan, axis: Axis, drawn: list[Standing]) -> Any:
    """What tells a line from another: the other settings, fewer of them where they are too many; with rungs, those."""
    if len({standing.rung for standing in drawn}) > 1:
        return lambda standing: f"{standing.results[0].steps:,} steps"
    others = [other.name for other in plan.over if other.name not in (axis.name, SEED)]

    def name_by(names: list[str]) -> Any:
        return lambda standing: described({name: standing.settings[name] for name in names}) if names else ""

    while len({name_by(others)(standing) for standing in drawn}) > len(LINES):
        others.pop()
    return name_by(list(others))


def draw_settings(axes: Any, axis: Axis, drawn: list[Standing], name_of: Any, colours: dict[str, str]) -> None:
    """The best of those that share a line and a place; crosses at the top are runs that diverged."""
    numeric = all(isinstance(value, (int, float)) for value in axis.values)
    places = {value: value if numeric else i for i, value in enumerate(axis.values)}
    if numeric and min(axis.values) > 0 and max(axis.values) >= WIDE * min(axis.values):
        axes.set_xscale("log")
    axes.set_xticks(list(places.values()), [shown(value) for value in places])
    axes.minorticks_off()
    for name, colour in colours.items():
        losses: dict[Any, float] = {}
        for standing in drawn:
            if name_of(standing) == name:
                for place, loss in points(axis, standing):
                    losses[place] = min(losses.get(place, math.inf), loss)
        sound = sorted((places[place], loss) for place, loss in losses.items() if math.isfinite(loss))
        xs, ys = [x for x, _ in sound], [y for _, y in sound]
        axes.plot(xs, ys, marker="o", markersize=4.5, color=colour, linewidth=1.8, label=name)
        lost = [places[place] for place, loss in losses.items() if not math.isfinite(loss)]
        axes.plot(lost, [0.98] * len(lost), "x", color=colour, transform=axes.get_xaxis_transform())


def points(axis: Axis, standing: Standing) -> list[tuple[Any, float]]:
    if axis.name == SEED:
        return [(result.settings[SEED], result.loss) for result in standing.results]
    return [(standing.settings[axis.name], standing.loss)]


def draw_curves(axes: Any, standing: Standing, colour: str, faint: bool) -> None:
    for result in standing.results:
        seconds = [point[1] for point in result.curve]
        losses = [point[2] for point in result.curve]
        axes.plot(seconds, losses, color=colour, linewidth=1.0 if faint else 2.4, alpha=0.45 if faint else 1.0)


def limit(axes: Any, drawn: list[Standing]) -> None:
    """The first validations of all runs are far above where they end, and tell nothing."""
    ends = [result.loss for standing in drawn for result in standing.results if math.isfinite(result.loss)]
    if ends:
        room = max(0.3, max(ends) - min(ends))
        axes.set_ylim(min(ends) - 0.1 * room, max(ends) + 0.5 * room)
