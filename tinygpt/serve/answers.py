"""From a writer's bytes to what a client is sent: text without the stop it ended at, in whole characters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import NamedTuple

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.text import StreamDecoder
from tinygpt.serve.asking import Asked
from tinygpt.serve.writer import END, Order, Writer


class Piece(NamedTuple):
    choice: int
    text: str
    finish: str | None = None  # why the text ends here
    tokens: int = 0  # bytes that the model wrote for it
    written: bytes = b""  # with `finish`: all of the text, before it was characters


class Held:
    """Keeps back what may be the beginning of a stop, which is not part of the answer."""

    def __init__(self, stops: tuple[bytes, ...]) -> None:
        self.stops = stops
        self.kept = b""
        self.out = b""  # all that was let go
        self.decoder = StreamDecoder()

    def push(self, made: bytes) -> str:
        self.kept += made
        for back in range(min(len(self.kept), max(map(len, self.stops), default=0)), 0, -1):
            if any(stop.startswith(self.kept[-back:]) for stop in self.stops):
                break
        else:
            back = 0
        out, self.kept = self.kept[: len(self.kept) - back], self.kept[len(self.kept) - back :]
        self.out += out
        return self.decoder.push_all(out)

    def end(self) -> tuple[str, str]:
        """The rest, and why it ends."""
        reached = max((len(stop) for stop in self.stops if self.kept.endswith(stop)), default=0)
        last = self.kept[: len(self.kept) - reached]
        self.out += last
        rest = self.decoder.push_all(last)
        return rest + self.decoder.finish(), "stop" if reached else "length"


async def pieces(asked: Asked, writer: Writer) -> AsyncGenerator[Piece]:
    """All that is written for a request, as it is written. Whoever stops asking stops the writing."""
    loop = asyncio.get_running_loop()
    news: asyncio.Queue[tuple[int, bytes | TinyGPTError]] = asyncio.Queue()

    def told(choice: int, what: bytes | TinyGPTError) -> None:
        loop.call_soon_threadsafe(news.put_nowait, (choice, what))

    texts = asked.texts()
    orders = [Order(*texts[i], asked.stops, partial(told, i), request=asked) for i in range(len(texts))]
    held = [Held(asked.stops) for _ in orders]
    writer.ask(orders)
    try:
        open_texts = len(orders)
        while open_texts:
            choice, what = await news.get()
            if isinstance(what, TinyGPTError):
                raise what
            if what == END:
                open_texts -= 1
                yield Piece(choice, *held[choice].end(), written=held[choice].out)
            else:
                yield Piece(choice, held[choice].push(what), tokens=len(what))
    finally:
        writer.leave(orders)
