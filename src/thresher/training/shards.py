"""How many parts workers get, and where they are cut."""

from __future__ import annotations

from typing import Any

from thresher.data import DataSet
from thresher.data.spans import Tally, tally
from thresher.engines import Engine, in_order

__all__ = ["shards_for"]

_SHARD_BYTES, _MOST_SHARDS = 64 << 20, 256


def _usual_shards(data: DataSet) -> int:
    """By the data alone, so that the model does not depend on who works on them: a part for each
    partition, or by the size of the files."""
    if data.source.usual_parts is not None:
        return min(data.source.usual_parts, _MOST_SHARDS)
    size = sum(stamp[1] for stamp in data.source.stamps() if stamp)
    return int(min(max(round(size / _SHARD_BYTES), 1), _MOST_SHARDS))


def shards_for(engine: Engine, data: DataSet, n: int | None = None) -> list[DataSet]:
    """The shards of a data set; workers look for the places to cut."""

    def tally_all(spans: Any) -> list[Tally]:
        return in_order(engine, _tally, spans, None)

    return data.shards(_usual_shards(data) if n is None else n, tally_all)


def _tally(span: Any, shared: None) -> Tally:
    return tally(span)
