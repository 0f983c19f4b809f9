"""`tinygpt sample`: text as the model writes it."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

from tinygpt.cli import options
from tinygpt.cli.models import AdapterPath, ModelPath, on_engine, open_model
from tinygpt.cli.options import engine_changes, option, with_settings
from tinygpt.cli.output import Output
from tinygpt.core.config import SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.sampler import generate
from tinygpt.core.text import StreamDecoder
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice
from tinygpt.files import read_limited
from tinygpt.terminal import printable

EXAMPLES = """Examples:

\b
  tinygpt sample runs/small-shakespeare-1 --prompt 'HAMLET.'
  tinygpt sample model.tinygpt --greedy --tokens 100
  tinygpt sample model.tinygpt --raw --prompt - < prompt.txt > more.txt
  tinygpt sample model.tinygpt --prompt 'Q: ' --stop '\\n'
"""
SAMPLING = "Sampling"
LONGEST_PROMPT = 1 << 24  # bytes on stdin

Prompt = Annotated[str, option("--prompt", help="text to go on from; - reads it from stdin", panel=SAMPLING)]
Greedy = Annotated[bool, option("--greedy", help="always the likeliest byte: temperature 0", panel=SAMPLING)]


@with_settings(SampleConfig)
def sample(
    model: ModelPath,
    prompt: Prompt = "\n",
    *,
    stated: options.Stated,
    greedy: Greedy = False,
    stop: Annotated[
        str, option("--stop", help="end behind any of these bytes; \\n and \\x00 are understood", panel=SAMPLING)
    ] = "",
    raw: Annotated[
        bool, option("--raw", help="only the new text on stdout, byte for byte", panel=options.OUTPUT)
    ] = False,
    adapter: AdapterPath = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Let a model go on from a prompt."""
    settings = sample_settings(stated, greedy)
    prompt_bytes, stops = read_prompt(prompt), stop_bytes(stop)
    choice = EngineChoice(**engine_changes(engine, device, threads=threads))
    checkpoint = open_model(model, adapter)
    player, described = on_engine(checkpoint, choice, Work(written=settings.tokens))
    Output().aside(described)
    writer = RawWriter() if raw else TextWriter(prompt_bytes)
    ctx = checkpoint.config.model.ctx
    run_now(generate(player, ctx, prompt_bytes, settings, stops, writer.push, time.perf_counter))
    writer.finish()
    run_now(player.close())


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


def stop_bytes(stop: str) -> bytes:
    try:
        return os.fsencode(stop).decode("unicode_escape").encode("latin-1")
    except UnicodeError:
        raise TinyGPTError(f"--stop takes bytes, as \\n or \\x00 or \\\\, not '{stop}'") from None


class RawWriter:
    def push(self, made: bytes) -> None:
        sys.stdout.buffer.write(made)
        sys.stdout.buffer.flush()

    def finish(self) -> None:
        """Nothing is added."""


class TextWriter:
    """Prompt and text as they come, a whole character at a time. A terminal is spared control characters."""

    def __init__(self, prompt: bytes) -> None:
        self.stream = StreamDecoder()
        self.terminal = sys.stdout.isatty()
        self.write(self.decoded(prompt).lstrip("\n"))

    def push(self, made: bytes) -> None:
        self.write(self.decoded(made))

    def decoded(self, made: bytes) -> str:
        return "".join([self.stream.push(byte) for byte in made])

    def write(self, piece: str) -> None:
        if piece:
            sys.stdout.write(printable(piece) if self.terminal else piece)
            sys.stdout.flush()

    def finish(self) -> None:
        self.write(self.stream.finish() + "\n")
