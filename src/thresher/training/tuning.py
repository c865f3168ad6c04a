"""Finding the settings of one learner before it is trained: what ``tune=40`` asks for.

The search runs on the rows in memory, or on a stratified sample of a stream; the held-out rows are
never seen by it.  What the user has set stays as it is and is no part of the space.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from thresher.data.errors import nearest
from thresher.engines import Engine
from thresher.registry import TASKS
from thresher.search.criteria import CRITERIA, Criterion, resolve_criterion
from thresher.search.plain import plain
from thresher.training.choice import Choice, for_all_rows
from thresher.training.intake import Intake
from thresher.training.sample import Sample, first_rows, rows_in_memory, stratified_rows

if TYPE_CHECKING:
    from thresher.search import Space, TrialEvent

__all__ = ["Tuner", "Tuning"]

_MOST_ROWS, _FEWEST_ROWS = 50_000, 1000  # of a sample
_COPIES = 6  # of the rows while five folds are judged
_LEAST_OF_A_CLASS = 10
_SURE = 0.05
_STOPPED = dict.fromkeys(("interrupted", "stopped by a callback"), "on request")


@dataclass(frozen=True)
class Tuning:
    """How to tune: so many settings, judged by a criterion on folds; see ``thresher.search``."""

    trials: int
    criterion: str | None = None
    search: str = "csa+simplex"
    cv: Any = 5
    study: str | os.PathLike[str] | None = None

    @classmethod
    def asked(cls, tune: int | None, **options: Any) -> Tuning | None:
        """From arguments of which those that are None were not given."""
        given = {name: value for name, value in options.items() if value is not None}
        if tune is not None:
            return cls(tune, **given)
        for name, value in given.items():
            raise ValueError(
                f"{name}={str(value)!r} is about tuning: say how many settings to try, tune=40"
            )
        return None

    def judge(self, task: str) -> Criterion:
        """The criterion that is named, or the usual one of the task."""
        from sklearn.metrics import get_scorer_names

        fitting = list(TASKS[task].criteria)
        if not fitting:
            raise ValueError(
                "without a target nothing says which settings are better: leave out tune"
            )
        name = self.criterion or fitting[0]
        if isinstance(name, str) and name not in CRITERIA and name not in get_scorer_names():
            raise ValueError(f"criterion={name!r} is unknown: {nearest(name, fitting)}")
        return resolve_criterion(name)

    def check(self, estimator: Any, task: str, resuming: bool) -> None:
        """Refuse what cannot work, before any row is read."""
        from thresher.search.strategy import make_strategy  # loads a database's packages

        if self.trials < 1:
            raise ValueError(f"tune={self.trials} settings are none: ask for some, tune=40")
        self.judge(task).check(estimator, task)
        make_strategy(self.search, 0, 1)
        if resuming and self.study is None:
            raise ValueError(
                "the checkpoint of a tuned model goes with the search that has found its settings: "
                "keep that too, study='FILE.db'"
            )


@dataclass
class Tuner:
    """One search: ``params`` are the user's; ``on_trial`` hears "tuning" or "tuned", the number of
    trials done, the criterion's name and the best score."""

    how: Tuning
    params: dict[str, Any]
    task: str
    classes: np.ndarray
    memory: int
    passes: int | None
    seed: int
    stop: Callable[[], bool]
    on_trial: Callable[[str, int, dict[str, Any]], None]
    on_reading: Callable[[int], None]
    engine: Engine | None = None

    def __post_init__(self) -> None:
        self.criterion = self.how.judge(self.task)

    def run(self, estimator: Any, intake: Intake) -> Choice:
        """Search; the estimator gets the best settings, or keeps its own if none are better."""
        rows = self._rows(intake)
        self._tell("tuning", 0, None)
        search, notes = self._searched(estimator, rows, intake)
        best, usual = search.best_score_, search.baseline_score_
        self._tell("tuned", len(search.trials_), best)
        sign = self.criterion.sign
        helped = usual is None or sign * best < sign * usual
        found = {name: _python(v) for name, v in search.best_params_.items()} if helped else {}
        per_row = estimator.alpha_per_row
        estimator.set_params(**(for_all_rows(found, rows, intake) if per_row else found))
        trials = [_trial(t) for t in search.trials_]
        if usual is not None:
            trials.insert(0, _default(usual))
        story = self._story(search, rows, helped)
        reason = "; ".join([_reason(found, story), *notes])
        return Choice(estimator, reason, trials, story)

    # ------------------------------------------------------------ the rows

    def _rows(self, intake: Intake) -> Sample:
        if intake.kept is not None:
            return rows_in_memory(intake)
        if intake.rows is None:  # they can be read only once, or were not to be counted
            return first_rows(intake)
        size = self.memory // (4 * _COPIES * max(intake.data.schema.row_bytes, 1))
        size = min(_MOST_ROWS, max(_FEWEST_ROWS, size))
        return stratified_rows(
            intake, self.classes, size, _LEAST_OF_A_CLASS, self.seed, self.on_reading
        )

    # ------------------------------------------------------------ the search

    def _searched(self, estimator: Any, rows: Sample, intake: Intake) -> tuple[Any, list[str]]:
        from thresher.search import TUNED

        how, candidate = self.how, self._candidate(estimator, rows, intake)
        search = TUNED[self.task](
            candidate, space=self._space(candidate, rows), search=how.search, n_trials=how.trials,
            criterion=self._judging(), cv=how.cv, refit=False, cluster=self.engine,
            storage=how.study, study_name=self._study_name(estimator),
            n_jobs=self.params.get("n_jobs"), random_state=self.seed, callbacks=[self._heard],
        )  # fmt: skip
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._fit(search, rows)
        texts = {str(w.message): None for w in caught if w.category is UserWarning}
        return search, [t for t in texts if "search ended" not in t]

    def _labels(self, estimator: Any, rows: Sample) -> np.ndarray:
        irrelevant = estimator.get_params(deep=False).get("irrelevant")
        return rows.labelled(self.classes, irrelevant)

    def _judging(self) -> Criterion:
        """The criterion, which also looks whether to stop; workers cannot be asked."""
        if self.engine is not None:
            return self.criterion
        return _interruptible(self.criterion, self.stop)

    def _fit(self, search: Any, rows: Sample) -> None:
        """An interrupt ends the search; what it has found by then is kept."""
        from thresher.search import SearchFailed

        try:
            search.fit(rows.X, self._labels(search.estimator, rows), sample_weight=rows.weight)
        except KeyboardInterrupt:  # after the search, while the defaults were judged
            if not hasattr(search, "best_params_"):
                raise
            search.ended_ = "interrupted"
        except SearchFailed:
            if self.stop():
                raise KeyboardInterrupt from None  # there is no model yet
            raise

    def _heard(self, event: TrialEvent) -> bool:
        best = None if event.best is None else event.best.value
        self._tell("tuning", event.trial.number + 1, best)
        return self.stop()

    def _tell(self, stage: str, trials: int, best: float | None) -> None:
        self.on_trial(stage, trials, {"criterion": self.criterion.name, "best": best})

    def _candidate(self, estimator: Any, rows: Sample, intake: Intake) -> Any:
        """A copy to try settings with, as they would do on all rows."""
        candidate = clone(estimator)
        if self.passes is not None:
            candidate.max_iter = self.passes
        if candidate.alpha_per_row and candidate.alpha is not None and intake.rows:
            candidate.alpha *= intake.rows / rows.size
        if "n_jobs" in self.params:  # the threads are for the trials
            candidate.n_jobs = None
        probable = self.criterion.name not in CRITERIA or "predict_proba" in self.criterion.needs[0]
        if hasattr(candidate, "calibrate") and not probable:
            candidate.calibrate = None  # costs fits, and changes no label and no order
        return candidate

    def _space(self, candidate: Any, rows: Sample) -> Space:
        """What the learner declares, without what the user has set."""
        from thresher.search.space import Space  # slow to import
        from thresher.search.spaces import context_of, space_for

        declared = space_for(candidate, rows.X, self._labels(candidate, rows))
        context = context_of(candidate)
        given = _given(self.params)
        space = Space({n: d for n, d in declared.dimensions.items() if n not in given})
        rng = np.random.default_rng(0)
        if not space.sample(rng, context):
            names = ", ".join(declared.sample(rng, context)) or "it has no settings to search"
            raise ValueError(f"there is nothing to tune: all is given ({names})")
        return space

    def _study_name(self, estimator: Any) -> str:
        """Other fixed settings are another study, in the same file if one likes."""
        fixed = repr((sorted((k, repr(v)) for k, v in self.params.items()), self.passes))
        digest = zlib.crc32(fixed.encode())
        return f"{type(estimator).__name__}-{self.criterion.name}-{digest:08x}"

    # ------------------------------------------------------------ telling

    def _story(self, search: Any, rows: Sample, helped: bool) -> dict[str, Any]:
        """What reports need; plain numbers and words."""
        how, study = self.how, self.how.study
        return {
            "trials": how.trials,
            "done": len(search.trials_),
            "ended": _STOPPED.get(search.ended_, search.ended_),
            "criterion": self.criterion.name,
            "direction": "maximize" if self.criterion.maximise else "minimize",
            "search": plain(how.search),
            "cv": plain(how.cv),
            "folds": len(search.folds_),
            "rows": rows.size,
            "sample": rows.described,
            "study": None if study is None else os.fspath(study),
            "score": search.best_score_,
            "default": search.baseline_score_,
            "helped": helped,
            "significance": {k: c._asdict() for k, c in search.significance_.items()},
            "given": {name: plain(value) for name, value in self.params.items()},
            "passes": self.passes,
        }


