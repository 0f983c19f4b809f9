"""Processes that do runs of a sweep at the same time. They end with the one that started them."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Self

from tinygpt.core.errors import TinyGPTError
from tinygpt.sweeps.plan import Run, described
from tinygpt.sweeps.results import Result
from tinygpt.sweeps.running import Runner, Work

if TYPE_CHECKING:
    from tinygpt.sweeps.sweeping import Keep, Watch

BETWEEN_NEWS = 0.25  # seconds


def now_and_then(tell: Callable[[int], None]) -> Callable[[int], bool]:
    """What a run is given to call at every step: it tells of some, and stops none."""
    told = 0.0

    def on_step(step: int) -> bool:
        nonlocal told
        if time.monotonic() - told >= BETWEEN_NEWS:
            told = time.monotonic()
            tell(step)
        return True

    return on_step


def work_on(connection: Connection, work: Work) -> None:
    """A worker: runs come in, steps done and results go out. Where nobody listens any more, it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal's processes; the first one decides
    runner = Runner(work)
    on_step = now_and_then(connection.send)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            run, kept = connection.recv()
            connection.send(runner.run(run, on_step, kept))


class Workers:
    def __init__(self, count: int, work: Work) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take threads and GPUs along, half
        self.processes: dict[Connection, multiprocessing.process.BaseProcess] = {}
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=work_on, args=(theirs, work), daemon=True)
            process.start()
            theirs.close()
            self.processes[ours] = process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for connection, process in self.processes.items():
            process.join()
            connection.close()

    def do(self, runs: Sequence[Run], watch: Watch, keep: Keep) -> Iterator[Result]:
        waiting = list(reversed(runs))
        doing: dict[Connection, Run] = {}
        free = list(self.processes)
        while not watch.should_stop() and (waiting or doing):
            while free and waiting:
                connection, run = free.pop(), waiting.pop()
                connection.send((run, keep(run)))
                doing[connection] = run
                watch.started(run)
            for connection in ready(doing):
                news = self.news(connection, doing[connection])
                if isinstance(news, int):
                    watch.stepped(doing[connection], news)
                    continue
                run = doing.pop(connection)
                free.append(connection)
                watch.finished(run, news)
                yield news

    def news(self, connection: Connection, run: Run) -> int | Result:
        try:
            news: int | Result = connection.recv()
        except (EOFError, ConnectionResetError):
            process = self.processes[connection]
            process.join()
            raise TinyGPTError(
                f"the process of the run with {described(run.settings)} died (status {process.exitcode}), perhaps for "
                f"want of memory: go on with fewer --jobs"
            ) from None
        return news


def ready(doing: Iterable[Connection]) -> list[Connection]:
    """Those with news, after a moment's wait."""
    with_news = wait(list(doing), timeout=BETWEEN_NEWS)
    return [connection for connection in doing if connection in with_news]
