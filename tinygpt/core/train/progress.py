"""Where a run stands: what a checkpoint keeps besides the weights, so that a resume loses nothing."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HISTORY_POINTS = 512


def history_stride(step: int) -> int:
    """The power of two that leaves at most HISTORY_POINTS - 1 points on the grid 1, 1 + stride, ..."""
    stride = 1
    while (step - 1) // stride + 1 > HISTORY_POINTS - 1:
        stride *= 2
    return stride


class LossHistory:
    """At most 512 (step, loss) points spread over the whole run, the first and the last kept.

    What is kept depends on the steps alone, so a resumed run ends with the same points.
    """

    def __init__(self, points: list[tuple[int, float]] | None = None) -> None:
        self.points = points or []
        self.stride = 0  # of the grid that the points are known to be on

    def add(self, step: int, loss: float) -> None:
        stride = history_stride(step)
        if stride != self.stride or (self.points and self.points[-1][0] >= step):
            self.points = [point for point in self.points if (point[0] - 1) % stride == 0 and point[0] < step]
            self.stride = stride
        elif self.points and (self.points[-1][0] - 1) % stride:
            self.points.pop()  # it was there only for being the last
        self.points.append((step, loss))

    def add_all(self, rows: "list[Any]") -> None:
        """The same for rows that begin with step and loss: of those before the last one, only the grid's count."""
        stride = history_stride(rows[-1][0])
        for row in rows[:-1]:
            if (row[0] - 1) % stride == 0:
                self.add(row[0], row[1])
        self.add(rows[-1][0], rows[-1][1])


def is_better(loss: float, right: int | None, best_val: float | None, best_right: int | None) -> bool:
    """Whether a validation beats the best one: by more right answers where there is an exam, then by a lower loss."""
    lower = best_val is None or loss < best_val
    if right is None:
        return lower
    return best_right is None or right > best_right or (right == best_right and lower)


class Progress:
    def __init__(self) -> None:
        self.step = 0
        self.tokens_seen = 0
        self.loss: float | None = None  # of the last step
        self.best_val: float | None = None
        self.best_step = 0
        self.evals_since_best = 0
        self.accuracy: float | None = None  # in the last exam
        self.best_right: int | None = None  # of the exam's first questions, answered by the best model
        self.validation_due = False  # that of this very step: a stop came before its end
        self.history = LossHistory()
        self.sample = ""
        self.film: list[list[Any]] = []  # [step, text], see film.py

    def __repr__(self) -> str:
        best = "" if self.best_val is None else f", best validation loss {self.best_val:.4f} at step {self.best_step:,}"
        loss = "" if self.loss is None else f", loss {self.loss:.4f}"
        return f"<Progress: step {self.step:,}, {self.tokens_seen:,} bytes{loss}{best}>"

    def as_dict(self) -> "dict[str, Any]":
        """Plain values for a file's header; `from_dict` takes them back."""
        return {
            "step": self.step,
            "tokens_seen": self.tokens_seen,
            "loss": self.loss,
            "best_val": self.best_val,
            "best_step": self.best_step,
            "evals_since_best": self.evals_since_best,
            "accuracy": self.accuracy,
            "best_right": self.best_right,
            "validation_due": self.validation_due,
            "history": [[step, loss] for step, loss in self.history.points],
            "sample": self.sample,
            "film": [list(frame) for frame in self.film],
        }

    @classmethod
    def from_dict(cls, values: "dict[str, Any]") -> "Progress":
        progress = cls()
        progress.restore(values)
        return progress

    def restore(self, values: "dict[str, Any]") -> None:
        for name in self.as_dict():
            if name in values and name != "history":
                setattr(self, name, values[name])
        self.history = LossHistory([(step, loss) for step, loss in values.get("history", [])])
