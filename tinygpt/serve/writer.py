"""A thread that owns a model's engine and writes the texts it is asked for, several at once."""

from __future__ import annotations

import errno
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, Thread

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import prompted
from tinygpt.core.write.desk import Desk, Ticket
from tinygpt.serve.asking import Refused
from tinygpt.serve.scoring import Scorer
from tinygpt.serve.server import start

END = b""  # follows the last bytes of a text
TRIES = 3  # in a row, to open again an engine that stopped
PAUSE_S = 1.0  # between two of them
OPENING = "the engine is being opened"


class Order:
    """A text to be written. `told` is called in the writer's thread: with new bytes, at last with END or a fault."""

    def __init__(
        self,
        prompt: bytes,
        settings: SampleConfig,
        stops: tuple[bytes, ...],
        told: Callable[[bytes | TinyGPTError], None],
        request: object = None,
    ) -> None:
        self.prompt, self.settings, self.stops, self.told = prompt, settings, stops, told
        self.request = request  # that it is part of; requests take turns
        self.ticket: Ticket | None = None  # once it has begun
        self.left = False

    def tell(self, what: bytes | TinyGPTError) -> None:
        if not self.left:
            self.told(what)

    def sit(self, desk: Desk, text_name: str) -> Ticket:
        if self.ticket is None:
            self.ticket = desk.join(prompted(text_name, self.prompt), self.settings, self.stops)
        else:
            desk.resume(self.ticket)
        return self.ticket


