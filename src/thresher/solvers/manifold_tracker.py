"""How a solver's iterates come to the manifold of the optimum.

A tracker is given the optimum, and looks at the weights as often as it is called.  It works for
every solver: the patterns are the penalty's (``thresher.penalties.pattern_of``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from thresher.penalties import Penalty, pattern_of

__all__ = ["ManifoldTracker", "Sighting"]


class Sighting(NamedTuple):
    """One look at the weights.

    Parameters
    ----------
    step : int
        Updates before it.
    nonzeros : int
        Units (coordinates or groups) that are not at zero.
    found : int
        Units of the optimal manifold that have the right pattern.
    exact : bool
        The pattern is that of the optimum.
    superset : bool
        All units of the optimum have the right pattern, and at most twice as many are not zero.
    stability : float
        Share of the units that were not zero now or at the last look and kept their pattern.
    """

    step: int
    nonzeros: int
    found: int
    exact: bool
    superset: bool
    stability: float


@dataclass
class ManifoldTracker:
    """Compares the patterns of iterates with that of the optimum.

    Give it to ``driver.learn``, which calls it after every piece of a pass, or call
    :meth:`look` yourself.

    Parameters
    ----------
    penalty : Penalty
        Whose patterns are compared.
    optimum : array of shape (n_features,)
        The weights of a solver that ends at the optimum, such as ``ProximalNewton``.
    every : int, default=1
        Updates between looks.

    Attributes
    ----------
    sightings : list of Sighting

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1
    >>> from thresher.solvers.manifold_tracker import ManifoldTracker
    >>> tracker = ManifoldTracker(L1(), np.array([1.0, 0.0, 0.0]))
    >>> for step, w in enumerate(([0.1, 0.2, 0.0], [0.1, -0.2, 0.3], [0.4, 0.0, 0.0]), 1):
    ...     tracker.look(step, np.array(w))
    >>> tracker.first_superset, tracker.first_hit, tracker.stable_since
    (1, 3, 3)
    """

    penalty: Penalty
    optimum: np.ndarray
    every: int = 1
    sightings: list[Sighting] = field(default_factory=list)
    _last: np.ndarray | None = None

    def look(self, step: int, w: np.ndarray) -> None:
        """Compare the weights after ``step`` updates."""
        wanted, pattern = self.optimum_pattern, self._pattern(w)
        last = np.zeros_like(pattern) if self._last is None else self._last
        active = wanted != 0
        nonzeros, found = np.count_nonzero(pattern), np.count_nonzero((pattern == wanted) & active)
        either = (pattern != 0) | (last != 0)
        kept = np.count_nonzero(either & (pattern == last))
        complete = found == np.count_nonzero(active)
        self.sightings.append(Sighting(
            step, int(nonzeros), int(found), bool(np.array_equal(pattern, wanted)),
            bool(complete and nonzeros <= 2 * np.count_nonzero(active)),
            kept / np.count_nonzero(either) if either.any() else 1.0,
        ))  # fmt: skip
        self._last = pattern

    def _pattern(self, w: np.ndarray) -> np.ndarray:
        return pattern_of(self.penalty, np.asarray(w, dtype=np.float64))

    @cached_property
    def optimum_pattern(self) -> np.ndarray:
        return self._pattern(self.optimum)

    @property
    def first_hit(self) -> int | None:
        """Updates until the pattern was that of the optimum for the first time; None: never."""
        return next((s.step for s in self.sightings if s.exact), None)

    @property
    def first_superset(self) -> int | None:
        """Updates until it held that of the optimum, with at most twice as many non-zeros."""
        return next((s.step for s in self.sightings if s.superset), None)

    @property
    def stable_since(self) -> int | None:
        """Since which update the pattern has not changed; None before the first look."""
        since = None
        for k, sighting in enumerate(self.sightings):
            if k == 0 or sighting.stability < 1.0:
                since = sighting.step
        return since
