"""`tinygpt capsule` and `tinygpt replay`: a run as a small file that anyone can check."""

from __future__ import annotations

import json as jsonlib
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tinygpt import __version__
from tinygpt.cli import options
from tinygpt.cli.corpora import choose_data, open_corpus, open_texts
from tinygpt.cli.models import open_model, with_reason
from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.capsule.compare import (
    DIFFERENT,
    EQUAL,
    UNPROVED,
    Comparison,
    arithmetic_of,
    replay,
    require_start,
    require_text,
    stretch,
)
from tinygpt.core.capsule.content import (
    LARGEST_FILE,
    Capsule,
    TextFacts,
    encode_capsule,
    lengths_with,
    read_capsule,
    trace_of,
)
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import decoded, faults_of, read_regular
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice, available_engines, make_engine, settle
from tinygpt.jobs.choices import DataChoice
from tinygpt.jobs.settings import TrainSettings, read_settings
from tinygpt.store.runs import RunFolder

if TYPE_CHECKING:
    from tinygpt.core.engine.contract import Engine
    from tinygpt.data import Corpus
    from tinygpt.store.formats import Checkpoint

CAPSULE_EXAMPLES = """Examples:

\b
  tinygpt capsule runs/small-shakespeare-1
  tinygpt capsule runs/small-shakespeare-1 --out mine.capsule.json
"""
REPLAY_EXAMPLES = """Examples:

\b
  tinygpt replay runs/small-shakespeare-1/capsule.json --steps 100
  tinygpt replay theirs.capsule.json --file poems.txt --engine webgpu
  tinygpt replay mine.capsule.json --from runs/small-shakespeare-1@1000
  tinygpt replay homework/ --steps 50           every capsule in a folder, in a table
"""
FILE = "capsule.json"
EXIT_CODES = {EQUAL: 0, DIFFERENT: 1, UNPROVED: 3}  # 2 is that of a command line that cannot be understood
MOST_MADE_UP = 1 << 26  # bytes of a task, unless it is asked for by name
OF_CAPSULE = "restore the text, without which its run cannot be replayed"
OF_ITSELF = ("native", "torch", "webgpu")  # engines that a capsule may ask for; others start a browser, or Node


def capsule(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run", show_default=False)],
    out: Annotated[
        Path | None, option("--out", help="the file to write", default=f"RUN/{FILE}", panel=options.OUTPUT)
    ] = None,
    json: options.Json = False,
) -> None:
    """Make a capsule of a run: settings, text, losses and weights, in a small file by which others can check it."""
    output = Output(json=json)
    folder = RunFolder.open(run)
    path = run / FILE if out is None else out
    require_capsule_or_nothing(path)
    settings = read_settings(folder.config)
    made = capsule_of(folder, settings, output)
    with faults_of(path, "write"), replacing(path) as partial:
        partial.write_text(jsonlib.dumps(encode_capsule(made), indent=1) + "\n", encoding="utf-8")
    if json:
        typer.echo(jsonlib.dumps({"capsule": str(path), "steps": made.steps, "weights": made.weights}))
        return
    output.say(f"{path}: {made.steps:,} steps, {path.stat().st_size:,} bytes")
    output.hint(f"Anyone who has the text '{made.text.name}' can check it. Here: {check_of(path, made, settings.data)}")


def require_capsule_or_nothing(path: Path) -> None:
    """Refuse to overwrite anything else."""
    if not path.exists():
        return
    try:
        read_capsule(decoded(read_regular(path, LARGEST_FILE), "the capsule"))
    except (TinyGPTError, OSError):
        raise TinyGPTError(
            f"{path} exists and is not a capsule: choose another name with --out, or delete it first"
        ) from None


def check_of(path: Path, made: Capsule, text: DataChoice) -> str:
    """The command that replays it here, with its text where that is not found by name."""
    words = ["tinygpt", "replay", str(path)]
    if own_text(made) == DataChoice():
        words += ["--file", text.file] if text.file else ["--data", text.name]
        words += ["--budget", str(text.budget)] if text.budget else []
    return shlex.join(words)


