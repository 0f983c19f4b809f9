"""What `train` says before the first step and after the last one."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any

from tinygpt.cli.display import Display, duration
from tinygpt.cli.exams import answer_lines, result_line
from tinygpt.cli.models import with_reason
from tinygpt.cli.output import Output
from tinygpt.core.config import RunConfig
from tinygpt.core.corpus import corpus_advice
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.text import REPLACEMENT, decode
from tinygpt.core.train.exam import ON_THE_WAY, SHOWN
from tinygpt.core.train.progress import Progress
from tinygpt.jobs.session import Session
from tinygpt.store.runs import RunFolder
from tinygpt.terminal import printable

if TYPE_CHECKING:
    from tinygpt.core.engine.contract import Engine
    from tinygpt.data import Corpus
    from tinygpt.jobs.budget import Foreseen

OPENING_WORDS, OPENING_CHARACTERS = 3, 30


def opening_words(text: bytes) -> str:
    """How a text begins, as a prompt that fits it; nothing where that cannot be read."""
    first_line = decode(text[:500]).removeprefix("\ufeff").strip().partition("\n")[0]
    opening = " ".join(first_line.split()[:OPENING_WORDS])[:OPENING_CHARACTERS]
    return opening if opening.isprintable() and REPLACEMENT not in opening else ""


def start_event(run: RunConfig, progress: Progress, engine: Engine, corpus: Corpus, parameters: int) -> dict[str, Any]:
    """The first of the JSON lines; whose training it is comes beside it."""
    return {
        "event": "start",
        "step": progress.step,
        "config": run.as_dict(),
        "parameters": parameters,
        "engine": engine.name,
        "device": engine.describe(),
        "data": corpus_facts(corpus),
    }


def corpus_facts(corpus: Corpus) -> dict[str, Any]:
    return {"name": corpus.name, "bytes": len(corpus.text), "sha256": corpus.sha256}


def end_event(reason: str, progress: Progress, train_loss: float | None) -> dict[str, Any]:
    """The last of the JSON lines, whatever the reason."""
    return {
        "event": "end",
        "reason": reason,
        "step": progress.step,
        "train_loss": train_loss,
        "best_val": progress.best_val,
        "best_step": progress.best_step,
    }


def judgement(verdict: dict[str, Any]) -> str:
    retimed = f", {verdict['retimed']:.3f} for the steps there was time for" if "retimed" in verdict else ""
    reached, off = verdict["reached"], 100 * verdict["off"]
    return f"{verdict['predicted']['loss']:.3f}{retimed}; reached {reached:.3f} ({off:.1f} % off)"


class RunReport:
    def __init__(
        self, output: Output, session: Session, folder: RunFolder | None, display: Display, foreseen: Foreseen | None
    ) -> None:
        self.output, self.folder, self.display, self.foreseen = output, folder, display, foreseen
        self.settings, self.engine, self.texts = session.settings, session.engine, session.texts
        self.why = session.why  # of all engines that one
        self.exam, self.progress = session.exam, session.progress
        self.where = shlex.quote(str(folder.path)) if folder is not None else ""
        self.started = time.monotonic()
        self.judged: dict[str, Any] | None = None  # how good the prediction was

    def before(self) -> None:
        """Model, machine, text, amount of work, and what does not fit."""
        run, model, train = self.settings.run, self.settings.run.model, self.settings.run.train
        progress, exam = self.progress, self.exam
        count = trained_count(run)
        train_bytes, val_bytes = len(self.texts.train), len(self.texts.val)
        windows = train.batch * train.grad_accum
        tokens = train.steps * windows * model.ctx
        amount = f"{tokens:,} tokens, {tokens / train_bytes:.2f} epochs"
        facts = [
            ("model", f"{self.settings.preset}: {model.describe()}; {parameter_count(model):,} parameters"),
            ("engine", with_reason(self.engine, self.why)),
            ("corpus", self.texts.describe()),
            ("run", f"{train.steps:,} steps of {windows} × {model.ctx} bytes: {amount}"),
        ]
        if self.settings.origin.model:
            facts.insert(1, ("origin", self.settings.origin.describe()))
        if run.lora is not None:
            facts.insert(
                2, ("adapters", f"{run.lora.describe()}; {count:,} parameters, the only ones that are trained")
            )
        if exam is not None:
            facts.append(("exam", f"{len(exam.questions)} questions that the text never asks; {ON_THE_WAY} on the way"))
        if progress.step:
            facts.append(("resumed", f"from step {progress.step:,}"))
        self.output.facts([*facts, ("folder", str(self.folder.path) if self.folder is not None else "")])
        for sentence in corpus_advice(run, train_bytes, val_bytes, count):
            self.output.warn(sentence)
        start = start_event(run, progress, self.engine, self.texts.corpus, parameters=count)
        if self.why:
            start["why"] = self.why
        if run.lora is not None:
            start["lora"] = run.lora.as_dict()
        if self.texts.validation is not None:
            start["validation"] = corpus_facts(self.texts.validation)
        self.display.event(start | self.where_event())

    def ended(self, reason: str, train_loss: float | None) -> None:
        reached = self.progress.best_val
        if self.foreseen is not None and reason == "finished" and reached is not None:
            self.judged = self.foreseen.verdict(self.settings.run, reached)
            self.display.event(self.judged)
        self.display.event(end_event(reason, self.progress, train_loss) | self.where_event())

    def validated(self) -> str:
        """Of what the validations are, where `tinygpt eval` measures more."""
        run, held_out = self.settings.run, len(self.texts.val)
        read = run.train.eval_batches * run.train.batch * run.model.ctx
        return f" ({read / held_out:.0%} of the held-out text; tinygpt eval reads all)" if read < held_out else ""

    def where_event(self) -> dict[str, Any]:
        return {"run": str(self.folder.path) if self.folder is not None else None}

    def after(self, reason: str, train_loss: float | None, last: int) -> None:
        """`train_loss` is the mean of the last so many steps."""
        progress, exam, steps = self.progress, self.display.exam, self.settings.run.train.steps
        took = duration(time.monotonic() - self.started)
        self.output.say()
        if reason == "stopped":
            self.output.hint(f"Stopped after step {progress.step:,} of {steps:,}; everything is saved.")
            self.output.hint(f"Resume with: tinygpt train --resume {self.where}")
            return
        if reason == "early-stop":
            evals = progress.evals_since_best
            self.output.say(f"Stopped early at step {progress.step:,}: {evals} validations without a new best.")
        else:
            self.output.say(f"Finished {progress.step:,} steps in {took}.")
        facts = []
        if train_loss is not None:
            facts.append(("train loss", f"{train_loss:.4f}{f' (mean of the last {last} steps)' if last > 1 else ''}"))
        if progress.best_val is not None:
            facts.append(("best val", f"{progress.best_val:.4f} at step {progress.best_step:,}{self.validated()}"))
        if exam is not None:
            facts.append(("exam", result_line(exam)))
        if self.judged is not None:
            facts.append(("predicted", judgement(self.judged)))
        self.output.facts([*facts, ("folder", str(self.folder.path) if self.folder is not None else "")])
        if exam is not None:
            self.output.say()
            for line in answer_lines(exam, 2 * SHOWN):
                self.output.say(line)
        elif progress.sample:
            self.output.say()
            self.output.say(printable(self.settings.prompt + progress.sample).strip("\n"))
        self.output.say()
        if exam is not None:
            question = shlex.quote(exam["answers"][0][0])
            self.output.say(f"Ask it: tinygpt sample {self.where} --prompt {question} --greedy --stop '\\n'")
            return
        opening = opening_words(self.texts.corpus.text)
        prompt = f" --prompt {shlex.quote(opening)}" if opening else ""
        self.output.say(f"Sample from it: tinygpt sample {self.where}{prompt}")
        if self.settings.run.lora is not None:
            base = shlex.quote(self.settings.origin.model)
            self.output.say(f"See what it changes: tinygpt compare {base} --adapter {self.where}{prompt}")
