"""Races beside peers: who is searched how, results that are kept, and who won how often."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.model_selection import ParameterSampler, cross_val_score

from benchmarks import data

Found = dict[str, dict[str, float]]


def raced(
    names: Iterable[str], errors: Callable[[str], dict[str, float]], kept: Path | None
) -> Found:
    """The errors of all sets by name; ``kept``: a file with the results so far, to go on with."""
    warnings.simplefilter("ignore")
    found: Found = {}
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
    for name in names:
        if name in found:
            continue
        found[name] = errors(name)
        shown = "  ".join(f"{key} {value:.2f}" for key, value in found[name].items())
        print(f"{name}: {shown}", flush=True)
        if kept is not None:
            kept.write_text(json.dumps(found))
    return found


def tuned(
    model: Any, space: dict[str, Any], split: data.Split, folds: Any, scoring: str, budget: float
) -> tuple[Any, float]:
    """The model with the best settings that were tried in time, its defaults first, and their
    score."""
    start, best, settings = time.perf_counter(), -np.inf, {}
    for drawn in [{}, *ParameterSampler(space, 1000, random_state=0)]:
        tried = clone(model).set_params(**drawn)
        scores = cross_val_score(tried, split.X, split.y, cv=folds, n_jobs=2, scoring=scoring)
        if np.mean(scores) > best:
            best, settings = float(np.mean(scores)), drawn
        if time.perf_counter() - start > budget:
            break
    return clone(model).set_params(**settings).fit(split.X, split.y), best


def against(title: str, found: list[dict[str, float]], floor: float = 0.0) -> str:
    """Ours beside the peer of that title; ``floor`` is added to both sides of a ratio."""
    ours, theirs = (np.array([one[t] for one in found]) for t in ("Thresher", title))
    wins, losses = int(np.sum(ours < theirs)), int(np.sum(ours > theirs))
    ratio = float(np.exp(np.mean(np.log((ours + floor) / (theirs + floor)))))
    p = binomtest(wins, max(wins + losses, 1)).pvalue
    return (
        f"Against {title}: {wins} won, {losses} lost of {len(found)} (sign test p = {p:.2g}), "
        f"ratio of errors {ratio:.3f}, worst loss {np.max(ours - theirs):.2f} points."
    )
