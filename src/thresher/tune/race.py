"""A race between learners under one clock: who is best on this data in the time there is?

Runners are families of learners with search spaces.  All run on a small part of the rows first;
those that are clearly behind drop out, the others go on with four times as many rows, and the time
that remains is spent on settings of those in front.  Settings are judged on validation rows that
no fit has seen; rows for the final, honest estimate must be kept away from the race by the caller.
Fits run side by side in threads: the compiled loops do not hold Python's lock.

Successive halving: Jamieson and Talwalkar (2016).  Unlike there, a part's time and not its number
of settings is fixed, and a runner stays as long as it is within two standard errors of the best.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from thresher.tune.capacity import has_trees, larger, rescaled, smaller
from thresher.tune.proposals import Proposals
from thresher.tune.runner import Runner, Trial
from thresher.tune.significance import sign_test

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
_UNKNOWN = 0.08  # share of the time after which a fit of unknown pace ends with the next pass
_BEHIND = 2.0  # who is not in front may ask for time as if fits took so much longer


class Outcome(NamedTuple):
    """The winner with its settings for all rows, why it was taken, and everything tried."""

    winner: Runner  # with the model that was judged
    estimator: Any  # not fitted
    params: dict[str, Any]
    rows: int  # that the judged model was fitted on
    reason: str
    trials: list[Trial]

    @property
    def name(self) -> str:
        return self.winner.name


class Race:
    """Runs until ``deadline`` (of ``time.monotonic``), keeping time back for a fit on all rows.

    ``told`` hears of every trial; ``jobs`` fits run at a time.  ``rows``: so many in all, those
    that the race does not get included; nearly all of them seen, the judged model will do and no
    other fit follows.  None: there always is one, on the rows of the race.
    """

    def __init__(
        self, runners: dict[str, Any], X: Any, y: np.ndarray, weight: np.ndarray | None,
        regression: bool, deadline: float, seed: int, told: Callable[[Trial], None] | None = None,
        jobs: int = 1, rows: int | None = None,
    ):  # fmt: skip
        self.runners = [Runner(name, clone(estimator)) for name, estimator in runners.items()]
        self.regression, self.deadline, self.told = regression, deadline, told
        self.rng = np.random.default_rng(seed)
        self.jobs, self.lock = jobs, threading.Lock()
        self.X, self.y, self.weight = X, y, weight
        self.train, self.validation = self._split()
        self.proposals = Proposals(X, y, self.train, self.rng)
        self.rows = rows or self.y.size
        self.refit = rows is None or self.train.size < _NEARLY_ALL * rows

    # ------------------------------------------------------------ the race

    def run(self) -> Outcome:
        alive = list(self.runners)
        sizes = self._sizes()
        # BLAS threads of fits side by side would wait for each other.
        blas = threadpool_limits(1 if self.jobs > 1 else None, "blas")
        with warnings.catch_warnings(), blas, ThreadPoolExecutor(self.jobs) as self.pool:
            warnings.simplefilter("ignore")
            for k, rows in enumerate(sizes):
                later = sum(_LATER**j for j in range(len(sizes) - k))
                alive = self._rung(alive, rows, patience=0.5**k, share=1.0 / later)
                if not alive:
                    break
        tried = [trial for runner in self.runners for trial in runner.trials]
        if not any(runner.best for runner in self.runners):
            problems = {t.runner: t.problem for t in tried if t.problem}
            told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            told = told or "no time: raise the budget"
            raise ValueError(f"no learner could be fitted in the time given ({told})")
        winner, reason = self._winner()
        assert winner.best is not None
        params = winner.units | rescaled(winner.best.params, winner.best.rows, self.rows)
        estimator = clone(winner.estimator).set_params(**params)
        return Outcome(winner, estimator, params, winner.best.rows, reason, tried)

    def _rung(self, alive: list[Runner], rows: int, patience: float, share: float) -> list[Runner]:
        """Everyone's best settings on so many rows, then new settings while the time lasts."""
        part = self.train[:rows]
        started = time.monotonic()
        self._try_all(
            [(r, params) for r in alive for params in self.proposals.first(r, rows)], part
        )
        for runner in alive:
            self._settle_units(runner)
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
        self._explore(alive, part, end)
        return self._in_sight(alive, rows, patience)

    def _try_all(self, tasks: list[tuple[Runner, dict[str, Any] | None]], part: np.ndarray) -> None:
        """Those for which there is time when their turn comes; wide ones by themselves."""
        narrow = [task for task in tasks if not task[0].is_wide]
        for future in [self.pool.submit(self._try_in_time, *task, part) for task in narrow]:
            future.result()
        for task in tasks:
            if task[0].is_wide:
                self._try_in_time(*task, part)

    def _try_in_time(self, runner: Runner, params: dict[str, Any] | None, part: np.ndarray) -> None:
        """With a smaller model where time is short, or not at all."""
        while params is not None and not self._time_for(runner, params, part.size):
            params = smaller(runner.estimator, params, part.size)
        if params is not None:
            now = time.monotonic()
            share = 1.0 if runner.trials else _UNKNOWN
            self._try(runner, params, part, now + share * (self.deadline - now))

    def _full(self, runner: Runner, rows: int) -> dict[str, Any] | None:
        """On all rows, a forest with as many trees as the time allows, if these are clearly more.

        Few trees were enough to be compared with few: now they meet machines of full size.
        """
        best = runner.best
        if rows < self.train.size or not has_trees(runner.estimator) or best is None:
            return None
        need = runner.again(rows) + (runner.again(self.rows) if self.refit else 0.0)
        share = _SAFE if runner is min(self.runners, key=_LOSS) else _BEHIND_SHARE
        factor = share * (self.deadline - time.monotonic()) / need
        params = larger(runner.estimator, best.params, rows, factor)
        return params if factor > _CLEARLY_MORE else None

    def _explore(self, alive: list[Runner], part: np.ndarray, end: float) -> None:
        """New settings, of those in front more often, until ``end``."""
        running: set[Future[None]] = set()
        while alive:
            while len(running) < self.jobs and time.monotonic() < end:
                task = self._next(alive, part)
                if task is None:
                    break
                if task[0].is_wide:
                    running = _none_left(running)
                    self._try_in_time(*task, part)
                else:
                    running.add(self.pool.submit(self._try_in_time, *task, part))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            _none_left(done)

    def _next(self, alive: list[Runner], part: np.ndarray) -> tuple[Runner, dict[str, Any]] | None:
        """A runner and settings for which there is time, if some are found soon."""
        in_front = sorted(alive, key=_LOSS)
        for _ in range(10):
            runner = in_front[int(len(alive) * self.rng.random() ** 2)]
            params = self.proposals.next(runner, part.size)
            if self._time_for(runner, params, part.size):
                return runner, params
        return None

    def _settle_units(self, runner: Runner) -> None:
        """Whether to scale the features is settled by the first fits: widths depend on it."""
        if runner.best is not None and "scale" in runner.best.params:
            rest = dict(runner.best.params)
            runner.units = {"scale": rest.pop("scale")}
            runner.estimator.set_params(**runner.units)
            runner.best = runner.best._replace(params=rest)

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

    # ------------------------------------------------------------ one fit

    def _try(self, runner: Runner, params: dict[str, Any], part: np.ndarray, until: float) -> None:
        started = time.monotonic()
        model, misses, problem = None, None, ""
        try:
            model = clone(runner.estimator).set_params(**params)
            model.set_params(callbacks=[lambda event: time.monotonic() > until])
            weight = None if self.weight is None else self.weight[part]
            model.fit(self.X[part], self.y[part], sample_weight=weight)
            misses = self._misses(model)
            model.callbacks = None
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            problem = str(error)[:200]
        seconds = time.monotonic() - started
        loss = float(np.mean(misses)) if misses is not None else math.inf
        size = _size(model) if misses is not None else 0
        trial = Trial(runner.name, params, int(part.size), loss, seconds, size, problem)
        with self.lock:
            runner.trials.append(trial)
            if misses is not None and self._better(trial, runner):
                runner.best, runner.misses, runner.model = trial, misses, model
            if self.told is not None:
                self.told(trial)

    def _better(self, trial: Trial, runner: Runner) -> bool:
        """Than the runner's best; one that has seen more rows need only be within its error."""
        if runner.best is None:
            return True
        if trial.rows > runner.best.rows:
            return trial.loss <= runner.best.loss + runner.error
        return trial.loss < runner.best.loss

    def _misses(self, model: Any) -> np.ndarray:
        """1 for every validation row in the wrong class, or its squared miss."""
        predicted, y = model.predict(self.X[self.validation]), self.y[self.validation]
        if self.regression:
            return (predicted - y) ** 2
        return (predicted != y).astype(np.float64)

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
        if first.best is not None and first.best.rows == self.train.size:
            then = max(then, first.again(self.rows))  # it may win, and will want its fit
        need = now + (then if self.refit else 0.0)
        return time.monotonic() + (1.0 if runner is first else _BEHIND) * need < self.deadline

    # ------------------------------------------------------------ who wins

    def _winner(self) -> tuple[Runner, str]:
        """The best on the validation rows; a smaller model if the best is not clearly better."""
        here = [r for r in self.runners if r.best is not None]
        best = min(here, key=_LOSS)
        for other in sorted(here, key=attrgetter("size")):
            if other.size > _SMALLER * best.size:
                break
            wins, losses, two_sided = sign_test(other.misses, best.misses)
            p = 0.5 * two_sided if losses > wins else 1.0  # that the larger one is better
            if p > _SURE and other.loss <= best.loss + 2.0 * best.error:
                reason = (
                    f"{best.name} was best ({best.loss:.4g}), but not clearly better than the "
                    f"smaller {other.name} ({other.loss:.4g}; better on {losses} rows, worse on "
                    f"{wins}, p = {p:.2f})"
                )
                return other, reason
        return best, f"{best.name} had the lowest validation loss, {best.loss:.4g}"

    def is_worse(self, model: Any, judged: Runner) -> bool:
        """Whether a model errs on more of the validation rows than the runner's, clearly."""
        wins, losses, p = sign_test(self._misses(model), judged.misses)
        return losses > wins and p < _SURE

    # ------------------------------------------------------------ rows

    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to fit on, in random order, and rows to judge on."""
        n = self.y.size
        rows = self.rng.permutation(n)
        size = min(max(int(_VALIDATION * n), 1), _MOST_VALIDATION)
        if n < 10:
            raise ValueError(f"{n} rows are too few to choose a learner")
        train = rows[size:]
        if not self.regression and np.unique(self.y[train]).size < 2:
            raise ValueError("the rows hold one class only, or one member of the other")
        return train, rows[:size]

    def _sizes(self) -> list[int]:
        """Numbers of rows, about ``_GROWTH`` times more at each step, the last are all."""
        n = self.train.size
        first = min(max(_FIRST_ROWS, n // _GROWTH**3), n)
        steps = round(math.log(n / first, _GROWTH))
        return [int(rows) for rows in np.geomspace(first, n, steps + 1)[:steps]] + [n]


def _none_left(running: set[Future[None]]) -> set[Future[None]]:
    """Wait for them, and hear of what went wrong."""
    for future in running:
        future.result()
    return set()


def _size(model: Any) -> int:
    """Numbers that a model keeps."""
    arrays = [getattr(model, name, None) for name in ("coef_", "support_vectors_", "dual_coef_")]
    made = getattr(model, "map_", None)
    arrays += [getattr(made, "landmarks_", None), *getattr(made, "trees_", ())]
    return sum(
        int(a.nnz if hasattr(a, "nnz") else np.count_nonzero(a)) for a in arrays if a is not None
    )
