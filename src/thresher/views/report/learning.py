"""What the model has learned, and from how much: weights, learning curve, sparsity path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thresher.registry import TASKS
from thresher.training import Model
from thresher.views.charts.shapes import Bars, Chart, Line, Points
from thresher.views.report.evidence import Evidence
from thresher.views.report.features import mean_and_spread, names_of
from thresher.views.report.refits import (
    Curves,
    Fits,
    learning_curve,
    sparsity_path,
    weights_over_folds,
)
from thresher.views.report.section import Section, Table, number

__all__ = ["learning", "weights"]

_SHOWN = 20
_SHOWN_GROUPS = 60


def weights(found: Evidence, fits: Fits | None) -> Section | None:
    """The features that move the score most, with their sign and how steady they are."""
    model = found.model
    if not model.has_weights:
        return None
    coef, _ = model.coefficients()
    what = "feature" if model.is_linear else "weighted term"
    spread = None
    if found.sample is not None and found.sample.size:
        spread = mean_and_spread(model.weighted(found.matrix()[0]))[1]
    if spread is None or not (spread > 0.0).any():
        spread = np.ones(coef.shape[1])
        unit = f"weight in the {what}'s own units"
    else:
        unit = f"change of the score per standard deviation of the {what}"
    effect = coef * spread
    flat = np.argsort(-np.abs(effect), axis=None, kind="stable")[:_SHOWN]
    outputs, places = np.unravel_index(flat, effect.shape)
    used = np.abs(effect[outputs, places]) > 0.0
    outputs, places = outputs[used], places[used]
    if not places.size:
        return Section("weights", "What matters", ["All weights are zero: the model is empty."])
    names = _named(model, outputs, places)
    values = effect[outputs, places]
    folds = None if fits is None else weights_over_folds(fits, places)
    section = Section("weights", "What matters")
    section.paragraphs = [
        f"{np.count_nonzero(coef):,} of {coef.size:,} weights are not zero. Weights say what the "
        "model uses, not what causes what; features that move together share their weight."
    ]
    section.charts = [_bars(model, names, values, _ranges(folds, outputs, spread[places]), unit)]
    section.tables = [_table(names, coef[outputs, places], values, folds, outputs, spread[places])]
    _add_groups(section, model)
    return section


def _add_groups(section: Section, model: Model) -> None:
    """Which columns, or other groups of features, were kept."""
    groups = model.ranked_groups()
    if not groups:
        return
    kept = [group for group in groups if group["norm"] > 0.0]
    section.paragraphs.append(
        f"{len(kept):,} of {len(groups):,} groups of features are used; the others were dropped "
        "as a whole."
    )
    rows = [
        [g["name"], number(g["norm"]), number(g["features"]), number(g["used"])]
        for g in groups[:_SHOWN_GROUPS]
    ]
    head = ["group", "norm of the weights", "features", "with a weight"]
    section.tables.insert(0, Table(head, rows, "groups, the most important first"))


def _named(model: Model, outputs: np.ndarray, places: np.ndarray) -> list[str]:
    names, classes = names_of(model, places), model.classes
    if classes is None or classes.size == 2:
        return names
    return [f"{name} → {classes[c]}" for name, c in zip(names, outputs, strict=True)]


def _effects(folds: np.ndarray, outputs: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """(folds, shown): each fold's weight of what is shown."""
    rows = np.minimum(outputs, folds.shape[1] - 1)
    return folds[:, rows, np.arange(rows.size)] * spread


