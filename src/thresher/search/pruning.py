"""Give up trials that cannot win any more.

A trial is compared with the best one on the folds that both have seen.  If it is worse on their
average by more than ``margin`` standard errors, the standard deviation being that of the best
trial's own folds, it is given up.  Differences between two settings on the same fold vary less than
scores of one setting between folds do, so the rule errs on the side of patience.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from optuna import Study
from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

__all__ = ["HopelessPruner", "fold_scores"]


class HopelessPruner(BasePruner):
    """Prunes by running means over folds, reported as ``trial.report(mean, step=folds so far)``.

    Parameters
    ----------
    margin : float, default=2.0
        How many standard errors worse than the best trial is hopeless.

    Examples
    --------
    >>> import optuna
    >>> from thresher.search import HopelessPruner
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> def objective(trial):
    ...     x = trial.suggest_float("x", 0.0, 1.0)
    ...     folds = [x, x + 0.01, x + 0.02]
    ...     for k in range(1, 4):
    ...         trial.report(sum(folds[:k]) / k, step=k)
    ...         if trial.should_prune():
    ...             raise optuna.TrialPruned
    ...     return sum(folds) / 3
    >>> study = optuna.create_study(pruner=HopelessPruner())
    >>> study.enqueue_trial({"x": 0.1})
    >>> study.enqueue_trial({"x": 0.9})
    >>> study.optimize(objective, n_trials=2)
    >>> [trial.state.name for trial in study.trials]
    ['COMPLETE', 'PRUNED']
    """

    def __init__(self, margin: float = 2.0):
        if not margin > 0.0:
            raise ValueError(f"margin must be positive, got {margin}")
        self.margin = margin

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None:
            return False
        # Trials of a batch are not judged by each other, so the order of their ends is irrelevant.
        first = trial.user_attrs.get("run", {}).get("batch", math.inf)
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        done = [t for t in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
                if t.value is not None and step in t.intermediate_values
                and t.number < first]  # fmt: skip
        if not done:
            return False
        best = min(done, key=lambda t: sign * _value(t))
        folds = np.asarray(
            best.user_attrs.get("result", {}).get("folds") or fold_scores(best.intermediate_values)
        )
        if folds.size < 2:
            return False
        worse = sign * (trial.intermediate_values[step] - best.intermediate_values[step])
        noise = float(np.std(folds, ddof=1)) / math.sqrt(step)
        return bool(worse > self.margin * noise + 1e-12)


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None
    return trial.value


def fold_scores(running: dict[int, Any]) -> np.ndarray:
    """The scores of single folds from the running means 1, 2, ..., k."""
    means = np.array([running[step] for step in sorted(running)], dtype=float)
    sums = means * np.arange(1, means.size + 1)
    return np.diff(sums, prepend=0.0)
