"""Ctrl-C and SIGTERM: the first asks for an orderly end, the second does not ask."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # exit status


class StopRequest:
    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def stop_signals(on_first: Callable[[], None]) -> Iterator[StopRequest]:
    """Within the block, a first signal sets `wanted`; a second one raises KeyboardInterrupt."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request.wanted:
            raise KeyboardInterrupt
        request.wanted = True
        on_first()

    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
