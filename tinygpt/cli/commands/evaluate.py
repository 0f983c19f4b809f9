"""`tinygpt eval`: how well a model predicts a text."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tinygpt.cli import options
from tinygpt.cli.corpora import choose_data, open_corpus
from tinygpt.cli.exams import answer_lines, result_line
from tinygpt.cli.models import AdapterPath, ModelPath, on_engine, open_model
from tinygpt.cli.options import engine_changes, option
from tinygpt.cli.output import Output
from tinygpt.cli.parts import Ablate, Scale, with_parts
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.train.exam import SHOWN, exam_facts, exam_of
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice
from tinygpt.jobs.choices import NO_TEXT, DataChoice
from tinygpt.jobs.settings import read_settings
from tinygpt.jobs.texts import OF_MEASURED, text_in
from tinygpt.store.naming import locate
from tinygpt.store.runs import RunFolder, writing

if TYPE_CHECKING:
    from tinygpt.core.engine.contract import Engine
    from tinygpt.engines.evaluation import Evaluation
    from tinygpt.store.formats import Checkpoint

EXAMPLES = """Examples:

\b
  tinygpt eval runs/small-shakespeare-1          on what it was not shown
  tinygpt eval model.tinygpt --data moby-dick --split all
  tinygpt eval model.tinygpt --data task:addition:3
  tinygpt eval model.tinygpt --file poem.txt --per-byte losses.csv
"""
SPLITS = ("val", "train", "all")
LAST_NAME = "bits per byte"


def evaluate(
    model: ModelPath,
    data: Annotated[
        str | None,
        option(
            "--data",
            help="corpus by name, or hf:owner/name",
            default="what the run was trained on",
            panel=options.TEXT,
            autocompletion=options.complete_corpus,
        ),
    ] = None,
    file: options.TextFile = None,
    budget: options.Budget = None,
    split: Annotated[
        str | None,
        option("--split", help="val, train or all", default="val; all with --file", panel=options.TEXT),
    ] = None,
    per_byte: Annotated[
        Path | None,
        option("--per-byte", help="also write each byte's loss: to a .csv or a .npy file", panel=options.OUTPUT),
    ] = None,
    ablate: Ablate = None,
    scale: Scale = None,
    adapter: AdapterPath = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Loss, perplexity and bits per byte on a text; of a task, how many unseen questions are answered right."""
    output = Output(json=json)
    if per_byte is not None and per_byte.suffix not in (".csv", ".npy"):
        raise TinyGPTError(f"--per-byte writes .csv or .npy, not '{per_byte.name}'")
    checkpoint = with_parts(open_model(model, adapter), ablate, scale)
    own = own_texts(model, checkpoint)
    choice = choose_data(own.data, data, file, budget)
    part = split or ("all" if file is not None else "val")
    apart = choice == own.data and part == "val" and own.validation != NO_TEXT
    choice = own.validation if apart else choice
    if not choice.name and not choice.file:
        raise TinyGPTError("which text? Give --data or --file; only a run and a model of a named corpus know their own")
    exam = exam_of(choice.name, checkpoint.config.model.ctx) if part == "val" else None
    text = part_of(choice, "all" if apart else part, checkpoint, output)
    scorer, described = on_engine(checkpoint, exact_choice(engine, device, threads), work_of(checkpoint, text))
    output.facts([("engine", described), ("text", f"{choice.title()} ({part}): {len(text):,} bytes")], LAST_NAME)
    result = score(scorer, text, output)
    answers = None if exam is None else run_now(exam.take(scorer, len(exam.questions)))
    run_now(scorer.close())
    if per_byte is not None:
        write_per_byte(per_byte, text, result)
    show(output, choice, part, len(text), result, described, {} if answers is None else exam_facts(answers))


class OwnTexts(NamedTuple):
    """Of the run that made a model."""

    data: DataChoice = NO_TEXT
    validation: DataChoice = NO_TEXT


def own_texts(model: Path, checkpoint: Checkpoint) -> OwnTexts:
    """What the run's settings say; of a file alone, what its header does."""
    run = locate(model).run
    if run is None:
        return OwnTexts(text_in(checkpoint.data), text_in(checkpoint.data.get("validation")))
    settings = read_settings(RunFolder(run).config)
    return OwnTexts(settings.data, settings.validation)


def part_of(choice: DataChoice, split: str, checkpoint: Checkpoint, output: Output) -> bytes:
    if split not in SPLITS:
        raise TinyGPTError(f"--split must be one of {', '.join(SPLITS)}, not '{split}'")
    corpus = open_corpus(choice, output, remedy=OF_MEASURED)
    train, val = corpus.split(checkpoint.config.train.val_fraction)
    if split == "val" and not val:
        raise TinyGPTError(
            f"the model's run held out nothing of its text, so no part of {choice.describe()} is for validation: "
            f"say --split all"
        )
    return {"val": val, "train": train, "all": corpus.text}[split]


def exact_choice(engine: str | None, device: str | None, threads: int | None) -> EngineChoice:
    """An engine to measure with: in float32, where a training would take what is fastest."""
    return EngineChoice(**engine_changes(engine, device, "float32", threads=threads))


def work_of(checkpoint: Checkpoint, text: bytes) -> Work:
    """Windows of which each scores half of its bytes, forward only."""
    model, train = checkpoint.config.model, checkpoint.config.train
    return Work(steps=2 * len(text) / model.ctx / train.batch / 3)


def score(engine: Engine, text: bytes, watched_by: Output | None = None) -> Evaluation:
    """Whoever watches at a terminal sees a bar, which is gone when all is scored."""
    from rich.progress import Progress

    from tinygpt.engines.evaluation import evaluate as evaluate_text

    if watched_by is None or not watched_by.stderr.is_terminal:
        return run_now(evaluate_text(engine, text))
    with Progress(console=watched_by.stderr, transient=True) as progress:
        bar = progress.add_task("bytes", total=len(text) - 1)
        return run_now(evaluate_text(engine, text, lambda scored: progress.update(bar, completed=scored)))


def write_per_byte(path: Path, text: bytes, result: Evaluation) -> None:
    """Byte number, byte and loss; the first byte has none, for it is predicted from nothing."""
    with writing(path):
        if path.suffix == ".npy":
            import numpy as np

            np.save(path, result.per_byte)
            return
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("position", "byte", "loss"))
            rows.writerows((i, text[i], f"{loss:.6f}") for i, loss in enumerate(result.per_byte, start=1))


def show(
    output: Output,
    choice: DataChoice,
    split: str,
    length: int,
    result: Evaluation,
    engine: str,
    exam: dict[str, Any],
) -> None:
    if output.json:
        from tinygpt.store.formats.plain_json import dumps

        numbers = {"loss": result.loss, "perplexity": result.perplexity, "bits_per_byte": result.bits_per_byte}
        facts = {"text": choice.title(), "split": split, "bytes": length, **numbers, **exam, "engine": engine}
        typer.echo(dumps(facts))
        return
    answered = [("exam", result_line(exam))] if exam else []
    output.facts(
        [
            ("loss", f"{result.loss:.4f} nats per byte"),
            ("perplexity", f"{result.perplexity:.3f}"),
            (LAST_NAME, f"{result.bits_per_byte:.4f}"),
            *answered,
        ]
    )
    if exam:
        output.say()
        for line in answer_lines(exam, 2 * SHOWN):
            output.say(line)
