"""Ctrl-C: the first one ends the campaign cleanly, the second one at once.

SIGTERM, which batch systems send before they kill, counts as Ctrl-C.  So does SIGHUP, a connection
that is lost, unless it is ignored (nohup).
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def graceful(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first interrupt, raise KeyboardInterrupt at every further one.

    Outside the main thread, where Python delivers no signals, nothing is changed.

    Args:
        stop: asks for an orderly end; must return at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    n_interrupts = 0

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal n_interrupts
        n_interrupts += 1
        if n_interrupts > 1:
            raise KeyboardInterrupt
        stop()

    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    taken = [number for number in _SIGNALS if number != signal.SIGHUP or not is_ignored]
    before = {number: signal.signal(number, on_interrupt) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
