"""When a computation should end, for whoever may stop early: fits of a race, deep below it.

Whoever has a deadline says so with :func:`ending`; loops over passes, trees or rounds ask
:func:`is_over` between two of them and end with what they have.  The answer belongs to the thread
that asked; one that starts threads of its own passes it on (:func:`passed_on`).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["ending", "has_end", "is_over", "passed_on"]

_over: contextvars.ContextVar[Callable[[], bool] | None] = contextvars.ContextVar(
    "over", default=None
)
A = TypeVar("A")
B = TypeVar("B")


@contextmanager
def ending(over: Callable[[], bool]) -> Iterator[None]:
    """What is computed inside should end when ``over()``, or when whoever is outside says so."""
    outer = _over.get()
    token = _over.set(over if outer is None else lambda: outer() or over())
    try:
        yield
    finally:
        _over.reset(token)


def has_end() -> bool:
    """Whether somebody may ask to end."""
    return _over.get() is not None


def is_over() -> bool:
    """Whether to end now, with what there is."""
    over = _over.get()
    return over is not None and over()


def passed_on(task: Callable[[A], B]) -> Callable[[A], B]:
    """The same task for other threads, with this one's end."""
    context = contextvars.copy_context()
    return lambda given: context.copy().run(task, given)
