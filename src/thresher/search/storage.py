"""Studies on disk: opening them with clear words when that fails, and taking up lost trials.

A trial that was running when its process was killed stays "running" in the database.  Every trial
carries the process that owns it; once that process is gone, the next run takes the trial up with
the parameters it has, so that an interrupted study goes on as if nothing had happened.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import optuna
from optuna.exceptions import DuplicatedStudyError, OptunaError, StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

__all__ = ["STORAGE_ERRORS", "StudyError", "claim", "lost_trials", "open_study", "quiet", "release"]

STORAGE_ERRORS = (StorageInternalError, SQLAlchemyError)
_UNCLAIMED = 10.0  # seconds after which a trial that nobody claims is lost
_PATIENCE = 30.0  # seconds to wait for a database that another process is writing to


class StudyError(RuntimeError):
    """A study could not be opened or does not belong to this search.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from thresher.search import Float, Space, TunedRegressor
    >>> model = TunedRegressor(
    ...     Ridge(), space=Space(alpha=Float(0.1, 1.0)), cv=2, storage="no/such/folder/trials.db"
    ... )
    >>> model.fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
    Traceback (most recent call last):
        ...
    thresher.search.storage.StudyError: ...
    """


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Optuna's log lines off the screen: we have our own."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


#: where the studies of this process are kept
_BACKENDS: WeakKeyDictionary[optuna.Study, BaseStorage] = WeakKeyDictionary()


def open_study(
    storage: Any,
    name: str,
    *,
    maximise: bool,
    sampler: Any,
    pruner: Any,
    signature: dict[str, Any],
) -> optuna.Study:
    """Create or reopen a study; ``signature`` must agree with that of an existing one.

    ``storage`` is None (memory), a path or URL of a database, or an Optuna storage.
    """
    where = storage if isinstance(storage, str | os.PathLike) else "the storage"
    try:
        backend = _backend(storage)
        study = optuna.create_study(
            storage=backend,
            study_name=name,
            sampler=sampler,
            pruner=pruner,
            direction="maximize" if maximise else "minimize",
            load_if_exists=True,
        )
        known = study.user_attrs.get("thresher")
        if known is None and not study.get_trials(deepcopy=False):
            study.set_user_attr("thresher", signature)
            known = signature
    except (*STORAGE_ERRORS, OSError, DuplicatedStudyError, OptunaError) as error:
        raise StudyError(_explained(where, error)) from error
    for key, wanted in signature.items():
        if (known or {}).get(key) != wanted:
            raise StudyError(
                f"study {name!r} in {where} was made with {key}={(known or {}).get(key)!r}, now it "
                f"is {wanted!r}: keep this one in another file or under another name"
            )
    _BACKENDS[study] = backend
    return study


def _backend(storage: Any) -> BaseStorage:
    if storage is None:
        return InMemoryStorage()
    if isinstance(storage, BaseStorage):
        return storage
    text = os.fspath(storage)
    url = text if "://" in text else f"sqlite:///{Path(text).expanduser()}"
    options = {"connect_args": {"timeout": _PATIENCE}} if url.startswith("sqlite") else {}
    return RDBStorage(url, engine_kwargs=options)


def _explained(where: Any, error: Exception) -> str:
    text = " ".join(str(part) for part in (error, error.__cause__ or ""))
    if "locked" in text:
        return (
            f"the study database {where} stayed locked for {_PATIENCE:g} s: another program is "
            "writing to it; wait for it, or give this search a file of its own"
        )
    if "not a database" in text or "malformed" in text:
        return (
            f"{where} is not a readable study database (damaged, or another kind of file): move it "
            "away and start afresh, or restore a copy"
        )
    if "no such table" in text or "no such column" in text:
        return f"{where} is a database, but not one of Optuna's studies: choose another file"
    if "unable to open" in text:
        return f"the study database {where} cannot be opened: check the folder and its permissions"
    return f"the study in {where} cannot be opened: {error}"


# ------------------------------------------------------------ who runs what


def _started(pid: int) -> str:
    """When a process started, to tell it from a later one with the same number; "" if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def claim(trial: Trial, batch: int) -> None:
    """Say who runs a trial, and which trial was the first of its batch."""
    trial.set_user_attr("run", {"owner": _owner(), "batch": batch})


def release(trial: Trial) -> None:
    """Leave a trial to whoever resumes the study."""
    trial.set_user_attr("run", {**trial.user_attrs.get("run", {}), "owner": ""})


def lost_trials(study: optuna.Study) -> list[Trial]:
    """Running trials whose owner is gone, in order, ready to be run again."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    backend, name = _BACKENDS[study], study.study_name
    number = backend.get_trial_id_from_study_id_trial_number
    return [
        Trial(study, number(backend.get_study_id_from_name(name), t.number))
        for t in running
        if _lost(t)
    ]


def _lost(trial: FrozenTrial) -> bool:
    if "run" in trial.user_attrs:
        return _gone(trial.user_attrs["run"]["owner"])
    # Asked for but not yet claimed, which takes milliseconds.
    started = trial.datetime_start
    return started is not None and (datetime.now() - started).total_seconds() > _UNCLAIMED


def _gone(owner: str) -> bool:
    if not owner:
        return True
    host, pid, started = owner.split(":")
    if host != socket.gethostname() or os.name == "nt":  # cannot know: leave it alone
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(started) and _started(int(pid)) != started
