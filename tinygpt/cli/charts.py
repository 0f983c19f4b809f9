"""Curves out of characters: a sparkline, and a plot in braille dots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"
BRAILLE = 0x2800
# The bit of each dot of a braille character: DOTS[column][row].
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))

SHARE_LABEL = len(" 100%")
LOSS_LABEL = 6

Points = Sequence[tuple[int, float]]  # (step, loss or share), steps rising


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as a row of at most `width` bars."""
    columns = [value for value in averaged([(i, v) for i, v in enumerate(values)], width) if value is not None]
    if not columns:
        return ""
    low, high = min(columns), max(columns)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in columns)


def averaged(points: Points, columns: int) -> list[float | None]:
    """The mean of the points that fall into each of `columns` equal stretches of steps; None where there are none."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    columns = min(columns, last - first + 1)
    sums, counts = [0.0] * columns, [0] * columns
    for step, value in points:
        column = (step - first) * columns // (last - first + 1)
        sums[column] += value
        counts[column] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def filled(values: list[float | None]) -> list[float]:
    """Gaps take the value before them."""
    result: list[float] = []
    for value in values:
        result.append(value if value is not None else result[-1])
    return result


class Canvas:
    """Dots over width x height characters, two by four in each, for a range of steps and of values."""

    def __init__(self, width: int, height: int, steps: tuple[int, int], values: tuple[float, float]) -> None:
        self.width, self.height = width, height
        self.steps, self.values = steps, values
        self.cells: list[list[int]] = [[0] * width for _ in range(height)]
        self.styles: list[list[str]] = [[""] * width for _ in range(height)]

    def x(self, step: float) -> int:
        first, last = self.steps
        return round((step - first) / max(1, last - first) * (2 * self.width - 1))

    def y(self, value: float) -> int:
        low, high = self.values
        share = (high - value) / (high - low) if high > low else 0.5
        return round(min(1.0, max(0.0, share)) * (4 * self.height - 1))

    def dot(self, x: int, y: int, style: str) -> None:
        self.cells[y // 4][x // 2] |= DOTS[x % 2][y % 4]
        self.styles[y // 4][x // 2] = style

    def line(self, points: Points, style: str) -> None:
        """Join the points; what rises or falls within one column becomes a vertical stroke."""
        before: tuple[int, int] | None = None
        for step, value in points:
            x, y = self.x(step), self.y(value)
            x0, y0 = before or (x, y)
            for column in range(x0, x + 1):
                share = (column - x0) / (x - x0) if x > x0 else 1.0
                here = round(y0 + (y - y0) * share)
                last = round(y0 + (y - y0) * max(0.0, share - 1 / max(1, x - x0)))
                for row in range(min(last, here), max(last, here) + 1):
                    self.dot(column, row, style)
            before = (x, y)

    def rows(self) -> list[Text]:
        result = []
        for cells, styles in zip(self.cells, self.styles, strict=True):
            row = Text()
            for bits, style in zip(cells, styles, strict=True):
                row.append(chr(BRAILLE | bits) if bits else " ", style=style)
            result.append(row)
        return result


def loss_chart(
    train: Points,
    val: Points,
    width: int,
    height: int,
    train_style: str,
    val_style: str,
    shares: Points = (),
    share_style: str = "",
) -> list[Text]:
    """The curves over the steps so far: the range of losses at the left, that of shares, if any, at the right."""
    if not train:
        return [Text("") for _ in range(height + 1)]
    inner = width - LOSS_LABEL - 1 - (SHARE_LABEL if shares else 0)
    first, last = train[0][0], max(train[-1][0], train[0][0] + 1)
    columns = filled(averaged(train, 2 * inner))
    stretch = (last - first) / max(1, len(columns) - 1)
    smooth = [(round(first + i * stretch), value) for i, value in enumerate(columns)]
    finite = [loss for _, loss in [*smooth, *val] if math.isfinite(loss)]
    losses = (min(finite, default=0.0), max(finite, default=1.0))
    canvas = Canvas(inner, height, (first, last), losses)
    canvas.line(smooth, train_style)
    canvas.line([point for point in val if first <= point[0] <= last], val_style)
    canvas.values = (0.0, 1.0)
    canvas.line([point for point in shares if first <= point[0] <= last], share_style)
    return framed(canvas, losses, train[-1][0], share_style if shares else None)


def overlay(curves: Sequence[tuple[Points, str]], width: int, height: int) -> list[Text]:
    """Curves over the same steps, each in its style."""
    points = [point for curve, _ in curves for point in curve]
    finite = [loss for _, loss in points if math.isfinite(loss)]
    if not finite:
        return []
    losses = (min(finite), max(finite))
    steps = min(step for step, _ in points), max(step for step, _ in points)
    canvas = Canvas(width - LOSS_LABEL - 1, height, (steps[0], max(steps[1], steps[0] + 1)), losses)
    for curve, style in curves:
        canvas.line(curve, style)
    return framed(canvas, losses, steps[1])


def framed(canvas: Canvas, losses: tuple[float, float], last: int, share_style: str | None = None) -> list[Text]:
    """The canvas with its ranges: of losses at the left, of shares, if any, at the right, of steps below."""
    rows = []
    for number, row in enumerate(canvas.rows()):
        edge = losses[1] if number == 0 else losses[0] if number == canvas.height - 1 else None
        tick = f"{edge:{LOSS_LABEL - 1}.2f} ┤" if edge is not None else " " * LOSS_LABEL + "│"
        share = {0: " 100%", canvas.height - 1: "   0%"}.get(number, "") if share_style is not None else ""
        rows.append(Text.assemble((tick, "dim"), row, (share, share_style or "")))
    start, end = f"step {canvas.steps[0]:,}", f"{last:,}"
    axis = " " * (LOSS_LABEL + 1) + start + end.rjust(canvas.width - len(start))
    return [*rows, Text(axis, style="dim")]
