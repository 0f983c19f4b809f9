"""The loss curve of a run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tinygpt.core.config import LN_VOCAB
from tinygpt.runs import writing

INK, GRID, TRAIN, VAL = "#22303c", "#dfe4e8", "#2f6fde", "#e8710a"
SMOOTHING_STEPS = 20  # at least; long runs are smoothed over a fiftieth of their steps


class Smoother:
    """Exponential moving average over about `steps` values, without the bias towards a start at zero."""

    def __init__(self, steps: float) -> None:
        self.keep = 1.0 - 1.0 / max(1.0, steps)
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: float) -> float:
        self.total = self.keep * self.total + (1.0 - self.keep) * value
        self.weight = self.keep * self.weight + (1.0 - self.keep)
        return self.total / self.weight


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
        smoother = Smoother(max(SMOOTHING_STEPS, len(losses) / 50))
        smooth = [smoother.add(loss) for loss in losses]
        axes.plot(steps, losses, color=TRAIN, alpha=0.22, linewidth=0.8)
        axes.plot(steps, smooth, color=TRAIN, linewidth=2.0, label=f"train, smoothed ({smooth[-1]:.3f})")
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
