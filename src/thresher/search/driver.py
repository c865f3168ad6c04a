"""The driver: asks for settings, evaluates them on the folds, tells the study, and stops in time.

Trials run in batches (one generation of annealing chains); a batch is asked for, evaluated in
threads and told in the order of its numbers.  So what is proposed and what is pruned does not
depend on the number of threads.  A single trial (a step of the simplex) spreads its folds over the
threads instead.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, Trial, TrialState
from sklearn.exceptions import ConvergenceWarning

from thresher.search.evaluation import Evaluation
from thresher.search.records import Record, SearchFailed, TrialEvent, failure_report
from thresher.search.simplex import Proposals
from thresher.search.space import Space
from thresher.search.storage import STORAGE_ERRORS, claim, lost_trials, quiet, release
from thresher.search.unit_interval import from_unit, is_numeric, to_unit

__all__ = ["Search"]

_HOPELESS = 10  # failures from the start after which a search gives up
_REDRAWS = 20  # infeasible proposals per trial
_REPORTS = 20  # most reports of a trial to the study
_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "infeasible": TrialState.FAIL,
}


class Search:
    """One search on one study; ``records`` holds what is known, whatever happens to the storage.

    Parameters
    ----------
    batch : int
        Trials asked for together.
    budget : float or None
        Seconds from now; no fit is begun that would not end in time, judging by the fits so far.
    reserve : float
        Fits' worth of the budget to leave for others (the refit).
    """

    def __init__(
        self,
        evaluation: Evaluation,
        space: Space,
        study: optuna.Study,
        *,
        context: dict[str, Any] | None = None,
        batch: int = 5,
        n_jobs: int = 1,
        budget: float | None = None,
        reserve: float = 0.0,
        verbose: int = 0,
        callbacks: Iterable[Callable[[TrialEvent], Any]] | None = None,
    ):
        self.evaluation, self.space, self.study = evaluation, space, study
        self.context = context or {}
        self.batch, self.n_jobs = batch, n_jobs
        self.start, self.budget, self.reserve = time.perf_counter(), budget, reserve
        self.verbose, self.callbacks = verbose, list(callbacks or ())
        self.sign = evaluation.criterion.sign
        self.records: list[Record] = []
        self.ended: str | None = None  # why, if before all trials were run
        self.planned = 0
        self._known: dict[tuple, Record] = {}
        self._seconds: list[float] = []
        self._halt = threading.Event()
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None
        self._recall()

    # ------------------------------------------------------------ phases

    def sample(self, trials: int) -> None:
        """Let the study's sampler propose until it has made ``trials`` feasible proposals."""
        with self._guarded():
            self._take_up()
            while not self.ended:
                self._recall()  # other processes may work on the same study
                mine = [r for r in self.records if not r.phase]
                vain = sum(r.state == "infeasible" for r in mine)
                left = trials - (len(mine) - vain) - self._elsewhere()
                if left <= 0 or (vain > _REDRAWS * trials and vain == len(mine)):
                    break
                if vain > _REDRAWS * trials:
                    self.end(f"{vain} of {len(mine)} proposals were infeasible")
                    break
                # Whole generations: a resumed one is completed first.
                size = min(left, self.batch - len(self.study.get_trials(deepcopy=False))
                           % self.batch)  # fmt: skip
                if mine and self._late(1.0):  # the first is tried whatever it takes
                    self.end("the time budget is used up")
                    break
                self._ask(size)
                self._give_up()

    def given(self, points: Sequence[dict[str, Any]], phase: str) -> list[float]:
        """Evaluate settings (stored values) and return their values, lower is better."""
        with self._guarded():
            self._take_up()
            waiting = [p for p in points if _key(p) not in self._known]
            for k in range(0, len(waiting), self.batch):
                if self.ended or self._late(1.0):
                    self.end("the time budget is used up")
                    break
                part = waiting[k : k + self.batch]
                queued = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
                left = [t.system_attrs.get("fixed_params") for t in queued]  # by a killed search
                for params in part:
                    if params not in left:
                        self.study.enqueue_trial(params, user_attrs={"phase": phase})
                self._ask(len(part))
                self._give_up()
        return [self._energy(self._known.get(_key(p))) for p in points]

    def refine(
        self, method: Callable[[np.ndarray, float], Proposals], trials: int, phase: str
    ) -> bool:
        """Run a local search from the best sampled trial over its numeric parameters.

        False if there is nothing that it could move.
        """
        first = [r for r in self.records if not r.phase and r.state == "complete"]
        if not first or self.ended:
            return True
        best = min(first, key=lambda r: (self.sign * r.value, r.number))
        origin = self.study.get_trials(deepcopy=False)[best.number]
        names = [n for n, d in origin.distributions.items() if is_numeric(d) and not d.single()]
        if not names:
            return False
        start = np.array([to_unit(origin.distributions[n], origin.params[n]) for n in names])
        proposals = method(start, self.sign * best.value)
        asked = 0
        try:
            points = next(proposals)
            while not self.ended:
                points = points[: trials - asked]
                if not len(points):
                    break
                asked += len(points)
                values = self.given([self._at(origin, names, u) for u in points], phase)
                if len(values) < len(points) or asked >= trials:
                    break
                points = proposals.send(np.array(values))
        except StopIteration:
            pass
        finally:
            proposals.close()
        return True

    def _at(self, origin: FrozenTrial, names: list[str], u: np.ndarray) -> dict[str, Any]:
        moved = {n: from_unit(origin.distributions[n], x) for n, x in zip(names, u, strict=True)}
        return {**origin.params, **moved}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    # ------------------------------------------------------------ results

    @property
    def best(self) -> Record | None:
        """The best complete trial; if there is none, the best that was cut short by time."""
        for states in (("complete",), ("stopped",)):
            found = [r for r in self.records if r.state in states and r.folds]
            if found:
                return min(found, key=lambda r: (self.sign * r.value, r.number))
        return None

    def require(self) -> Record:
        """The best trial, or an error that says why there is none."""
        if self.best is None:
            raise SearchFailed(failure_report(self.records, self.ended))
        return self.best

    def _energy(self, record: Record | None) -> float:
        good = record is not None and record.state == "complete"
        return self.sign * record.value if good and record is not None else math.inf

    # ------------------------------------------------------------ one batch

    def _ask(self, size: int) -> None:
        """Ask for a batch, evaluate it and tell the study."""
        work: list[tuple[Trial, Record]] = []
        for _ in range(size):
            trial = self.study.ask()
            first = work[0][0].number if work else trial.number
            work.append((trial, self._begin(trial, first)))
        self._run(work)

    def _take_up(self) -> None:
        """Run again what a killed or interrupted search has left."""
        work = []
        for trial in lost_trials(self.study):
            first = trial.user_attrs.get("run", {}).get("batch", trial.number)
            work.append((trial, self._begin(trial, first)))
        self._run(work)

    def _run(self, work: list[tuple[Trial, Record]]) -> None:
        """Evaluate and tell; an interrupt keeps those that are finished."""
        firsts: dict[tuple, Record] = {}
        todo = []
        for trial, record in work:
            if record.state != "running":
                continue
            if firsts.setdefault(_key(record.stored), record) is record:
                todo.append((trial, record))
        try:
            if self._pool is None or len(todo) == 1:
                for trial, record in todo:
                    self._evaluate(trial, record, self._pool)
            else:
                jobs = [self._pool.submit(self._evaluate, t, r, None) for t, r in todo]
                for job in jobs:
                    job.result()
        except KeyboardInterrupt:
            self._halt.set()
            self.end("interrupted")
        finally:
            if self._pool is not None and self._halt.is_set():
                self._pool.shutdown(wait=True)
            for _, record in work:
                twin = firsts.get(_key(record.stored))
                if record.state == "running" and twin is not None and twin is not record:
                    _copy(twin, record)
            self.evaluation.paths.settle({r.number: len(r.folds) for _, r in work})
            self._tell_all(work)

    def _tell_all(self, work: list[tuple[Trial, Record]]) -> None:
        broken: BaseException | None = None
        for trial, record in work:
            self.records.append(record)
            try:
                self._tell(trial, record)
            except STORAGE_ERRORS as error:  # the other results are kept all the same
                broken = error
        if broken is not None:
            raise broken

    def _begin(self, trial: Trial, first: int) -> Record:
        claim(trial, first)
        params = self.space.suggest(trial, self.context)
        phase = trial.user_attrs.get("phase", "")
        record = Record(trial.number, params, dict(trial.params), phase=phase)
        twin = self._known.get(_key(trial.params))
        if twin is not None and twin.number != trial.number:
            _copy(twin, record)
        elif self.space.feasible is not None and not self.space.feasible(params):
            record.state, record.reason = "infeasible", "ruled out by the space's feasible()"
        return record

    def _evaluate(self, trial: Trial, record: Record, pool: ThreadPoolExecutor | None) -> None:
        """All folds of one trial, until it fails, is hopeless or time is up."""
        k = len(self.evaluation.folds)
        known = self.study.get_trials(deepcopy=False)[trial.number]
        reported = set(known.intermediate_values)
        every = max(1, k // _REPORTS)
        jobs: list[Future] = []
        if pool is not None and k > 1:
            jobs = [pool.submit(self._fold, record, i) for i in range(k)]
        try:
            for i in range(k):
                score = jobs[i].result() if jobs else self._fold(record, i)
                if score is None:
                    record.state = "stopped"
                    return
                record.folds.append(score)
                record.value = float(np.mean(record.folds))
                if (i + 1) % every and i + 1 < k:
                    continue
                if i + 1 not in reported:
                    trial.report(record.value, i + 1)
                if i + 1 < k and trial.should_prune():
                    record.state = "pruned"
                    record.reason = f"hopeless after {i + 1} of {k} folds"
                    return
            record.state = "complete"
        except STORAGE_ERRORS:
            record.state = "complete" if len(record.folds) == k else "stopped"
            raise
        except Exception as error:
            record.state, record.value = "failed", math.nan
            record.reason = f"{type(error).__name__}: {error}"
        finally:
            for job in jobs:
                job.cancel()

    def _fold(self, record: Record, fold: int) -> float | None:
        if self._halt.is_set() or ((fold or self.best) and self._late(1.0 / self._folds)):
            return None
        score = self.evaluation.score(record.params, fold, record.number)
        record.seconds += score.seconds
        self._seconds.append(score.seconds)
        return score.value

    def _tell(self, trial: Trial, record: Record) -> None:
        if record.state == "running":
            record.state = "stopped"
        if record.state == "stopped":
            record.reason = record.reason or self.ended or "out of time"
            release(trial)
            return
        self._known.setdefault(_key(record.stored), record)
        result = {"folds": record.folds, "seconds": record.seconds, "reason": record.reason}
        trial.set_user_attr("result", result)
        done = record.state == "complete"
        self.study.tell(
            trial,
            record.value if done else None,
            state=_STATES[record.state],
            skip_if_finished=True,
        )
        self._announce(record)

    def _announce(self, record: Record) -> None:
        best = self.best
        event = TrialEvent(record, best, self.planned, time.perf_counter() - self.start)
        if self.verbose:
            print(event.line(self.evaluation.criterion.name), flush=True)
        answers = [callback(event) for callback in self.callbacks]
        if any(answer is True for answer in answers):
            self._halt.set()
            self.end("stopped by a callback")

    # ------------------------------------------------------------ stopping

    @property
    def _folds(self) -> int:
        return len(self.evaluation.folds)

    def _late(self, trials: float) -> bool:
        """Whether so many more trials would not end in time."""
        if self.budget is None:
            return False
        fit = float(np.median(self._seconds[-50:])) if self._seconds else 0.0
        width = min(self.n_jobs, self._folds) if trials >= 1.0 else 1
        needed = fit * (trials * self._folds / width + self.reserve)
        needed += (2.0 if trials >= 1.0 else 1.0) * self.evaluation.shared_seconds  # and the refit
        return time.perf_counter() - self.start + needed > self.budget

    def _give_up(self) -> None:
        tried = [r for r in self.records if r.state != "infeasible"]
        if len(tried) >= _HOPELESS and all(r.state == "failed" for r in tried):
            self.end(f"the first {len(tried)} trials failed")

    def end(self, reason: str) -> None:
        self.ended = self.ended or reason

    def _guarded(self) -> Any:
        return _Guard(self)

    def _elsewhere(self) -> int:
        """Sampled trials that other processes are running."""
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return sum("phase" not in trial.user_attrs for trial in running)

    def _recall(self) -> None:
        """Records of what the study knows and we do not yet."""
        seen = {record.number for record in self.records}
        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished() or trial.number in seen:
                continue
            record = Record.of(trial, self.space, self.context)
            self.records.append(record)
            self._known.setdefault(_key(trial.params), record)


class _Guard:
    """Around the work of a phase: no log noise, no warnings of single fits, no lost results."""

    def __init__(self, search: Search):
        self.search = search
        self.caught = warnings.catch_warnings()
        self.quiet = quiet()

    def __enter__(self) -> None:
        self.caught.__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)
        self.quiet.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> bool:
        self.quiet.__exit__(None, None, None)
        self.caught.__exit__(None, None, None)
        if kind is not None and issubclass(kind, STORAGE_ERRORS):
            self.search.end(f"the study's storage failed: {error}")
            return True
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.search.end("interrupted")
            return True
        return False


def _copy(twin: Record, record: Record) -> None:
    """The same setting again: the same result, at no cost."""
    record.value, record.folds, record.state = twin.value, list(twin.folds), twin.state
    same = f"same setting as trial {twin.number}"
    record.reason = same if twin.state in ("complete", "pruned") else twin.reason


def _key(params: dict[str, Any]) -> tuple:
    return tuple(sorted((k, type(v).__name__, v) for k, v in params.items()))
