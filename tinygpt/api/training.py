"""Training from Python: a run in memory, or in a folder as `tinygpt train` makes it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from tinygpt.api.model import Model
from tinygpt.api.progress import Shown, display
from tinygpt.api.settings import RunSettings, TrainSettings, spelled_out
from tinygpt.core.advice.pace import Pace
from tinygpt.core.config import ModelConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice
from tinygpt.jobs.beginning import Base, kept_name, new_adapter_job, new_job, open_base
from tinygpt.jobs.budget import asked_minutes, foresee
from tinygpt.jobs.choices import Origin
from tinygpt.jobs.given import Given, GivenText
from tinygpt.jobs.resuming import draw_missing, resumed_job
from tinygpt.jobs.session import Audience, Session, Watch, prepared_folder
from tinygpt.jobs.texts import full_path, open_texts
from tinygpt.store.formats import Checkpoint, load_tinygpt
from tinygpt.store.formats.adapter_file import Adapter, load_adapter, merged
from tinygpt.store.formats.checkpoint import state_sha256
from tinygpt.store.naming import best_of
from tinygpt.store.runs import ADAPTER, RunFolder, require_free

OF_GONE_ON = "give the text that the run was given, or start a new run"
Event = dict[str, Any]  # as `tinygpt train --json` prints them: step, eval, exam, sample, checkpoint, advice
OnEvent = Callable[[Event], object]


class Caller(Audience):
    """Is told and shown what happens. Of a run without a folder it has the last and the best model in memory."""

    def __init__(self, on_event: OnEvent | None, shown: Shown) -> None:
        self.on_event, self.shown = on_event, shown
        self.kept: dict[str, Checkpoint] = {}
        self.stopping = False

    def begins(self, steps: int) -> None:
        self.shown.begin(steps)

    def ends(self) -> None:
        self.shown.end()

    def event(self, event: Event) -> None:
        self.shown.event(event)
        if self.on_event is not None and self.on_event(event) is False:
            self.stopping = True

    def should_stop(self) -> bool:
        return self.stopping

    def saved(self, kind: str, checkpoint: Checkpoint) -> None:
        self.kept[kind] = checkpoint

    def best(self, folder: RunFolder | None) -> Checkpoint:
        """Of the run, which may have found it in an earlier session."""
        if folder is None:
            return self.kept.get("best") or self.kept["last"]
        path = best_of(folder).path
        return load_adapter(path).run if path.suffix == ADAPTER else load_tinygpt(path)


@spelled_out(ModelConfig, TrainConfig)
def train(
    text: GivenText | None = None,
    *,
    minutes: float | None = None,
    preset: str | None = None,
    recipe: str | None = None,
    init_from: Model | str | os.PathLike[str] | None = None,
    lora: dict[str, Any] | None = None,
    validation: str | bytes | None = None,
    out: str | os.PathLike[str] | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    watch: Sequence[str] = (),
    watch_every: int | None = None,
    engine: str = "auto",
    device: str = "auto",
    threads: int = 0,
    **settings: Unpack[RunSettings],
) -> Model:
    """Train a model on a text, a file (a Path, or the name of one that exists) or a corpus, and give back the best.

    >>> model = tinygpt.train("notes.txt", preset="small", steps=600)
    >>> print(model.generate("Dear diary, "))

    With `minutes` it measures this machine and takes the run that learns most in that time. `progress` shows a bar in
    a terminal and a live curve in a notebook; False shows nothing, True a bar wherever stderr goes. `settings` are
    those of the model and of its training, by the names that `tinygpt train` has. `on_event` is told of every step,
    validation and sample, and ends the run by returning False. `validation` is a text of its own; else the last part
    of the text is held out. `lora` has adapters trained on the model `init_from`, which stays as it is: rank, alpha
    and targets, as far as the defaults will not do. `watch` names tensors of a step ("blocks.*.dqkv"), which events
    "watch" tell of every `watch_every` steps, or as often as is validated. `out` is a new folder for the run, as
    `tinygpt train` makes it: with its checkpoints, metrics, samples and curve, for `resume` to continue.
    """
    base = None if init_from is None else based_on(init_from, kept=out is not None)
    if out is not None:
        require_free(Path(out))
    changes: dict[str, dict[str, Any]] = {"model": dict(settings), "train": {}, "sample": {}}
    given = Given(text, validation)
    asked = None
    if minutes is not None:
        asked = asked_minutes(minutes, preset, recipe, changes, {"init_from": init_from, "lora": lora})
    if lora is None:
        job = new_job(changes, given.named, preset=preset, recipe=recipe, base=base, tell=warn)
    elif base is None:
        raise TinyGPTError("LoRA needs a base model: pass init_from")
    else:
        job = new_adapter_job(base, lora, changes, given.named)
    choice = EngineChoice(engine, device=device, threads=threads)
    job = replace(job, settings=replace(job.settings, engine=choice), watch=watched(watch, watch_every))
    texts = open_texts(job.settings, opened=given.opened)
    if asked is not None:
        chosen, foreseen = foresee(asked, job.settings, texts, lambda option: None)
        job = replace(job, settings=chosen, free=frozenset())
    session = Session(job, texts)
    shown = display(progress, on_event)
    with nullcontext() if out is None else prepared_folder(job, session, Path(out)) as folder:
        pace = None if asked is None else foreseen.pace()
        return trained(session, folder, Caller(on_event, shown), job.base, pace)


@spelled_out(TrainConfig)
def resume(
    run: str | os.PathLike[str],
    text: GivenText | None = None,
    *,
    validation: str | bytes | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    watch: Sequence[str] = (),
    watch_every: int | None = None,
    **settings: Unpack[TrainSettings],
) -> Model:
    """Continue the run in a folder from its last checkpoint, as if it had never stopped.

    >>> model = tinygpt.resume("runs/fox", steps=2000)

    `settings` are those that a run may change on its way: more steps, for one. The texts are needed where the run was
    given them as such, and not as a file or a corpus by name.
    """
    given = Given(text, validation)
    with RunFolder.open(Path(run)) as folder:
        folder.lock()
        draw_missing(folder)
        job = resumed_job(folder, {"model": {}, "train": dict(settings), "sample": {}}, given.moved, warn)
        job = replace(job, watch=watched(watch, watch_every))
        session = Session(job, open_texts(job.settings, OF_GONE_ON, given.opened))
        caller = Caller(on_event, display(progress, on_event))
        return trained(session, prepared_folder(job, session, None), caller, job.base)


def trained(
    session: Session, folder: RunFolder | None, caller: Caller, base: Checkpoint | None, pace: Pace | None = None
) -> Model:
    """The best model of the session, whose engine is closed in any case."""
    session.train(folder, caller, pace)
    choice, best = session.settings.engine, caller.best(folder)
    source = "" if folder is None else full_path(folder.path)
    if base is None or best.config.lora is None:
        return Model(best, choice, source=source)
    adapter = Adapter(session.texts.corpus.name, session.settings.origin.sha256, best)
    return Model(merged(base, adapter, best), choice, adapter, source)


def based_on(init_from: Model | str | os.PathLike[str], kept: bool) -> Base:
    """A model to begin with; of a run that is kept the folder must say where it lies."""
    if not isinstance(init_from, Model):
        return open_base(Origin(kept_name(init_from)), warn)
    if kept and not init_from.source:
        raise TinyGPTError("a run that is kept names the model it begins with: save that model, and give its file")
    origin = Origin(init_from.source or "a model in memory", state_sha256(init_from.checkpoint.state))
    return Base(init_from.checkpoint, origin)


def warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=3)


def watched(patterns: Sequence[str], every: int | None) -> Watch | None:
    return Watch(tuple(patterns), every) if patterns else None
