"""Tensors that were watched while a model trained, as one picture and as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinygpt.core.look.watch import BINS
from tinygpt.inside.page import as_matrix
from tinygpt.inside.pictures import bare
from tinygpt.plots import INK, TRAIN, save
from tinygpt.store.runs import writing

Last = Mapping[str, tuple[tuple[int, ...], bytes]]  # by name: shape and floats
ROWS = 64  # of a picture of histograms
MOST = 24  # tensors in a picture: it grows with each


def save_watched(folder: Path, metrics: Sequence[dict[str, Any]], last: Last) -> None:
    """watch.npz: the values of the last step that was told of. watch.png: of each tensor its norm and its histogram
    over the steps, and that step's values."""
    arrays = {name: np.frombuffer(data, np.float32).reshape(shape) for name, (shape, data) in last.items()}
    with writing(folder / "watch.npz"):
        np.savez_compressed(folder / "watch.npz", allow_pickle=False, **arrays)
    save(draw_watched([event for event in metrics if event["event"] == "watch"], arrays), folder / "watch.png")


def draw_watched(events: Sequence[dict[str, Any]], arrays: Mapping[str, Any]) -> Any:
    from matplotlib.figure import Figure

    names = list(arrays)[:MOST]
    figure = Figure(figsize=(12, 2.3 * len(names)), dpi=100, facecolor="white", layout="constrained")
    grid = figure.subplots(len(names), 3, squeeze=False)
    for (norms, spread, values), name in zip(grid, names, strict=True):
        own = [event for event in events if event["tensor"] == name]
        norms.plot([event["step"] for event in own], [event["norm"] for event in own], color=TRAIN, marker=".")
        norms.set_title(f"{name}: norm", loc="left", fontsize=9, color=INK)
        norms.set_ylim(bottom=0)
        draw_histograms(spread, own)
        matrix = as_matrix(arrays[name])
        top = float(np.abs(matrix).max(initial=0)) or 1.0
        values.imshow(matrix, cmap="RdBu", vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        bare(values)
        values.set_title(f"values {'×'.join(map(str, arrays[name].shape))}, up to {top:.2g}", loc="left", fontsize=9)
        for axes in (norms, spread):
            axes.tick_params(colors=INK, length=0, labelsize=7)
    return figure


def draw_histograms(axes: Any, events: Sequence[dict[str, Any]]) -> None:
    """A column per step, on one scale: how many of the values lie where; the scale of shares is a root's."""
    low, high = min(event["low"] for event in events), max(event["high"] for event in events)
    span = (high - low) or 1.0
    picture, levels = np.zeros((ROWS, len(events))), np.linspace(low, low + span, ROWS + 1)
    for column, event in enumerate(events):
        edges = np.linspace(event["low"], max(event["high"], event["low"] + 1e-6 * span), BINS + 1)
        below = np.cumsum([0, *event["bins"]]) / max(1, sum(event["bins"]))
        picture[:, column] = np.diff(np.interp(levels, edges, below))
    axes.imshow(
        np.sqrt(picture), cmap="Blues", aspect="auto", origin="lower", interpolation="nearest",
        extent=(-0.5, len(events) - 0.5, low, low + span),
    )  # fmt: skip
    shown = sorted({0, len(events) // 2, len(events) - 1})
    axes.set_xticks(shown, [f"{events[i]['step']:,}" for i in shown])
    axes.set_title("values over the steps", loc="left", fontsize=9, color=INK)
