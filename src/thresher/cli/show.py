"""What people see: progress on standard error, results on standard output."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from thresher.cli.spelling import as_options
from thresher.registry import TASKS

__all__ = [
    "Live",
    "console",
    "groups_table",
    "metrics_table",
    "print_json",
    "result",
    "schema_table",
    "story",
    "warn",
]

console = Console(stderr=True, highlight=False)
result = Console(highlight=False)
_GROUPS = 40  # that are listed
_QUIET_EVERY = 10.0  # seconds between lines where there is no terminal


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, default=_plain, allow_nan=False) + "\n")


def warn(message: str) -> None:
    console.print(
        f"thresher: warning: {escape(as_options(message))}", style="yellow", soft_wrap=True
    )


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


class Live:
    """One line that is rewritten in a terminal, and a line now and then elsewhere."""

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self.started = self._last = time.monotonic()
        self._rate_time, self._rate_rows, self._rate = self.started, 0, 0.0
        self._status: Any = None
        self._waiting: threading.Timer | None = None

    def __enter__(self) -> Live:
        if not self.quiet and console.is_terminal:
            self._status = console.status("starting (compiles once on a new machine)")
            self._status.start()
        elif not self.quiet:  # whoever reads a log wonders why nothing happens
            self._waiting = threading.Timer(
                2.0, console.print, ["compiling, once on a new machine"]
            )
            self._waiting.daemon = True
            self._waiting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_waiting()
        if self._status is not None:
            self._status.stop()

    def progress(self, event: Any) -> None:
        """A training's progress event."""
        if not self.quiet:
            self._show(training_line(event, self._speed(event.rows)))

    def count(self, what: str, rows: int) -> None:
        if not self.quiet:
            self._show(f"{what}  {rows:,} rows  {self._speed(rows):,.0f} rows/s")

    def say(self, line: str) -> None:
        if not self.quiet:
            self._show(line)

    def _speed(self, rows: int) -> float:
        now = time.monotonic()
        if rows < self._rate_rows:
            self._rate_time, self._rate_rows = now, 0
        if now - self._rate_time > 0.5:
            self._rate = (rows - self._rate_rows) / (now - self._rate_time)
            self._rate_time, self._rate_rows = now, rows
        return self._rate or rows / max(now - self.started, 1e-9)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _show(self, line: str) -> None:
        self._stop_waiting()
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._last >= _QUIET_EVERY:
            self._last = time.monotonic()
            console.print(line, soft_wrap=True)


def training_line(event: Any, rate: float) -> str:
    if event.stage in ("tuning", "tuned"):
        return tuning_line(event)
    if event.stage == "reading":
        return f"reading  {event.rows:,} rows  {rate:,.0f} rows/s"
    parts = [event.stage, f"{event.rows:,} rows", f"{rate:,.0f} rows/s"]
    if event.planned:
        parts.append(f"pass {min(event.passes + 1, event.planned)}/{event.planned}")
    if "validation" in event.metrics:
        parts.append(f"best validation loss {event.metrics['validation']:.4g}")
    for name, label in (
        ("error", "held-out error"), ("rmse", "held-out RMSE"), ("silhouette", "silhouette"),
    ):  # fmt: skip
        if name in event.metrics:
            value = event.metrics[name]
            parts.append(f"{label} {value:.2%}" if name == "error" else f"{label} {value:.4g}")
    if event.nonzeros:
        parts.append(f"{event.nonzeros:,} non-zeros")
    if event.total and rate > 0 and event.total > event.rows:
        parts.append(f"{duration((event.total - event.rows) / rate)} left")
    return "  ".join(parts)


def tuning_line(event: Any) -> str:
    parts = [event.stage, f"trial {event.passes}/{event.planned}"]
    if event.metrics["best"] is not None:
        parts.append(f"best {event.metrics['criterion']} so far {event.metrics['best']:.4g}")
    return "  ".join([*parts, duration(event.seconds)])


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def titled(title: str, table: Table) -> Group:
    """A table's own title would be wrapped to the table's width."""
    return Group(f"[italic]{title}[/]", table)


def schema_table(schema: Any) -> Group:
    """What each column was taken for."""
    table = Table(box=None)
    table.add_column("column")
    table.add_column("taken as")
    target = schema.target
    shown = schema.columns[:60]
    for column in shown:
        role = escape(as_options(column.describe()))
        if target is not None and column.name == target.name:
            role = f"[bold]target[/], {describe_target(target)}"
        elif column.name == schema.weight:
            role = "row weight"
        table.add_row(escape(column.name), role)
    if len(schema.columns) > len(shown):
        table.add_row("...", f"{len(schema.columns) - len(shown)} more columns")
    return titled(f"{schema.n_features:,} features", table)


