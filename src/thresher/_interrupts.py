"""Ctrl-C while compiled code runs, as Python's own exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["clean_interrupts"]


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