def capsule_of(folder: RunFolder, settings: TrainSettings, output: Output) -> Capsule:
    from tinygpt.store.formats import load_tinygpt
    from tinygpt.store.formats.checkpoint import state_sha256

    if settings.run.lora is not None or settings.origin.model:
        raise TinyGPTError(
            f"{folder.path} began with a model that was there already, and a capsule is of runs that begin with start "
            f"values"
        )
    last = load_tinygpt(folder.checkpoint("last"))
    metrics = folder.read_metrics()
    rows = [(event["step"], event["loss"], event["lr"]) for event in metrics if event["event"] == "step"]
    retimed = [(event["step"], event["before"], event["steps"]) for event in metrics if event["event"] == "retime"]
    lengths = lengths_with(last.config, retimed, last.state.step)
    config = last.config.replace(steps=lengths[-1][1])
    devices = [str(event.get("device", "")) for event in metrics if event["event"] == "session"]
    same = len({arithmetic_of(device) for device in devices}) == 1
    texts = open_texts(settings, output, remedy=OF_CAPSULE)
    corpus = texts.corpus
    return Capsule(
        tinygpt=__version__,
        title=folder.path.resolve().name,
        config=config,
        lengths=lengths,
        text=TextFacts(
            settings.data.title(), corpus.sha256, whole_size(corpus), len(texts.train), settings.data.budget
        ),
        engine=settings.engine.name,
        device=devices[-1] if same else " and ".join(sorted(set(devices))),
        steps=last.state.step,
        losses=trace_of(config, lengths, rows, last.state.step, last.progress.tokens_seen),
        weights=state_sha256(last.state),
    )


def whole_size(corpus: Corpus) -> int:
    return len(corpus.text) + len(corpus.held_out or b"")