def _interruptible(criterion: Criterion, stop: Callable[[], bool]) -> Criterion:
    """A request to stop is heard after every fit, not only after a generation of trials."""

    def judge(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
        if stop():
            raise KeyboardInterrupt
        return criterion.judge(estimator, X, y, weight)

    return dataclasses.replace(criterion, judge=judge)


def _given(params: dict[str, Any]) -> set[str]:
    """Names that are no part of the space: what was set, also within ``Pinball(tau=0.2)``."""
    names = set(params)
    for name, value in params.items():
        if dataclasses.is_dataclass(value):
            names |= {f"{name}__{field.name}" for field in dataclasses.fields(value)}
    strength = getattr(params.get("penalty"), "strength", 1.0)
    if params.get("penalty__strength", strength) not in (None, 1.0):
        names.add("alpha")  # it would only multiply the strength
    return names


def _reason(found: dict[str, Any], story: dict[str, Any]) -> str:
    """Why these settings: completes 'chosen because'."""
    name, score, usual = story["criterion"], story["score"], story["default"]
    best = "highest" if story["direction"] == "maximize" else "lowest"
    if not story["helped"]:
        text = f"none of {story['done']} settings was better than the defaults, {name} {usual:.4g}"
    else:
        settings = ", ".join(f"{k} = {_short(v)}" for k, v in found.items())
        text = f"{settings} gave the {best} {name} of {story['done']} settings, {score:.4g}"
        if usual is not None:
            text += f"; the defaults gave {usual:.4g}{_certainty(story)}"
    if story["ended"]:
        text += f"; the search ended before {story['trials']} settings ({story['ended']})"
    if story["sample"]:
        carried = " (alpha n carries over)" if "alpha" in found else ""
        text += f"; tuned on {story['sample']}{carried}, learned from all"
    return text


def _certainty(story: dict[str, Any]) -> str:
    compared = story["significance"].get("default")
    if compared is None:
        return ""
    p = compared["p_corrected"]
    return f" ({'a clear' if p < _SURE else 'not a clear'} difference, p = {p:.2g})"


def _trial(trial: dict[str, Any]) -> dict[str, Any]:
    """A trial as it is kept with the model; a score is that of all folds."""
    done = trial["state"] == "complete" and math.isfinite(trial["value"])
    params = {name: plain(value) for name, value in trial["params"].items()}
    known = {name: trial[name] for name in ("folds", "state", "seconds", "reason", "phase")}
    score = trial["value"] if done else None
    return {"number": trial["number"] + 1, "params": params, "score": score, **known}


def _default(score: float) -> dict[str, Any]:
    known = {"folds": [], "state": "complete", "seconds": 0.0, "reason": "", "phase": "default"}
    return {"number": 0, "params": {}, "score": score, **known}


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
