"""Tasks as futures of Dask: on local processes, or on a cluster that is there already.

What all tasks share travels as an argument of each, or, where it is large, as the answer of a task:
data that is scattered to workers is lost with the worker that holds it, an answer is made again.
Nothing is pinned to a worker, and no task starts others.  A task whose worker dies is run again on
another one, up to three times.
"""

from __future__ import annotations

import io
import os
import pickle
import platform
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any

from thresher._threads import ONE_CORE, cores
from thresher.engines import forks
from thresher.engines.base import EngineError, R, Task

try:
    import cloudpickle
    from dask import config
    from distributed import Client, Future, LocalCluster, Security, wait
    from distributed.client import FutureCancelledError, FuturesCancelledError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "several workers need Dask: pip install 'thresher[distributed]'"
    ) from None

__all__ = ["DaskEngine", "connected", "doubt", "local_client"]

_RETRIES = 3
_LARGE = 1 << 20  # bytes that are not sent with every task
_PATIENCE = "15s"  # for a scheduler to answer
_MOST_A_CORE = 4  # workers that nobody wonders about
_RESTART = 10.0  # seconds for a worker to take the place of one that died
_GLANCE, _ALONE = 5.0, 60.0  # seconds between looks at whether there are workers, and without any
_DESERTED = "all workers have gone, and none has come back"
# Dask has workers give freed memory back at once, and Linux would hand out every block of rows
# anew, page by page: half of the time of reading.  None: as in any other process.
_LOCAL = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.multiprocessing-method": forks.METHOD,
}
_LOST = (
    CommClosedError,
    FutureCancelledError,
    FuturesCancelledError,
    TimeoutError,
    ConnectionError,
)


