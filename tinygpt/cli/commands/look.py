"""`tinygpt look`: what a model does with a text, as a page, a picture or numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from tinygpt.cli import options
from tinygpt.cli.commands.sample import read_prompt
from tinygpt.cli.display import spark
from tinygpt.cli.models import AdapterPath, NewestModelPath, open_model, or_newest
from tinygpt.cli.options import engine_changes, option
from tinygpt.cli.output import Output
from tinygpt.cli.parts import Ablate, Scale, changes, with_parts
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice

if TYPE_CHECKING:
    from tinygpt.inside.look import Look
    from tinygpt.store.formats import Checkpoint

EXAMPLES = """Examples:

\b
  tinygpt look shakespeare-small --text 'To be, or not to be'
  tinygpt look runs/small-shakespeare-1 --file poem.txt --out poem.html --out poem.png --out poem.json
  tinygpt look shakespeare-small --text 'ROMEO.' --write 400 --origins own
  tinygpt look shakespeare-small --text 'the' --ablate 'blocks.1.head.*' --byte e
  tinygpt look shakespeare-small --tensors
  tinygpt look shakespeare-small --text 'the cat' --tensor blocks.0.y --tensor 'blocks.*.dqkv'
"""
PAGE = Path("look.html")
OWN = "own"
INSIDE = "Inside"


def look(
    model: NewestModelPath = None,
    text: Annotated[
        str | None, option("--text", help="what the model reads; - reads it from stdin", panel=options.TEXT)
    ] = None,
    file: Annotated[Path | None, option("--file", help="the same from a file", panel=options.TEXT)] = None,
    write: Annotated[
        int, option("--write", help="let the model go on for so many bytes first", default="0", panel=options.TEXT)
    ] = 0,
    seed: Annotated[int | None, option("--seed", help="of what it writes", panel=options.TEXT)] = None,
    origins: Annotated[
        str | None,
        option(
            "--origins",
            metavar="CORPUS",
            help=f"what of it stands in this text: a corpus, a file, or '{OWN}': that of the model's run",
            panel=options.TEXT,
        ),
    ] = None,
    window: Annotated[
        int | None,
        option("--window", help="look into so many bytes, the last ones", default="128, at most ctx", panel=INSIDE),
    ] = None,
    byte: Annotated[
        str | None,
        option(
            "--byte",
            help="follow the residual stream towards this one; \\n and \\x00 are understood",
            default="the likeliest next",
            panel=INSIDE,
        ),
    ] = None,
    tensor: Annotated[
        list[str] | None,
        option("--tensor", metavar="NAME", help="show this tensor, too; blocks.*.dqkv; may be repeated", panel=INSIDE),
    ] = None,
    tensors: Annotated[bool, option("--tensors", help="list every tensor's name and shape", panel=INSIDE)] = False,
    ablate: Ablate = None,
    scale: Scale = None,
    out: Annotated[
        list[Path] | None,
        option(
            "--out",
            help="write .html, .json, a picture (.png, .svg, .pdf) or the tensors (.npz); may be repeated",
            default=str(PAGE),
            panel=options.OUTPUT,
        ),
    ] = None,
    adapter: AdapterPath = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Look inside a model while it reads a text: losses, attention, what each block would say, the residual stream."""
    output = Output()
    chosen = or_newest(model)
    checkpoint = with_parts(open_model(chosen, adapter), ablate, scale)
    if tensors:
        list_tensors(output, checkpoint)
        return
    paths = out or [PAGE]
    for path in paths:
        check_kind(path, tensor)
    choice = EngineChoice(**engine_changes(engine, device, threads=threads))
    read = text_of(text, file)
    made = written(checkpoint, read, write, seed, choice)
    from tinygpt.inside.look import WINDOW, look_into

    seen = look_into(
        checkpoint,
        read + made,
        name=title_of(chosen),
        window=WINDOW if window is None else window,
        byte=None if byte is None else byte_of(byte),
        tensors=tensor or (),
        choice=choice,
    )
    seen.data["changed"] = changes(ablate, scale)
    seen.data["written"] = len(made)
    if origins is not None:
        seen.data["origins"] = learned_from(origins, chosen, checkpoint, read + made, output)
    for path in paths:
        seen.save(path)
    report(output, seen, paths)


