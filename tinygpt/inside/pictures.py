"""What was seen of a model as one picture: the text by its losses, attention, the lens, norms; or tensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygpt.core.look.watch import BINS
from tinygpt.inside.page import as_matrix
from tinygpt.plots import BACKWARD, GRID, INK, TRAIN, require_picture, save

if TYPE_CHECKING:
    from tinygpt.inside.look import Look, Seen

COLUMNS = 72  # bytes of a text beside each other
MOST_LINES = 12
MOST_LOSS = 7.0  # nats: what counts as wholly unexpected
MAPS = 10  # of attention, beside each other
SHOWN = 48  # bytes, the last ones, whose lens is shown


def save_picture(look: Look, path: Path) -> None:
    require_picture(path)
    save(draw_tensors(look.tensors) if look.tensors else draw_look(look.data), path)


def letter(byte: int) -> str:
    return chr(byte) if 32 < byte < 127 else {10: "⏎", 9: "⇥", 32: " "}.get(byte, "·")


def draw_look(data: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    inside = data["inside"]
    layers = len(inside["attention"])
    text = data["text"][-COLUMNS * MOST_LINES :]
    lines = -(-len(text) // COLUMNS)
    heights = [0.28 * lines + 0.2, *([1.1 * map_rows(inside) + 0.2] if layers else []), 0.3 * len(inside["lens"]) + 0.5]
    heights += [2.0] if layers else []
    figure = Figure(figsize=(11, sum(heights) + 1.2), dpi=110, facecolor="white", layout="constrained")
    rows: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    draw_text(rows[0], text, [None, *data["losses"]][-len(text) :], data["model"]["name"])
    if layers:
        draw_attention(rows[1], inside)
        draw_norms(rows[3], inside)
    draw_lens(rows[2 if layers else 1], inside)
    return figure


def bare(axes: Any, title: str = "") -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(GRID)
    if title:
        axes.set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)


def draw_text(figure: Any, text: list[int], losses: list[float | None], name: str) -> None:
    axes = figure.subplots()
    lines = -(-len(text) // COLUMNS)
    shades = np.zeros((lines, COLUMNS))
    for i, loss in enumerate(losses):
        shades[i // COLUMNS, i % COLUMNS] = 0 if loss is None else min(1.0, loss / MOST_LOSS)
    axes.imshow(shades, cmap="Oranges", vmin=0, vmax=1.3, aspect="auto")
    write(axes, [(i // COLUMNS, i % COLUMNS, byte) for i, byte in enumerate(text)])
    bare(axes, f"{name or 'a model'}: how surprising each byte was")


def write(axes: Any, letters: list[tuple[int, int, int]], size: int = 9) -> None:
    for row, column, byte in letters:
        axes.text(
            column, row, letter(byte), ha="center", va="center", fontsize=size, family="monospace", color=INK,
            parse_math=False,
        )  # fmt: skip


def draw_attention(figure: Any, inside: dict[str, Any]) -> None:
    T, maps = len(inside["bytes"]), [triangle for layer in inside["attention"] for triangle in layer]
    grid = figure.subplots(map_rows(inside), MAPS, squeeze=False).ravel()
    figure.suptitle("attention: block.head", x=0.01, ha="left", fontsize=10, color=INK)
    for axes in grid[len(maps) :]:
        axes.set_visible(False)
    for number, (axes, triangle) in enumerate(zip(grid, maps, strict=False)):
        square = np.zeros((T, T))
        for i, row in enumerate(triangle):
            square[i, : i + 1] = row
        axes.imshow(np.sqrt(square), cmap="Blues", vmin=0, vmax=1)
        bare(axes)
        axes.set_xlabel("{}.{}".format(*divmod(number, inside["heads"])), fontsize=7, color=INK, labelpad=2)


def map_rows(inside: dict[str, Any]) -> int:
    return -(-int(inside["layers"] * inside["heads"]) // MAPS)


def draw_lens(figure: Any, inside: dict[str, Any]) -> None:
    axes = figure.subplots()
    shown = inside["bytes"][-SHOWN:]
    likeliest = [[opinion["top"][0] for opinion in row[-SHOWN:]] for row in inside["lens"]]
    axes.imshow([[0] * len(shown)] + [[p for _, p in row] for row in likeliest], cmap="Blues", vmin=0, vmax=1.6,
                aspect="auto")  # fmt: skip
    letters = [(0, i, byte) for i, byte in enumerate(shown)]
    letters += [(1 + stage, i, byte) for stage, row in enumerate(likeliest) for i, (byte, _) in enumerate(row)]
    write(axes, letters)
    bare(axes, "the lens: the likeliest next byte if the model ended there")
    names = ["embedding", *[f"block {i}" for i in range(len(likeliest) - 1)]]
    axes.set_yticks(range(1 + len(likeliest)), ["reads", *names], fontsize=8)


def draw_norms(figure: Any, inside: dict[str, Any]) -> None:
    sides = figure.subplots(1, 2)
    rows = (("norms", "length of the residual stream", TRAIN), ("gradients", "of the loss's gradient there", BACKWARD))
    for axes, (key, title, colour) in zip(sides, rows, strict=True):
        means = [float(np.mean(row)) for row in inside.get(key, [])]
        axes.bar(range(len(means)), means, color=colour)
        axes.set_xticks(range(len(means)), inside["stages"][: len(means)], rotation=45, ha="right", fontsize=8)
        axes.tick_params(colors=INK, length=0, labelsize=8)
        axes.set_title(title, loc="left", fontsize=10, color=INK)
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)


def draw_tensors(tensors: list[Seen]) -> Any:
    """Each as an image, and its values as a histogram."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.6 * len(tensors)), dpi=110, facecolor="white", layout="constrained")
    grid = figure.subplots(len(tensors), 2, squeeze=False, width_ratios=(2, 1))
    for (image, bars), seen in zip(grid, tensors, strict=True):
        matrix = as_matrix(seen.values)
        top = float(np.abs(matrix).max(initial=0)) or 1.0
        shown = image.imshow(matrix, cmap="RdBu", vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        figure.colorbar(shown, ax=image, shrink=0.8)
        bare(image, f"{seen.name} {'×'.join(map(str, seen.values.shape))}")
        told = seen.as_data()
        edges = np.linspace(told["low"], told["high"] if told["high"] > told["low"] else told["low"] + 1, BINS + 1)
        bars.stairs(told["bins"], edges, fill=True, color=TRAIN)
        bars.set_title(f"mean {told['mean']:.3g}, deviation {told['std']:.3g}", loc="left", fontsize=9, color=INK)
        bars.tick_params(colors=INK, length=0, labelsize=8)
    return figure