class DaskEngine:
    """The workers of a client."""

    def __init__(self, client: Client):
        self.client = client
        if client.status in ("closing", "closed"):
            raise EngineError("the client of the workers is closed: make a new one")
        _check_versions(client)
        # While this process looks at the data; the futures are kept, or they would be cancelled.
        self._waking = [client.submit(_wake_up, pure=False) for _ in range(self.width)]

    @property
    def width(self) -> int:
        return max(sum(facts["nthreads"] for facts in _workers(self.client).values()), 1)

    def run(self, task: Task[R], recipes: Sequence[Any], shared: Any) -> Iterator[tuple[int, R]]:
        """Answers as they are ready; a key for each call, since equal calls may differ in files."""
        call = f"{getattr(task, '__name__', 'task')}-{uuid.uuid4().hex}"
        packed: Any = cloudpickle.dumps((task, shared))
        futures: dict[Any, int] = {}
        try:
            if len(packed) > _LARGE:
                packed = self._everywhere(packed, f"shared-{call}")
            for k, recipe in enumerate(recipes):
                future = self.client.submit(
                    _call, packed, *_packed(recipe), key=f"{call}-{k}", retries=_RETRIES, pure=False
                )
                futures[future] = k
            yield from self._answers(futures)
        except KilledWorker as error:
            raise EngineError(
                f"a task ended {_RETRIES + 1} workers, probably for want of memory: allow the "
                f"workers more, or make more and smaller shards ({error})"
            ) from None
        except _LOST as error:
            raise EngineError(f"the connection to the workers was lost: {error}") from None
        except ModuleNotFoundError as error:
            raise EngineError(
                f"workers cannot import what the task needs ({error}): install it there, define "
                "it in the script that is run, or name its file with --plugin"
            ) from None
        finally:
            with suppress(Exception):  # nobody may be there to hear it
                self.client.cancel([*futures, *([packed] if isinstance(packed, Future) else [])])

    def _everywhere(self, packed: bytes, key: str) -> Future:
        """What all tasks share, on every worker: tasks go where their arguments are."""
        with config.set({"distributed.admin.large-graph-warning-threshold": len(packed) + _LARGE}):
            held = self.client.submit(_itself, packed, key=key, retries=_RETRIES, pure=False)
        self._patiently(lambda patience: wait(held, timeout=patience))
        with suppress(*_LOST):  # a worker that has just died needs no copy
            self.client.replicate(held)
        return held

    def _answers(self, futures: dict[Any, int]) -> Iterator[tuple[int, Any]]:
        """Of futures as they are ready; a scheduler without workers would wait for ever."""
        ready: SimpleQueue[Any] = SimpleQueue()
        for future in futures:
            future.add_done_callback(ready.put)
        left, seen = len(futures), time.monotonic()
        while left:
            try:
                future = ready.get(timeout=_GLANCE)
            except Empty:
                if self._has_workers():
                    seen = time.monotonic()
                elif time.monotonic() - seen > _ALONE:
                    raise EngineError(_DESERTED) from None
                continue
            yield futures[future], self._fetched(future)
            future.release()
            left -= 1

    def _fetched(self, future: Future) -> Any:
        """An answer that is there; whoever holds it may die first, and then it is made again."""

        def fetch(patience: float) -> Any:
            try:
                return future.result(timeout=patience)
            except TimeoutError as error:
                if future.status == "error":
                    raise EngineError(f"a task ran out of its own time: {error}") from None
                raise

        return self._patiently(fetch)

    def _patiently(self, ask: Callable[[float], Any]) -> Any:
        """What ``ask`` says within so many seconds, or later as long as there are workers."""
        patience = _ALONE
        while True:
            try:
                return ask(patience)
            except TimeoutError:
                if not self._has_workers():
                    raise EngineError(_DESERTED) from None
                patience *= 2.0  # much may take its time

    def _has_workers(self) -> bool:
        if self.client.status in ("closing", "closed"):  # it has tried for long enough
            raise EngineError("the scheduler has gone, and has not come back") from None
        return bool(_workers(self.client))

    def prepare(self, task: Task[Any], recipe: Any, shared: Any) -> None:
        """On one worker of each machine; what fails here fails again where it is heard."""
        hosts: dict[str, str] = {}
        for address, facts in _workers(self.client).items():
            hosts.setdefault(str(facts.get("host")), address)
        packed = cloudpickle.dumps((task, shared)), *_packed(recipe)
        self.client.run(_call, *packed, workers=list(hosts.values()), on_error="ignore")

    def describe(self) -> str:
        scheduler = self.client.scheduler
        address = "the cluster" if scheduler is None else scheduler.address
        link = getattr(self.client, "dashboard_link", None)
        shown = f", dashboard {link}" if link else ""
        return f"{len(_workers(self.client))} workers at {address}{shown}"


def _itself(packed: bytes) -> bytes:
    return packed


def _call(packed: bytes, recipe: bytes, *held: Any) -> Any:
    """What a worker does.

    Unpacked here: a worker that cannot unpack the arguments of a task is lost for all others.
    """
    task, shared = cloudpickle.loads(packed)
    try:
        return task(_Unpacker(io.BytesIO(recipe), held).load(), shared)
    except Exception as error:
        if not any(isinstance(e, FileNotFoundError) for e in (error, error.__context__)):
            raise
        raise type(error)(
            f"{error} (for a worker: all machines must see the files under the same names)"
        ) from None


def _packed(recipe: Any) -> list[Any]:
    """A recipe, and the futures in it, which Dask replaces by what workers hold."""
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(recipe)
    return [file.getvalue(), *packer.held]


class _Packer(cloudpickle.Pickler):
    def __init__(self, file: Any):
        super().__init__(file)
        self.held: list[Future] = []

    def persistent_id(self, thing: Any) -> int | None:
        if not isinstance(thing, Future):
            return None
        self.held.append(thing)
        return len(self.held) - 1


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: Any, held: Sequence[Any]):
        super().__init__(file)
        self.held = held

    def persistent_load(self, place: int) -> Any:
        return self.held[place]


