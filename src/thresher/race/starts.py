"""What everyone begins a part of the race with, and in which order.

Settings that nobody should do without come first: everyone's best so far, or the defaults.  Others
(units, narrower kernels, larger leaves) follow while there is time: at the start those of quick
learners first, so that no slow one uses up the time of all, later those of who is in front.
"""

from __future__ import annotations

import threading
from typing import Any

from thresher.race.proposals import Proposals
from thresher.race.runner import Runner

__all__ = ["Starts"]


class Starts:
    """The settings that runners begin with on so many rows, each handed out once.

    Which units suit is more a matter of the rows than of the learner: the first runner who has the
    choice tries all of them, and everyone else begins in those that have done best by then.
    """

    def __init__(self, runners: list[Runner], proposals: Proposals, rows: int):
        self.runners, self.lock = runners, threading.Lock()
        self.waiting = {runner.name: proposals.first(runner, rows) for runner in runners}

    def first(self) -> list[Runner]:
        """Whose turn it is, one after the other, for the settings that come first."""
        scout = next((r for r in self.runners if len(self._units(r)) > 1), None)
        turns = [[r] * (len(self.waiting[r.name]) if r is scout else 1) for r in self.runners]
        return [runner for turn in turns for runner in turn]

    def others(self, runners: list[Runner]) -> list[Runner]:
        """Whose turn it is for those that are left, in the order of the runners."""
        return [runner for runner in runners if runner.trials for _ in self.waiting[runner.name]]

    def left(self, runners: list[Runner]) -> int:
        """How many settings of these runners nobody has taken yet."""
        with self.lock:
            return sum(len(self.waiting[runner.name]) for runner in runners)

    def take(self, runner: Runner) -> dict[str, Any] | None:
        """Its next settings: those in the leading units if there are such."""
        with self.lock:
            waiting, leading = self.waiting[runner.name], self._leading()
            if not waiting:
                return None
            suits = (k for k, params in enumerate(waiting) if runner.units_of(params) == leading)
            return waiting.pop(next(suits, 0))

    def _units(self, runner: Runner) -> set[Any]:
        return {runner.units_of(params) for params in self.waiting[runner.name]}

    def _leading(self) -> Any:
        """The units of the best among those who have tried several; None: nobody has."""
        tried = [r for r in self.runners if len({r.units_of(t.params) for t in r.trials}) > 1]
        best = min((r for r in tried if r.best is not None), key=lambda r: r.loss, default=None)
        return None if best is None or best.best is None else best.units_of(best.best.params)
