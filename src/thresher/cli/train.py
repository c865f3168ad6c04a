"""``thresher train``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from rich.console import Group

from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.data import DataSet, open_data
from thresher.registry import LEARNERS
from thresher.training import Model, Progress, Training, run
from thresher.training.checkpoint import checkpoint_path
from thresher.training.session import by_tasks

__all__ = ["by_tasks", "column_types", "train"]

INTERRUPTED = 130
_STOPPING = "stopping at the next good place"


def train(
    paths: list[str],
    reading: dict[str, Any],
    params: dict[str, Any],
    plugins: list[Path],
    as_json: bool,
    quiet: bool,
    model: Path | None,
    **how: Any,
) -> None:
    training = Training(params, model=model, terms=load_plugins(plugins), **how)
    if model is not None:
        _check_writable(model)
    data = open_data(paths, **LEARNERS.reading(training.learner), **reading)
    quiet = quiet or as_json
    if not quiet:
        show.console.print(show.schema_table(data.schema), "")
    with show.Live(quiet) as live, Stopper() as stopper:

        def on_progress(event: Progress) -> None:
            live.progress(event)
            stopper.tuning = event.stage == "tuning"
            if event.stage == "reading" and stopper.asked():
                raise KeyboardInterrupt  # there is no model yet

        training.on_progress, training.stop = on_progress, stopper.asked
        training.on_workers = None if quiet else show.console.print
        trained = run(data, training)
    if model is not None:
        trained.training["options"] = {k: v for k, v in params.items() if _is_plain(v)}
        trained.save(model)
        if trained.training["status"] != "INTERRUPTED":
            checkpoint_path(model).unlink(missing_ok=True)
    _report(trained, data, model, as_json, quiet)
    if trained.training["status"] == "INTERRUPTED" or stopper.ever_asked:
        raise SystemExit(INTERRUPTED)


def _check_writable(path: Path) -> None:
    """Better now than after an hour of training."""
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"--model {path}: there is no folder {folder}")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"--model {path} cannot be written")


def _report(trained: Model, data: DataSet, path: Path | None, as_json: bool, quiet: bool) -> None:
    if as_json:
        show.print_json({**trained.training, "model": path and str(path)})
    if quiet:
        return
    held = trained.training["held_out"]
    parts: list[Any] = [show.story(trained.training, str(path) if path else None)]
    if held:
        parts += ["", show.metrics_table(held, "on held-out rows")]
    if trained.training.get("groups"):
        parts += ["", show.groups_table(trained.training["groups"])]
    if data.bad.count:
        parts += ["", str(data.bad)]
    if path is None:
        parts += ["", "the model was not saved: name a file with --model"]
    show.console.print(Group(*parts))


def column_types(words: list[str]) -> dict[str, str]:
    """``zip=category`` for each --type."""
    out = {}
    for word in words:
        name, equals, kind = word.rpartition("=")
        if not equals:
            raise ValueError(f"--type {word!r}: write COLUMN=KIND, for example zip=category")
        out[name] = kind
    return out


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


class Stopper:
    """The first Ctrl-C asks the training to stop at the next good place, the second ends it.

    One while settings are tuned ends the search only: the best so far is trained.
    """

    def __init__(self) -> None:
        self.tuning = False
        self._asked: set[bool] = set()  # while tuning, or not
        self._before: Any = None

    def __enter__(self) -> Stopper:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def asked(self) -> bool:
        return self.tuning in self._asked

    @property
    def ever_asked(self) -> bool:
        return bool(self._asked)

    def _handle(self, number: int, frame: Any) -> None:
        if self.asked():
            raise KeyboardInterrupt
        self._asked.add(self.tuning)
        what = "ending the search; the best so far is trained" if self.tuning else _STOPPING
        show.console.print(f"{what}; once more to stop at once")
