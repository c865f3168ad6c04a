"""What is known about trials, independent of the storage."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from thresher.search.pruning import fold_scores
from thresher.search.space import Space

__all__ = ["Record", "SearchFailed", "TrialEvent", "failure_report"]


class SearchFailed(ValueError):
    """No trial gave a result; the message lists the reasons.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from thresher.search import Float, Space, TunedRegressor
    >>> space = Space(alpha=Float(0.1, 1.0), feasible=lambda params: False)
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> TunedRegressor(Ridge(), space=space, n_trials=2, cv=2).fit(X, y)
    Traceback (most recent call last):
        ...
    thresher.search.records.SearchFailed: the space has no feasible point among ...
    """


@dataclass
class Record:
    """One trial: its parameters, scores and fate."""

    number: int
    params: dict[str, Any]
    stored: dict[str, Any]  # as the study stores them
    value: float = math.nan
    folds: list[float] = field(default_factory=list)
    state: str = "running"  # complete, pruned, failed, infeasible or stopped
    seconds: float = 0.0
    reason: str = ""
    phase: str = ""

    @classmethod
    def of(cls, trial: FrozenTrial, space: Space, context: dict[str, Any]) -> Record:
        """From a finished trial of a study."""
        attrs = {**trial.user_attrs, **trial.user_attrs.get("result", {})}
        state = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}.get(
            trial.state, "failed"
        )
        reason = attrs.get("reason", "")
        if state == "failed" and reason.startswith("ruled out"):
            state = "infeasible"
        try:
            params = space.suggest(_Stored(trial), context)
        except (KeyError, ValueError):  # another space since
            params = dict(trial.params)
        folds = attrs.get("folds") or list(fold_scores(trial.intermediate_values))
        value = trial.value if trial.value is not None else math.nan
        return cls(trial.number, params, dict(trial.params), value, folds, state,
                   attrs.get("seconds", 0.0), reason, attrs.get("phase", ""))  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        names = ("number", "params", "value", "folds", "state", "seconds", "reason", "phase")
        return {name: getattr(self, name) for name in names}


class _Stored:
    """A finished trial that answers suggestions with what it has."""

    def __init__(self, trial: FrozenTrial):
        self.params = trial.params

    def suggest_float(self, name: str, low: float, high: float, log: bool = False) -> float:
        return self.params[name]

    def suggest_int(self, name: str, low: int, high: int, log: bool = False) -> int:
        return self.params[name]

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        return self.params[name]


class TrialEvent(NamedTuple):
    """What callbacks get after each trial; returning True ends the search.

    Parameters
    ----------
    trial : record of the trial, with number, params, value, folds, state, seconds and reason
    best : record of the best trial so far, or None
    planned : int
        Number of trials in all.
    elapsed : float
        Seconds since the search began.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from thresher.search import Float, Space, TunedRegressor
    >>> space = Space(alpha=Float(0.1, 1.0))
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> def watch(event):
    ...     print(event.trial.number, "of", event.planned, event.trial.state)
    >>> model = TunedRegressor(Ridge(), space=space, n_trials=2, cv=2, callbacks=[watch])
    >>> model = model.fit(X, y)
    0 of 2 complete
    1 of 2 complete
    """

    trial: Record
    best: Record | None
    planned: int
    elapsed: float

    def line(self, criterion: str) -> str:
        """A line for people."""
        t = self.trial
        told = f"{t.value:.5g}" if np.isfinite(t.value) else t.reason[:60]
        best = "" if self.best is None else f"  best {self.best.value:.5g}"
        settings = " ".join(
            f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in t.params.items()
        )
        state = "" if t.state == "complete" else f" ({t.state})"
        return (
            f"trial {t.number + 1}/{self.planned}  {criterion} {told}{state}{best}  "
            f"{self.elapsed:.1f} s  {settings}"
        )


def failure_report(records: Sequence[Record], ended: str | None) -> str:
    """Why a search has nothing to show."""
    if not records:
        return f"no trial was finished: {ended or 'there was nothing to do'}"
    vain = [r for r in records if r.state == "infeasible"]
    if len(vain) == len(records):
        return (
            f"the space has no feasible point among {len(vain)} proposals: feasible() refused all "
            f"of them, for example {vain[0].params}"
        )
    reasons = Counter(r.reason or r.state for r in records if r.state != "infeasible")
    lines = [f"  {count} x {reason}" for reason, count in reasons.most_common(5)]
    more = f"\n  and {len(reasons) - 5} other reasons" if len(reasons) > 5 else ""
    total = sum(reasons.values())
    return f"none of {total} trials gave a result:\n" + "\n".join(lines) + more