def replay_command(
    file: Annotated[
        Path, typer.Argument(metavar="CAPSULE", help="the file of a capsule, or a folder of them", show_default=False)
    ],
    steps: Annotated[
        int | None, option("--steps", help="how many to replay", default="all", panel=options.PANELS["train"])
    ] = None,
    start: Annotated[
        Path | None,
        option(
            "--from", help="begin with this checkpoint of the run, not with its start", panel=options.PANELS["train"]
        ),
    ] = None,
    data: options.Data = None,
    text: Annotated[
        Path | None, option("--file", "--text", help="the text it learnt from: a file or a folder", panel=options.TEXT)
    ] = None,
    budget: options.Budget = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    precision: options.Precision = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Train a capsule's run again, or a part of it, and compare the losses, and at the end the weights.

    The exit code is 0 where they are equal to the bit, 1 where they differ, and 3 where they are close but not proved
    on this engine. Of a folder it is that of the worst.
    """
    if file.is_dir():
        if start is not None:
            raise TinyGPTError("--from is a checkpoint of one run, and a folder has capsules of several: leave it out")
        from tinygpt.cli.grading import grade

        grade(file, steps, (data, text, budget), options.engine_changes(engine, device, precision, None, threads), json)
        return
    output = Output(json=json)
    stated = read_from(file)
    begun = None if start is None else begin_with(start, stated)
    first = 0 if begun is None else begun.state.step
    last = stretch(stated, first, steps)
    trained = training_part(stated, choose_data(own_text(stated), data, text, budget), output)
    changes = options.engine_changes(engine, device, precision, None, threads)
    player, why = engine_for(stated, changes, last - first, begun)
    try:
        run_now(player.load_corpus(trained, b""))
        about = [("run", f"{stated.title}: {stated.config.model.describe()}"), ("steps", f"{first + 1:,} to {last:,}")]
        output.facts([*about, ("engine", with_reason(player, why)), ("made on", stated.device or "an unknown engine")])
        replayed = replay_on(player, stated, first, last, output)
    finally:
        run_now(player.close())
    tell(output, stated, replayed)


def read_from(file: Path) -> Capsule:
    with faults_of(file, "read"):
        return read_capsule(decoded(read_regular(file, LARGEST_FILE), "the capsule"))


def engine_for(
    stated: Capsule, changes: dict[str, Any], steps: int, begun: Checkpoint | None = None
) -> tuple[Engine, str]:
    """The engine that the capsule names, where it is ours and nothing else is stated; and why it is this one."""
    choice = EngineChoice(name=stated.engine if is_ours(stated.engine) else "auto")._replace(**changes)
    choice, why = settle(choice, stated.config, Work(steps))
    return make_engine(stated.config, choice, None if begun is None else begun.state), why


class Replayed(NamedTuple):
    rows: list[tuple[int, float, float]]  # step, loss here, loss of the capsule
    verdict: Any
    device: str


def replay_on(player: Engine, stated: Capsule, first: int, last: int, output: Output) -> Replayed:
    """Whoever watches at a terminal sees a bar, which is gone at the end."""
    from rich.progress import Progress

    from tinygpt.store.formats.checkpoint import state_sha256

    comparison = Comparison(stated, __version__, player.describe())
    rows: list[tuple[int, float, float]] = []
    with Progress(console=output.stderr, transient=True, disable=not output.stderr.is_terminal) as progress:
        bar = progress.add_task("steps", total=last - first)

        def told(metrics: list[Any]) -> None:
            for step, loss, _ in metrics:
                known = comparison.take(step, loss)
                if known is not None:
                    rows.append((step, loss, known))
            progress.update(bar, advance=len(metrics))

        reached = run_now(replay(player, stated.lengths, first, last, time.perf_counter, told))
    whole = reached == stated.steps
    weights = state_sha256(run_now(player.export_state())) if whole else None
    return Replayed(rows, comparison.verdict(weights), player.describe())


def tell(output: Output, stated: Capsule, replayed: Replayed) -> None:
    from tinygpt.store.formats.plain_json import dumps

    verdict = replayed.verdict
    if output.json:
        facts = {"title": stated.title, "engine": replayed.device, "made_on": stated.device}
        losses = {"steps": [row[0] for row in replayed.rows], "losses": [row[1:] for row in replayed.rows]}
        typer.echo(dumps({**facts, **verdict._asdict(), "compared": verdict.steps, **losses}))
    else:
        output.say()
        output.say(f"{verdict.head} {verdict.text}")
    raise typer.Exit(EXIT_CODES[verdict.verdict])


def begin_with(path: Path, stated: Capsule) -> Checkpoint:
    checkpoint = open_model(path)
    require_start(stated, str(path), checkpoint.config.model, list(checkpoint.state.slots))
    return checkpoint


def is_ours(engine: str) -> bool:
    return engine in OF_ITSELF and engine in available_engines()


def own_text(stated: Capsule) -> DataChoice:
    """A text that comes with TinyGPT, or is made up. No dataset is fetched and no file opened that a stranger named."""
    from tinygpt.core.tasks import is_task
    from tinygpt.data.assembled import ASSEMBLED

    text = stated.text
    known = [name for name, corpus in ASSEMBLED.items() if text.sha256 == corpus.sha256 or name == text.name]
    if known:
        return DataChoice(name=known[0])
    made_up = is_task(text.name) and text.budget <= MOST_MADE_UP
    return DataChoice(name=text.name, budget=text.budget) if made_up else DataChoice()


def training_part(stated: Capsule, choice: DataChoice, output: Output) -> bytes:
    text = stated.text
    if not choice.name and not choice.file:
        raise TinyGPTError(
            f"the run learnt from '{text.name}', {text.bytes:,} bytes with the sha256 {text.sha256[:12]}…: say with "
            f"--file where that text is, or with --data which corpus"
        )
    corpus = open_corpus(choice, output)
    require_text(stated, corpus.sha256, whole_size(corpus))
    return (corpus.text + (corpus.held_out or b""))[: text.train]
