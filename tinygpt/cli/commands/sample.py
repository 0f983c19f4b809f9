"""`tinygpt sample`: text as the model writes it."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import typer

from tinygpt.cli import options
from tinygpt.cli.interrupts import StopRequest, stop_signals
from tinygpt.cli.models import AdapterPath, NewestModelPath, on_engine, open_model, or_newest
from tinygpt.cli.options import engine_changes, option, with_settings
from tinygpt.cli.output import Output
from tinygpt.cli.parts import Ablate, Scale, with_parts
from tinygpt.cli.writers import JsonWriter, RawWriter, TextWriter, Writer
from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import prompted
from tinygpt.core.write.desk import ROWS, Desk, Ticket
from tinygpt.core.write.sampler import generate
from tinygpt.disk.files import read_limited
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice
from tinygpt.store.formats import Checkpoint

EXAMPLES = """Examples:

\b
  tinygpt sample                                           what the newest run writes
  tinygpt sample runs/small-shakespeare-1 --prompt 'HAMLET.' --count 3
  tinygpt sample shakespeare-huge --interactive
  tinygpt sample addition --interactive --greedy --stop '\\n'
  tinygpt sample model.tinygpt --raw --prompt - < prompt.txt > more.txt
  tinygpt sample model.tinygpt --prompt 'Q: ' --stop '\\n\\n' --stop 'Q:'
"""
SAMPLING = "Sampling"
LONGEST_PROMPT = 1 << 24  # bytes on stdin
MOST = 10_000  # texts

Prompt = Annotated[str, option("--prompt", help="text to go on from; - reads it from stdin", panel=SAMPLING)]
Greedy = Annotated[bool, option("--greedy", help="always the likeliest byte: temperature 0", panel=SAMPLING)]


@with_settings(SampleConfig)
def sample(
    model: NewestModelPath = None,
    prompt: Prompt = "\n",
    *,
    stated: options.Stated,
    greedy: Greedy = False,
    stop: Annotated[
        list[str] | None,
        option(
            "--stop", help="stop after this text; \\n and \\x00 are understood; repeated: any of them", panel=SAMPLING
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-n", min=1, max=MOST, help="so many texts, each with the next seed", rich_help_panel=SAMPLING
        ),
    ] = 1,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", "-i", help="type, let it go on, type again; Ctrl-C ends a text, Ctrl-D all"),
    ] = False,
    raw: Annotated[
        bool, option("--raw", help="only the new text on stdout, byte for byte", panel=options.OUTPUT)
    ] = False,
    json: options.Json = False,
    ablate: Ablate = None,
    scale: Scale = None,
    adapter: AdapterPath = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Generate text from a prompt."""
    settings = sample_settings(stated, greedy)
    stops = tuple(stop_text(one) for one in stop or ())
    require_one_way(interactive=interactive, raw=raw, json=json, several=count > 1)
    prompt_bytes = read_prompt(prompt)
    choice = EngineChoice(**engine_changes(engine, device, threads=threads))
    output = Output()
    chosen = or_newest(model)
    checkpoint = with_parts(open_model(chosen, adapter), ablate, scale)
    player, described = on_engine(checkpoint, choice, Work(written=settings.tokens))
    output.aside(described if model is not None else f"{chosen}, {described}")
    scribe = Scribe(player, checkpoint, settings, stops)
    if interactive:
        converse(scribe, b"" if prompt == "\n" else prompt_bytes)
    else:
        writer = RawWriter() if raw else JsonWriter() if json else TextWriter(count > 1)
        if count > 1:
            output.aside(scribe.write_together(prompt_bytes, writer, count))
        else:
            scribe.write(prompt_bytes, writer)
            output.aside(pace_of(writer))
    run_now(player.close())


