"""Behind ``UniversumClassifier``: options, codes, and from rows to a function."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._allowed import FLAG, POSITIVE, OneOf, number
from thresher._rows import Rows
from thresher.dimensions import Float
from thresher.estimators._partly_labelled import IRRELEVANT, UNLABELLED, from_targets, partly_coded
from thresher.estimators.base import SEVERITY
from thresher.estimators.classifier import Classifier
from thresher.estimators.exact_fit import INDEFINITE
from thresher.estimators.fronts import Front, UnitsFront
from thresher.estimators.mapped import MapModel
from thresher.estimators.progress import Held
from thresher.estimators.spaces import kernel_dimensions
from thresher.estimators.universum_fit import Given, by_columns, by_features
from thresher.estimators.universum_tuning import TUNINGS, tuned
from thresher.functions.base import require
from thresher.kernels import Kernel
from thresher.losses import Hinge
from thresher.penalties import L2
from thresher.registry import resolve
from thresher.solvers import Problem, Status, driver
from thresher.solvers.stream import Stream
from thresher.solvers.universum import READINGS, STARTS, ThreeClass

__all__ = ["UniversumModel"]

_ALGORITHMS = ("auto", "exact", "mapped", "linear")
_MOST_EXACT = 5_000  # rows that "auto" solves exactly
_USUAL_STEPS = 50
_ENOUGH = 1e-3  # of tol: by what share of the objective a step must lower it, where it is exact
# What all rows of a kind weigh together beside the labelled ones, where nobody says.  Of unlabelled
# rows a tenth: by generated mixtures of two classes and a third of neither, where as much as the
# labelled ones is worse than leaving them out.
_USUAL_SHARES = {"C_unlabelled": 0.1, "C_irrelevant": 1.0}


class UniversumModel(Classifier, MapModel):
    """Everything but the signature and ``fit``."""

    partly_labelled = True
    alpha_per_row = False  # C is one row's
    allowed = {
        "unlabelled": OneOf(*READINGS), "start": OneOf(*STARTS), "algorithm": OneOf(*_ALGORITHMS),
        "tuning": OneOf(*TUNINGS), "C": POSITIVE, "C_unlabelled": POSITIVE | None,
        "C_irrelevant": POSITIVE | None, "epsilon": number(0.0, 1.0, "[)"),
        "kappa": number(-1.0, 0.0, "(]"), "balance": number() | "labels" | None, "tol": POSITIVE,
        "scale": FLAG,
    }  # fmt: skip
    record = (*Classifier.record, "algorithm_", "objectives_")
    optional_record = (*Classifier.optional_record, "tuned_")
    unlabelled: str
    irrelevant: Any
    C: float
    C_unlabelled: float | None
    C_irrelevant: float | None
    epsilon: float
    kappa: float
    balance: Any
    tuning: str | None
    start: str
    algorithm: str
    tol: float
    algorithm_: str
    judged_by_errors = True  # its loss is not that of the labelled rows alone
    objectives_: list[list[float]]
    relevant_: np.ndarray

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        resolve(self.kernel, Kernel, "kernel")

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        parts: dict[str, Any] = {
            "C": Float(1e-2, 1e4, log=True),
            "C_unlabelled": Float(1e-4, 1e2, log=True),
            "epsilon": Float(0.0, 0.9),
            "kappa": Float(-0.9, 0.0, when={"unlabelled": ("mixed", "relevant")}),
        }
        if self.algorithm != "linear":
            parts |= kernel_dimensions(self, X)
            parts.pop("kernel__degree", None)  # an object then, and gamma is for kernels by name
        return parts

    def work(self, params: dict[str, Any], rows: int) -> float:
        exact = self._chosen(rows) == "exact"
        return float(rows) ** 2 if exact else super().work(params, rows)

    def _can_stream(self) -> bool:
        raise AttributeError(
            f"{type(self).__name__} looks at all rows in every step and has no partial_fit: give "
            "it a sample of the unlabelled rows"
        )

    def streams_files(self) -> bool:
        return False

    def solves_problems(self) -> bool:
        """Every concave-convex step notes where it stands."""
        return True

    def without_stream(self) -> tuple[str, str]:
        return "learning from unlabelled rows", "a sample of the rows without labels"

    def _chosen(self, rows: int) -> str:
        if self.algorithm != "auto":
            return self.algorithm
        return "exact" if rows <= _MOST_EXACT else "mapped"

    # ------------------------------------------------------------ codes

    def check_codes(
        self, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None
    ) -> None:
        known = codes >= 0
        if not known.any():
            raise ValueError(
                "all rows are unlabelled or irrelevant: give some rows of each class their label"
            )
        super().check_codes(codes[known], classes, None if weight is None else weight[known])
        counted = codes[known] if weight is None else codes[known & (weight > 0.0)]
        empty = np.flatnonzero(np.bincount(counted, minlength=classes.size) == 0)
        if empty.size:
            raise ValueError(
                f"the class {classes[empty[0]].item()!r} has no labelled row: label one, or leave "
                "it out of the classes"
            )

    def labelled_rows(self, y: np.ndarray) -> np.ndarray:
        return partly_coded(y, self.irrelevant)[1] >= 0

    def coded(self, codes: np.ndarray) -> tuple[np.ndarray, int]:
        """Class numbers as they are, and the number of functions."""
        classes = int(self.classes_.size)
        return codes.astype(np.float64), 1 if classes == 2 else classes

    def class_weighted(self, codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        known = codes >= 0
        if self.class_weight is None or known.all():
            return super().class_weighted(codes, weight)
        out = np.ones(codes.size) if weight is None else weight.copy()
        own = super().class_weighted(codes[known], None if weight is None else weight[known])
        out[known] = own
        return out

    def check_targets(self) -> None:
        super().check_targets()
        require(self.algorithm_ in _ALGORITHMS, "algorithm_ is unknown")
        paths = self.objectives_
        listed = isinstance(paths, list) and all(isinstance(path, list) for path in paths)
        plain = listed and all(isinstance(v, float) for path in paths for v in path)
        require(plain, "objectives_ must be lists of numbers")
        found = getattr(self, "tuned_", {})
        numbers = isinstance(found, dict) and all(map(_is_number, found.values()))
        require(numbers, "tuned_ must be numbers by name")

    # ------------------------------------------------------------ learning

    def fit_coded(self, X: Any, y: np.ndarray, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from checked rows and targets as readers code them, blank ones too."""
        codes = from_targets(y)
        self.check_irrelevant(codes)
        return self.fit_codes(X, codes, classes, weight)

    def check_irrelevant(self, codes: np.ndarray) -> None:
        """Say so if no row is of no class, though a label for such rows is given."""
        if self.irrelevant is not None and not (codes == IRRELEVANT).any():
            warnings.warn(
                f"no row has the label irrelevant={self.irrelevant!r}: nothing is known to belong "
                "to no class",
                stacklevel=3,
            )

    def fit_codes(
        self, X: Any, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None = None
    ) -> Self:
        """Learn from class numbers, ``UNLABELLED`` and ``IRRELEVANT``; tuned first, if asked to."""
        self.__dict__.pop("tuned_", None)
        if self.tuning is not None:
            self.check_codes(codes, classes, weight)
            self.tuned_ = tuned(self, X, codes, classes, weight)
        return super().fit_codes(X, codes, classes, weight)

    def setting(self, name: str) -> Any:
        """A number as it was tuned, or as it was given."""
        return vars(self).get("tuned_", {}).get(name, getattr(self, name))

    def fit_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        held: Held | None = None,
    ) -> None:  # fmt: skip
        """Learn from class numbers, ``UNLABELLED`` and ``IRRELEVANT``."""
        self._forget()
        codes = targets.astype(np.int64)
        weight = np.ones(codes.size) if weight is None else weight
        self.algorithm_ = self._chosen(int(np.count_nonzero(weight)))
        front = self._front(rows, codes, weight)
        loss = ThreeClass(self.setting("epsilon"), self.setting("kappa"), self.unlabelled)
        kept = np.flatnonzero(weight > 0.0)
        given = Given(
            loss, codes[kept], self._costs(codes, weight)[kept], weight[kept], outputs,
            self.start, self.balance, self.max_iter or _USUAL_STEPS,
            _ENOUGH * self.tol if self.algorithm_ == "exact" else self.tol,
        )  # fmt: skip
        self._check_balance(given)
        learn = by_columns if self.algorithm_ == "exact" else by_features
        with np.errstate(over="ignore", invalid="ignore"):
            found = learn(self, front, rows, kept, given)
        if not found.function.is_finite():
            raise ArithmeticError("the model overflows: scale the features or lower C")
        self.objectives_, self.relevant_ = found.objectives, np.zeros(codes.size, dtype=bool)
        self.relevant_[kept] = found.relevant
        mass = float(weight[codes >= 0].sum())
        penalty = L2(1.0 / (self.setting("C") * mass))
        problem = Problem(Hinge(), penalty, rows.shape[1], True, rows.dtype, 0, self.tol, outputs)
        stream = Stream(problem, found.solver, None)
        signs = np.where(codes == 1, 1.0, -1.0) if outputs == 1 else targets
        judges = driver.whole(rows, signs, np.where(codes >= 0, weight, 0.0))
        own = getattr(found.function, "kernel", None)
        self.mind_units(own or getattr(getattr(front, "map", None), "kernel_", None), judges, front)
        status = self.judged(found.status, stream, judges, found.function, front)
        self.keep(found.function, status, found.steps, stream)
        if found.negative:
            warnings.warn(f"{type(self).__name__}: {INDEFINITE}", ConvergenceWarning, stacklevel=3)
        if SEVERITY.index(status) >= SEVERITY.index(Status.MAX_ITER):
            self._warn(status)

    def _front(self, rows: Rows, codes: np.ndarray, weight: np.ndarray) -> Front:
        if self.algorithm_ == "mapped":
            # Maps without a kernel may look at labels, and blanks are none.
            by_labels = not self.planned_map().uses_kernel
            weight = np.where(codes >= 0, weight, 0.0) if by_labels else weight
            return self.learn_front(rows, codes, weight)
        return UnitsFront(self.learn_units(rows, codes, weight))

    def _asks_strength(self) -> bool:
        return False

    def _costs(self, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """What each row's loss is multiplied by."""
        C = float(self.setting("C"))
        known = float(weight[codes >= 0].sum())
        out = C * weight
        for code, name in ((UNLABELLED, "C_unlabelled"), (IRRELEVANT, "C_irrelevant")):
            mine, given = codes == code, self.setting(name)
            mass = float(weight[mine].sum())
            if mass > 0.0:
                usual = C * min(1.0, _USUAL_SHARES[name] * known / mass)
                out[mine] = weight[mine] * (usual if given is None else given)
        return out

    def _check_balance(self, given: Given) -> None:
        if self.balance is not None and not np.any(given.codes == UNLABELLED):
            raise ValueError(
                "balance is the mean score of unlabelled rows, and there are none: leave it None"
            )

    def _forget(self) -> None:
        super()._forget()
        for name in ("objectives_", "relevant_"):
            self.__dict__.pop(name, None)

    def taken_for_members(self, scores: np.ndarray) -> np.ndarray:
        """Whether rows with these scores (rows, outputs) are taken for members of a class."""
        loss = ThreeClass(self.setting("epsilon"), self.setting("kappa"))
        sure = loss.are_members(scores)
        if scores.shape[1] > 1:  # far from one of several classes is not sure of another
            sure &= scores > 0.0
        return np.asarray(sure.any(axis=1))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