def _ranges(
    folds: np.ndarray | None, outputs: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    if folds is None:
        return None, None
    effects = _effects(folds, outputs, spread)
    return effects.min(axis=0), effects.max(axis=0)


def _bars(
    model: Model, names: list[str], values: np.ndarray,
    ends: tuple[np.ndarray | None, np.ndarray | None], unit: str,
) -> Chart:  # fmt: skip
    towards = "the value"
    if model.classes is not None:
        towards = f"the score of {model.classes[1]}" if model.classes.size == 2 else "the score"
    told = "" if ends[0] is None else (
        " The black ranges are the weights learned with each fifth of the given rows left out: one "
        "that crosses zero is not to be trusted."
    )  # fmt: skip
    first = ", ".join(names[:3])
    return Chart(
        "weights", "Most important weights",
        f"{unit[0].upper()}{unit[1:]}, largest first.{told}",
        f"bars of the {len(names)} most important weights; the first are {first}",
        [Bars(names, values, *ends, f"lowers {towards}", f"raises {towards}")], unit, wide=True,
        legend="bottom_right" if values[-1] >= 0 else "bottom_left",
    )  # fmt: skip


def _table(
    names: list[str], own: np.ndarray, values: np.ndarray, folds: np.ndarray | None,
    outputs: np.ndarray, spread: np.ndarray,
) -> Table:  # fmt: skip
    head = ["feature", "sign", "weight in its own units", "importance"]
    rows = [
        [name, "+" if v >= 0 else "\u2212", f"{w:.4g}", f"{abs(v):.4g}"]
        for name, w, v in zip(names, own, values, strict=True)
    ]
    if folds is not None:
        head += ["same sign in"]
        effects = _effects(folds, outputs, spread)
        same = (np.sign(effects) == np.sign(values)).sum(axis=0)
        rows = [[*row, f"{n} of {len(folds)} folds"] for row, n in zip(rows, same, strict=True)]
    return Table(head, rows, "most important weights")


def learning(found: Evidence, fits_for: Callable[[], Fits] | None) -> Section | None:
    """Would more rows help, and could fewer weights do?"""
    section = Section("learning", "How it was learned")
    curve = _from_history(found) or (_refitted(learning_curve, fits_for, _grown))
    path = _refitted(sparsity_path, fits_for, _sparse) if found.model.has_weights else None
    if path is not None and path.layers:
        path = _with_own_point(found, path)
    section.charts = [c for c in (curve, path) if c is not None]
    return section if section.charts else None


def _refitted(
    work: Callable[[Fits], Curves | None], fits_for: Callable[[], Fits] | None,
    draw: Callable[[Curves, str], Chart],
) -> Chart | None:  # fmt: skip
    if fits_for is None:
        return None
    fits = fits_for()
    found = work(fits)
    return None if found is None else draw(found, _unit(fits.classifies))


def _unit(classifies: bool) -> str:
    return "error" if classifies else "root mean squared error"


def _from_history(found: Evidence) -> Chart | None:
    """A stream has measured itself along the way."""
    history = [h for h in found.model.training.get("history") or [] if "rows" in h]
    key = TASKS[found.model.estimator.task].measure
    points = [(h["rows"], h[key]) for h in history if isinstance(h.get(key), float)]
    if len(points) < 2:
        return None
    x, y = np.array(points, dtype=np.float64).T
    return Chart(
        "learning", "Error against rows seen",
        f"On held-out rows, after each of {len(x)} passes over the data.",
        f"held-out error falls from {y[0]:.4g} to {y[-1]:.4g}",
        [Line(x, y, "held-out rows", 0, markers=True)], "rows seen", _unit(key == "error"),
    )  # fmt: skip


def _grown(curve: Curves, unit: str) -> Chart:
    gain = curve.unseen[-2] - curve.unseen[-1]
    told = "More rows would still help." if gain > 0.02 * curve.unseen[-2] else (
        "The curve is flat: more rows of this kind would help little."
    )  # fmt: skip
    return Chart(
        "learning", "Error against rows seen",
        f"The same learner, fitted again on growing parts of the given rows. {told}",
        f"error on unseen rows goes from {curve.unseen[0]:.4g} to {curve.unseen[-1]:.4g}. {told}",
        [Line(curve.x, curve.unseen, "unseen rows", 0, markers=True),
         Line(curve.x, curve.seen, "rows learned from", 1, markers=True)],
        "rows learned from", unit, log_x=True,
    )  # fmt: skip


def _sparse(curve: Curves, unit: str) -> Chart:
    best = int(np.argmin(curve.unseen))
    told = f"Best of these: {curve.x[best]:,.0f} non-zero weights, {unit} {curve.unseen[best]:.4g}."
    order = np.argsort(curve.x, kind="stable")
    x = np.maximum(np.array(curve.x)[order], 1.0)
    return Chart(
        "sparsity", "Error against non-zero weights",
        f"The same loss with an l1 penalty of falling strength, on the given rows. {told}",
        f"error against the number of non-zero weights. {told}",
        [Line(x, np.array(curve.unseen)[order], "unseen rows", 0, markers=True),
         Line(x, np.array(curve.seen)[order], "rows learned from", 1, markers=True)],
        "non-zero weights", unit, log_x=float(x[-1]) > 50.0,
    )  # fmt: skip


def _with_own_point(found: Evidence, path: Chart) -> Chart:
    """The model itself, measured on the same data, as a star."""
    from dataclasses import replace

    own = found.metrics.get("error", found.metrics.get("rmse"))
    count = max(1, int(np.count_nonzero(found.model.coefficients()[0])))
    if own is None:
        return path
    mark = Points([count], [own], "this model", 6, size=13)
    return replace(path, layers=[*path.layers, mark])
