"""Behind ``NoveltyClassifier``: options, the three ways to learn, the threshold."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import FLAG, POSITIVE, OneOf, number, whole
from thresher._outliers import WORD
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators.base import SEVERITY, Learner, Setup
from thresher.estimators.classifier import Classifier
from thresher.estimators.exact_fit import ExactFit
from thresher.estimators.fronts import Front, UnitsFront
from thresher.estimators.mapped import MapModel
from thresher.estimators.novelty_threshold import out_of_fold, quantile
from thresher.estimators.progress import Held
from thresher.estimators.spaces import kernel_dimensions, strength
from thresher.estimators.support_fit import Fitted, Watch, support_function
from thresher.estimators.support_fit import Rows as KernelRows
from thresher.functions import Rejecting
from thresher.functions.base import check_numbers, require
from thresher.kernels import Kernel
from thresher.kernels.columns import KernelColumns, fitting_precision
from thresher.kernels.gram import gram
from thresher.kernels.width import resolve_kernel
from thresher.losses import Hinge
from thresher.penalties import L2
from thresher.registry import resolve
from thresher.solvers import Chunk, Problem, Status, driver
from thresher.solvers.machines import KernelDual
from thresher.solvers.novelty import READINGS, Coupled, exact_novelty, least_squares_novelty
from thresher.solvers.novelty_pegasos import RADII, NoveltyPegasos
from thresher.solvers.stream import Facts, Stream, Streams

__all__ = ["NoveltyModel"]

_ALGORITHMS = ("auto", "exact", "least_squares", "pegasos")
_MOST_VARIABLES = 20_000  # rows times classes that "auto" solves exactly
_STREAM_ALPHA = 1e-5
_USUAL_C = 10.0  # of least squares


class NoveltyModel(Classifier, MapModel, ExactFit):
    """Everything but the signature and the predictions."""

    task = "novelty"
    by_codes = True
    calibrate = None
    alpha_per_row = False
    allowed = {
        "algorithm": OneOf(*_ALGORITHMS), "reading": OneOf(*READINGS), "coupling": number(),
        "nu": number(0.0, 1.0, "(]"), "C": POSITIVE | None,
        "false_alarms": number(0.0, 1.0, "[)") | None, "alpha": POSITIVE | None,
        "radius": OneOf(*RADII), "average": FLAG, "batch": whole(1),
        "order": OneOf(*driver.ORDERS), "tol": POSITIVE,
    }  # fmt: skip
    record = (*Classifier.record, "outlier_label_", "algorithm_", "threshold_")
    optional_record = (*Learner.optional_record, "rho_", "norms_", "cosines_", "violation_")
    outlier_label: Any
    algorithm: str
    reading: str
    coupling: float
    nu: float
    C: float | None
    false_alarms: float | None
    alpha: float | None
    radius: str | None
    average: bool
    batch: int
    order: str
    tol: float
    outlier_label_: Any

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        if not self.coupling > 1.0:
            raise ValueError(
                "coupling (the gamma of the objective) must be larger than 1, else the problem is "
                f"not convex; got {self.coupling!r}"
            )
        resolve(self.kernel, Kernel, "kernel")

    @property
    def has_map(self) -> bool:
        """None: "pegasos" takes rows as they are."""
        return self.map is not None

    def _chosen(self, rows: int | None, classes: int) -> str:
        """The algorithm; ``rows`` None: they come in parts."""
        if self.algorithm != "auto":
            return self.algorithm
        few = rows is not None and rows * classes <= _MOST_VARIABLES
        return "exact" if few else "pegasos"

    def _can_stream(self) -> bool:
        if self.algorithm in ("auto", "pegasos"):
            return True
        raise AttributeError(
            f"algorithm={self.algorithm!r} must see all rows at once and has no partial_fit; use "
            "'pegasos'"
        )

    def without_stream(self) -> tuple[str, str]:
        """Who needs all rows, and what to use where they are too many."""
        return f"algorithm={self.algorithm!r}", "algorithm='pegasos'"

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        """The coupling, the width of the kernel, and how much slack costs."""
        exact, squares = ({"algorithm": names} for names in (("auto", "exact"), "least_squares"))
        parts: dict[str, Any] = {"coupling": Float(1.02, 50.0, log=True)}
        if self.C is None:
            parts["nu"] = Float(0.005, 0.5, log=True, when=exact)
            parts["C"] = Float(1e-2, 1e4, log=True, when=squares)
        if self.algorithm == "pegasos":
            parts = {"coupling": parts["coupling"], "alpha": strength(X)}
        if self.algorithm != "pegasos" or (self.has_map and self.make_map().uses_kernel):
            parts |= kernel_dimensions(self, X)
            parts.pop("kernel__degree", None)  # an object then, and gamma is for kernels by name
        return parts

    def work(self, params: dict[str, Any], rows: int) -> float:
        if self.algorithm != "pegasos":
            return float(rows) ** 2
        return super().work(params, rows) if self.has_map else float(rows)

    # ------------------------------------------------------------ labels and codes

    @property
    def outcomes_(self) -> np.ndarray:
        """All labels: the known classes and that of rows of no class, sorted."""
        return np.unique(np.append(self.classes_, self.outlier_label_))

    @property
    def outlier(self) -> Any:
        return self.outlier_label_

    def _outlier_of(self, labels: np.ndarray) -> Any:
        """Which of all labels is that of rows of no class: see ``outlier_label``."""
        if self.outlier_label is not None:
            return self.outlier_label
        return WORD if labels.dtype.kind in "UO" else labels.min().item()

    def take_labels(self, labels: np.ndarray) -> None:
        label = self._outlier_of(labels)
        self.classes_, self.outlier_label_ = labels[labels != label], label
        if self.classes_.size == labels.size:
            raise ValueError(f"outlier_label={label!r} is not among the labels {labels}")

    @property
    def _place(self) -> int:
        """Of rows of no class among all labels."""
        return int(np.flatnonzero(self.outcomes_ == self.outlier_label_)[0])

    def check_codes(
        self, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None
    ) -> None:
        kept = codes if weight is None else codes[weight > 0.0]
        if np.all(classes[kept] == self._outlier_of(classes)):
            raise ValueError(
                "all rows are outliers: some must belong to a class "
                f"(outlier_label={self.outlier_label!r})"
            )

    def coded(self, codes: np.ndarray) -> tuple[np.ndarray, int]:
        """Class numbers, -1 for rows of no class, and the number of classes."""
        place = self._place
        out = np.where(codes > place, codes - 1, codes)
        return np.where(codes == place, -1, out).astype(np.float64), int(self.classes_.size)

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        return self.outcomes_[scores.argmax(axis=1)], scores, None

    @property
    def link(self) -> Any:
        """Scores do not become probabilities."""
        return None

    def check_targets(self) -> None:
        """ValueError for labels, read from a file, that do not fit the function."""
        classes, label = self.classes_, self.outlier_label_
        known = isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size >= 1
        require(known and classes.dtype.kind in "biufUO", "classes_ must be numbers or strings")
        require(np.all(classes[:-1] < classes[1:]), "classes_ must be sorted and distinct")
        words = classes.dtype.kind in "UO"
        plain = isinstance(label, str if words else int | float) and label not in classes.tolist()
        require(plain, "outlier_label_ does not go with the classes")
        function = self.function_
        require(isinstance(function, Rejecting), "the function has no output for rows of no class")
        text = f"{classes.size} classes need {classes.size + 1} outputs, got {function.outputs}"
        require(function.outputs == classes.size + 1, text)
        require(function.place == self._place, "rows of no class stand at another place")
        require(self.algorithm_ in _ALGORITHMS, "algorithm_ is unknown")
        number = isinstance(self.threshold_, float) and math.isfinite(self.threshold_)
        require(number, "threshold_ must be a number")
        for name, shape in (("rho_", 1), ("norms_", 1), ("cosines_", 2)):
            if name in vars(self):
                check_numbers(name, getattr(self, name), (classes.size,) * shape)

    # ------------------------------------------------------------ learning

    def fit_codes(
        self, X: Any, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None = None
    ) -> Self:
        """Learn from numbers of labels, and find the threshold."""
        self.threshold_ = 0.0
        super().fit_codes(X, codes, classes, weight)
        stopped = self.status_ in (Status.INTERRUPTED, Status.OUT_OF_TIME)
        if self.false_alarms is not None and not stopped:
            self._move_threshold(X, codes, weight)
        return self

    def solves_problems(self) -> bool:
        """Which of the algorithms, the rows will tell; only the exact one notes where it stands."""
        return self.algorithm in ("auto", "exact")

    def fit_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        held: Held | None = None,
    ) -> None:  # fmt: skip
        """Learn from class numbers; other numbers are rows of no class."""
        self.algorithm_ = self._chosen(rows.shape[0], outputs)
        if self.algorithm_ == "pegasos":
            super().fit_targets(rows, targets, weight, outputs, held)
            return
        self.fit_exactly(rows, targets, weight, outputs)

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """The mean C of the classes, and the tolerance."""
        return float(self._costs(*_masses(y.astype(np.int64), weight)).mean()), self.tol

    def learned_from(
        self, X: Any, y: np.ndarray, weight: np.ndarray, C: float, kept: np.ndarray, tol: float,
        outputs: int,
    ) -> tuple[Any, list[Fitted], KernelDual]:  # fmt: skip
        """All classes in one problem; one without rows is never right."""
        codes = y.astype(np.int64)
        kernel = resolve_kernel(self.kernel, self.gamma, X, seed_from(self.random_state))
        solver = KernelDual(tol, float(self.memory), self.max_iter, threads(self.n_jobs))
        found, present = self._solved(kernel, X, codes, weight, solver)
        coef, rho = np.zeros((outputs, codes.size)), np.ones(outputs)
        coef[present], rho[present] = found.coef, found.rho
        self.rho_, self._left_out = rho, found.left_out
        self._tell_normals(_whole(found.products, present, outputs))
        ended = Fitted.nothing(codes.size, 0.0, Status.CONVERGED)._replace(steps=1)
        if (solution := found.solution) is not None:
            ended = ended._replace(
                status=solution.status, steps=solution.steps, violation=solution.violation,
                negative=solution.negative,
            )  # fmt: skip
        fitted = [ended._replace(coef=c, intercept=-r) for c, r in zip(coef, rho, strict=True)]
        return support_function(KernelRows(kernel, X, y, weight), fitted), fitted, solver

    def _solved(
        self, kernel: Any, X: Any, codes: np.ndarray, weight: np.ndarray, solver: KernelDual
    ) -> tuple[Coupled, np.ndarray]:
        """The functions of the classes that have rows, and which these are."""
        masses, total, present = _masses(codes, weight)
        C = self._costs(masses, total, present)
        numbers = np.full(max(int(codes.max()), 0) + 2, -1)
        numbers[present] = np.arange(present.size)
        codes = numbers[codes]
        if self.algorithm_ == "least_squares":
            self._check_room(codes.size)
            K = gram(kernel, X.astype(np.float64))
            found = least_squares_novelty(
                K, codes, weight, float(C[0]), present.size, self.coupling
            )
            return found, present
        precision = fitting_precision(kernel, X, float(weight.max()), self.tol)
        columns = KernelColumns(kernel, X, precision)
        watch = Watch(self, is_kept=True)
        start, solver, before = watch.standing(None, codes.size * present.size, solver)
        found = exact_novelty(
            solver, columns, codes, weight, C, self.coupling, self.reading,
            watch.monitor(None, before), start,
        )  # fmt: skip
        assert found.solution is not None
        steps = found.solution.steps + before
        return found._replace(solution=found.solution._replace(steps=steps)), present

    def _costs(self, masses: np.ndarray, total: float, present: np.ndarray) -> np.ndarray:
        """The C of every class that has rows."""
        if self.algorithm_ == "least_squares":
            return np.full(present.size, _USUAL_C if self.C is None else float(self.C))
        return self._bounds(masses, total, present)

    def _bounds(self, masses: np.ndarray, total: float, present: np.ndarray) -> np.ndarray:
        """The C of every class; ValueError where it is too small for any solution."""
        rows = masses if self.reading == "boundary" else np.full(masses.size, total)
        if self.C is None:
            return 1.0 / (self.nu * rows)
        least = 1.0 / rows
        worst = int(least.argmax())
        if least[worst] * (1.0 - 1e-12) > self.C:
            whose = "all rows" if self.reading == "margin" else (
                f"the rows of class {self.classes_.tolist()[present[worst]]!r}"
            )  # fmt: skip
            raise ValueError(
                f"C={self.C:g} is too small: it must be at least 1 over {whose}, "
                f"{least[worst]:.6g} here (or give nu instead)"
            )
        return np.full(masses.size, float(self.C))

    def _check_room(self, rows: int) -> None:
        needed = 4 * 8 * rows * rows
        if needed > self.memory:
            raise ValueError(
                f"least squares over {rows:,} rows needs {needed:,} bytes for matrices: raise "
                "memory to that, or use algorithm='pegasos'"
            )

    def learn_front(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, moments: Any = None
    ) -> Front:
        if not self.has_map:
            return UnitsFront(self.learn_units(rows, targets, weight, moments))
        return super().learn_front(rows, targets, weight, moments)

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Of "pegasos"."""
        self.algorithm_ = "pegasos"
        alpha = self.alpha
        if alpha is None:
            usual = front.usual_strength
            alpha = _STREAM_ALPHA if facts.mass is None else usual / facts.mass
        problem = Problem(
            Hinge(), L2(float(alpha)), rows.shape[1], True, rows.dtype,
            seed_from(self.random_state), None, outputs,
        )  # fmt: skip
        solver = NoveltyPegasos(self.coupling, self.radius, self.average, batch=self.batch)
        passes = self.max_iter or solver.planned_passes((chunk.order.size, rows.shape[1]))
        return Setup(problem, solver, driver.Plan(passes, self.order))

    # ------------------------------------------------------------ what is kept

    def keep(
        self, function: Any, status: Status, passes: int, stream: Any, front: Front | None = None
    ) -> None:
        """With an output for rows of no class."""
        if stream.state is not None:  # of pegasos, also in a stream
            weights = np.atleast_2d(stream.function().coef).astype(np.float64)
            self.rho_ = -np.atleast_1d(np.asarray(function.intercept, dtype=np.float64))
            self._tell_normals(weights @ weights.T)
        self.threshold_ = 0.0
        super().keep(Rejecting(function, self._place), status, passes, stream, front)

    def _tell_normals(self, products: np.ndarray) -> None:
        self.norms_ = np.sqrt(np.maximum(np.diag(products), 0.0))
        size = np.where(self.norms_ > 0.0, self.norms_, 1.0)
        self.cosines_ = np.clip(products / np.outer(size, size), -1.0, 1.0)

    def _forget(self) -> None:
        super()._forget()
        for name in ("violation_", "_left_out"):
            self.__dict__.pop(name, None)

    def judged(
        self, status: Status, stream: Stream | Streams, judges: Chunk, function: Any, front: Front,
        learned: Any = None, begun: bool = False,
    ) -> Status:  # fmt: skip
        """NO_BETTER for a model that tells no classes apart on its own rows."""
        if SEVERITY.index(status) >= SEVERITY.index(Status.INTERRUPTED):
            return status
        codes = judges.y[judges.order]
        some = judges.order[codes >= 0][:20_000]
        codes, weight = judges.y[some].astype(np.int64), judges.weight[some]
        if np.unique(codes).size > 1:
            scores = function.scores(input.matrix_of(judges.rows)[some])
            right = float(weight @ (scores.argmax(axis=1) == codes))
            if right <= np.bincount(codes, weight).max():
                return Status.NO_BETTER
        return Status.AT_BOUND if stream.solver.linear and stream.is_at_bound() else status

    # ------------------------------------------------------------ the threshold

    def _move_threshold(self, X: Any, codes: np.ndarray, weight: np.ndarray | None) -> None:
        """So that a share of rows that the model has not seen is rejected."""
        numbers, _ = self.coded(codes)
        counted = np.ones(codes.size, bool) if weight is None else weight > 0.0
        known = np.flatnonzero((numbers >= 0) & counted)
        left = self.__dict__.pop("_left_out", None)
        if left is None:
            scores = out_of_fold(self, X, codes, weight, known)
        else:
            places = np.cumsum(counted) - 1
            scores = left[places[known]].max(axis=1)
        masses = np.ones(known.size) if weight is None else weight[known]
        finite = np.isfinite(scores)
        if not finite.any():
            return
        self._set_threshold(quantile(scores[finite], masses[finite], self.false_alarms or 0.0))

    def _set_threshold(self, threshold: float) -> None:
        self.threshold_ = threshold
        inner = self.function_.function
        inner = inner._replace(intercept=inner.intercept - threshold)
        self.function_ = self.function_._replace(function=inner)

    def _known(self, X: Any) -> np.ndarray:
        """(rows, classes): the scores of the known classes."""
        check_is_fitted(self)
        return self.function_.function.scores(input.checked_X(self, X))


def _masses(codes: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """The weights of the classes that have rows, that of all rows, and which classes these are."""
    known = codes >= 0
    masses = np.bincount(codes[known], weight[known])
    present = np.flatnonzero(masses > 0.0)
    return masses[present], float(weight.sum()), present


def _whole(products: np.ndarray, present: np.ndarray, outputs: int) -> np.ndarray:
    out = np.zeros((outputs, outputs))
    out[np.ix_(present, present)] = products
    return out
