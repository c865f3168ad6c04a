"""What was tried: the history of a search and its parallel coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher.views.charts.shapes import Chart, Line, Parallel, Points
from thresher.views.report.section import Section, Table, number

__all__ = ["tried"]

_RISING = {"auc", "f1", "r2", "accuracy"}
_MOST_AXES, _MOST_LINES = 8, 300


def tried(training: dict[str, Any]) -> Section | None:
    """From ``training["trials"]``: dictionaries of params, score (or value) and seconds.

    ``training["tuning"]`` tells about a search on folds; trials of a race have no such story.
    """
    trials = [t for t in training.get("trials") or [] if isinstance(t, dict)]
    scored = [t for t in trials if math.isfinite(_score(t))]
    if not scored:
        return None
    tuning = training.get("tuning") or {}
    criterion = str(tuning.get("criterion") or training.get("criterion") or "score")
    direction = tuning.get("direction") or training.get("direction")
    rising = direction == "maximize" or criterion in _RISING
    scores = np.array([_score(t) for t in scored])
    better = scores if rising else -scores
    best = scored[int(np.argmax(better))]
    section = Section("tried", "What was tried")
    section.paragraphs = [_account(trials, scored, tuning, criterion, rising)]
    section.tables = [_best(scored, better, criterion)]
    if tuning.get("significance"):
        section.tables.append(_compared(tuning))
    section.charts = [_history(trials, scored, criterion, rising)]
    axes = _parallel(scored, scores, better, criterion)
    if axes is not None:
        section.charts.append(axes)
    section.paragraphs.append(f"The best score was that of {_settings(best)}.")
    if training.get("reason"):
        section.paragraphs.append(f"Chosen because {training['reason']}.")
    return section


def _account(
    trials: list[dict[str, Any]], scored: list[dict[str, Any]], tuning: dict[str, Any],
    criterion: str, rising: bool,
) -> str:  # fmt: skip
    """How many settings, how long, and what their scores are."""
    given_up = sum(_given_up(t) for t in trials)
    lost = len(trials) - len(scored) - given_up
    apart = [f"{given_up} more were given up after some folds"] if given_up else []
    apart += [f"{lost} more gave no result"] if lost else []
    told = f" ({', '.join(apart)})" if apart else ""
    seconds = sum(float(t.get("seconds") or 0.0) for t in trials)
    how = f" by {tuning['search']}" if tuning.get("search") else ""
    over = f", the mean over {tuning['folds']} folds" if tuning.get("folds") else ""
    return (
        f"{len(scored):,} settings{told} in {seconds:.1f} s{how}; {criterion}{over}, "
        f"{'higher' if rising else 'lower'} is better."
    )


def _score(trial: dict[str, Any]) -> float:
    value = trial.get("score", trial.get("value"))
    return float(value) if isinstance(value, int | float) else math.nan


def _given_up(trial: dict[str, Any]) -> bool:
    return trial.get("state") == "pruned" and bool(trial.get("folds"))


def _settings(trial: dict[str, Any]) -> str:
    pairs = (trial.get("params") or {}).items()
    return ", ".join(f"{name} = {number(value)}" for name, value in pairs) or "the defaults"


def _best(trials: list[dict[str, Any]], better: np.ndarray, criterion: str) -> Table:
    order = np.argsort(-better, kind="stable")[:5]
    rows = [
        [str(trials[i].get("number", i + 1)), number(_score(trials[i])), _settings(trials[i]),
         f"{float(trials[i].get('seconds') or 0.0):.2f}"]
        for i in order
    ]  # fmt: skip
    return Table(["trial", criterion, "settings", "seconds"], rows, "the five best")


def _compared(tuning: dict[str, Any]) -> Table:
    """The best setting that was found against others on the same folds."""
    names = {"default": "the defaults", "runner_up": "the second best"}
    rows = []
    for key, c in tuning["significance"].items():
        won, lost = int(c["wins"]), int(c["losses"])
        folds = f"{won} won, {lost} lost, {int(c['folds']) - won - lost} equal"
        chances = [number(float(c[p])) for p in ("p_corrected", "p_plain", "p_sign")]
        rows.append([names.get(key, key), number(abs(float(c["difference"]))), folds, *chances])
    head = ["against", "difference", "folds", "p, corrected t", "p, plain t", "p, sign test"]
    return Table(head, rows, "is the best setting found really better?")


def _history(
    trials: list[dict[str, Any]], scored: list[dict[str, Any]], criterion: str, rising: bool
) -> Chart:
    x = np.array([t.get("number", k) for k, t in enumerate(scored, start=1)])
    scores = np.array([_score(t) for t in scored])
    so_far = (np.maximum if rising else np.minimum).accumulate(scores)
    place = int(np.argmax(scores if rising else -scores))
    told = f"The best, {so_far[-1]:.4g}, was found in trial {x[place]}."
    layers: list[Any] = [Points(x, scores, "trial", 1)]
    early = [t for t in trials if _given_up(t)]
    if early:
        means = np.array([float(np.mean(t["folds"])) for t in early])
        layers.append(Points([t["number"] for t in early], means, "given up early", 2, 4.0))
    usual = [t for t in scored if t.get("phase") == "default"]
    if usual and x.size > 1:
        layers.append(Line(x[[0, -1]], np.repeat(_score(usual[0]), 2), "the defaults", None))
        told += " Trial 0 are the defaults."
    return Chart(
        "history", "Search history", f"Every trial, and the best so far. {told}",
        f"scores of {scores.size} trials. {told}",
        [*layers, Line(x, so_far, "best so far", 0, steps=True)],
        "trial", criterion, legend="bottom_right" if rising else "top_right",
    )  # fmt: skip


def _parallel(
    trials: list[dict[str, Any]], scores: np.ndarray, better: np.ndarray, criterion: str
) -> Chart | None:
    chosen = np.argsort(-better, kind="stable")[:_MOST_LINES]
    params = [trials[i].get("params") or {} for i in chosen]
    names = list(dict.fromkeys(name for p in params for name in p))
    axes = [(n, *_axis([p.get(n) for p in params])) for n in names]
    axes = [a for a in axes if np.ptp(a[1]) > 0.0][: _MOST_AXES - 1]
    if not axes or len(params) < 2:
        return None
    axes.append((criterion, *_axis(scores[chosen].tolist())))
    rank = np.argsort(np.argsort(better[chosen], kind="stable"), kind="stable")
    return Chart(
        "parallel", "Parallel coordinates",
        "One line for each setting, from its parameters to its score; the darker the better, the "
        "widest has the best score.",
        f"parallel coordinates of {', '.join(a[0] for a in axes)}",
        [Parallel([a[0] for a in axes], np.stack([a[1] for a in axes], axis=1),
                  [a[2] for a in axes], rank / max(rank.max(), 1))], wide=True,
    )  # fmt: skip


def _numeric(values: list[Any]) -> bool:
    return all(
        isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values
    )


def _axis(values: list[Any]) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """Places in 0 .. 1 and what is written there."""
    given = [v for v in values if v is not None]
    if len(given) < len(values) and given and _numeric(given):  # the others have the default
        places, ticks = _axis(given)
        out = np.zeros(len(values))
        out[[v is not None for v in values]] = 0.2 + 0.8 * places
        return out, [(0.0, "default"), *((0.2 + 0.8 * place, text) for place, text in ticks)]
    if not _numeric(values):
        words = sorted({str(v) for v in values})
        place = {w: k / max(len(words) - 1, 1) for k, w in enumerate(words)}
        return np.array([place[str(v)] for v in values]), [(p, w[:24]) for w, p in place.items()]
    array = np.array(values, dtype=np.float64)
    low, high = array.min(), array.max()
    if low == high:
        return np.zeros(array.size), [(0.0, f"{low:.3g}")]
    ends = (f"{low:.3g}", f"{high:.3g}")
    if low > 0.0 and high / low >= 30.0:
        array, low, high = np.log(array), np.log(low), np.log(high)
        middle = f"{math.exp((low + high) / 2):.3g}"
    else:
        middle = f"{(low + high) / 2:.3g}"
    return (array - low) / (high - low), [(0.0, ends[0]), (0.5, middle), (1.0, ends[1])]
