"""A cache with a limit in bytes, for several threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

__all__ = ["Cache"]


class Cache:
    """Values by key, each made once even if several threads ask for it at the same time.

    The arrays among the values (or in tuples of them) take at most ``limit`` bytes together: those
    used least recently go first.
    """

    def __init__(self, limit: float):
        self.limit = limit
        self._entries: OrderedDict[Hashable, Future] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self._lock:
            entry = self._entries.get(key)
            mine = entry is None
            if entry is None:
                entry = self._entries[key] = Future()
            self._entries.move_to_end(key)
        if mine:
            try:
                entry.set_result(make())
            except BaseException as error:  # who waits for it hears of it; who comes later tries
                with self._lock:
                    self._entries.pop(key, None)
                entry.set_exception(error)
            self._shrink()
        return entry.result()

    def _shrink(self) -> None:
        with self._lock:
            ready = [(k, _bytes(e.result())) for k, e in self._entries.items() if e.done()]
            total = sum(size for _, size in ready)
            for key, size in ready:
                if total <= self.limit:
                    break
                del self._entries[key]
                total -= size


def _bytes(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return int(getattr(value, "nbytes", 0))
