"""A race between learners under one clock: who is best on this data in the time there is?

Runners are families of learners with search spaces.  All run on a small part of the rows first;
those that are clearly behind drop out, the others go on with four times as many rows, and the time
that remains is spent on settings of those in front.  Settings are judged on validation rows that
no fit has seen; where there is time, the best of them meet again on others (``finals.py``).  Rows
for an honest estimate of the winner must be kept away from the race by the caller.

Successive halving: Jamieson and Talwalkar (2016).  Unlike there, a part's time and not its number
of settings is fixed, and a runner stays as long as it is within two standard errors of the best.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from thresher.race.capacity import capacity, grows, larger, rescaled, smaller
from thresher.race.finals import Finals
from thresher.race.fitting import Fitting, Stopped
from thresher.race.proposals import Proposals
from thresher.race.runner import Runner, Trial
from thresher.search.significance import sign_test

__all__ = ["Outcome", "Race"]

_FIRST_ROWS, _GROWTH = 2000, 4
_VALIDATION, _MOST_VALIDATION = 0.2, 20_000
_SURE = 0.1  # a larger model must be better at this level, or the smaller one is taken
_SMALLER = 0.5  # of the size of the best: less of a difference is not worth an error
_NEARLY_ALL = 0.9  # share of the rows from which on a fit on all of them is not worth its time
_LATER = 1.5  # every step has more of the time than the one before, by this factor
_LOSS = attrgetter("loss")
_LAST = 3.0  # fits on all rows, of the one in front, that time is kept back for
_SAFE, _BEHIND_SHARE = 0.8, 0.25  # of the time, for all the trees of who is in front, and others
_CLEARLY_MORE = 1.2  # times the trees
_FEW_SETTINGS = 10  # of everyone, on fewer rows than all: the lowest of many losses is luck
_ONE_OF_MANY = 0.05  # of the time for settings on fewer rows than all: none may need more
_TOO_LONG = 4.0  # times what is foreseen, after which a fit ends with the next pass
_UNKNOWN = 0.08  # share of the time after which one of unknown pace does
_BEHIND = 2.0  # who is not in front may ask for time as if fits took so much longer


class Outcome(NamedTuple):
    """The winner with its settings for all rows, why it was taken, and everything tried."""

    winner: Runner  # with the model that was judged
    estimator: Any  # not fitted
    params: dict[str, Any]
    rows: int  # that the judged model was fitted on
    reason: str
    trials: list[Trial]
    stopped: bool = False  # somebody asked for an end

    @property
    def name(self) -> str:
        return self.winner.name

    def grown(self, rows: int, seconds: float) -> Any:
        """The estimator for a fit on so many rows; a forest gets the trees there is time for."""
        factor = _SAFE * seconds / self.winner.again(rows)
        if grows(self.estimator) and factor > _CLEARLY_MORE:
            assert self.winner.best is not None
            more = larger(self.winner.estimator, self.winner.best.params, rows, factor)
            trees = {name: more[name] for name in capacity(self.estimator, rows)}
            self.params.update(trees)
            self.estimator.set_params(**trees)
        return self.estimator


class Race:
    """Runs until ``deadline`` (of ``time.monotonic``), keeping time back for a fit on all rows.

    ``on_trial`` hears of every trial; ``jobs`` fits run at a time.  ``rows``: so many in all, those
    that the race does not get included; nearly all of them seen, the judged model will do and no
    other fit follows.  None: there always is one, on the rows of the race.  ``stop`` is asked now
    and then: True ends the race at once, with the best so far.
    """

    def __init__(
        self, runners: dict[str, Any], X: Any, y: np.ndarray, weight: np.ndarray | None,
        regression: bool, deadline: float, seed: int,
        on_trial: Callable[[Trial], None] | None = None,
        jobs: int = 1, rows: int | None = None, stop: Callable[[], bool] = lambda: False,
    ):  # fmt: skip
        self.runners = [Runner(name, clone(estimator)) for name, estimator in runners.items()]
        self.deadline, self.rng = deadline, np.random.default_rng(seed)
        self.X, self.y, self.weight = X, y, weight
        self.train, self.validation = self._split(regression)
        self.proposals = Proposals(X, y, self.train, self.rng)
        self.fits = Fitting(X, y, weight, regression, jobs, on_trial, stop)
        self.finals = Finals(self.fits, self.train, self.validation)
        self.rows = rows or self.y.size
        self.refit = rows is None or self.train.size < _NEARLY_ALL * rows

    # ------------------------------------------------------------ the race

    def run(self) -> Outcome:
        alive = list(self.runners)
        sizes = self._sizes()
        # BLAS threads of fits side by side would wait for each other.
        blas = threadpool_limits(1 if self.fits.jobs > 1 else None, "blas")
        stopped = False
        with suppress(Stopped), warnings.catch_warnings(), blas, self.fits:
            warnings.simplefilter("ignore")
            stopped = True
            for k, rows in enumerate(sizes):
                later = sum(_LATER**j for j in range(len(sizes) - k))
                alive = self._rung(alive, rows, patience=0.5**k, share=1.0 / later)
                if not alive:
                    break
            self.finals.run(alive, self._end(alive))
            stopped = False
        tried = [trial for runner in self.runners for trial in runner.trials]
        if not any(runner.best for runner in self.runners):
            if stopped:
                raise KeyboardInterrupt  # there is no model yet
            problems = {t.runner: t.problem for t in tried if t.problem}
            told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            told = told or "no time: raise the budget"
            raise ValueError(f"no learner could be fitted in the time given ({told})")
        winner, reason = self._winner()
        assert winner.best is not None
        params = winner.units | rescaled(winner.best.params, winner.best.rows, self.rows)
        estimator = clone(winner.estimator).set_params(**params)
        return Outcome(winner, estimator, params, winner.best.rows, reason, tried, stopped)

    def _rung(self, alive: list[Runner], rows: int, patience: float, share: float) -> list[Runner]:
        """Everyone's best settings on so many rows, then new settings while the time lasts."""
        part = self.train[:rows]
        started = time.monotonic()
        self._try_all(
            [(r, params) for r in alive for params in self.proposals.first(r, rows)], part
        )
        for runner in alive:
            runner.settle_units()
        self._try_all([(runner, self._full(runner, rows)) for runner in alive], part)
        alive = self._in_sight([r for r in alive if r.best is not None], rows, patience)
        # Only a second fit tells the pace: the first one compiles.
        new = [runner for runner in alive if len(runner.trials) == 1]
        self._try_all([(runner, self.proposals.next(runner, rows)) for runner in new], part)
        end = started + share * (self.deadline - started)
        if alive and rows < self.train.size:
            assert alive[0].best is not None
            last = alive[0].foreseen(alive[0].best.params, self.train.size)
            end = min(end, self.deadline - _LAST * last)
        elif alive:
            end = self._end(alive)
            end -= self.finals.seconds(alive, end - time.monotonic())
        self._explore(alive, part, end)
        return self._in_sight(alive, rows, patience)

    def _try_all(self, tasks: list[tuple[Runner, dict[str, Any] | None]], part: np.ndarray) -> None:
        """Those for which there is time when their turn comes; wide ones by themselves."""
        self.fits.all([(task[0], partial(self._try_in_time, *task, part)) for task in tasks])

    def _try_in_time(
        self, runner: Runner, params: dict[str, Any] | None, part: np.ndarray, end: float = math.inf
    ) -> None:
        """With a smaller model where time is short, or not at all; stopped if it takes too long."""
        while params is not None and not self._time_for(runner, params, part.size):
            params = smaller(runner.estimator, params, part.size)
        if params is not None:
            now = time.monotonic()
            longest = _UNKNOWN * (self.deadline - now)
            if len(runner.trials) > 1:
                foreseen = runner.foreseen(params, part.size)
                longest = min(self.deadline - now, _TOO_LONG * foreseen, max(end - now, foreseen))
            attempt = self.fits.attempt(runner, params, part, self.validation, now + longest)
            with self.fits.lock:
                runner.trials.append(attempt.trial)
                if not attempt.trial.problem:
                    runner.keep(attempt)

    def _end(self, alive: list[Runner]) -> float:
        """When it is time for a fit of those in front on all rows."""
        last = max((r.again(self.rows) for r in alive), default=0.0)
        return self.deadline - (last if self.refit else 0.0)

    def _full(self, runner: Runner, rows: int) -> dict[str, Any] | None:
        """On all rows, a forest with as many trees as the time allows, if these are clearly more.

        Few trees were enough to be compared with few: now they meet machines of full size.
        """
        best = runner.best
        if rows < self.train.size or not grows(runner.estimator) or best is None:
            return None
        need = runner.again(rows) + (runner.again(self.rows) if self.refit else 0.0)
        share = _SAFE if runner is min(self.runners, key=_LOSS) else _BEHIND_SHARE
        factor = share * (self.deadline - time.monotonic()) / need
        params = larger(runner.estimator, best.params, rows, factor)
        return params if factor > _CLEARLY_MORE else None

    def _explore(self, alive: list[Runner], part: np.ndarray, end: float) -> None:
        """New settings, of those in front more often, until ``end``.

        On fewer rows than all these are not many, and none may take long.
        """
        most = longest = math.inf
        if part.size < self.train.size:
            most, longest = _FEW_SETTINGS * len(alive), _ONE_OF_MANY * (end - time.monotonic())
        running: set[Future[None]] = set()
        while alive:
            while len(running) < self.fits.jobs and time.monotonic() < end and most > 0:
                task = self._next(alive, part, longest)
                if task is None:
                    break
                most -= 1
                if task[0].is_wide:
                    self.fits.finish(running)
                    running = set()
                    self.fits.alone(self._try_in_time, *task, part, end)
                else:
                    running.add(self.fits.pool.submit(self._try_in_time, *task, part, end))
            if not running:
                return
            running = self.fits.some(running)

    def _next(
        self, alive: list[Runner], part: np.ndarray, longest: float
    ) -> tuple[Runner, dict[str, Any]] | None:
        """A runner and new settings for which there is time, if some are found soon."""
        in_front = sorted(alive, key=_LOSS)
        for _ in range(10):
            runner = in_front[int(len(alive) * self.rng.random() ** 2)]
            params = self.proposals.next(runner, part.size)
            known = any(t.rows == part.size and t.params == params for t in runner.trials)
            short = runner.foreseen(params, part.size) < longest
            if short and not known and self._time_for(runner, params, part.size):
                return runner, params
        return None

    def _in_sight(self, alive: list[Runner], rows: int, patience: float) -> list[Runner]:
        """Those within two standard errors, or a share of the loss, of the best; the best first.

        The share falls from half at the start: flexible learners need rows to show what they can.
        """
        here = [r for r in alive if r.best is not None and r.trials[-1].rows >= rows]
        if not here:
            return []
        here = sorted(here, key=_LOSS)
        slack = max(2.0 * here[0].error, 0.5 * patience * here[0].loss)
        return [r for r in here if r.loss <= here[0].loss + slack]

    def _time_for(self, runner: Runner, params: dict[str, Any], rows: int) -> bool:
        """Whether a fit on so many rows, and then one on all, would end in time.

        Few rows say little about the time that all would take: then the fit itself counts only.
        """
        first, enough = min(self.runners, key=_LOSS), self.rows / _GROWTH**2
        if len(runner.trials) < 2:
            now = then = sum(trial.seconds for trial in runner.trials)
        else:
            now = runner.foreseen(params, rows)
            then = runner.foreseen(params, self.rows) if runner.most_rows >= enough else 0.0
        if not self.refit:
            then = 0.0
        need = (1.0 if runner is first else _BEHIND) * (now + then)
        if self.refit and first.best is not None and first.best.rows == self.train.size:
            need = max(need, now + first.again(self.rows))  # it may win, and will want its fit
        return time.monotonic() + need < self.deadline

    # ------------------------------------------------------------ who wins

    def _winner(self) -> tuple[Runner, str]:
        """The best; a smaller model if the best is not clearly better.

        Of those in the final, if there was one, and on its rows; else on the validation rows.
        """
        final = [r for r in self.runners if r.final is not None]
        here = final or [r for r in self.runners if r.best is not None]
        best = min(here, key=_LOSS)
        for other in sorted(here, key=attrgetter("size")):
            if other.size > _SMALLER * best.size:
                break
            wins, losses, two_sided = sign_test(other.judged, best.judged)
            p = 0.5 * two_sided if losses > wins else 1.0  # that the larger one is better
            if p > _SURE and other.loss <= best.loss + 2.0 * best.error:
                reason = (
                    f"{best.name} was best ({best.loss:.4g}), but not clearly better than the "
                    f"smaller {other.name} ({other.loss:.4g}; better on {losses} rows, worse on "
                    f"{wins}, p = {p:.2f})"
                )
                return other, reason
        rows = f"{best.judged.size} {'new' if final else 'validation'} rows"
        return best, f"{best.name} had the lowest loss on {rows}, {best.loss:.4g}"

    def is_worse(self, model: Any, judged: Runner) -> bool:
        """Whether a model errs on more of the validation rows than the runner's, clearly."""
        misses = self.fits.misses(model, self.validation)
        wins, losses, p = sign_test(misses, judged.top[0].misses)
        return losses > wins and p < _SURE

    # ------------------------------------------------------------ rows

    def _split(self, regression: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows to fit on, in random order, and rows to judge on."""
        n = self.y.size
        rows = self.rng.permutation(n)
        size = min(max(int(_VALIDATION * n), 1), _MOST_VALIDATION)
        if n < 10:
            raise ValueError(f"{n} rows are too few to choose a learner")
        train = rows[size:]
        if not regression and np.unique(self.y[train]).size < 2:
            raise ValueError("the rows hold one class only, or one member of the other")
        return train, rows[:size]

    def _sizes(self) -> list[int]:
        """Numbers of rows, about ``_GROWTH`` times more at each step, the last are all."""
        n = self.train.size
        first = min(max(_FIRST_ROWS, n // _GROWTH**3), n)
        steps = round(math.log(n / first, _GROWTH))
        return [int(rows) for rows in np.geomspace(first, n, steps + 1)[:steps]] + [n]
