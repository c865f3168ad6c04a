"""A learner on its way through rows that come in parts: ``partial_fit``, files, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher._rows import Rows
from thresher.estimators.fronts import Front
from thresher.functions import Function
from thresher.solvers import Chunk
from thresher.solvers.stream import Stream, Streams

__all__ = ["Feed", "folded", "stream_chunk"]


@dataclass
class Feed:
    """What was learned of the rows before the first step, and the stream behind it.

    ``offset`` is taken from targets, and given back by the function.
    """

    front: Front
    stream: Stream | Streams
    passes: int
    memory: float = np.inf
    offset: float = 0.0

    def chunks(self, rows: Rows, targets: np.ndarray, weight: Any, order: Any = None) -> Any:
        """Raw rows as chunks for the stream; mapped rows part by part, as many as fit."""
        targets = targets - self.offset if self.offset else targets
        entered: Any = self.front.enter(rows)
        most = self.front.block_rows(self.memory, entered.dtype)
        if most == np.inf:
            yield stream_chunk(self.front.rows(entered), targets, weight, order)
            return
        if order is not None:
            entered, targets = entered[order], targets[order]
            weight = None if weight is None else weight[order]
        block = max(int(most) // 64 * 64, 64)  # between mini-batches of usual sizes
        for start in range(0, entered.shape[0], block):
            part = slice(start, start + block)
            mine = None if weight is None else weight[part]
            yield stream_chunk(self.front.rows(entered[part]), targets[part], mine)

    def function(self) -> Function:
        """The model as it stands, of raw rows."""
        return self.folded(self.stream.function())

    def folded(self, function: Any) -> Function:
        return folded(self.front, function, self.offset)

    def check(self, features: int, outputs: int) -> None:
        """ValueError for a feed from a file that is not for so many features and outputs."""
        self.stream.check(self.front.check(features), outputs)


def folded(front: Front, function: Any, offset: float) -> Any:
    """A function of features as one of raw rows, with what was taken from the targets."""
    function = front.fold(function)
    return function._replace(intercept=function.intercept + offset) if offset else function


def stream_chunk(
    rows: Rows, targets: np.ndarray, weight: np.ndarray | None, order: Any = None
) -> Chunk:
    """Rows in the given order; a row of weight zero is not visited."""
    n = rows.shape[0]
    order = np.arange(n, dtype=np.uint32) if order is None else order
    if weight is None:
        full = np.broadcast_to(np.float64(1.0), (n,))
    else:
        full, order = weight, order[weight[order] != 0.0]
    return Chunk(rows, np.ascontiguousarray(targets, rows.dtype), full, order)
