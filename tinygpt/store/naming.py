"""What a model is named by, for every command that takes one: a file, a run and one of its checkpoints, or a name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tinygpt.core.edited import EDIT, other_edit
from tinygpt.core.errors import TinyGPTError, nearest
from tinygpt.core.file.header import left_out_sentence
from tinygpt.core.hub.names import HUB_PREFIX
from tinygpt.disk.files import faults_of
from tinygpt.store.bundled import named
from tinygpt.store.runs import ADAPTER, RunFolder

if TYPE_CHECKING:
    from tinygpt.store.formats import Checkpoint


Tell = Callable[[str], object]  # a sentence that the user should read


class Located(NamedTuple):
    path: Path  # a model file, or a Hugging Face folder
    run: Path | None = None  # the folder of the run whose checkpoint it is


def locate(model: str | os.PathLike[str]) -> Located:
    """Where MODEL lies.

    MODEL is a path, where there is one: of a file, of a Hugging Face folder, or of a run, which stands for its best
    checkpoint. RUN@last, RUN@best and RUN@500 are checkpoints of a run, the last one as --keep-every keeps them.
    Else it is the name of a model that comes with the package, or hf:user/name of one on the Hugging Face Hub.
    """
    path = Path(model)
    with faults_of(path, "read"):
        if path.is_dir():
            return best_of(RunFolder(path)) if RunFolder(path).checkpoints.is_dir() else Located(path)
        if os.path.lexists(path):
            return Located(path, run_around(path))
        if os.fspath(path) in named():
            return Located(named()[os.fspath(path)])
        if os.fspath(path).startswith(HUB_PREFIX):
            from tinygpt.store.hub import fetch

            return Located(fetch(path.as_posix()))
        folder, _, which = os.fspath(path).rpartition("@")
        if folder and RunFolder(Path(folder)).checkpoints.is_dir():
            return checkpoint_of(RunFolder(Path(folder)), which)
        close = nearest(os.fspath(path), list(named()))
        meant = f"; did you mean '{close}'?" if close else ""
        raise TinyGPTError(f"there is no such file, and no model of that name{meant}")


def best_of(run: RunFolder) -> Located:
    """The best checkpoint, where no validation has told which that is the last."""
    for kind in ("best", "last"):
        if run.checkpoint(kind).exists():
            return Located(run.checkpoint(kind), run.path)
    raise TinyGPTError("this run has no checkpoint yet (no checkpoints/best.tinygpt)")


def checkpoint_of(run: RunFolder, which: str) -> Located:
    path = run.kept(int(which)) if which.isdecimal() else run.checkpoint(which)
    if not path.exists():
        there = [kind for kind in ("best", "last") if run.checkpoint(kind).exists()]
        there += [str(step) for step in run.kept_steps()]
        raise TinyGPTError(f"this run has no checkpoint '{which}'; it has {', '.join(there) or 'none yet'}")
    return Located(path, run.path)


def run_around(path: Path) -> Path | None:
    """The run in whose folder a checkpoint lies."""
    run = RunFolder(path.parent.parent)
    return run.path if path.parent.name == run.checkpoints.name and run.config.is_file() else None


def load_model(model: str | os.PathLike[str]) -> Checkpoint:
    """Whatever MODEL is, as `locate` reads it; a run's adapters on the model that they were trained on."""
    from tinygpt.store.formats import load_file
    from tinygpt.store.formats.adapter_file import load_adapter, merged

    place = locate(model)
    if place.run is None or place.path.suffix != ADAPTER:
        return load_file(place.path)
    adapter = load_adapter(place.path)
    return merged(load_model(RunFolder(place.run).origin()), adapter, adapter.run)


def tell_left_out(name: str | os.PathLike[str], model: Checkpoint, tell: Tell) -> None:
    """Of a file that holds settings of a later version, or that other sources trained."""
    if model.left_out:
        tell(f"{os.fspath(name)}: {left_out_sentence(model.left_out)}")
    if model.edit != EDIT:
        tell(f"{os.fspath(name)}: {other_edit(model.edit, EDIT)}")


def locate_adapter(adapter: str | os.PathLike[str]) -> Path:
    """The file of ADAPTER: itself, or of a run, or RUN@last, that of its best checkpoint, or of that one."""
    place = locate(adapter)
    if place.path.suffix != ADAPTER:
        raise TinyGPTError(f"{adapter}: this is no adapter, but a model; an adapter's name ends in {ADAPTER}")
    return place.path
