"""What needs no drawing: the summary, the data, the winner, time and memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.functions.base import bytes_of
from thresher.training import Model
from thresher.views.report.evidence import Evidence
from thresher.views.report.performance import headline
from thresher.views.report.section import Section, Table, number

__all__ = ["costs", "data", "summary", "winner"]

_SHOWN = 40


def summary(found: Evidence) -> Section:
    """What somebody reads who reads nothing else."""
    model, training = found.model, found.model.training
    target = model.schema.target
    what = f"predicts {target.name!r}" if target is not None else "predicts"
    if not model.is_supervised:
        into = f"puts rows into {model.function.outputs:,} clusters"
        what = into if found.has_clusters else "tells rows that are unlike the others"
    where = f" (on {found.measured_on})" if found.metrics.get("rows") else ""
    section = Section("summary", "Summary")
    section.paragraphs = [f"The model {what}: {headline(found.metrics)}{where}."]
    if found.on_training_rows:
        section.paragraphs.append(found.caution)
    base = _baseline(found)
    if base:
        section.paragraphs.append(base)
    status = training.get("advice")
    if status:
        section.paragraphs.append(f"The training {_ended(training)}: {status}.")
    return section


def _ended(training: dict[str, Any]) -> str:
    return "did not end well" if training.get("status") in ("DIVERGED", "STALLED") else "ended"


def _baseline(found: Evidence) -> str:
    """What always saying the same would give."""
    confusion = found.metrics.get("confusion")
    if not confusion:
        return ""
    truth = np.array(confusion, dtype=np.float64).sum(axis=1)
    label = found.metrics["classes"][int(truth.argmax())]
    wrong = 1.0 - truth.max() / max(truth.sum(), 1e-300)
    return f"Always answering {str(label)!r} would be wrong for {wrong:.2%}."


def data(found: Evidence) -> Section:
    """The schema in short."""
    schema, training = found.model.schema, found.model.training
    section = Section("data", "The data")
    learned = training.get("rows")
    lines = []
    if learned is not None:
        how = "in memory" if training.get("in_memory") else "in a stream"
        lines.append(
            f"Learned from {learned:,} rows of {training.get('data')} {how}, "
            f"{training.get('held_out_rows', 0):,} held out"
            + (
                f", {training['bad_rows']:,} bad ones left out."
                if training.get("bad_rows")
                else "."
            )
        )
    if found.name is not None:
        bad = f", {found.bad_rows:,} bad ones left out" if found.bad_rows else ""
        lines.append(f"This report read {found.rows:,} rows of {found.name}{bad}.")
    kind = "table" if schema.is_table else "matrix"
    lines.append(f"A {kind} of {schema.n_features:,} features, {schema.layout} rows.")
    section.paragraphs = lines
    if schema.columns:
        section.tables.append(_columns(found.model))
    if found.metrics.get("classes"):
        section.tables.append(_balance(found))
    return section


def _columns(model: Model) -> Table:
    schema = model.schema
    rows = []
    for column in schema.columns[:_SHOWN]:
        role = column.describe()
        if schema.target is not None and column.name == schema.target.name:
            role = f"target ({schema.target.task})"
        elif column.name == schema.weight:
            role = "row weight"
        rows.append([column.name, role, number(column.width)])
    if len(schema.columns) > _SHOWN:
        rows.append(["…", f"{len(schema.columns) - _SHOWN:,} more columns", ""])
    return Table(["column", "taken as", "features"], rows, "columns")


def _balance(found: Evidence) -> Table:
    table = np.array(found.metrics["confusion"], dtype=np.float64)
    truth, guess = table.sum(axis=1), table.sum(axis=0)
    total = max(table.sum(), 1e-300)
    rows = [
        [str(c), f"{t:,.0f}", f"{t / total:.1%}", f"{g:,.0f}"]
        for c, t, g in zip(found.metrics["classes"], truth, guess, strict=True)
    ]
    return Table(["class", "rows", "share", "predicted"], rows[:_SHOWN], "classes")


def winner(found: Evidence) -> Section:
    """The learner with its settings."""
    estimator = found.model.estimator
    section = Section(
        "winner", "The model", [f"{found.model.described()}: {found.model.function.describe()}."]
    )
    default = type(estimator)().get_params(deep=False)
    given, left = [], []
    for name, value in estimator.get_params(deep=False).items():
        if name in ("callbacks", "verbose"):
            continue
        if _same(value, default.get(name)):
            left.append(f"{name} = {_short(value)}")
        else:
            given.append([name, _short(value)])
    section.paragraphs.append(f"Left at their defaults: {', '.join(left)}.")
    if given:
        section.tables = [Table(["parameter", "value"], given, "parameters that were set")]
    return section


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and str(a) == str(b)


def _short(value: Any) -> str:
    text = "none" if value is None else number(value)
    return text if len(text) <= 80 else text[:79] + "…"


def costs(found: Evidence) -> Section:
    """Time and memory of training and prediction."""
    model, training = found.model, found.model.training
    rows = []
    if training.get("seconds") is not None:
        seconds, count = float(training["seconds"]), int(training.get("rows", 0))
        passes = int(training.get("passes", 1))
        rows.append(["training", f"{seconds:.2f} s, {passes} passes"])
        rows.append(
            ["rows learned from", f"{count:,} ({count / max(seconds, 1e-9):,.0f} per second)"]
        )
    trials = training.get("trials") or []
    if trials:
        spent = sum(float(t.get("seconds") or 0.0) for t in trials)
        rows.append(["search", f"{spent:.2f} s for {len(trials):,} settings"])
    if training.get("peak_memory"):
        rows.append(["most memory while training", _bytes(float(training["peak_memory"]))])
    rows.append(["model in memory", _bytes(float(bytes_of(model.function)))])
    rows.append(["a row in memory", _bytes(model.schema.row_bytes)])
    if found.seconds > 0.0 and found.rows:
        speed = found.rows / found.seconds
        rows.append(
            ["prediction, with reading", f"{found.seconds:.2f} s ({speed:,.0f} rows per second)"]
        )
    peak = _peak()
    if peak is not None:
        rows.append(["most memory of this report", _bytes(peak)])
    return Section("costs", "Time and memory", tables=[Table(["", ""], rows, "time and memory")])


def _bytes(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1024.0:
            return f"{size:,.0f} {unit}"
        size /= 1024.0
    return f"{size:,.1f} GB"


def _peak() -> float | None:
    """Largest resident memory of this process, where the system says it."""
    import sys

    try:
        import resource
    except ImportError:
        return None
    used = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return used if sys.platform == "darwin" else used * 1024.0
