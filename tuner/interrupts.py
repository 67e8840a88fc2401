"""Signals that end a command: the first one ends a campaign cleanly, the second one at once.

SIGTERM, which batch systems send before they kill, counts as Ctrl-C.  So does SIGHUP, a connection
that is lost, unless it is ignored (nohup).
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a command."""


def take(
    handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *numbers: int
) -> Mapping[int, Any]:
    """Handle signals; a SIGHUP that is ignored stays so.

    Returns:
        Number -> handler before.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    taken = [number for number in numbers if number != signal.SIGHUP or not is_ignored]
    return {number: signal.signal(number, handler) for number in taken}


@contextlib.contextmanager
def handling(handler: Callable[[int, FrameType | None], Any], *numbers: int) -> Iterator[None]:
    """Handle signals, as `take`, for the time of a context.

    Outside the main thread, where Python delivers no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = take(handler, *numbers)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let what ends a command wait for the end of a context, such as the start of a process.

    An exception while a process starts would leave it to nobody.  Outside the main thread, where
    Python delivers no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    try:
        with handling(lambda number, _: came.append(number), *ENDS):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)


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

    with handling(on_interrupt, *ENDS):
        yield
