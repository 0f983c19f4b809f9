"""`tinygpt models`: the models that come with the package."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.charts import loss_chart
from tinygpt.cli.display import EXAM_STYLE, TRAIN_STYLE, VAL_STYLE, duration
from tinygpt.cli.exams import result_line
from tinygpt.cli.output import Output, size_of
from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.store.bundled import EMPTY, Card, card_of, cards, named
from tinygpt.terminal import printable

EXAMPLES = """Examples:

\b
  tinygpt models                          what there is
  tinygpt models shakespeare-huge         all about one
  tinygpt sample shakespeare-huge         let it write
"""
CHART_WIDTH, CHART_HEIGHT = 72, 8
SAMPLE_LINES = 20
UNKNOWN = "–"
EXPLAINED = "copied: stretches of 24 bytes it wrote that also occur in the training text; unseen: of held-out text"

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="the model whose card to show; none: all, in a table",
        autocompletion=options.completion(named()),
        show_default=False,
    ),
]


def models(name: Name = None, json: options.Json = False) -> None:
    """Models that come with the package: what each was trained on, how well it writes, how much of that it copies."""
    if name is not None and name not in named():
        wanted = instead(name, list(named())) if named() else f". {EMPTY}"
        raise TinyGPTError(f"no model '{name}' comes with the package{wanted}")
    chosen = cards() if name is None else [card_of(name)]
    if json:
        typer.echo(jsonlib.dumps(chosen if name is None else chosen[0]))
        return
    output = Output()
    if name is not None:
        show_card(output, chosen[0])
    elif chosen:
        output.console.print(table_of(chosen))
        output.say(f"\n{EXPLAINED}")
        output.say("Details: tinygpt models NAME. Generate: tinygpt sample NAME")
    else:
        output.say(EMPTY)


def table_of(chosen: list[Card]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("name", "what"):
        table.add_column(heading)
    for heading in ("parameters", "size", "val loss", "copied", "unseen"):
        table.add_column(heading, justify="right")
    for card in chosen:
        copied = card["copied"]
        table.add_row(
            Text(card["name"], style="bold"),
            card["title"] + (f", {percent(card['exam']['accuracy'])} right" if card["exam"] else ""),
            f"{card['parameters']:,}",
            size_of(card["bytes"]),
            UNKNOWN if card["val_loss"] is None else f"{card['val_loss']:.3f}",
            percent(copied["share_24"]),
            percent(copied["held_out"]["share_24"]),
        )
    return table


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def show_card(output: Output, card: Card) -> None:
    output.facts(facts_of(card))
    if card["curve"]["train"]:
        output.say()
        train, val, exam = (card["curve"][kind] for kind in ("train", "val", "exam"))
        for row in loss_chart(train, val, CHART_WIDTH, CHART_HEIGHT, TRAIN_STYLE, VAL_STYLE, exam, EXAM_STYLE):
            output.say(row)
    sample = card["sample"]
    output.say()
    output.say(Text(f"tinygpt sample {card['name']} --tokens {sample['tokens']}", style="dim"))
    lines = printable(sample["text"]).strip("\n").splitlines()
    output.say("\n".join(lines[:SAMPLE_LINES]))


def facts_of(card: Card) -> list[tuple[str, str]]:
    corpus, copied = card["corpus"], card["copied"]
    rows = [
        ("name", f"{card['name']}: {card['title']}"),
        ("model", f"{ModelConfig(**card['config']['model']).describe()}; {card['parameters']:,} parameters"),
        ("file", f"{size_of(card['bytes'])}, {card['dtype']}, weights sha256 {card['weights_sha256'][:16]}…"),
        ("made by", card["command"]),
        ("corpus", f"{corpus['name']}, sha256 {corpus['sha256'][:16]}…, {corpus['licence'] or 'licence unknown'}"),
        ("source", corpus["source"]),
        ("training", training_line(card)),
    ]
    if card["val_loss"] is not None:
        unseen = f"{corpus['held_out_bytes']:,} bytes it never saw"
        rows.append(
            ("val loss", f"{card['val_loss']:.4f} nats, {card['bits_per_byte']:.4f} bits per byte, on {unseen}")
        )
    if card["exam"]:
        rows.append(("exam", result_line(card["exam"])))
    rows.append(("copied", copied_line(copied)))
    if copied["held_out"]["bytes"]:
        rows.append(("unseen text", f"{copied_line(copied['held_out'])}, for comparison"))
    if copied["longest"]:
        rows.append(("longest", repr(copied["stretch"])))
    return rows


def training_line(card: Card) -> str:
    best = "" if card["step"] == card["steps"] else f", the best of which is step {card['step']:,}"
    took = "" if card["seconds"] is None else f", in {duration(card['seconds'])} on {card['device']}"
    return f"{card['steps']:,} steps{best}; {card['tokens']:,} tokens{took}"


def copied_line(copied: dict[str, Any]) -> str:
    """How much of some bytes stands in the training text."""
    shares = f"{percent(copied['share_12'])} of all 12-byte stretches, {percent(copied['share_24'])} of 24"
    return f"of {copied['bytes']:,} bytes {shares}; the longest stretch has {copied['longest']} bytes"
