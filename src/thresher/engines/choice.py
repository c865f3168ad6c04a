"""From what a user says of a cluster to an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from thresher.engines.base import Engine
from thresher.engines.forks import start_server

__all__ = ["Scheduler", "engine_for", "expect"]


class Scheduler(NamedTuple):
    """A scheduler's address, and the files of an encrypted connection to it."""

    address: str
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def expect(cluster: Any) -> None:
    """Somebody will ask for the engine of this cluster soon: what takes long may begin now."""
    if isinstance(cluster, int) and not isinstance(cluster, bool) and cluster > 0:
        start_server()


@contextmanager
def engine_for(cluster: Any) -> Iterator[Engine]:
    """The engine for a number of local workers, a scheduler's address, a Dask client or an engine.

    Local workers live as long as the context; what a user has started is left as it is.
    """
    if hasattr(cluster, "run") and hasattr(cluster, "prepare"):
        yield cluster
        return
    from thresher.engines.dask import DaskEngine, connected, local_client

    if isinstance(cluster, str | Scheduler):
        with connected(*([cluster] if isinstance(cluster, str) else cluster)) as client:
            yield DaskEngine(client)
    elif isinstance(cluster, int) and not isinstance(cluster, bool):
        with local_client(cluster) as client:
            yield DaskEngine(client)
    elif hasattr(cluster, "submit") and hasattr(cluster, "scheduler_info"):
        engine = DaskEngine(cluster)
        with cluster.as_current():
            yield engine
    else:
        raise TypeError(
            "cluster must be a number of workers, a scheduler's address such as "
            f"'tcp://host:8786', a dask.distributed.Client or an engine, got {cluster!r:.100}"
        )
