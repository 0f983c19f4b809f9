"""Several texts at once on one engine: who comes while others are under way joins them (continuous batching)."""

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.rate import HEARD, Rate
from tinygpt.core.errors import NOT_FINITE, NotFinite
from tinygpt.core.write.sampler import Continuation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


ROWS = 8  # for who has no reason to take another number


class Ticket(Continuation):
    """A text on a desk: `out` is what it has so far, `ended` whether that is all."""

    problem = ""  # why it ended where it should not have
    resting = False  # it gave up its row

    def full(self) -> bool:
        """Whether its window must be read again before the next byte: nothing in its row is of use any more."""
        return self.cached >= self.ctx


class Desk:
    """So many `rows` of an engine, each for a text; others wait for one. A text is the same, byte for byte, as if it
    were written alone, whoever sits beside it.

    While there is a desk, nobody else may write with its engine.
    """

    def __init__(self, engine: "Any", rows: int, now: "Callable[[], float] | None" = None) -> None:
        """With a clock, texts grow by so many bytes at a time that a reader sees them flow."""
        self.engine = engine
        self.ctx = engine.config.model.ctx
        self.now = now
        self.rate = Rate()
        self.seats: list[Ticket | None] = [None] * rows
        self.waiting: list[Ticket] = []
        self.ready = False

    def join(self, prompt: bytes, settings: SampleConfig, stops: "tuple[bytes, ...]" = ()) -> Ticket:
        """Have a text written; it begins with the next `more` that finds a free row."""
        ticket = Ticket(self.ctx, prompt, settings, stops)
        self.waiting.append(ticket)
        return ticket

    def join_all(
        self, count: int, prompt: bytes, settings: SampleConfig, stops: "tuple[bytes, ...]" = ()
    ) -> "list[Ticket]":
        """`count` texts from one prompt, each with the next seed."""
        return [self.join(prompt, settings.of_text(number), stops) for number in range(count)]

    def leave(self, ticket: Ticket) -> None:
        """No more of this one, at any time; its row is free from the next `more` on."""
        ticket.ended = True

    def rest(self, ticket: Ticket) -> None:
        """Let a text whose window is full give up its row, from the next `more` on, until it is resumed. It stays the
        same, byte for byte, and nothing is computed twice: its window would have been read again anyway."""
        ticket.resting = True

    def resume(self, ticket: Ticket) -> None:
        """Have a text that rested continued; it waits for a free row like one that joins."""
        ticket.resting = False
        if ticket not in self.seats:
            self.waiting.append(ticket)

    def empty(self) -> bool:
        return not [ticket for ticket in self.seats + self.waiting if ticket is not None and not ticket.ended]

    async def more(self) -> "dict[Ticket, bytes]":
        """Read the prompts of those who got a row and the windows of those whose context is full, then let all texts
        grow by a block: the new bytes of each, none where it has ended without."""
        if not self.ready:
            await self.engine.make_room(len(self.seats))
            self.ready = True
        await self.free_rows()
        self.waiting = [ticket for ticket in self.waiting if not ticket.ended]
        made: dict[Ticket, bytes] = {}
        for row in range(len(self.seats)):
            if self.seats[row] is None and self.waiting:
                self.seats[row] = self.waiting.pop(0)
            ticket = self.seats[row]
            if ticket is not None and ticket.must_read():
                made[ticket] = await self.read(ticket, row)
        await self.free_rows()
        await self.grow(made)
        return made

    async def free_rows(self) -> None:
        """Of those who have ended or rest."""
        for row in range(len(self.seats)):
            ticket = self.seats[row]
            if ticket is not None and (ticket.ended or ticket.resting):
                await self.engine.drop_text(row)
                self.seats[row] = None

    async def read(self, ticket: Ticket, row: int) -> bytes:
        try:
            return await ticket.begin(self.engine, row)
        except NotFinite as problem:
            fail(ticket, str(problem))
            return b""

    async def grow(self, made: "dict[Ticket, bytes]") -> None:
        """All who can, by as many bytes as there is room for in the fullest of their windows."""
        growing: list[tuple[int, Ticket]] = []
        for row in range(len(self.seats)):
            ticket = self.seats[row]
            if ticket is not None and ticket.must_read():
                await self.engine.drop_text(row)  # until its window is read again
            elif ticket is not None:
                growing.append((row, ticket))
        if not growing:
            return
        grown = await self.block(min([ticket.room() for _, ticket in growing]))
        for row, ticket in growing:
            if ticket.ended:
                continue  # it left meanwhile
            if grown[row] is None:
                fail(ticket, NOT_FINITE)
            made[ticket] = made.get(ticket, b"") + ticket.go_on(grown[row] or b"")

    async def block(self, most: int) -> "list[bytes | None]":
        if self.now is None:
            return await self.engine.continue_texts(most)  # type: ignore[no-any-return]
        began, count = self.now(), self.rate.fitting(HEARD, most)
        grown: list[bytes | None] = await self.engine.continue_texts(count)
        self.rate.add(count, self.now() - began)
        return grown


def fail(ticket: Ticket, problem: str) -> None:
    ticket.ended, ticket.problem = True, problem
