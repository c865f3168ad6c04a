"""A fit by passes over dual variables, noted in a ledger and gone on from there."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.estimators import ledger
from thresher.estimators.base import Setup
from thresher.estimators.ledger import Ledger, Standing
from thresher.solvers import Result, Status, driver
from thresher.solvers.base import Chunk, Near

__all__ = ["NotedFit"]


class NotedFit:
    """Where a fit stands after every pass.

    What is noted is what a warm start takes: a number for each row, and the coefficients.
    """

    def __init__(self, kept: Ledger):
        self._ledger, self._fit = kept, kept.begin()

    @classmethod
    def wanted(cls) -> NotedFit | None:
        """If somebody keeps a ledger."""
        kept = ledger.current()
        return None if kept is None else cls(kept)

    def learn(
        self, setup: Setup, width: int, chunk: Chunk, near: Near | None, monitor: Any
    ) -> Result:
        """As ``driver.learn`` does it, with so many coefficients; passes before count."""
        kept, plan, before = self._ledger.standing(self._fit, 0, chunk.size), setup.plan, 0
        if kept is not None:
            near = Near(setup.problem, kept.part("coefficients", width), 0.0, kept.z)
            before = kept.steps
            plan = plan._replace(passes=max(plan.passes - before, 1))

        def told(event: driver.Event) -> Status | None:
            passes = event.passes + before
            more = {"coefficients": np.ravel(event.function.coef).astype(np.float64)}
            dual = np.asarray(event.state.dual, dtype=np.float64)
            self._ledger.note(self._fit, 0, Standing(dual, passes, more))
            return None if monitor is None else monitor(event._replace(passes=passes))

        result = driver.learn(setup.solver, setup.problem, chunk, plan, near, monitor=told)
        result.passes += before
        return result
