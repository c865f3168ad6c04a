"""The last round of a race: the best settings of those in front meet on other rows.

Of many settings, the one with the lowest loss on the validation rows has it partly by luck, and the
more were tried, the more luck there was.  So the few best of everyone are fitted again without
another part of the rows and judged on that, part after part while there is time.  The rows that
they were chosen on do not count any more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from thresher.race.fitting import Fitting
from thresher.race.runner import KEPT, Attempt, Runner
from thresher.search.significance import paired_t_test

__all__ = ["Finals"]

_PARTS, _LEAST = 4, 2  # parts of the rows to meet on, and with how many a final counts
_MANY = 40  # settings of the best that there must be time for: of few the lowest loss is no luck
_SHARE = 0.5  # of the time for settings on all rows, that a final may need
_SPARE = 1.5  # times what it may need are kept, since the last fits end late
_SLOWER = 1.2  # what a fit may take, to what it took before
_CLEARLY, _FAR = 2.0, 3.0  # standard errors of the difference to the best: to be out, or not let in


@dataclass
class _Finalist:
    runner: Runner
    attempt: Attempt
    misses: list[np.ndarray] = field(default_factory=list)
    seconds: float = field(init=False)  # of its last fit

    def __post_init__(self) -> None:
        self.seconds = self.attempt.trial.seconds

    @property
    def judged(self) -> np.ndarray:
        """Its losses on the new rows; on those it was chosen on before it has met any."""
        return np.concatenate(self.misses) if self.misses else self.attempt.misses

    @property
    def loss(self) -> float:
        return float(np.mean(self.judged))


class Finals:
    """On parts of the rows ``train`` as large as ``validation``, which takes the part's place."""

    def __init__(self, fits: Fitting, train: np.ndarray, validation: np.ndarray):
        self.fits, self.train, self.validation = fits, train, validation
        self.parts = min(_PARTS, train.size // max(validation.size, 1))

    def seconds(self, alive: list[Runner], left: float) -> float:
        """Time to keep back of what is left for settings."""
        if _MANY * self._wall([_Finalist(r, r.top[0]) for r in alive[:1]]) > left:
            return 0.0
        likely = [_Finalist(r, attempt) for r in alive for attempt in r.top[:1] * KEPT]
        chosen = self._affordable(_near(likely, _FAR), self.parts, _SHARE * left)
        return _SPARE * self.parts * self._wall(chosen)

    def run(self, alive: list[Runner], deadline: float) -> None:
        """Give runners the settings that do best on new rows, and their losses there.

        Where time was kept for it, or is left.
        """
        finalists = [_Finalist(runner, attempt) for runner in alive for attempt in runner.top]
        finalists, done = _near(finalists, _FAR), 0
        while done < self.parts and len(finalists) > 1:
            left = deadline - time.monotonic()
            chosen = self._affordable(finalists, self.parts - done, left)
            if not chosen:
                break
            self.fits.all([(f.runner, partial(self._meet, f, done, deadline)) for f in chosen])
            if time.monotonic() > deadline:  # some were stopped
                for finalist in chosen:
                    del finalist.misses[done:]
                break
            finalists, done = _near(chosen, _CLEARLY), done + 1
        if done >= _LEAST or (done and len(finalists) == 1):
            _settle(finalists)

    def _affordable(self, finalists: list[_Finalist], parts: int, left: float) -> list[_Finalist]:
        """The first, and others as far as there is time for all parts; or, if that is for none, for
        fewer parts."""
        chosen = finalists[:1]
        for k in range(parts if self.parts >= _LEAST else 0, 0, -1):
            for finalist in finalists[1:]:
                if k * self._wall([*chosen, finalist]) < left:
                    chosen.append(finalist)
            if len(chosen) > 1:
                return chosen
        return []

    def _wall(self, finalists: list[_Finalist]) -> float:
        """Seconds that it will take to judge all of them on one part."""
        jobs = self.fits.jobs
        return _SLOWER * sum(f.seconds / (1 if f.runner.is_wide else jobs) for f in finalists)

    def _meet(self, finalist: _Finalist, part: int, deadline: float) -> None:
        size = self.validation.size
        judges = self.train[part * size : (part + 1) * size]
        rows = np.concatenate([self.train, self.validation])
        rest = np.delete(rows, slice(part * size, (part + 1) * size))
        params = finalist.attempt.trial.params
        met = self.fits.attempt(finalist.runner, params, rest, judges, deadline)
        finalist.misses.append(met.misses)
        finalist.seconds = met.trial.seconds


def _near(finalists: list[_Finalist], errors: float) -> list[_Finalist]:
    """Those that are not clearly worse than the best on the same rows; the best first."""
    finalists = sorted((f for f in finalists if np.isfinite(f.loss)), key=lambda f: f.loss)
    return [f for f in finalists if not paired_t_test(f.judged, finalists[0].judged)[0] > errors]


def _settle(finalists: list[_Finalist]) -> None:
    for finalist in reversed(finalists):  # the best of each runner comes last
        finalist.runner.top = [finalist.attempt]
        finalist.runner.final = finalist.judged
