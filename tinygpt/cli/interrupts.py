"""Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, another one does not ask."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # exit status
HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none


class StopRequest:
    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def stop_signals(on_first: Callable[[], None]) -> Iterator[StopRequest]:
    """Within the block, a first signal sets `wanted`; a second one raises KeyboardInterrupt.

    A terminal that closes may send SIGHUP several times; it never cuts short what another signal asked for.
    """
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if not request.wanted:
            request.wanted = True
            on_first()
        elif number != HANG_UP:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if HANG_UP is not None and signal.getsignal(HANG_UP) != signal.SIG_IGN:  # nohup ignores it
        numbers.append(HANG_UP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
