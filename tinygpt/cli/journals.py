"""Metrics to programs that others have installed: TensorBoard and Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.jobs.settings import TrainSettings
from tinygpt.store.runs import RunFolder

# What an event's numbers are called there.
NAMES = {
    "step": {
        "loss": "loss/train",
        "lr": "step/lr",
        "grad_norm": "step/grad_norm",
        "tokens_per_s": "step/tokens_per_s",
    },
    "eval": {"val_loss": "loss/val"},
    "exam": {"accuracy": "exam/accuracy"},
}


class Journal:
    """Is told of every event of a run."""

    def event(self, event: dict[str, Any]) -> None:
        numbers = {
            name: event[key] for key, name in NAMES.get(event["event"], {}).items() if event.get(key) is not None
        }
        if numbers:
            self.numbers(numbers, event["step"])
        if event["event"] == "sample":
            self.text(event["text"], event["step"])

    def numbers(self, numbers: dict[str, float], step: int) -> None:
        raise NotImplementedError

    def text(self, text: str, step: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more will come."""


class TensorBoard(Journal):
    """Event files in the run's folder: `tensorboard --logdir runs` finds them."""

    def __init__(self, run: Path, settings: TrainSettings) -> None:
        self.writer = self.package()(str(run / "tensorboard"))
        self.writer.add_text("config", "```\n" + settings.as_toml() + "\n```", 0)

    def numbers(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def text(self, text: str, step: int) -> None:
        self.writer.add_text("sample", "```\n" + text + "\n```", step)

    def close(self) -> None:
        self.writer.close()

    @staticmethod
    def package() -> Any:
        """What writes such files: PyTorch where TensorBoard itself is there, or tensorboardX, which needs neither."""
        for module in ("torch.utils.tensorboard", "tensorboardX"):
            with suppress(ImportError):
                return import_module(module).SummaryWriter
        raise TinyGPTError("--log tensorboard needs a package that writes its files: pip install tensorboardX")


class WandB(Journal):
    def __init__(self, run: Path, settings: TrainSettings) -> None:
        config = {"preset": settings.preset, "recipe": settings.recipe, **settings.run.values()}
        self.run = self.package().init(project="tinygpt", name=run.resolve().name, dir=str(run), config=config)

    def numbers(self, numbers: dict[str, float], step: int) -> None:
        self.run.log(numbers, step=step)

    def text(self, text: str, step: int) -> None:
        self.run.log({"sample": text}, step=step)

    def close(self) -> None:
        self.run.finish()

    @staticmethod
    def package() -> Any:
        try:
            return import_module("wandb")
        except ImportError:
            raise TinyGPTError("--log wandb needs its package: pip install wandb") from None


JOURNALS: dict[str, type[Any]] = {"tensorboard": TensorBoard, "wandb": WandB}


def check_journals(names: Sequence[str]) -> tuple[str, ...]:
    """The names, once each; what is not there is said before anything begins."""
    for name in names:
        if name not in JOURNALS:
            raise TinyGPTError(f"--log knows no '{name}'{instead(name, list(JOURNALS))}")
        JOURNALS[name].package()
    return tuple(dict.fromkeys(names))


@contextmanager
def open_journals(names: Sequence[str], run: RunFolder | None, settings: TrainSettings) -> Iterator[list[Journal]]:
    """Of a run with a folder: only the main process has one."""
    journals = [] if run is None else [JOURNALS[name](run.path, settings) for name in names]
    try:
        yield journals
    finally:
        for journal in journals:
            journal.close()
