"""``thresher inspect``: what is in a data file or in a model file."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table

from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.cli.spelling import as_options
from thresher.data import open_data
from thresher.training import Model, load_model
from thresher.training.inspection import Inspection, inspected

__all__ = ["inspect"]

_SHOWN = 60
_QUANTILE = 1.959964  # of the normal distribution, for intervals of 95 %


def inspect(
    paths: list[str], target: str | None, reading: dict[str, Any], plugins: list[Path],
    as_json: bool, quiet: bool, cluster: Any = None,
) -> None:  # fmt: skip
    if len(paths) == 1 and _is_model(paths[0]):
        _model(Path(paths[0]), plugins, as_json)
        return
    data = open_data(paths, target=target, **reading)
    with show.Live(quiet or as_json) as live:
        found = inspected(data, lambda rows: live.count("reading", rows), cluster)
    if as_json:
        show.print_json({**found.to_json(), "schema": data.schema.to_json()})
        return
    parts: list[Any] = [_overview(found), "", _columns(found)]
    if found.class_counts is not None:
        parts += ["", _balance(found)]
    if data.bad.count:
        parts += ["", str(data.bad)]
    show.result.print(Group(*parts))


def _is_model(path: str) -> bool:
    """A zip that holds a document of ours (an .npz is a zip too)."""
    if not Path(path).is_file() or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "document.json" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def _model(path: Path, plugins: list[Path], as_json: bool) -> None:
    model = load_model(path, load_plugins(plugins))
    largest = _largest_weights(model) if model.has_weights else []
    intervals = _intervals(model) if largest else None
    groups = model.ranked_groups()
    if as_json:
        show.print_json(
            {
                "training": model.training,
                "schema": model.schema.to_json(),
                "classes": None if model.classes is None else model.classes.tolist(),
                "parameters": {k: str(v) for k, v in model.estimator.get_params(False).items()},
                "intercept": _intercept(model),
                "largest_weights": largest,
                **({"groups": groups} if groups else {}),
                **({} if intervals is None else {"intervals": intervals}),
            }
        )
        return
    parts: list[Any] = []
    if "rows" in model.training:
        parts += [show.story(model.training, str(path)), ""]
    if model.schema.is_table:
        parts += [show.schema_table(model.schema), ""]
    if groups:
        parts += [show.groups_table(groups), ""]
    if largest:
        parts += [show.titled("largest weights", _weights(model, largest, intervals)), ""]
    if model.training.get("held_out"):
        parts.append(show.metrics_table(model.training["held_out"], "on held-out rows"))
    show.result.print(Group(*parts))


def _intercept(model: Model) -> list[float] | None:
    found = getattr(model.estimator, "intercept_", None)
    return None if found is None else found.tolist()


def _largest_weights(model: Model) -> list[tuple[str, list[float]]]:
    """The features that matter most, in their own units, with a weight per output."""
    coef, _ = model.coefficients()
    first = model.schema.first_index
    names = model.schema.feature_names() or [f"feature {j + first}" for j in range(coef.shape[1])]
    return [(names[j], coef[:, j].tolist()) for j in _order(coef)]


def _order(coef: np.ndarray) -> np.ndarray:
    return np.argsort(-np.abs(coef).max(axis=0))[:20]


def _intervals(model: Model) -> dict[str, Any] | None:
    """Half-widths of 95 % intervals of the largest weights, a list each, if they are known."""
    deviations, (coef, _) = model.estimator.weight_deviations, model.coefficients()
    if deviations is None:
        return None
    half = _QUANTILE * deviations[:, _order(coef)]
    return {"level": 0.95, "half_widths": half.T.tolist()}


def _weights(
    model: Model, largest: list[tuple[str, list[float]]], intervals: dict[str, Any] | None
) -> Table:
    table = Table(box=None)
    table.add_column("feature")
    labels = ["weight"]
    if len(largest[0][1]) > 1 and model.classes is not None:
        labels = [str(c) for c in model.classes.tolist()][:8]
    for label in labels:
        table.add_column(label if intervals is None else f"{label} (95 %)", justify="right")
    for k, (name, values) in enumerate(largest):
        cells = [f"{w:.4g}" for w in values[: len(labels)]]
        if intervals is not None:
            half = intervals["half_widths"][k]
            cells = [f"{cell} ± {h:.2g}" for cell, h in zip(cells, half, strict=False)]
        table.add_row(name, *cells)
    return table


def _overview(found: Inspection) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column()
    table.add_row("rows", f"{found.rows:,}")
    table.add_row("features", f"{found.schema.n_features:,}")
    table.add_row("density", f"{found.density:.2%} of the values are not zero")
    table.add_row("layout", found.schema.layout)
    if found.schema.target is not None:
        target = found.schema.target
        table.add_row("target", f"{target.name}: {show.describe_target(target)}")
    return table


def _columns(found: Inspection) -> Table:
    table = Table(box=None)
    for head in ("column", "taken as"):
        table.add_column(head)
    for head in ("smallest", "mean", "largest"):
        table.add_column(head, justify="right")
    lines = found.lines()
    for name, kind, *numbers in lines[:_SHOWN]:
        table.add_row(name, as_options(kind), *("" if v is None else f"{v:.4g}" for v in numbers))
    if len(lines) > _SHOWN:
        table.add_row("...", f"{len(lines) - _SHOWN} more")
    return table


def _balance(found: Inspection) -> Group:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    assert found.class_counts is not None
    assert found.schema.target is not None
    for label, count in list(zip(found.schema.target.classes, found.class_counts, strict=True))[
        :30
    ]:
        table.add_row(str(label), f"{count:,}", f"{count / max(found.rows, 1):.2%}")
    return show.titled("class balance", table)