@contextmanager
def local_client(workers: int) -> Iterator[Client]:
    """Processes on this machine, of one thread each, that nobody else can reach."""
    if workers < 1:
        raise ValueError(f"there must be at least one worker, got {workers}")
    doubt(workers, cores())
    forks.start_server()
    with _own_environment(), config.set(_LOCAL):
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address="127.0.0.1:0" if _has_dashboard() else None,
            memory_limit="auto", env={ONE_CORE: "1"}, silence_logs=50,
            preload=forks.__name__,
        )  # fmt: skip
        try:
            with Client(cluster) as client:
                try:
                    yield client
                finally:
                    _await_restarts(client, workers)
        finally:
            _close(cluster)


def doubt(workers: int, there: int) -> None:
    """Many more workers than cores start slowly, share the memory and wait for each other."""
    if workers > _MOST_A_CORE * there:
        warnings.warn(
            f"{workers} local workers on {there} cores: more than one a core are not faster, and "
            "the memory is divided between them; the model does not depend on their number",
            stacklevel=2,
        )


def _await_restarts(client: Client, workers: int) -> None:
    """Dask cannot close a cluster while it starts a process in the place of one that died."""
    with suppress(*_LOST):
        if len(_workers(client)) < workers:
            client.wait_for_workers(workers, timeout=_RESTART)


def _close(cluster: LocalCluster) -> None:
    """A cluster that does not end as it should takes nothing from what was learned on it."""
    try:
        cluster.close()
    except Exception as error:  # assertions of Dask's own among them
        warnings.warn(f"the local workers did not end in order: {error}", stacklevel=2)


@contextmanager
def _own_environment() -> Iterator[None]:
    """Dask sets variables of its workers in this process too, and leaves them there: whatever is
    started later would have one thread as well."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def connected(
    address: str, ca: str | None = None, cert: str | None = None, key: str | None = None
) -> Iterator[Client]:
    """A scheduler that is there already, by TLS where files for it are given."""
    security = _security(address, ca, cert, key)
    try:
        client = Client(address, timeout=_PATIENCE, security=security)
    except (OSError, ValueError) as error:
        raise EngineError(f"no scheduler answers at {address}: {error}") from None
    try:
        if not _workers(client):
            raise EngineError(f"the scheduler at {address} has no workers")
        yield client
    finally:
        client.close()


def _security(address: str, ca: str | None, cert: str | None, key: str | None) -> Security | None:
    """What an encrypted connection needs; what Dask's configuration says of it counts too."""
    files = {"--tls-ca": ca, "--tls-cert": cert, "--tls-key": key}
    if any(files.values()) and not address.startswith("tls://"):
        raise ValueError(f"certificates are for a scheduler at tls://..., not at {address}")
    for option, file in files.items():
        if file and not os.path.exists(file):
            raise FileNotFoundError(f"{option} {file}: there is no such file")
    if not any(files.values()):
        if address.startswith("tls://") and not config.get("distributed.comm.tls.ca-file"):
            raise ValueError(f"a scheduler at {address} needs {', '.join(files)}")
        return None
    return Security(
        tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True
    )


def _workers(client: Client) -> dict[str, Any]:
    return client.scheduler_info(n_workers=-1).get("workers", {})  # nothing of a lost scheduler


def _has_dashboard() -> bool:
    try:
        import bokeh  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def _versions() -> tuple[str, str]:
    return version("thresher"), ".".join(platform.python_version_tuple()[:2])


def _wake_up() -> None:
    """Import what tasks will need, which takes seconds."""
    with suppress(ImportError):
        import_module("thresher.training")


def _check_versions(client: Client) -> None:
    """Every worker has this version of the package and of Python."""
    here = _versions()
    try:
        found = client.run(_versions, on_error="return")
    except _LOST as error:
        raise EngineError(f"the workers do not answer: {error}") from None
    for worker, there in found.items():
        if isinstance(there, Exception):
            raise EngineError(f"worker {worker} cannot import thresher: {there}")
        if tuple(there) != here:
            raise EngineError(
                f"worker {worker} has thresher {there[0]} on Python {there[1]}, here are "
                f"{here[0]} and {here[1]}: they must be the same"
            )
