"""Pictures: the loss curve of a run, the memory map of a program, the speed of engines over presets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tinygpt.core.config import LN_VOCAB
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.memory import Plan
from tinygpt.store.runs import writing
from tinygpt.terminal import one_line

INK, GRID, TRAIN, VAL, EXAM = "#22303c", "#dfe4e8", "#2f6fde", "#e8710a", "#3f9142"
Points = Sequence[tuple[int, float]]  # (step, value)
SHORTEST_REACH = 10  # steps to each side; long runs are smoothed over a fiftieth of their length


def smoothed(values: Sequence[float], reach: int) -> list[float]:
    """The mean of each value and its neighbours up to `reach` away, fewer at the ends: it lags behind nothing."""
    sums = [0.0, *accumulate(values)]
    result = []
    for i in range(len(values)):
        side = min(reach, i, len(values) - 1 - i)
        result.append((sums[i + side + 1] - sums[i - side]) / (2 * side + 1))
    return result


def save_loss_plot(path: Path, title: str, train: Points, val: Points, exams: Points = ()) -> None:
    save(draw_losses(title, train, val, exams), path)


def draw_losses(title: str, train: Points, val: Points, exams: Points = ()) -> Any:
    """(step, loss) points of training, their smoothed course, validation, and what share of exams was right."""
    figure, axes = blank(title, "step", "cross-entropy (nats per byte)")
    if train:
        steps = [step for step, _ in train]
        losses = [loss for _, loss in train]
        smooth = smoothed(losses, max(SHORTEST_REACH, len(losses) // 100))
        axes.plot(steps, losses, color=TRAIN, alpha=0.3, linewidth=0.8, label="train")
        axes.plot(steps, smooth, color=TRAIN, linewidth=2.0, label="train, smoothed")
    if val:
        best_step, best = min(val, key=lambda point: point[1])
        axes.plot(
            [step for step, _ in val],
            [loss for _, loss in val],
            color=VAL,
            linewidth=1.6,
            marker="o",
            markersize=4.5,
            label=f"validation (best {best:.3f} at step {best_step:,})",
        )
        axes.plot([best_step], [best], marker="o", markersize=10, markerfacecolor="none", markeredgecolor=VAL)
    if train and max(losses) > 0.9 * LN_VOCAB:
        axes.axhline(LN_VOCAB, color=INK, alpha=0.35, linewidth=0.9, linestyle=(0, (4, 4)))
        axes.annotate(
            "knows nothing: ln 256",
            (1.0, LN_VOCAB),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=INK,
            alpha=0.6,
        )
    axes.margins(x=0.01)
    lines = axes.get_legend_handles_labels()[0]
    if exams:
        lines += draw_exams(axes, exams)
    if lines:
        axes.legend(handles=lines, frameon=False, labelcolor=INK)
    return figure


def draw_exams(axes: Any, exams: Points) -> list[Any]:
    """On a scale of their own at the right; what a legend takes."""
    right = axes.twinx()
    right.set_ylim(-3, 103)
    right.set_ylabel("unseen questions answered right (%)", color=INK)
    right.tick_params(colors=INK, length=0)
    for side in ("top", "right", "left", "bottom"):
        right.spines[side].set_visible(False)
    steps, shares = [step for step, _ in exams], [100 * share for _, share in exams]
    label = f"exam (last {shares[-1]:.1f} %)"
    return list(right.plot(steps, shares, color=EXAM, linewidth=1.6, marker="s", markersize=4, label=label))


PERSISTENT = {"weight": "#2f6fde", "grad": "#7aa5ef", "slot": "#e8710a"}
OTHER, FORWARD, BACKWARD, SCRATCH = "#9aa7b2", "#4aa56b", "#c2528b", "#c9cfd4"


def save_overlay(path: Path, title: str, curves: Sequence[tuple[str, Points]]) -> None:
    """Losses of several runs over their steps."""
    figure, axes = blank(title, "step", "validation loss (nats per byte)")
    for i, (name, points) in enumerate(curves):
        style = "-" if i < len(LINES) else "--"
        axes.plot(
            *zip(*points, strict=True),
            color=LINES[i % len(LINES)],
            linewidth=2.0,
            linestyle=style,
            label=one_line(name),
        )
    figure.legend(loc="outside lower center", frameon=False, labelcolor=INK, fontsize=8)
    save(figure, path)


def save_memory_map(path: Path, title: str, plan: Plan, mode: str) -> None:
    """Every tensor as a box: along the ops while it is alive, up the arena where it lies."""
    from matplotlib.patches import Patch, Rectangle

    slots = plan.temporary[mode]
    ops = 1 + max((slot.last for slot in slots), default=0)
    figure, axes = blank(title, "op", "arena (MB)")
    for slot in plan.persistent:
        colour = PERSISTENT.get(slot.tensor.kind, OTHER)
        corner, height = (0, 4e-6 * slot.start), 4e-6 * slot.size
        axes.add_patch(Rectangle(corner, ops, height, facecolor=colour, edgecolor="white", linewidth=0.3))
    for slot in slots:
        leaf = slot.tensor.name.split(".")[-1]
        colour = SCRATCH if slot.tensor.name.startswith("scratch") else BACKWARD if leaf[0] == "d" else FORWARD
        corner, width = (slot.first, 4e-6 * slot.start), 1 + slot.last - slot.first
        axes.add_patch(
            Rectangle(corner, width, 4e-6 * slot.size, facecolor=colour, edgecolor="white", linewidth=0.3, alpha=0.9)
        )
    axes.set_xlim(0, ops)
    axes.set_ylim(0, 4e-6 * plan.size)
    colours = {"weights": PERSISTENT["weight"], "gradients": PERSISTENT["grad"], "optimizer": PERSISTENT["slot"]}
    colours |= {"forward": FORWARD, "backward": BACKWARD, "scratch": SCRATCH}
    patches = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=6, frameon=False, labelcolor=INK, fontsize=8)
    save(figure, path)


LINES = ("#2f6fde", "#e8710a", "#4aa56b", "#c2528b", "#7d6bd0", "#22303c")


def save_speed_curve(path: Path, rows: Sequence[dict[str, Any]], source: str = "") -> None:
    """Tokens per second over the presets, a line per engine; dotted where a software adapter stands in for a GPU.

    A picture in PNG keeps what `source` it is of.
    """
    figure, axes = blank("training speed", "preset", "tokens/s")
    presets = list(dict.fromkeys(row["preset"] for row in rows))
    for i, engine in enumerate(dict.fromkeys(row["engine"] for row in rows)):
        own = [row for row in rows if row["engine"] == engine]
        places = [presets.index(row["preset"]) for row in own]
        speeds = [row["tokens_per_s"] for row in own]
        axes.plot(
            places,
            speeds,
            marker="o",
            color=LINES[i % len(LINES)],
            linewidth=2.0,
            linestyle=":" if own[0]["software"] else "-",
            label=f"{engine}: {own[0]['device']}",
        )
    axes.set_xticks(range(len(presets)), presets)
    axes.set_yscale("log")
    figure.legend(loc="outside lower center", frameon=False, labelcolor=INK, fontsize=8)
    save(figure, path, {"Source": source} if source else None)


def blank(title: str, x_label: str, y_label: str) -> tuple[Any, Any]:
    """A figure and its axes in the house style."""
    from matplotlib.figure import Figure  # without pyplot: no display, no global state

    figure = Figure(figsize=(9, 5), dpi=150, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    dress(axes, title, x_label, y_label)
    return figure, axes


def panels(*labels: tuple[str, str, str]) -> tuple[Any, list[Any]]:
    """A figure with axes beside each other, of (title, x, y)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5 * len(labels), 5), dpi=150, facecolor="white", layout="constrained")
    row = list(figure.subplots(1, len(labels), squeeze=False)[0])
    for axes, words in zip(row, labels, strict=True):
        dress(axes, *words)
    return figure, row


def dress(axes: Any, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(one_line(title), loc="left", fontsize=12, color=INK, pad=10, parse_math=False)
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def require_picture(path: Path) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise TinyGPTError(f"a picture cannot be written to '{path.name}'; end its name in .png, .svg or .pdf")


def save(figure: Any, path: Path, metadata: dict[str, str] | None = None) -> None:
    require_picture(path)
    with writing(path):
        figure.savefig(path, metadata=metadata)
