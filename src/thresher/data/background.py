"""Working ahead in threads: reading and parsing beside learning."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from thresher._threads import cores

__all__ = ["ahead", "in_order"]

T = TypeVar("T")
R = TypeVar("R")
_MOST_WORKERS = 4
_END: Any = object()
_PATIENCE = 5.0  # seconds to wait for a thread that is in the middle of an item


def ahead(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """The same items, made by a thread that stays at most ``depth`` of them ahead.

    An exception in the thread is raised here, at its place; leaving early stops the thread, which
    then closes ``items``.  A thread that waits for input that never comes is left behind.
    """
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room = threading.Semaphore(depth)
    stop = threading.Event()

    def work() -> None:
        error: BaseException | None = None
        try:
            try:
                for item in items:
                    ready.put((item, None))
                    room.acquire()
                    if stop.is_set():
                        break
            finally:
                getattr(items, "close", lambda: None)()
        except BaseException as raised:  # handed over, whatever it is
            error = raised
        ready.put((_END, error))

    thread = threading.Thread(target=work, name="thresher-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
            del item
            room.release()
    finally:
        stop.set()
        room.release()
        thread.join(_PATIENCE)


def in_order(items: Iterable[T], work: Callable[[T], R], workers: int | None = None) -> Iterator[R]:
    """``work(item)`` for every item, several at a time in threads, results in the items' order.

    An exception is raised at its place, so that the first one in the data is the one reported.
    """
    workers = workers or _workers()
    if workers == 1:
        yield from map(work, items)
        return
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, "thresher-parser") as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _workers() -> int:
    return min(cores(), _MOST_WORKERS)
