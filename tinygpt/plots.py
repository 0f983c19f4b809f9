"""The loss curve of a run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from tinygpt.core.config import LN_VOCAB
from tinygpt.runs import writing

INK, GRID, TRAIN, VAL = "#22303c", "#dfe4e8", "#2f6fde", "#e8710a"
SHORTEST_REACH = 10  # steps to each side; long runs are smoothed over a fiftieth of their length


def smoothed(values: Sequence[float], reach: int) -> list[float]:
    """The mean of each value and its neighbours up to `reach` away, fewer at the ends: it lags behind nothing."""
    sums = [0.0, *accumulate(values)]
    result = []
    for i in range(len(values)):
        side = min(reach, i, len(values) - 1 - i)
        result.append((sums[i + side + 1] - sums[i - side]) / (2 * side + 1))
    return result


def save_loss_plot(
    path: Path, title: str, train: Sequence[tuple[int, float]], val: Sequence[tuple[int, float]]
) -> None:
    """Draw (step, loss) points of training, their smoothed course, and validation."""
    from matplotlib.figure import Figure  # without pyplot: no display, no global state

    figure = Figure(figsize=(9, 5), dpi=150, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
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
    axes.set_title(title, loc="left", fontsize=12, color=INK, pad=10)
    axes.set_xlabel("step", color=INK)
    axes.set_ylabel("cross-entropy (nats per byte)", color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    axes.tick_params(colors=INK, length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    if train or val:
        axes.legend(frameon=False, labelcolor=INK)
    with writing(path):
        figure.savefig(path)
