"""An iterator that works ahead in a thread: parsing beside learning."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

__all__ = ["ahead"]

T = TypeVar("T")
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
