"""Predictions by workers: each reads its shards and scores them; rows come back in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from thresher.data import Batch, DataSet
from thresher.data.errors import BadRows
from thresher.engines import Engine
from thresher.registry import TASKS
from thresher.training.shards import shards_for

__all__ = ["by_workers"]


def by_workers(engine: Engine, model: Any, data: DataSet) -> Iterator[Any]:
    """``model.predictions(data)`` from shard after shard; see there what they lack."""
    data.bad.count, data.bad.first = 0, []
    waiting: dict[int, tuple[list[Any], BadRows]] = {}
    following = 0
    for k, answer in engine.run(_predict, shards_for(engine, data), model):
        waiting[k] = answer
        while following in waiting:
            parts, bad = waiting.pop(following)
            data.bad.merge(bad)
            yield from parts
            following += 1


def _predict(shard: DataSet, model: Any) -> tuple[list[Any], BadRows]:
    parts = list(model.predictions(shard))
    if TASKS[model.estimator.task].has_target:  # clusters are judged by where their rows lie
        parts = [one._replace(batch=_bare(one.batch)) for one in parts]
    return parts, shard.bad


def _bare(batch: Batch) -> Batch:
    return batch._replace(matrix=np.empty((batch.size, 0)))