class Scribe:
    """A model with what it is to write like."""

    def __init__(
        self, player: Engine, checkpoint: Checkpoint, settings: SampleConfig, stops: tuple[bytes, ...]
    ) -> None:
        self.player, self.ctx, self.settings, self.stops = player, checkpoint.config.model.ctx, settings, stops
        self.text_name = checkpoint.text_name  # that the model has learned

    def write(self, prompt: bytes, writer: Writer, number: int = 0) -> bytes:
        """The text of that number; a stop that was asked for ends it."""
        settings = self.settings.of_text(number)
        writer.begin(prompt, settings)
        read = prompted(self.text_name, prompt)
        made = run_now(generate(self.player, self.ctx, read, settings, self.stops, writer.push, time.perf_counter))
        writer.finish()
        return made

    def write_together(self, prompt: bytes, writer: Writer, count: int) -> str:
        """So many texts, each with the next seed: shown one after the other, but written several at once. How fast."""
        desk, began = Desk(self.player, min(count, ROWS), time.perf_counter), time.perf_counter()
        tickets = desk.join_all(count, prompted(self.text_name, prompt), self.settings, self.stops)
        first: dict[Ticket, float] = {}  # when it had its first byte, and its last
        last: dict[Ticket, float] = {}
        for ticket in tickets:
            writer.begin(prompt, ticket.settings)
            if ticket.out:
                writer.push(ticket.out)
            while not ticket.ended:
                for other, made in run_now(desk.more()).items():
                    last[other] = time.perf_counter()
                    first.setdefault(other, last[other])
                    if other is ticket:
                        writer.push(made)
            if ticket.problem:
                raise TinyGPTError(ticket.problem)
            writer.began, writer.first, writer.last = began, first[ticket], last[ticket]
            writer.finish()
        rate = sum(len(ticket.out) for ticket in tickets) / (time.perf_counter() - began)
        return f"{count} texts, up to {min(count, ROWS)} at once: {rate:,.0f} bytes per second together"


def require_one_way(**asked: bool) -> None:
    """Ways of showing a text that exclude each other."""
    flags = {"interactive": "--interactive", "raw": "--raw", "json": "--json", "several": "--count"}
    stated = [flags[name] for name, given in asked.items() if given]
    if len(stated) > 1 and set(stated) != {"--json", "--count"}:
        raise TinyGPTError(f"{' and '.join(stated[:2])} do not go together; leave one of them out")


def converse(scribe: Scribe, text: bytes) -> None:
    """Turn by turn: a line that is typed stands behind everything before it, and the model goes on from there."""
    writer, turn = Continuation(), 0
    if text:
        text += scribe.write(text, writer, turn)
    while (line := typed_line()) is not None:
        turn += 1
        text += (b"\n" if line and text and not text.endswith(b"\n") else b"") + line
        with stop_signals() as writer.asked:
            text += scribe.write(text, writer, turn)


class Continuation(TextWriter):
    """Only what is new: what was typed stands on the screen already."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = StopRequest()

    def begin(self, prompt: bytes, settings: SampleConfig) -> None:
        super().begin(b"", settings)

    def push(self, made: bytes) -> bool:
        return super().push(made) and not self.asked.wanted


def typed_line() -> bytes | None:
    """What the user types next; None: no more."""
    if not sys.stdin.isatty():
        line = sys.stdin.buffer.readline(LONGEST_PROMPT)
        return line.removesuffix(b"\n") if line else None
    import readline  # noqa: F401  the keys that edit a line

    try:
        return os.fsencode(input("› "))
    except EOFError:
        print()
        return None


def pace_of(writer: Writer) -> str:
    times = writer.times()
    first = 1000 * times["first_byte_s"]
    return f"the first byte after {first:,.1f} ms, then {times['bytes_per_s']:,.0f} bytes per second"


def sample_settings(stated: options.Stated, greedy: bool) -> SampleConfig:
    return SampleConfig(**stated["sample"] | ({"temperature": 0.0} if greedy else {}))


def read_prompt(prompt: str) -> bytes:
    """The prompt's bytes, exactly as the shell or stdin gave them."""
    if prompt != "-":
        return os.fsencode(prompt)
    try:
        return read_limited(sys.stdin.buffer, LONGEST_PROMPT)
    except TinyGPTError as fault:
        raise TinyGPTError(f"the prompt on stdin is too long: {fault}") from None


def stop_text(stop: str) -> bytes:
    try:
        text = os.fsencode(stop).decode("unicode_escape").encode("latin-1")
    except UnicodeError:
        text = b""
    if not text:
        raise TinyGPTError(f"--stop takes a text, as \\n or \\x00 or \\\\ or 'Q:', not '{stop}'")
    return text