def describe_target(target: Any) -> str:
    if not TASKS[target.task].has_classes:
        return "a number (regression)"
    if target.outlier is not None:
        known = ", ".join(str(c) for c in target.classes if c != target.outlier)
        return escape(f"classes {known}; {target.outlier} for rows of none")
    listed = ", ".join(map(str, target.classes[:6])) + (", ..." if len(target.classes) > 6 else "")
    none = "" if target.irrelevant is None else f"; {target.irrelevant} is none"
    return escape(f"{len(target.classes)} classes: {listed}{none}")


_SHARES = ("error", "class_error", "false_alarms", "detection", "outliers")


def metrics_table(metrics: dict[str, Any], title: str) -> Group:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    names = {
        "rows": "rows", "error": "error", "class_error": "error without rejections",
        "false_alarms": "false alarms", "detection": "outliers detected", "auc": "AUC",
        "log_loss": "log loss", "f1": "F1",
        "rmse": "RMSE", "mae": "mean absolute error", "r2": "R2", "silhouette": "silhouette",
        "distance": "mean squared distance", "vi": "variation of information", "rand": "Rand index",
        "ari": "adjusted Rand index", "outliers": "unlike the others",
    }  # fmt: skip
    for key, label in names.items():
        value = metrics.get(key)
        if value is not None:
            table.add_row(label, _number(key, value))
    return titled(title, table)


def _number(key: str, value: Any) -> str:
    if key == "rows":
        return f"{value:,}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return f"{value:.2%}" if key in _SHARES else f"{value:.4g}"


def confusion_table(metrics: dict[str, Any]) -> Group | None:
    """Rows are the truth, columns the predictions."""
    classes = metrics.get("classes")
    if not classes or len(classes) > 20:
        return None
    table = Table(box=None)
    table.add_column()
    for label in classes:
        table.add_column(str(label), justify="right")
    for label, counts in zip(classes, metrics["confusion"], strict=True):
        table.add_row(str(label), *(f"{count:,.0f}" for count in counts))
    return titled("truth in rows, prediction in columns", table)


def groups_table(groups: list[dict[str, Any]]) -> Group:
    """Which columns or groups matter, by the norms of their weights, and which were dropped."""
    table = Table(box=None)
    table.add_column("group")
    for head in ("norm of the weights", "features", "with a weight"):
        table.add_column(head, justify="right")
    kept = [group for group in groups if group["norm"] > 0.0]
    for group in kept[:_GROUPS]:
        numbers = (f"{group['norm']:.4g}", f"{group['features']:,}", f"{group['used']:,}")
        table.add_row(escape(group["name"]), *numbers)
    if len(kept) > _GROUPS:
        table.add_row("...", f"{len(kept) - _GROUPS} more", "", "")
    dropped = [group["name"] for group in groups[len(kept) :]]
    parts: list[Any] = [titled(f"{len(kept):,} of {len(groups):,} groups are used", table)]
    if dropped:
        listed = ", ".join(dropped[:_GROUPS]) + (", ..." if len(dropped) > _GROUPS else "")
        parts.append(f"not used: {escape(listed)}")
    return Group(*parts)


def story(training: dict[str, Any], path: str | None) -> Table:
    """The report at the end of a training."""
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column()
    how = "in memory" if training["in_memory"] else "in a stream"
    blank = training.get("unlabelled_rows")
    none = f" ({blank:,} without a class)" if blank else ""
    rows = f"{training['rows']:,} learned from {how}{none}, {training['held_out_rows']:,} held out"
    if training["bad_rows"]:
        rows += f", {training['bad_rows']:,} bad ones left out"
    table.add_row("rows", rows)
    table.add_row("learner", escape(training["described"]))
    if training.get("reason"):
        tried = "" if training.get("tuning") else f" ({len(training['trials'])} fits tried)"
        table.add_row("why", escape(training["reason"]) + tried)
    table.add_row("features", f"{training['features']:,}, {training['size']}")
    table.add_row("passes", f"{training['passes']}: {training['advice']}")
    table.add_row("time", f"{training['seconds']:.1f} s")
    if path is not None:
        table.add_row("model", path)
    return table
