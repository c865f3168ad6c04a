"""How many threads to use."""

from __future__ import annotations

import operator
import os
import threading
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

__all__ = ["LEAVABLE", "ONE_CORE", "cores", "lingering", "one_blas_thread", "threads"]

#: variable of the environment of processes that share a machine with others of their kind
ONE_CORE = "THRESHER_ONE_CORE"

#: threads whose names start so may be left behind at work when the process ends
LEAVABLE = "thresher-leavable"


def cores() -> int:
    """The cores that this process may use."""
    if os.environ.get(ONE_CORE):
        return 1
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


_MOST = 1024


def threads(n_jobs: Any) -> int:
    """scikit-learn's convention: None is one; -1 all cores, -2 all but one, and so on."""
    if n_jobs is None:
        return 1
    try:
        wanted = operator.index(n_jobs)
    except TypeError:
        raise ValueError(f"n_jobs must be a whole number or None, got {n_jobs!r:.100}") from None
    return min(wanted, _MOST) if wanted > 0 else max(1, cores() + 1 + wanted)


def lingering() -> bool:
    """Whether threads are at work that nobody waits for any more."""
    return any(thread.name.startswith(LEAVABLE) for thread in threading.enumerate())


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS by one thread at a time, where ours are at work: they would wait for each other."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    """Looked for once, when those of NumPy and SciPy are there: it takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