def check_kind(path: Path, tensor: list[str] | None) -> None:
    """Before anything is computed: whether it can be written so."""
    if path.suffix == ".npz" and not tensor:
        raise TinyGPTError("a .npz file holds tensors: say with --tensor which")
    if path.suffix not in (".html", ".json", ".npz"):
        from tinygpt.plots import require_picture

        require_picture(path)


def text_of(text: str | None, file: Path | None) -> bytes:
    if (text is None) == (file is None):
        raise TinyGPTError("which text? Give --text or --file" + ("" if text is None else ", not both"))
    if file is None:
        return read_prompt(str(text))
    from tinygpt.disk.files import faults_of, read_regular
    from tinygpt.inside.look import LONGEST

    with faults_of(file, "read"):
        return read_regular(file, LONGEST)


def byte_of(word: str) -> int:
    """One byte: a letter, or as \\n and \\x00 spell it."""
    try:
        found = os.fsencode(word).decode("unicode_escape").encode("latin-1")
    except UnicodeError:
        found = b""
    if len(found) != 1:
        raise TinyGPTError(f"--byte takes one byte, as e or \\n or \\x00, not '{word}'")
    return found[0]


def title_of(model: Path) -> str:
    return model.resolve().name if model.exists() else str(model)


def written(checkpoint: Checkpoint, read: bytes, count: int, seed: int | None, choice: EngineChoice) -> bytes:
    """What the model makes of the text, as `sample` would."""
    if count <= 0:
        return b""
    from tinygpt.cli.models import on_engine
    from tinygpt.core.config import SampleConfig
    from tinygpt.core.engine.contract import run_now
    from tinygpt.core.write.sampler import generate
    from tinygpt.engines.auto import Work

    settings = SampleConfig(tokens=count, **options.given({"seed": seed}))
    engine, _ = on_engine(checkpoint, choice, Work(written=count))
    try:
        return run_now(generate(engine, checkpoint.config.model.ctx, read or b"\n", settings))
    finally:
        run_now(engine.close())


def learned_from(origins: str, model: Path, checkpoint: Checkpoint, text: bytes, output: Output) -> dict[str, Any]:
    """What of a text stands in the training part of a corpus, beside what of its held-out part does."""
    from tinygpt.cli.commands.evaluate import own_texts
    from tinygpt.cli.corpora import open_corpus
    from tinygpt.inside.origins import Source, as_data, origins_of
    from tinygpt.jobs.choices import DataChoice
    from tinygpt.jobs.texts import OF_MEASURED, full_path

    if origins == OWN:
        choice = own_texts(model, checkpoint).data
        if not choice.name and not choice.file:
            raise TinyGPTError("this model does not know its text; name it: --origins CORPUS, or a file")
    elif Path(origins).is_file():
        choice = DataChoice(file=full_path(Path(origins)))
    else:
        choice = DataChoice(name=origins)
    corpus = open_corpus(choice, output, remedy=OF_MEASURED)
    train, val = corpus.split(checkpoint.config.train.val_fraction)
    source = Source(train)
    return as_data(origins_of(text, source, val), source, choice.title())


def list_tensors(output: Output, checkpoint: Checkpoint) -> None:
    from tinygpt.inside.look import tensor_list

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tensor", overflow="fold")
    table.add_column(f"shape, of a text of {checkpoint.config.model.ctx} bytes")
    for tensor in tensor_list(checkpoint.config):
        table.add_row(tensor.name, "×".join(str(dim) for dim in tensor.shape))
    output.console.print(table)


def report(output: Output, seen: Look, paths: list[Path]) -> None:
    data = seen.data
    losses = data["losses"]
    facts = [("loss", f"{sum(losses) / len(losses):.4f} nats per byte, over {len(losses) + 1:,} bytes")]
    facts += [("changed", ", ".join(data["changed"]))] if data["changed"] else []
    if "origins" in data:
        found = data["origins"]
        longest = max((one["length"] for one in found["stretches"]), default=0)
        share = f"{found['remembered']:.1%} of it, in stretches of more than {found['by_chance']} bytes"
        facts.append(("remembered", f"{share} of {found['source']}; the longest has {longest}"))
    output.facts([*facts, ("written to", ", ".join(str(path) for path in paths))])
    for one in seen.tensors:
        told = one.as_data()
        numbers = ", ".join(f"{key} {told[key]:.3g}" for key in ("norm", "mean", "std", "low", "high"))
        output.say(f"{one.name} {'×'.join(str(dim) for dim in told['shape'])}  {spark(told['bins'])}  {numbers}")
