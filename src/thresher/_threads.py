"""How many threads to use."""

from __future__ import annotations

import os

__all__ = ["cores", "threads"]


def cores() -> int:
    """The cores that this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def threads(n_jobs: int | None) -> int:
    """scikit-learn's convention: None is one; -1 all cores, -2 all but one, and so on."""
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, cores() + 1 + n_jobs)
