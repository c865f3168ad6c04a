"""Ctrl-C while code is compiled or compiled code runs, as Python's own exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Presses", "clean_interrupts"]


@contextmanager
def clean_interrupts() -> Iterator[None]:
    """Raises KeyboardInterrupt for a SystemError that is one.

    A signal that came while a compiled function ran is looked at by the first Python code after
    it.  That may be Numba's own, which makes Python objects of the results: it does not expect an
    exception, and Python then says that a function "returned a result with an exception set".
    """
    try:
        yield
    except SystemError as error:
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt is among the causes of an exception."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


class Presses:
    """Remembers whether Ctrl-C was pressed, where nobody else listens.

    While Numba compiles, the exception may be raised within a callback of LLVM, which drops it.
    What fails then is something else, for want of what was to be compiled.
    """

    def __init__(self) -> None:
        self.heard = False
        self._listens = False

    def __enter__(self) -> Presses:
        alone = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._listens = alone and threading.current_thread() is threading.main_thread()
        if self._listens:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _hear(self, number: int, frame: Any) -> None:
        self.heard = True
        raise KeyboardInterrupt
