"""Who wins a race: several models together, unless the best of them alone is clearly better.

Everyone was judged on rows that it had not seen, who is in front on the same ones: their scores are
pooled (``stacking.py``), and losses are compared row by row.  The winner's scores of these rows are
there to calibrate its probabilities on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from thresher.race.fitting import Fitting
from thresher.race.folds import Folds
from thresher.race.outcome import Outcome, Unseen, of_runner, of_stack
from thresher.race.runner import Runner
from thresher.race.stacking import Stack, best_stack
from thresher.search.significance import sign_test
from thresher.solvers import Status

__all__ = ["PREFERENCES", "Winners"]

PREFERENCES = ("accuracy", "size")
_LUCK = 2.0  # standard errors, by which the best of many tries may seem better than it is
_SURE = 0.1  # a larger model must be better at this level, where the smaller one is preferred
_SMALLER = 0.5  # of the size of the best: less of a difference is not worth an error
_LOSS = attrgetter("loss")


class Winners:
    """Of ``runners``, for a last fit on ``rows`` rows that ``can_fit`` says whether there is time
    for; ``stacks`` and ``prefer`` as the race has them."""

    def __init__(
        self, runners: list[Runner], folds: Folds, fits: Fitting, task: str, rows: int,
        prefer: str, stacks: bool, can_fit: Callable[[list[Runner]], bool],
    ):  # fmt: skip
        if prefer not in PREFERENCES:
            raise ValueError(f"prefer must be one of {', '.join(PREFERENCES)}, got {prefer!r}")
        self.runners, self.folds, self.fits = runners, folds, fits
        self.task, self.rows, self.can_fit = task, rows, can_fit
        self.stacks, self.prefer = stacks and prefer != "size", prefer

    def outcome(self) -> Outcome:
        """Several models together, unless the best of them alone is clearly better."""
        here = [r for r in self.runners if r.best is not None]
        fully = [r for r in here if self._is_judged(r)]
        ahead = self.ahead(fully)
        best, reason = self._one(ahead or fully or here)
        assert best.best is not None
        judged = self.folds.judged(best.best.folds)
        trials = [trial for runner in self.runners for trial in runner.trials]
        stack = None if ahead else self.stack()
        if stack is None:
            return of_runner(best, self.rows, judged, reason, trials)
        reason = (
            f"these {len(stack.members)} together had a loss of {stack.loss:.4g} on "
            f"{judged.size} validation rows, {best.name} alone {best.loss:.4g}"
        )
        if stack.loss > best.loss:
            reason += f", the lowest of {len(best.trials)} tries"
        return of_stack(stack, self.task, self.rows, judged, reason, trials)

    def stack(self) -> Stack | None:
        """Models together, unless the best of them alone does clearly better.

        Its loss is the lowest of many tries, so that some of it is luck.
        """
        fully = [r for r in self.runners if self._is_judged(r)]
        if not self.stacks or len(fully) < 2:
            return None
        classes, judged = self.fits.classes, self.folds.judged(self.folds.used)
        y = self.fits.y[judged]
        targets = np.searchsorted(classes, y) if classes.size else y
        weight = None if self.fits.weight is None else self.fits.weight[judged]
        stack = best_stack(fully, targets, weight, classes, self.can_fit)
        best = min(fully, key=_LOSS)
        clearly_worse = stack is not None and stack.loss > best.loss + _LUCK * best.error
        return None if clearly_worse else stack

    def ahead(self, met: list[Runner]) -> list[Runner]:
        """The best of those who had no time for all rows, if it errs clearly less on fewer than
        all who have met them."""
        some = [r for r in self.runners if r.best and r.most_rows < self.folds.learned]
        least = min((runner.loss for runner in met), default=math.inf)
        ahead = [r for r in some if r.loss + 2.0 * r.error < least]
        return sorted(ahead, key=_LOSS)[:1]

    def is_worse(self, model: Any, outcome: Outcome) -> bool:
        """Whether a model errs on more of the validation rows than the one that won, clearly.

        Of one that was cut short it is enough that it does not err on fewer: it has seen them.
        """
        misses = self.fits.misses(model, outcome.judged)
        wins, losses, p = sign_test(misses, outcome.misses)
        if vars(model).get("status_") is Status.OUT_OF_TIME:
            return losses >= max(wins, 1)
        return losses > wins and p < _SURE

    def unseen(self, outcome: Outcome, classes: int) -> Unseen | None:
        """What the winner says of rows that it has not seen, to calibrate probabilities on.

        Of a model that is not ours no scores were kept: those of the first fold, which the model
        that was judged has not learned from.  None where it does not decide between ``classes``
        classes, or none of these rows is of one of them.
        """
        rows, scores = outcome.judged, outcome.scores
        if scores is None:
            rows = self.folds.judges(0)
            scores = self.fits.decisions(outcome.model, rows)
        codes = np.searchsorted(self.fits.classes, self.fits.y[rows]) if classes else np.empty(0)
        outputs = 1 if classes == 2 else classes
        if scores is None or scores.shape[1] != outputs or np.unique(codes).size < classes:
            return None
        weight = None if self.fits.weight is None else self.fits.weight[rows]
        return Unseen(scores, codes, weight)

    def _is_judged(self, runner: Runner) -> bool:
        best = runner.best
        return (
            best is not None and best.rows >= self.folds.learned and best.folds == self.folds.used
        )

    def _one(self, here: list[Runner]) -> tuple[Runner, str]:
        """The best; if size counts, a smaller model where the best is not clearly better."""
        best = min(here, key=_LOSS)
        assert best.top is not None
        for other in sorted(here, key=attrgetter("size")):
            if self.prefer != "size" or other.size > _SMALLER * best.size:
                break
            assert other.top is not None
            if other.top.misses.size != best.top.misses.size:
                continue
            wins, losses, two_sided = sign_test(other.top.misses, best.top.misses)
            p = 0.5 * two_sided if losses > wins else 1.0  # that the larger one is better
            if p > _SURE and other.loss <= best.loss + 2.0 * best.error:
                reason = (
                    f"{best.name} was best ({best.loss:.4g}), but not clearly better than the "
                    f"smaller {other.name} ({other.loss:.4g}; better on {losses} rows, worse on "
                    f"{wins}, p = {p:.2f})"
                )
                return other, reason
        rows = best.top.misses.size
        return best, f"{best.name} had the lowest loss on {rows} validation rows, {best.loss:.4g}"
