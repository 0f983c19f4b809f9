"""Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, another one does not ask."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # exit status
AGAIN_AFTER = 0.01  # seconds
HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none
BREAK = getattr(signal, "SIGBREAK", None)  # Ctrl-Break, which only Windows has


class Interrupt:
    """Raises KeyboardInterrupt once, while the command runs; otherwise the process ends on the spot."""

    def __init__(self) -> None:
        self.raised = False
        self.over = False  # the command is: only the interpreter is left to end

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.raised or self.over:
            os._exit(INTERRUPTED)
        self.raised = True
        warnings.simplefilter("ignore")  # of what is left half done
        raise KeyboardInterrupt

    def unraisable(self, fault: sys.UnraisableHookArgs) -> None:
        """Where a finalizer was interrupted nothing can be raised: the interrupt comes again a moment later."""
        if fault.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(fault)
            return
        self.raised = False
        again = threading.Timer(AGAIN_AFTER, _thread.interrupt_main)
        again.daemon = True
        again.start()


def interruptible(command: Callable[[], None]) -> None:
    """Run a command that Ctrl-C may end at any instant: with status 130 and without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        command()  # whoever started this wants Ctrl-C to be ignored
        return
    interrupt = Interrupt()
    sys.unraisablehook = interrupt.unraisable
    try:
        try:
            signal.signal(signal.SIGINT, interrupt.handle)
            command()
        finally:
            interrupt.over = True
    except BaseException as ending:  # an interrupt may have become something else on its way
        if not interrupt.raised and not isinstance(ending, KeyboardInterrupt):
            raise
        sys.exit(INTERRUPTED)


class StopRequest:
    def __init__(self) -> None:
        self.wanted = False
        self.number = 0  # of the signal that asked for it


@contextmanager
def stop_signals(*on_first: Callable[[], None]) -> Iterator[StopRequest]:
    """Within the block, a first signal sets `wanted`; a second one raises KeyboardInterrupt.

    A terminal that closes may send SIGHUP several times; it never cuts short what another signal asked for.
    """
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if not request.wanted:
            request.wanted, request.number = True, number
            for call in on_first:
                call()
        elif number != HANG_UP:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if HANG_UP is not None and signal.getsignal(HANG_UP) != signal.SIG_IGN:  # nohup ignores it
        numbers.append(HANG_UP)
    if BREAK is not None:
        numbers.append(BREAK)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
