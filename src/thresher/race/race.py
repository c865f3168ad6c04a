"""A race between learners under one clock: who is best on this data in the time there is?

Runners are families of learners with search spaces.  All run on a small part of the rows first;
those that are clearly behind drop out, the others go on with four times as many rows.  On all rows
everyone who is left is judged in as many folds as there is time for (``folds.py``), and the time
that remains is spent on settings of those in front.  In the end models win together, unless the
best of them is clearly better alone (``winners.py``).  Rows for an honest estimate of
the winner must be kept away from the race by the caller.

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
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from thresher.engines import Engine
from thresher.race.capacity import grows, larger, smaller
from thresher.race.elsewhere import FittingElsewhere
from thresher.race.fitting import Fitting, Stopped
from thresher.race.folds import Folds
from thresher.race.outcome import CLEARLY_MORE, Outcome
from thresher.race.proposals import Proposals
from thresher.race.runner import Attempt, Runner, seconds_of
from thresher.race.starts import Starts
from thresher.race.winners import Winners
from thresher.registry import TASKS

__all__ = ["Race"]

_FIRST_ROWS, _GROWTH = 2000, 4
_NEARLY_ALL = 0.9  # share of the rows from which on a fit on all of them is not worth its time
_LATER = 1.5  # every step has more of the time than the one before, by this factor
_LOSS = attrgetter("loss")
_FOR_LAST = 0.4  # of the whole time, at most, that is kept back for a last fit
_LAST = 3.0  # fits on all rows, of the one in front, that time is kept back for
_LOOK_AGAIN = 0.2  # of the time that is left, after which to see who is in front
_SAFE, _BEHIND_SHARE = 0.8, 0.25  # of the time, for all the trees of who is in front, and others
_MOST_OF = 0.75  # of the time of all learners
_GRACE = 0.05  # of the whole time: so much later a last fit may still end
_FOR_FOLDS = 0.6  # of the time on all rows, that judging in more folds may take
_FEW_SETTINGS = 10  # of everyone, on fewer rows than all: the lowest of many losses is luck
_ONE_OF_MANY = 0.05  # of the time that is left, which one of many settings may need
_TOO_LONG = 4.0  # times what is foreseen, after which a fit ends with the next pass
_OVERDUE = 0.15  # share of the time that is left, for one that takes longer than foreseen
_UNKNOWN = 0.08  # share of the time after which one of unknown pace does
_COMPILING = 1.5  # times its time, which only a fit that could not end in time takes
_MUCH = 0.5  # of a part's time: who is clearly behind may not ask for more
_FOR_STARTS = 0.5  # of a part's time, for other first settings
_LEAST_FOR_STARTS = 0.08  # of all time, at least
_FAIR = 2.0  # times an equal share of the time, which one of many first settings may need
_BEHIND = 2.0  # who is not in front may ask for time as if fits took so much longer


class Race:
    """Runs until ``deadline`` (of ``time.monotonic``), keeping time back for a fit on all rows.

    ``on_trial`` hears of every trial; ``jobs`` fits run at a time.  ``rows``: so many in all, those
    that the race does not get included; nearly all of them seen, the judged model will do and no
    other fit follows.  None: there always is one, on the rows of the race.  ``stacks``: several
    models may win together.  ``prefer="size"``: one learner wins, and the smaller model if the best
    is not clearly better.  ``stop`` is asked now and then: True ends the race at once, with the
    best so far.  With an ``engine`` its workers fit.
    """

    def __init__(
        self, runners: dict[str, Any], X: Any, y: np.ndarray, weight: np.ndarray | None,
        task: str, deadline: float, seed: int, on_trial: Callable[..., None] | None = None,
        jobs: int = 1, rows: int | None = None, stacks: bool = True, prefer: str = "accuracy",
        stop: Callable[[], bool] = lambda: False, engine: Engine | None = None,
    ):  # fmt: skip
        self.runners = [Runner(name, clone(estimator)) for name, estimator in runners.items()]
        self.started, self.deadline = time.monotonic(), deadline
        self.rng = np.random.default_rng(seed)
        numbers = not TASKS[task].has_classes
        self.folds = Folds(y, numbers, self.rng)
        self.train = self.folds.train(0)
        self.likely: list[Runner] = []  # who would win together now
        self.proposals = Proposals(X, y, self.train, self.rng)
        self.fits = (
            Fitting(X, y, weight, numbers, jobs, on_trial, stop)
            if engine is None
            else FittingElsewhere(engine, X, y, weight, numbers, on_trial, stop)
        )
        self.rows = rows or y.size
        self.refit = rows is None or self.train.size < _NEARLY_ALL * rows
        self.winners = Winners(
            self.runners, self.folds, self.fits, task, self.rows, prefer, stacks, self._can_fit
        )

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
            self._explore_to_the_end(alive)
            stopped = False
        if not any(runner.best for runner in self.runners):
            if stopped:
                raise KeyboardInterrupt  # there is no model yet
            tried = [trial for runner in self.runners for trial in runner.trials]
            problems = {t.runner: t.problem for t in tried if t.problem}
            told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            told = told or "no time: raise the budget"
            raise ValueError(f"no learner could be fitted in the time given ({told})")
        return replace(self.winners.outcome(), stopped=stopped)

    def _rung(self, alive: list[Runner], rows: int, patience: float, share: float) -> list[Runner]:
        """Everyone's best settings on so many rows, then new settings while the time lasts."""
        part = self.train[:rows]
        started = time.monotonic()
        end = started + share * (self.deadline - started)
        alive = self._start(alive, part, end, patience)
        self._try_all([(runner, self._full(runner, rows)) for runner in alive], part)
        alive = self._in_sight([r for r in alive if r.best is not None], rows, patience)
        # Only a second fit tells the pace: the first one compiles.
        new = [runner for runner in alive if len(runner.trials) == 1]
        self._try_all([(runner, self.proposals.next(runner, rows)) for runner in new], part)
        if not alive or rows == self.train.size:
            if self.folds.used == 1:
                self._judge_in_folds(alive)
            return alive
        assert alive[0].best is not None
        last = _LAST * alive[0].foreseen(alive[0].best.params, self.train.size)
        self._explore(alive, min(end, self.deadline - self._at_last(last)), rows)
        return self._in_sight(alive, rows, patience)

    def _start(
        self, alive: list[Runner], part: np.ndarray, end: float, patience: float
    ) -> list[Runner]:
        """The settings that everyone begins with, the others of these as long as there is time."""
        started, settled = time.monotonic(), bool(alive and alive[0].trials)
        if settled:
            alive = self._worth_it(alive, part.size, end - started)
        starts = Starts(alive, self.proposals, part.size)
        threads = self.fits.jobs

        def begin(runner: Runner) -> None:
            self._try_in_time(runner, starts.take(runner), part)

        def go_on(runner: Runner) -> None:
            left = until - time.monotonic()
            fair = _FAIR * left * threads / max(starts.left(alive), 1)
            params = starts.take(runner)
            if params is not None and runner.foreseen(params, part.size) < min(left, fair):
                self._try_in_time(runner, params, part)

        self.fits.all([(r, partial(begin, r)) for r in starts.first()], part.size)
        if settled:
            alive = self._in_sight([r for r in alive if r.best is not None], part.size, patience)
            if part.size == self.train.size:
                # Later settings meet the other folds only if they are good in the first.
                self._judge_in_folds(alive)
        now, share = time.monotonic(), 1.0 if settled else _FOR_STARTS
        least = now + _LEAST_FOR_STARTS * (self.deadline - now)
        until = max(started + share * (end - started), least)
        others = alive if settled else sorted(alive, key=attrgetter("pace"))
        self.fits.all([(r, partial(go_on, r)) for r in starts.others(others)], part.size)
        for runner in alive:
            runner.settle_units()
        return alive

    def _worth_it(self, alive: list[Runner], rows: int, seconds: float) -> list[Runner]:
        """Without those who are clearly behind and would need much of the time."""
        best = min(alive, key=_LOSS)
        near = best.loss + 2.0 * best.error

        def cost(runner: Runner) -> float:
            assert runner.best is not None
            return runner.foreseen(runner.best.params, rows) / self._threads(runner)

        return [r for r in alive if r.loss <= near or cost(r) < _MUCH * seconds]

    def _try_all(self, tasks: list[tuple[Runner, dict[str, Any] | None]], part: np.ndarray) -> None:
        """Those for which there is time when their turn comes; wide ones by themselves."""
        fits = [(task[0], partial(self._try_in_time, *task, part)) for task in tasks]
        self.fits.all(fits, part.size)

    def _try_in_time(
        self, runner: Runner, params: dict[str, Any] | None, part: np.ndarray, end: float = math.inf
    ) -> None:
        """With a smaller model where time is short, or not at all; stopped if it takes too long."""
        while params is not None and not self._time_for(runner, params, part.size):
            params = smaller(runner.estimator, params, part.size)
        if params is None:
            return
        now = time.monotonic()
        longest = _UNKNOWN * (self.deadline - now)
        if len(runner.trials) > 1:
            foreseen = runner.foreseen(params, part.size)
            # What is learned once for all fits on the same rows is not in the pace on fewer.
            late = min(_TOO_LONG * foreseen, _OVERDUE * (self.deadline - now))
            patient = max(foreseen, late, longest)
            longest = min(self.deadline - now, patient, max(end - now, foreseen))
        first = not runner.trials
        attempt = self.fits.attempt(runner, params, part, self.folds.judges(0), now + longest)
        took = attempt.trial.seconds
        if first and _COMPILING * longest < took < _MUCH * (self.deadline - now - took):
            # No pass ended in time: what was compiled meanwhile says nothing of the learner.
            with self.fits.lock:
                runner.trials.append(attempt.trial)
            until = now + took + longest
            attempt = self.fits.attempt(runner, params, part, self.folds.judges(0), until)
        all_rows = part.size == self.train.size
        if self.folds.used > 1 and all_rows and runner.may_be_best(attempt):
            others = self._in_other_folds(runner, params, longest)
            attempt = attempt.joined(others) if len(others) == self.folds.used - 1 else attempt
        with self.fits.lock:
            runner.trials.append(attempt.trial)
            runner.keep(attempt)

    def _in_other_folds(
        self, runner: Runner, params: dict[str, Any], longest: float
    ) -> list[Attempt]:
        """Fewer than all of them where the time runs out."""
        found: list[Attempt] = []
        for fold in range(1, self.folds.used):
            if time.monotonic() + runner.foreseen(params, self.train.size) > self.deadline:
                break
            found.append(self._in_fold(runner, params, fold, longest))
        return found

    def _in_fold(
        self, runner: Runner, params: dict[str, Any], fold: int, longest: float
    ) -> Attempt:
        rows, judges = self.folds.train(fold), self.folds.judges(fold)
        until = min(time.monotonic() + longest, self.deadline)
        return self.fits.attempt(runner, params, rows, judges, until)

    def _judge_in_folds(self, alive: list[Runner]) -> None:
        """The best settings of everyone in the other folds, as many as there is time for.

        Who needs three times as long as all the others together is left out, if that leaves more.
        """
        if not alive:
            return
        left = _FOR_FOLDS * (self._end(alive) - time.monotonic())
        cost = {runner.name: self._cost(runner) for runner in alive}
        alive = sorted(alive, key=lambda runner: cost[runner.name])
        best = min(alive, key=_LOSS)
        while True:
            need = sum(cost[runner.name] for runner in alive)
            more = min(int(left / max(need, 1e-9)), self.folds.count - 1)
            slowest = alive[-1]
            few = more < self.folds.count - 1 and cost[slowest.name] > _MOST_OF * need
            if not few or slowest is best:
                break
            alive = alive[:-1]
        if more < 1:
            return
        self.folds.used = 1 + more
        found: dict[str, list[Attempt]] = {runner.name: [] for runner in alive}

        def judge(runner: Runner, fold: int) -> None:
            assert runner.best is not None
            found[runner.name].append(
                self._in_fold(runner, runner.best.params, fold, self.deadline - time.monotonic())
            )

        # Fold by fold: everyone has met the same rows at any time.
        for fold in range(1, self.folds.used):
            self.fits.all([(r, partial(judge, r, fold)) for r in alive], self.train.size)
        for runner in alive:
            assert runner.top is not None
            runner.keep(runner.top.joined(found[runner.name]))

    def _cost(self, runner: Runner) -> float:
        """Seconds of the clock for its best settings in a fold, learned and judged."""
        assert runner.best is not None
        judging = runner.best.seconds - runner.best.learning
        return (runner.again(self.train.size) + judging) / self._threads(runner)

    def _threads(self, runner: Runner) -> int:
        """How many of its fits run side by side."""
        return 1 if runner.is_wide(self.train.size) else self.fits.jobs

    def _explore_to_the_end(self, alive: list[Runner]) -> None:
        """On all rows, or as many as there is time for of who leads without having seen all.

        Whom time is kept back for is looked at again as new settings come in.
        """
        alive = [*alive, *self.winners.ahead(alive)]
        while alive:
            stack = self.winners.stack()
            self.likely = [] if stack is None else stack.members
            now, end, tried = time.monotonic(), self._end(alive), self._tried()
            if now >= end:
                return
            self._explore(alive, min(end, now + _LOOK_AGAIN * (self.deadline - now)))
            if self._tried() == tried:
                return

    def _tried(self) -> int:
        return sum(len(runner.trials) for runner in self.runners)

    def _end(self, alive: list[Runner]) -> float:
        """When it is time for a fit of those in front on all rows."""
        return self.deadline - self._last_fits(alive)

    def _last_fits(self, alive: list[Runner]) -> float:
        """Seconds for the last fit, on all rows, of those who will probably have it."""
        met = [r for r in alive if r.best is not None and r.best.rows == self.train.size]
        front = self.winners.ahead(met) or self.likely or sorted(met, key=_LOSS)[:1]
        return self._at_last(self._together(front)) if self.refit else 0.0

    def _at_last(self, seconds: float) -> float:
        """Of the time that a last fit on all rows would take: with more, it gets fewer rows."""
        return min(seconds, _FOR_LAST * (self.deadline - self.started))

    def _together(self, members: list[Runner]) -> float:
        """Seconds for fits of all these on all rows."""
        return seconds_of(members, self.rows, self.fits.jobs)

    def _can_fit(self, members: list[Runner]) -> bool:
        """Whether there is time for a last fit of all these, if there is to be one."""
        last = self._together(members)
        grace = _GRACE * (self.deadline - self.started)
        return not self.refit or time.monotonic() + last < self.deadline + grace

    def _full(self, runner: Runner, rows: int) -> dict[str, Any] | None:
        """On all rows, a forest with as many trees as the time allows, if these are clearly more.

        Fewer trees were enough to be compared with others: now they meet machines of full size.
        """
        best = runner.best
        if rows < self.train.size or not grows(runner.estimator) or best is None:
            return None
        need = runner.again(rows) * self.folds.count + (runner.again(self.rows) * self.refit)
        share = _SAFE if runner is min(self.runners, key=_LOSS) else _BEHIND_SHARE
        factor = share * (self.deadline - time.monotonic()) / need
        params = larger(runner.estimator, best.params, rows, factor)
        return params if factor > CLEARLY_MORE else None

    def _explore(self, alive: list[Runner], end: float, rows: int | None = None) -> None:
        """New settings, of those in front more often, until ``end``.

        On fewer rows than all these are not many, and none may take long.  None: on as many as each
        has met.
        """
        most = longest = math.inf
        if rows is not None:
            most, longest = _FEW_SETTINGS * len(alive), _ONE_OF_MANY * (end - time.monotonic())
        running: set[Future[None]] = set()
        while alive:
            while len(running) < self.fits.jobs and time.monotonic() < end and most > 0:
                task = self._next(alive, longest, rows)
                if task is None:
                    break
                most -= 1
                if task[0].is_wide(task[2].size):
                    self.fits.finish(running)
                    running = set()
                    self.fits.alone(self._try_in_time, *task, end)
                else:
                    running.add(self.fits.pool.submit(self._try_in_time, *task, end))
            if not running:
                return
            running = self.fits.some(running)

    def _next(
        self, alive: list[Runner], longest: float, rows: int | None
    ) -> tuple[Runner, dict[str, Any], np.ndarray] | None:
        """A runner, new settings and rows for which there is time, if some are found soon."""
        in_front = sorted(alive, key=_LOSS)
        for _ in range(10):
            runner = in_front[int(len(alive) * self.rng.random() ** 2)]
            part = self.train[: rows or runner.most_rows]
            params = self._modest(runner, self.proposals.next(runner, part.size), part.size)
            known = any(t.rows == part.size and t.params == params for t in runner.trials)
            short = runner.foreseen(params, part.size) < longest
            if short and not known and self._time_for(runner, params, part.size):
                return runner, params, part
        return None

    def _modest(self, runner: Runner, params: dict[str, Any], rows: int) -> dict[str, Any]:
        """Fewer landmarks where one setting of many would take much of the time that is left; few
        trees would not tell how good a forest is."""
        most = _ONE_OF_MANY * (self.deadline - time.monotonic())
        while runner.foreseen(params, rows) > most and not grows(runner.estimator):
            less = smaller(runner.estimator, params, rows)
            if less is None:
                break
            params = less
        return params

    def _in_sight(self, alive: list[Runner], rows: int, patience: float) -> list[Runner]:
        """Those within two standard errors, or a share of the loss, of the best; the best first.

        The share falls from half at the start: flexible learners need rows to show what they can.
        On all rows it is one: who errs twice as often may still be right where others are wrong.
        """
        here = [r for r in alive if r.best is not None and r.trials[-1].rows >= rows]
        if not here:
            return []
        here = sorted(here, key=_LOSS)
        together = self.winners.stacks and rows == self.train.size
        share = 1.0 if together else 0.5 * patience
        slack = max(2.0 * here[0].error, share * here[0].loss)
        return [r for r in here if r.loss <= here[0].loss + slack]

    def _time_for(self, runner: Runner, params: dict[str, Any], rows: int) -> bool:
        """Whether a fit on so many rows, and then one on all, would end in time.

        Few rows say little about the time that all would take: then the fit itself counts only.
        """
        first, enough = min(self.runners, key=_LOSS), self.rows / _GROWTH**2
        if len(runner.trials) < 2:
            now = then = sum(trial.seconds for trial in runner.trials)
        else:
            now = runner.foreseen(params, rows) * self.folds.used
            then = runner.foreseen(params, self.rows) if runner.most_rows >= enough else 0.0
        then = self._at_last(then) if self.refit else 0.0
        need = (1.0 if runner is first else _BEHIND) * (now + then)
        need = max(need, now + self._last_fits(self.runners))  # who may win will want its fit
        return time.monotonic() + need < self.deadline

    # ------------------------------------------------------------ rows

    def _sizes(self) -> list[int]:
        """Numbers of rows, about ``_GROWTH`` times more at each step, the last are all."""
        n = self.train.size
        first = min(max(_FIRST_ROWS, n // _GROWTH**3), n)
        steps = round(math.log(n / first, _GROWTH))
        return [int(rows) for rows in np.geomspace(first, n, steps + 1)[:steps]] + [n]
