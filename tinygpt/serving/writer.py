"""A thread that owns a model's engine and writes all texts that are asked of it, several at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread

from tinygpt.core.config import SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.run.contract import Engine, run_now
from tinygpt.core.run.desk import Desk, Ticket
from tinygpt.serving.asking import Refused

END = b""  # behind the last bytes of a text


class Order:
    """A text to be written. `told` is called in the writer's thread: with new bytes, at last with END or a fault."""

    def __init__(
        self,
        prompt: bytes,
        settings: SampleConfig,
        stops: tuple[bytes, ...],
        told: Callable[[bytes | TinyGPTError], None],
    ) -> None:
        self.prompt, self.settings, self.stops, self.told = prompt, settings, stops, told
        self.left = False


class Writer:
    """Texts wait until one of `rows` places on the desk is free; more than `most` at once, waiting ones too, are
    refused."""

    def __init__(self, name: str, open_engine: Callable[[], Engine], rows: int, most: int) -> None:
        self.name, self.open_engine, self.rows, self.most = name, open_engine, rows, most
        self.waiting: deque[Order] = deque()
        self.writing: dict[Ticket, Order] = {}
        self.changed = Condition()
        self.closing = False
        self.description = ""
        self.fault: TinyGPTError | None = None  # why there is no engine
        self.thread = Thread(target=self.run, name=f"writer of {name}", daemon=True)

    def open(self) -> None:
        """Begin, and come back when the engine is there."""
        self.thread.start()
        with self.changed:
            self.changed.wait_for(lambda: self.description or self.fault is not None)
        if self.fault is not None:
            raise self.fault

    def ask(self, orders: Sequence[Order]) -> None:
        """All of them, or none."""
        with self.changed:
            if self.closing:
                raise Refused("the server is closing", status=503)
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
        """Nobody waits for these any more."""
        with self.changed:
            for order in orders:
                order.left = True
            self.waiting = deque(order for order in self.waiting if not order.left)

    def close(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.thread.join()

    # --- in the thread ---------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            engine = self.open_engine()
            desk = Desk(engine, self.rows, time.perf_counter)
            run_now(desk.more())  # which takes the memory that it needs
        except TinyGPTError as fault:
            with self.changed:
                self.fault = fault
                self.changed.notify_all()
            return
        with self.changed:
            self.description = engine.describe()
            self.changed.notify_all()
        try:
            while self.take(desk):
                self.write(desk)
        finally:
            run_now(engine.close())
            for order in [*self.writing.values(), *self.waiting]:
                order.told(Refused("the server is closing", status=503))

    def take(self, desk: Desk) -> bool:
        """Wait until there is something to write; what nobody waits for leaves the desk, what waits comes to it."""
        with self.changed:
            self.changed.wait_for(lambda: self.closing or self.waiting or self.writing)
            for ticket in [ticket for ticket, order in self.writing.items() if order.left]:
                desk.leave(ticket)
                del self.writing[ticket]
            while self.waiting and len(self.writing) < self.rows:
                order = self.waiting.popleft()
                self.writing[desk.join(order.prompt, order.settings, order.stops)] = order
            return not self.closing

    def write(self, desk: Desk) -> None:
        if not self.writing:
            return
        try:
            made = run_now(desk.more())
        except TinyGPTError as fault:
            for ticket in self.writing:
                desk.leave(ticket)
                ticket.problem = str(fault)
            made = {}
        for ticket, order in list(self.writing.items()):
            if made.get(ticket):
                order.told(made[ticket])
            if ticket.ended:
                order.told(Refused(ticket.problem, status=500) if ticket.problem else END)
                with self.changed:
                    del self.writing[ticket]
