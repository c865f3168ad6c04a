r"""Which of several possible steps to take: one towards good trials, but not to where one has been.

A point :math:`u` of the unit cube is judged by the finished trials :math:`u_i`,

.. math::
    \hat r(u) - \kappa \min_i \lVert u - u_i \rVert, \qquad
    \hat r(u) = \frac{\sum_i w_i r_i}{\sum_i w_i}, \quad w_i = \lVert u - u_i \rVert^{-(d+1)},

where :math:`r_i` in [0, 1] is the rank of a trial's energy among all (best first; pruned and failed
trials rank last): the lower, the more promising.  The first term is Shepard's interpolation; a
power above the dimension lets only near trials count.  The second says that far from all trials
anything may happen.  Ranks make both independent of the unit of the energies, and of outliers.

Choices that differ are 1 apart; a parameter that one of two points does not have (a condition rules
it out) does not keep them apart.

Reference: Shepard, A two-dimensional interpolation function for irregularly-spaced data, ACM
National Conference (1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

from thresher.search.unit_interval import is_numeric, to_unit

__all__ = ["Known"]

# kappa, the ranks that a distance of 1 to all trials is worth: with 0.5 steps crowd around the best
# trial; from 1.5 to 3 results are alike (logistic elastic net, eleven data sets, 40 trials).
_CURIOSITY = 2.0
_SAME = 1e-3  # distances below are as good as none


class Known:
    """Finished trials as points of the cube, with the ranks of their energies.

    Parameters
    ----------
    trials : sequence of FrozenTrial
    energies : array
        Lower is better; inf for pruned and failed trials.
    """

    def __init__(self, trials: Sequence[FrozenTrial], energies: np.ndarray):
        from scipy.stats import rankdata  # slow to import

        self.distributions: dict[str, BaseDistribution] = {}
        for trial in trials:
            self.distributions.update(trial.distributions)
        rows = [self._placed(trial.params) for trial in trials]
        self._points = np.array(rows).reshape(len(rows), len(self.distributions))
        self._ranks = (rankdata(energies) - 0.5) / max(len(rows), 1)
        self._chosen = np.array([not is_numeric(d) for d in self.distributions.values()], bool)

    def most_promising(self, candidates: Sequence[dict[str, Any]]) -> int:
        """Number of the best candidate, which counts as visited from now on."""
        scored = [self._score(self._placed(params)) for params in candidates]
        best = int(np.argmin(scored))
        self._visit(candidates[best])
        return best

    def _visit(self, params: dict[str, Any]) -> None:
        """Without a rank: it keeps others away, but says nothing about its surroundings."""
        self._points = np.vstack([self._points, self._placed(params)])
        self._ranks = np.append(self._ranks, np.nan)

    def _score(self, point: np.ndarray) -> float:
        apart = np.nan_to_num(np.abs(self._points - point))
        apart = np.where(self._chosen, apart > 0.0, apart)
        distances = np.maximum(np.sqrt(np.sum(apart**2, axis=1)), _SAME)
        ranked = ~np.isnan(self._ranks)
        near = distances[ranked]
        weights = (near / near.min()) ** -(point.size + 1.0)  # the common factor cannot overflow
        estimate = np.sum(weights * self._ranks[ranked]) / np.sum(weights)
        return float(estimate - _CURIOSITY * distances.min())

    def _placed(self, params: dict[str, Any]) -> np.ndarray:
        """Coordinates in the cube; NaN for a parameter that the point does not have."""
        at = [to_unit(d, params[name]) if name in params else np.nan
              for name, d in self.distributions.items()]  # fmt: skip
        return np.array(at)
