"""Where local workers come from: one process imports everything once, and workers are its forks.

Importing what a training needs takes longer than most tasks, and workers that begin side by side
would each do it.  The server has no threads and has opened no data, which makes forking it safe; it
ends with the process that started it.  It needs nothing but the standard library to be started, so
that a command that knows that it will want workers can start it before it imports anything itself.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from contextlib import suppress
from multiprocessing import forkserver
from typing import Any

__all__ = ["METHOD", "dask_setup", "start_server"]

#: how Dask starts processes; elsewhere the system's own libraries do not bear to be forked
METHOD = "forkserver" if sys.platform == "linux" else "spawn"
_IMPORTED = [
    "thresher.engines.lean", "distributed", "distributed.nanny", "thresher.training",
    "thresher.engines.settled",
]  # fmt: skip
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def start_server() -> None:
    """Let the server begin, unless it runs already; nobody waits for it."""
    if METHOD != "forkserver":
        return
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # read when the libraries are loaded
    try:
        multiprocessing.get_context(METHOD).set_forkserver_preload(_IMPORTED)
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def dask_setup(worker: Any) -> None:
    """What Dask does first on a worker: one thread, also where somebody else has started the
    server, with another environment."""
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
