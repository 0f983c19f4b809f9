"""From the folder of a finished run to a bundled model: its file with compact weights, and its card.

Everything a card says of the model is measured here, on the file as it is packed.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.bundled.copying import LOOKED_AT, copied
from lab.bundled.table import Planned, command_line, plan_of, require_planned
from tinygpt.cli.commands.evaluate import score, work_of
from tinygpt.cli.corpora import open_texts
from tinygpt.cli.models import on_engine
from tinygpt.cli.output import Output
from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.tasks import is_task
from tinygpt.core.text import decode
from tinygpt.core.train.exam import exam_facts, exam_of
from tinygpt.core.write.sampler import generate
from tinygpt.disk.files import replace
from tinygpt.engines.select import EngineChoice
from tinygpt.inside.origins import Source
from tinygpt.jobs.settings import TrainSettings, read_settings
from tinygpt.jobs.texts import OF_MEASURED, Texts
from tinygpt.store import bundled as zoo
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt
from tinygpt.store.formats.checkpoint import state_sha256
from tinygpt.store.formats.plain_json import plain
from tinygpt.store.naming import best_of
from tinygpt.store.runs import RunFolder

SHOWN = 600  # bytes of the sample that the card has
CURVE_POINTS = 120
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

Points = Sequence[tuple[int, float]]


def pack(run: Path, name: str, choice: EngineChoice, output: Output) -> zoo.Card:
    """Write NAME.tinygpt and NAME.json to the package's folder; both, or nothing."""
    if not NAME.fullmatch(name):
        raise TinyGPTError(f"'{name}' is no name of a model: take lower-case letters, digits and single hyphens")
    folder = RunFolder.open(run)
    settings = read_settings(folder.config)
    require_planned(name, settings)
    plan = plan_of(name)
    texts = open_texts(settings, output, remedy=OF_MEASURED)
    dtype = Planned.dtype if plan is None else plan.dtype
    zoo.FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=zoo.FOLDER, prefix=".") as beside:
        file, card_file = Path(beside, f"{name}.tinygpt"), Path(beside, f"{name}.json")
        save_tinygpt(file, load_tinygpt(best_of(folder).path), include_optimizer=False, dtype=dtype)
        packed = load_tinygpt(file)
        card = {
            "name": name,
            "title": f"{settings.preset}, {texts.corpus.name}" if plan is None else plan.title,
            **origin_facts(settings, texts),
            **run_facts(folder, packed),
            "parameters": parameter_count(packed.config.model),
            "bytes": file.stat().st_size,
            "dtype": dtype,
            "weights_sha256": state_sha256(packed.state),
            **measured(packed, settings, texts, choice),
            "curve": curve(folder),
            "config": packed.config.as_dict(),
        }
        card_file.write_text(as_lines(card), encoding="utf-8")
        for written in (file, card_file):
            replace(written, zoo.FOLDER / written.name)
    return card


def origin_facts(settings: TrainSettings, texts: Texts) -> dict[str, Any]:
    corpus = texts.corpus
    facts = {
        "name": settings.data.title(),
        "sha256": corpus.sha256,
        "licence": licence_of(settings.data.name),
        "source": corpus.description,
        "train_bytes": len(texts.train),
        "held_out_bytes": len(texts.val),
    }
    if texts.validation is not None:
        facts["validation"] = {"name": settings.validation.title(), "sha256": texts.validation.sha256}
    return {"command": command_line(settings), "preset": settings.preset, "recipe": settings.recipe, "corpus": facts}


def licence_of(corpus: str) -> str:
    """As the list of corpora has it; nothing where the text is not one of them."""
    from tinygpt.data import list_corpora

    for info in list_corpora():
        if corpus == info.name or (is_task(corpus) and corpus.startswith(info.name)):
            return info.licence
    return ""


def run_facts(folder: RunFolder, packed: Checkpoint) -> dict[str, Any]:
    """`steps` were run in `seconds` on `device`; the model is that of `step`, which was the best."""
    metrics = folder.read_metrics()
    return {
        "step": packed.state.step,
        "steps": max((event["step"] for event in metrics), default=packed.state.step),
        "tokens": packed.progress.tokens_seen,
        "engine": packed.backend,
        **session_facts([event for event in metrics if event["event"] == "session"]),
    }


def session_facts(sessions: list[dict[str, Any]]) -> dict[str, Any]:
    """None where a session was killed, and with it what it would have said."""
    step = 0
    for session in sessions:
        if session["from"] != step:
            return {"seconds": None, "device": None}
        step = session["step"]
    devices = list(dict.fromkeys(str(session.get("device")) for session in sessions))
    seconds = round(sum(session["seconds"] for session in sessions), 1)
    return {"seconds": seconds if sessions else None, "device": "; ".join(devices) or None}


def measured(packed: Checkpoint, settings: TrainSettings, texts: Texts, choice: EngineChoice) -> dict[str, Any]:
    ctx = packed.config.model.ctx
    work = work_of(packed, texts.val)._replace(written=LOOKED_AT)
    engine, _ = on_engine(packed, choice, work)
    result = score(engine, texts.val) if len(texts.val) > 1 else None
    exam = exam_of(settings.data.name, ctx)
    answers = None if exam is None else run_now(exam.take(engine, len(exam.questions)))
    sampling = SampleConfig(tokens=LOOKED_AT)
    text = written(engine, ctx, sampling)
    run_now(engine.close())
    learned = Source(texts.train)
    return {
        "val_loss": None if result is None else round(result.loss, 4),
        "bits_per_byte": None if result is None else round(result.bits_per_byte, 4),
        "exam": None if answers is None else exam_facts(answers),
        "sample": {"prompt": "\n", **sampling.replace(tokens=SHOWN).as_dict(), "text": decode(text[:SHOWN])},
        "copied": {**copied(text, learned), "held_out": copied(texts.val, learned)},
    }


def written(engine: Engine, ctx: int, settings: SampleConfig) -> bytes:
    return run_now(generate(engine, ctx, b"\n", settings, now=time.perf_counter))


def curve(folder: RunFolder) -> dict[str, Points]:
    metrics = folder.read_metrics()
    train = [(event["step"], event["loss"]) for event in metrics if event["event"] == "step"]
    val = [(event["step"], event["val_loss"]) for event in metrics if event["event"] == "eval"]
    exam = [(event["step"], event["accuracy"]) for event in metrics if event["event"] == "exam"]
    return {kind: thinned(points, CURVE_POINTS) for kind, points in (("train", train), ("val", val), ("exam", exam))}


def thinned(points: Points, most: int) -> Points:
    """Means of as many points each, at the last of their steps."""
    group = -(-len(points) // most) or 1
    groups = [points[i : i + group] for i in range(0, len(points), group)]
    return [(some[-1][0], round(sum(value for _, value in some) / len(some), 4)) for some in groups]


def as_lines(card: zoo.Card) -> str:
    """A line per fact."""
    import json

    rows = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in plain(card).items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"