class Writer:
    """Texts wait until one of `rows` on the desk is free; more than `most` at once, waiting ones too, are refused.

    Whatever goes wrong in the engine ends the texts that were being written, and the engine is opened again. Where that
    fails TRIES times in a row, `fault` says why there is no engine any more.
    """

    def __init__(
        self,
        name: str,
        open_engine: Callable[[], Engine],
        rows: int,
        most: int,
        warn: Callable[[str], None] = lambda line: None,
        pause_s: float = PAUSE_S,
        text_name: str = "",
    ) -> None:
        self.text_name = text_name  # that the model has learned
        self.name, self.open_engine, self.rows, self.most = name, open_engine, rows, most
        self.warn, self.pause_s = warn, pause_s
        self.scorer = Scorer(open_engine)
        self.waiting: deque[Order] = deque()
        self.writing: dict[Ticket, Order] = {}
        self.changed = Condition()
        self.deadline: float | None = None  # once it is closing: when what is left ends unwritten
        self.description = ""
        self.problem = OPENING  # why nothing can be written now; empty while something can
        self.fault: TinyGPTError | None = None
        self.thread = Thread(target=self.run, name=f"writer of {name}", daemon=True)

    def open(self) -> None:
        """Begin, and come back when the engine is there."""
        start(self.thread)
        with self.changed:
            self.changed.wait_for(lambda: not self.problem or self.fault is not None)
        if self.fault is not None:
            raise self.fault

    def ask(self, orders: Sequence[Order]) -> None:
        """All of them, or none."""
        with self.changed:
            if self.deadline is not None:
                raise closing()
            if self.problem:
                raise Refused(f"{self.name} cannot write now: {self.problem}; try again in a moment", status=503)
            there = len(self.waiting) + len(self.writing)
            if there + len(orders) > self.most:
                raise Refused(
                    f"{self.name} has {there} texts to write and takes at most {self.most}: try again in a while",
                    status=429,
                    code="too_many_requests",
                )
            self.waiting.extend(orders)
            self.changed.notify_all()

    def leave(self, orders: Sequence[Order]) -> None:
        """Nobody waits for these any more; from now on nothing is told of them."""
        with self.changed:
            for order in orders:
                order.left = True
            self.waiting = deque(order for order in self.waiting if not order.left)

    def stop(self, grace_s: float = 0.0) -> None:
        """Take no more texts; what is not written within the grace ends with a fault."""
        with self.changed:
            self.deadline = time.monotonic() + grace_s
            self.changed.notify_all()

    def close(self) -> None:
        """Stop, unless it was told to before, and come back when the engine is closed."""
        if self.deadline is None:
            self.stop()
        self.thread.join()
        self.scorer.close()

    # --- in the thread ---------------------------------------------------------------------------------------

    def run(self) -> None:
        tries = 1  # the first time; then whoever opens it is told at once
        while tries and self.deadline is None:
            try:
                with self.opened() as desk:
                    tries = TRIES
                    while self.take(desk):
                        self.write(desk)
                    break
            except Exception as fault:
                tries -= 1 if self.problem else 0  # otherwise it was open
                self.stopped(fault, tries)
            self.pause(tries)
        with self.changed:
            self.end([*self.writing.values(), *self.waiting], self.fault or closing())
            self.writing, self.waiting = {}, deque()
            self.changed.notify_all()

    @contextmanager
    def opened(self) -> Iterator[Desk]:
        engine = self.open_engine()
        try:
            desk = Desk(engine, self.rows, time.perf_counter)
            run_now(desk.more())  # which takes the memory that it needs
            with self.changed:
                self.description, self.problem = engine.describe(), ""
                self.changed.notify_all()
            yield desk
        finally:
            with suppress(Exception):  # one that has failed may fail here, too
                run_now(engine.close())

    def stopped(self, fault: Exception, tries: int) -> None:
        """The engine failed, and will be opened again if there are tries left."""
        reason = reason_of(fault)
        with self.changed:
            first = not self.description
            self.problem = f"its engine stopped ({reason}) and is being opened again"
            self.end(list(self.writing.values()), Refused(f"{self.name}: {self.problem}", status=503))
            self.writing = {}
            if first:
                self.fault = fault if isinstance(fault, TinyGPTError) else TinyGPTError(f"{self.name}: {reason}")
            elif not tries:
                self.fault = TinyGPTError(
                    f"the engine of {self.name} stopped and could not be opened again in {TRIES} tries: {reason}"
                )
            self.changed.notify_all()
        if self.fault is None:
            self.warn(f"{self.name}: {self.problem}")

    def pause(self, tries: int) -> None:
        """Between two tries, not before the first of them."""
        with self.changed:
            if 0 < tries < TRIES:
                self.changed.wait_for(lambda: self.deadline is not None, self.pause_s)

    def end(self, orders: Sequence[Order], fault: TinyGPTError) -> None:
        for order in orders:
            order.tell(fault)

    def take(self, desk: Desk) -> bool:
        """Wait until there is something to write; what nobody waits for leaves the desk, what waits comes to it.
        Whether there is something, or may be."""
        with self.changed:
            self.changed.wait_for(lambda: self.deadline is not None or self.waiting or self.writing)
            for ticket in [ticket for ticket, order in self.writing.items() if order.left]:
                desk.leave(ticket)
                del self.writing[ticket]
            self.share(desk)
            return self.deadline is None or (bool(self.writing) and time.monotonic() < self.deadline)

    def share(self, desk: Desk) -> None:
        """Give free rows to the requests that have the fewest, in the order in which they came. Where no row is free, a
        text whose window is full gives up its own to a request that has fewer, and waits in line again."""
        held = Counter(id(order.request) for order in self.writing.values())
        full = [ticket for ticket in self.writing if ticket.full()]
        rested: list[Order] = []

        def rows_of(order: Order) -> int:
            return held[id(order.request)]

        while self.waiting:
            order = min(self.waiting, key=rows_of)
            if len(self.writing) == self.rows:
                most = max(full, key=lambda ticket: rows_of(self.writing[ticket]), default=None)
                if most is None or rows_of(self.writing[most]) <= rows_of(order):
                    break
                full.remove(most)
                desk.rest(most)
                rested.append(self.writing.pop(most))
                held[id(rested[-1].request)] -= 1
            self.waiting.remove(order)
            self.writing[order.sit(desk, self.text_name)] = order
            held[id(order.request)] += 1
        self.waiting.extend(rested)

    def write(self, desk: Desk) -> None:
        if not self.writing:
            return
        made = run_now(desk.more())
        with self.changed:
            for ticket, order in list(self.writing.items()):
                if made.get(ticket):
                    order.tell(made[ticket])
                if ticket.ended:
                    order.tell(Refused(ticket.problem, status=500) if ticket.problem else END)
                    del self.writing[ticket]


def closing() -> Refused:
    return Refused("the server is shutting down", status=503)


def reason_of(fault: Exception) -> str:
    """What an engine stopped of, in words."""
    if isinstance(fault, MemoryError) or (isinstance(fault, OSError) and fault.errno == errno.ENOMEM):
        return "there is not enough memory: use a smaller model, or fewer --rows"
    return str(fault) if isinstance(fault, TinyGPTError) else f"{type(fault).__name__}: {fault}"
