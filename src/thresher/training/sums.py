"""Sums over all rows that a solver asks for before its first step, here or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from thresher.data import Batch, DataSet
from thresher.engines import Engine, in_order
from thresher.solvers import Chunk
from thresher.training.intake import Intake

__all__ = ["summed"]

#: raw rows, targets, weights and an order as chunks for a solver
Chunks = Callable[[Any, np.ndarray, Any, Any], Iterator[Chunk]]


class Measuring(NamedTuple):
    """All that a worker needs besides its rows; ``measure(chunk)`` are sums that add up."""

    estimator: Any
    weights: Any
    hold: Any
    window: int
    chunks: Chunks
    measure: Callable[[Chunk], Any]


def summed(
    estimator: Any, intake: Intake, weights: Any, engine: Engine | None, chunks: Chunks,
    measure: Callable[[Chunk], Any],
) -> Any:  # fmt: skip
    """``measure`` added up over all rows to learn from, shard by shard in their order."""
    hold = intake.hold.without_rows()
    asked = Measuring(estimator, weights, hold, intake.window, chunks, measure)
    if engine is None or intake.shards is None:
        return _total(_measured(intake.windows(), asked))
    found = in_order(engine, _measure, intake.shards, asked)
    return _total(one for one in found if one is not None)


def _measure(shard: DataSet, asked: Measuring) -> Any:
    """The sums of a shard; None where it has no rows to learn from."""
    return _total(_measured(shard.chunks(asked.window), asked))


def _measured(batches: Iterable[Batch], asked: Measuring) -> Iterator[Any]:
    for batch in batches:
        weight = asked.weights.of(batch.targets, batch.weight)
        free = ~asked.hold.mask(batch)
        order = np.flatnonzero(free if weight is None else free & (weight > 0.0)).astype(np.uint32)
        if order.size:
            rows, targets, _ = asked.estimator.coded_rows(batch.rows, batch.targets)
            yield from map(asked.measure, asked.chunks(rows, targets, weight, order))


def _total(sums: Iterable[Any]) -> Any:
    total = None
    for one in sums:
        total = one if total is None else total.plus(one)
    return total
