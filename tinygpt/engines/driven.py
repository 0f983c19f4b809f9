"""Players in another process: the tab's own, in Node or in Chromium, driven through a `Runner` so that bench, parity
and tests see an engine like any other. web/src/players/runner.ts is the other side."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygpt.core.engine.contract import Player
from tinygpt.engines.base import flat_bytes
from tinygpt.engines.runner import Runner

CHUNK = 2**26  # bytes that travel at once


class DrivenPlayer(Player):
    """Ends the runner with the last of its players."""

    def __init__(
        self, runner: Runner, opened: dict[str, Any], where: str, software: bool = False, ahead: bool = False
    ) -> None:
        self.runner = runner
        self.ahead = ahead
        self.number = opened["player"]
        self.description = f"{opened['description']}{where}"
        self.threads = opened["threads"]
        self.software = software
        runner.players += 1

    def describe(self) -> str:
        return self.description

    def ask(self, type: str, payload: bytes | memoryview = b"", **fields: Any) -> tuple[dict[str, Any], bytes]:
        return self.runner.ask(type, bytes(payload), player=self.number, **fields)

    async def write(self, places: list[list[int]], data: Any) -> None:
        source, at = flat_bytes(data), 0
        for group in grouped(places):
            size = sum(place[2] for place in group)
            self.ask("write", source[at : at + size], places=group)
            at += size

    async def read(self, places: list[list[int]]) -> bytes:
        return b"".join([self.ask("read", places=group)[1] for group in grouped(places)])

    def begin_read(self, places: list[list[int]]) -> int:
        return int(self.ask("begin-read", places=places)[0]["reading"])

    async def end_read(self, begun: int) -> bytes:
        return self.ask("end-read", reading=begun)[1]

    async def run(self, mode: str, times: int) -> int:
        return int(self.ask("run", mode=mode, times=times)[0]["done"])

    def stop(self) -> None:
        self.runner.stop()

    async def clock(self, mode: str) -> list[float]:
        return [float(seconds) for seconds in np.frombuffer(self.ask("clock", mode=mode)[1], dtype="<f8")]

    async def close(self) -> None:
        self.runner.players -= 1
        if self.runner.players == 0:
            self.runner.close()
        else:
            self.ask("close")


def grouped(places: list[list[int]]) -> list[list[list[int]]]:
    """The places in their order, so many together that they have about CHUNK bytes."""
    groups: list[list[list[int]]] = []
    room = 0
    for buffer, start, size in places:
        for at in range(0, size, CHUNK):
            part = min(CHUNK, size - at)
            if part > room:
                groups.append([])
                room = CHUNK
            groups[-1].append([buffer, start + at, part])
            room -= part
    return groups
