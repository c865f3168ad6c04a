"""What the confidence-weighted estimators share: the prior, the form of the belief, intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import FLAG, POSITIVE, OneOf, whole
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators.base import Learner, Setup
from thresher.estimators.fronts import Front
from thresher.estimators.views import view
from thresher.functions import Units
from thresher.losses import LeastSquares, SquaredHinge
from thresher.penalties import L2, Penalty, WeightedL2
from thresher.solvers import Chunk, Problem, driver
from thresher.solvers.confidence import COMBINATIONS, Confidence, usual_row
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.confidence_full import FullConfidence
from thresher.solvers.confidence_low_rank import LowRankConfidence
from thresher.solvers.confidence_rules import CW, Rule
from thresher.solvers.stream import Facts

__all__ = ["ConfidenceModel"]

_COVARIANCES = ("auto", "diagonal", "full", "low_rank")
_MOST_FULL = 200  # features up to which a matrix of their covariances is no burden


class ConfidenceModel(Learner):
    """What the two share: parameters, and the problem they stand for."""

    allowed = {
        "covariance": OneOf(*_COVARIANCES), "rank": whole(1), "r": POSITIVE,
        "combine": OneOf(None, *COMBINATIONS), "fit_intercept": FLAG,
        "order": OneOf(*driver.ORDERS), "scale": FLAG | "auto",
    }  # fmt: skip
    alpha_per_row = False  # there is none: the prior is given by itself
    coef_ = view("coef", "Means of the weights, (outputs, features).")
    intercept_ = view("intercept", "One per output.")
    noise_ = view("noise", "Mean squared error of rows just before they were learned from.")
    covariance: str
    rank: int
    r: float
    prior_mean: Any
    prior_variance: Any
    combine: str | None
    fit_intercept: bool
    order: str

    # ------------------------------------------------------------ what is known

    @property
    def weight_deviations(self) -> np.ndarray:
        """Standard deviations of the weights, (outputs, features)."""
        check_is_fitted(self)
        return self.function_.deviations()

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """Intervals that hold each weight with probability ``level``: (outputs, features, 2).

        Parameters
        ----------
        level : float, default=0.95
            Between 0 and 1.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        reach = ndtri(0.5 + 0.5 * level) * self.weight_deviations
        return np.stack([self.coef_ - reach, self.coef_ + reach], axis=-1)

    def variances(self, X: Any) -> np.ndarray:
        """Of the scores, as far as the weights are unknown: (rows, outputs)."""
        check_is_fitted(self)
        return self.function_.variances(input.checked_X(self, X))

    # ------------------------------------------------------------ from parameters to a problem

    def _rule(self, weight: float) -> Rule:
        """The rule, for rows that stand for so many each."""
        raise NotImplementedError

    def learn_units(
        self, rows: Rows, targets: np.ndarray | None, weight: np.ndarray | None, moments: Any = None
    ) -> Units | None:
        """Text is best as it is; dense columns are worth standardising (docs/confidence.md)."""
        if self.scale == "auto" and rows.is_sparse:
            return None
        return super().learn_units(rows, targets, weight, moments)

    def _centres(self) -> bool:
        return self.fit_intercept

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        return {"r": Float(1e-2, 10.0, log=True)}

    def check_options(self) -> None:
        super().check_options()
        if self.prior_variance is not None:
            given = np.asarray(self.prior_variance, dtype=np.float64)
            if given.ndim > 1 or not np.all((given > 0.0) & np.isfinite(given)):
                raise ValueError(
                    "prior_variance must be a positive number, one for each feature, or None; got "
                    f"{self.prior_variance!r}"
                )
        self._rule(1.0)

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Prior and noise in the units that the solver sees."""
        units, d = front.units, rows.shape[1]
        penalty, intercept_variance = self._prior(chunk, units, d)
        # Where all rows are known their weights come with mean one: what they were is said to the
        # rule, for which a row of weight two is two rows.
        count = chunk.order.size if facts.whole else facts.rows
        share = facts.mass / count if facts.mass and count else 1.0
        solver = self._solver(
            d, self._rule(share), intercept_variance, self._prior_mean(units, outputs, d)
        )
        loss = SquaredHinge() if self.task == "classification" else LeastSquares()
        problem = Problem(
            loss, penalty, d, self.fit_intercept, rows.dtype, seed_from(self.random_state), None,
            outputs,
        )  # fmt: skip
        passes = self.max_iter or solver.planned_passes(rows.shape)
        return Setup(problem, solver, driver.Plan(passes, self.order))

    def _solver(self, d: int, rule: Rule, intercept_variance: float, mean: Any) -> Confidence:
        known: dict[str, Any] = {
            "rule": rule, "constant": float(self.fit_intercept), "prior_mean": mean,
            "intercept_variance": intercept_variance,
        }  # fmt: skip
        if self.combine is not None:
            known["combine"] = self.combine
        elif isinstance(rule, CW):  # certain of what rows say that other shards' contradict
            known["combine"] = "average"
        if self.covariance == "low_rank":
            return LowRankConfidence(**known, rank=self.rank)
        small = self.covariance == "auto" and d <= _MOST_FULL
        return (FullConfidence if small or self.covariance == "full" else DiagonalConfidence)(
            **known
        )

    def _prior(self, chunk: Chunk, units: Units | None, d: int) -> tuple[Penalty, float]:
        """The penalty, which is one over the variances, and the variance of the intercept."""
        if self.prior_variance is None:
            square, width = usual_row(chunk) if chunk.order.size else (1.0, 1.0)
            if not math.isfinite(square):
                input.refuse_huge(chunk)
            # The constant counts as much as a usual element of a row; a usual row's score has the
            # variance one.
            square, width = square if square > 1e-300 else 1.0, max(width, 1.0)
            return L2(square * (1.0 + 1.0 / width)), 1.0 / (width + 1.0)
        variance = np.asarray(self.prior_variance, dtype=np.float64)
        if variance.ndim and variance.size != d:
            raise ValueError(f"prior_variance has {variance.size} numbers for {d} features")
        if units is None and not variance.ndim:
            return L2(1.0 / float(variance)), float(variance)
        scale = np.ones(d) if units is None else units.scale
        inner = np.broadcast_to(variance, (d,)) / scale**2
        return WeightedL2(1.0 / inner), float(np.mean(inner))

    def _prior_mean(self, units: Units | None, outputs: int, d: int) -> np.ndarray | None:
        if self.prior_mean is None:
            return None
        mean = np.atleast_2d(np.asarray(self.prior_mean, dtype=np.float64))
        if mean.shape != (outputs, d):
            raise ValueError(f"prior_mean has shape {mean.shape}, not {(outputs, d)}")
        if not np.all(np.isfinite(mean)):
            raise ValueError("prior_mean holds NaN or infinite numbers")
        mean = mean if units is None else mean / units.scale
        return np.hstack([mean, np.zeros((outputs, 1))])
