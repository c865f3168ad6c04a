"""A search for the weights of kernels, told of, stopped, and noted for whoever goes on with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher.estimators.ledger import Standing
from thresher.estimators.support_fit import Unfinished, Watch
from thresher.functions.base import require
from thresher.solvers import Status
from thresher.solvers.cut_model import Cuts
from thresher.solvers.dual import DualEvent
from thresher.solvers.level import Descent, Search, Visit
from thresher.solvers.multiple_kernels import Place

__all__ = ["KernelSearch"]


class KernelSearch:
    """One search of a fit: so many machines over so many rows share the weights of a bank.

    Parameters
    ----------
    watch : Watch
    output : int or None
        The number of the search, None if it is the only one.
    machines, rows, kernels : int
    """

    def __init__(self, watch: Watch, output: int | None, machines: int, rows: int, kernels: int):
        self.watch, self.output = watch, output
        self.machines, self.rows, self.kernels = machines, rows, kernels
        self._steps, self._gap, self._chosen = 0, math.nan, 0

    def after_step(self, descent: Descent) -> Status | None:
        """Of the search."""
        self._steps, self._gap = descent.steps, descent.gap
        self._chosen = int(np.count_nonzero(descent.weights))
        return self._tell(f"{self._chosen:,} kernels, objective {descent.upper:.6g}")

    def told(self, place: Place, event: DualEvent | None) -> Status | None:
        """Before a step of the search, and after each step of a machine."""
        if not self.watch.wanted:
            return None
        self.watch.note(self.output, _standing(place))
        if event is None or self.watch.stopped is not None:
            return self.watch.stopped
        return self._tell(f"{event.support:,} support vectors")

    def _tell(self, text: str) -> Status | None:
        function = Unfinished.so_far(text)
        return self.watch.tell(
            self.output, self._steps, self._steps, self._gap, self._chosen, function
        )

    def left(self) -> Place | None:
        """Where it was left."""
        kept = self.watch.left(self.output, self.machines * self.rows)
        if kept is None:
            return None
        coefs = kept.z.reshape(self.machines, self.rows)
        return Place(coefs, self._search(kept) if kept.more else None)

    def _search(self, kept: Standing) -> Search:
        """As it was noted, of a file that may hold anything."""
        at = kept.part("weights", self.kernels)
        require(np.all(at >= 0.0) and at.any(), "the weights of a problem are damaged")
        more = kept.more or {}
        best = self._best(kept) if "best" in more else None
        if "cut_constants" not in more:
            return Search(at, best)
        constants = kept.part("cut_constants", None)
        require(constants.size > 0, "the cuts of a problem are damaged")
        return Search(
            at, best, Cuts(constants, kept.part("cut_forms", constants.size, self.kernels))
        )

    def _best(self, kept: Standing) -> Descent:
        weights, forms = kept.part("best", self.kernels), kept.part("best_forms", self.kernels)
        value, constant, lower, upper = kept.part("best_values", 4).tolist()
        sound = np.all(weights >= 0.0) and weights.any() and lower <= upper
        require(sound, "the weights of a problem are damaged")
        return Descent(weights, Visit(value, constant, forms), lower, upper, kept.steps)


def _standing(place: Place) -> Standing:
    """As plain arrays."""
    z, search = place.coefs.ravel(), place.search
    if search is None:
        return Standing(z, 0)
    more: dict[str, Any] = {"weights": search.at}
    best, cuts = search.best, search.cuts
    if best is not None:
        values = (best.visit.value, best.visit.constant, best.lower, best.upper)
        more |= {"best": best.weights, "best_forms": best.visit.forms}
        more["best_values"] = np.array(values, dtype=np.float64)
    if cuts is not None:
        more |= {"cut_constants": cuts.constants, "cut_forms": cuts.forms}
    return Standing(z, 0 if best is None else best.steps, more)
