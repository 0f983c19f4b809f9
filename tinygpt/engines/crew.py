"""Threads that work side by side for one that waits.

A team that meets at a barrier must be complete, but Python raises KeyboardInterrupt in the main thread between any two
instructions. So whoever asks for work is no member: one `put`, which no interrupt can cut in two, hands it to the first
member, who wakes the others. However the wait for it ends, the work does.
"""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple


class Job(NamedTuple):
    part: Callable[[int], object]  # called by each member with its number; over for all when it is over for number 0
    over: threading.Lock  # held until then


# Seconds for which a lock is waited for at a time. Windows tells of Ctrl-C only in between, others at once.
WAIT = 0.05 if sys.platform == "win32" else -1.0

Inbox = SimpleQueue[Job | None]


class Crew:
    def __init__(self, members: int) -> None:
        inboxes: list[Inbox] = [SimpleQueue() for _ in range(members)]
        self.inbox, *others = inboxes
        self.idle = True  # false from before a job is handed over until it is known to be over
        self.dismiss = weakref.finalize(self, self.inbox.put, None)
        self.dismiss.atexit = False
        self.threads = [
            threading.Thread(target=serve, args=(number, inbox, [] if number else others), daemon=True)
            for number, inbox in enumerate(inboxes)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, part: Callable[[int], object]) -> None:
        """Wait until all members have done their part. An interrupt ends the wait, not the work."""
        job = Job(part, threading.Lock())
        job.over.acquire()
        self.idle = False
        self.inbox.put(job)
        while not job.over.acquire(timeout=WAIT):
            pass
        self.idle = True

    def settle(self) -> None:
        """Wait for work that an interrupt left under way, if there was any: jobs are done in their order."""
        if not self.idle:
            self.run(lambda number: None)

    def close(self) -> None:
        """Members leave once they have done what they were given; an interrupted job is not waited for."""
        self.dismiss()
        if self.idle:
            for thread in self.threads:
                thread.join()


def serve(number: int, inbox: Inbox, others: list[Inbox]) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread is to be woken by them
    while take_part(number, inbox, others):
        pass


def take_part(number: int, inbox: Inbox, others: list[Inbox]) -> bool:
    """One job; nothing of it is kept alive while the next is waited for."""
    job = inbox.get()
    for other in others:
        other.put(job)
    if job is None:
        return False
    try:
        job.part(number)
    finally:
        if number == 0:
            job.over.release()
    return True
