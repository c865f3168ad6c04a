"""``SemiSupervisedClassifier``: classes of many rows of which few have labels."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import NOT_NEGATIVE, POSITIVE, OneOf, number, whole
from thresher._interrupts import clean_interrupts
from thresher._rows import Rows
from thresher._scores import best_class
from thresher._seed import seed_from
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators._partly_labelled import (
    UNLABELLED,
    checked_partly,
    from_targets,
    partly_coded,
)
from thresher.estimators.base import SEVERITY
from thresher.estimators.calibration import calibrate
from thresher.estimators.classifier import Classifier
from thresher.estimators.label_fit import Found, warn_of_lonely_rows
from thresher.estimators.label_folds import Labels, hidden_scores
from thresher.estimators.label_search import LabelSearch
from thresher.estimators.spaces import kernel_dimensions
from thresher.estimators.support_fit import Watch
from thresher.functions.base import require
from thresher.kernels import Kernel
from thresher.kernels.width import GAMMA
from thresher.maps.landmarks import check_rule
from thresher.penalties import L2
from thresher.registry import resolve
from thresher.solvers import Problem, Status, driver
from thresher.solvers.label_machines import BIASES, METHODS, LabelMachine
from thresher.solvers.stream import Stream

__all__ = ["SemiSupervisedClassifier"]


class SemiSupervisedClassifier(Classifier):
    """Classes of many rows of which few have labels: rows that hang together belong together.

    Rows without labels (None, NaN or an empty word in ``y``) say where the data lie, and so bend
    the kernel with which the labels are learned: SemiKSC, Bi-SemiKSC and Laplacian support vector
    machines, for any number of classes.  The model is a function: new rows are predicted as by any
    kernel machine.

    Parameters
    ----------
    method : {"semi_ksc", "bi_semi_ksc", "lap_svm", "lap_svm_primal"}, default="semi_ksc"
        Kernel spectral clustering that is told some labels; the same with a function for each
        class, which repel each other, so that a row can belong to none; support vector machines on
        a graph of neighbours, with the hinge loss (by the dual) or its square (in the primal).
    C : float or "cv", default=10.0
        Weight of a label's loss beside half the squared norm of the function.  "cv": the best of
        0.1, 1, 10, 100, 1000 for labels that are hidden in turn.
    unlabelled : float, "cv" or None, default=None
        How much the rows without labels have to say.  For KSC, in units of the largest weight with
        which the problem is convex: 0 for nothing, towards 1 for clusters that decide everything;
        for a graph, how much neighbours must agree, any number from 0.  None: 0.9, or 100 for a
        graph.  "cv": chosen as C is.
    kernel : {"rbf", "exponential", "cosine", ...} or Kernel, default="rbf"
        Its values should not be negative.
    gamma : float, "median", "cv" or None, default=None
        Width of a kernel given by name; None and "median": one over the median squared distance.
        "cv": a quarter of that, itself, 4 or 16 times that, chosen as C is.
    bias : {"free", "published", "none"} or None, default="free"
        Of KSC: beside what the rows without labels have to say, so that it stays convex; within, as
        published; or none, which None means too.
    repulsion : float, default=2.0
        Of "bi_semi_ksc", more than 1: the closer to 1, the more the functions repel each other.
    tilt : float, default=0.5
        Of "bi_semi_ksc": what rows without labels say of the first class beside the last; with 1
        it is "semi_ksc".
    reject : label or None, default=None
        What to predict where no class has a positive score; None: the class of the highest one.
        Of two classes: for "bi_semi_ksc", and far from all rows only with ``bias="none"``.
    n_neighbors : int, "auto" or None, default="auto"
        Of the graph; "auto": 10, beyond 20,000 rows None.  None: all rows, by their kernel values.
    n_components : int, "auto", "sqrt" or "full", default="auto"
        Landmarks; "full": every row, the exact machine; "auto": that, as far as ``memory`` allows.
    landmarks : {"uniform", "entropy", "kmeans", "kmedoids"}, array or callable, default="uniform"
        See ``Nystroem``.
    folds : int, default=5
        Of the labels, for "cv" and ``calibrate``.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Offer ``predict_proba``, fitted on scores of labels that were hidden in turn.
    scale : bool, default=False
        Standardise the features, by all rows; sparse data are scaled but not centred.
    tol : float, default=1e-4
        Of "lap_svm": by how much the KKT conditions may be violated.
    max_iter : int or None, default=None
        Of Laplacian machines: most renewals of the working set, or steps of Newton's method; None:
        as many as it takes.
    memory : float, default=2e9
        Bytes for two kernel matrices (11,000 rows); beyond, landmarks are used.
    class_weight : dict, "balanced" or None, default=None
        Factors for the labels of each class.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line for every setting that is tried.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every setting; returning True stops the fit.

    Attributes
    ----------
    classes_ : array
        The labels, in the order of the outputs.
    transduction_ : array of shape (rows,)
        The classes of the rows that it was learned from.
    cv_error_ : float
        Share of hidden labels that the chosen setting got wrong, if one was chosen.
    cv_results_ : list of dict
        The settings that were tried, with their errors.
    function_ : SupportFunction or MappedFunction
        What was learned.
    solver_ : SemiKSC, BiSemiKSC, LapSVM or LapSVMPrimal
        With the C and the strength that were used.
    kernel_ : Kernel
        With its width filled in.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Settings tried.
    status_ : Status
        How the fit ended; its text says what to change.
    penalty_ : L2

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from thresher import SemiSupervisedClassifier
    >>> X, y = make_moons(400, noise=0.06, random_state=0)
    >>> few = np.where(np.arange(400) < 8, y, np.nan)
    >>> model = SemiSupervisedClassifier(gamma=15.0).fit(X[:300], few[:300])
    >>> print(model.score(X[300:], y[300:]) > 0.95)
    True
    """

    allowed = {
        "method": OneOf(*METHODS), "C": POSITIVE | "cv", "unlabelled": NOT_NEGATIVE | "cv" | None,
        "gamma": GAMMA | "cv", "bias": OneOf(*BIASES, None), "repulsion": number(1.0, ends="(]"),
        "tilt": POSITIVE, "n_neighbors": whole(1) | "auto" | None, "folds": whole(2),
        "tol": POSITIVE,
    }  # fmt: skip
    record = (*Classifier.record, "kernel_")
    optional_record = (*Classifier.optional_record, "cv_error_", "cv_results_")
    partly_labelled = True
    alpha_per_row = False  # C is one label's

    def __init__(
        self,
        method: str = "semi_ksc",
        *,
        C: Any = 10.0,
        unlabelled: Any = None,
        kernel: Any = "rbf",
        gamma: Any = None,
        bias: str = "free",
        repulsion: float = 2.0,
        tilt: float = 0.5,
        reject: Any = None,
        n_neighbors: Any = "auto",
        n_components: Any = "auto",
        landmarks: Any = "uniform",
        folds: int = 5,
        calibrate: str | None = None,
        scale: bool = False,
        tol: float = 1e-4,
        max_iter: int | None = None,
        memory: float = 2e9,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.method = method
        self.C = C
        self.unlabelled = unlabelled
        self.kernel = kernel
        self.gamma = gamma
        self.bias = bias
        self.repulsion = repulsion
        self.tilt = tilt
        self.reject = reject
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.landmarks = landmarks
        self.folds = folds
        self.calibrate = calibrate
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.memory = memory
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        self._machine().check_options()
        resolve(self.kernel, Kernel, "kernel")
        check_rule(self.landmarks)

    def _machine(self) -> LabelMachine:
        """With the settings that are given; those to be chosen have their usual values."""
        cls = METHODS[self.method]
        usual = cls.usual_strength if self.unlabelled in (None, "cv") else self.unlabelled
        given = {
            "C": 10.0 if self.C == "cv" else self.C, "unlabelled": usual,
            "bias": "none" if self.bias is None else self.bias, "repulsion": self.repulsion,
            "tilt": self.tilt, "tol": self.tol, "max_steps": self.max_iter,
        }  # fmt: skip
        known = {field.name for field in dataclasses.fields(cls)}
        for name in ("C", "unlabelled", "repulsion", "tilt", "tol"):
            given[name] = float(given[name])
        return cls(**{name: value for name, value in given.items() if name in known})

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        graph = METHODS[self.method].uses_graph
        strength = Float(1e-1, 1e4, log=True) if graph else Float(0.0, 0.999)
        parts = {"C": Float(1e-1, 1e3, log=True), "unlabelled": strength}
        return parts | kernel_dimensions(self, X)

    def work(self, params: dict[str, Any], rows: int) -> float:
        return float(rows) ** 3

    def _can_stream(self) -> bool:
        raise AttributeError(
            "SemiSupervisedClassifier needs all rows at once and has no partial_fit: rows without "
            "labels say where the data lie"
        )

    def streams_files(self) -> bool:
        """Rows without labels are needed all together."""
        return False

    def without_stream(self) -> tuple[str, str]:
        """Who needs all rows, and what to use where they are too many."""
        return "learning from few labels", "a sample of the rows without labels"

    # ------------------------------------------------------------ the fit

    @clean_interrupts()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows, of which some have labels.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : labels; None, NaN or an empty word where there is none
        sample_weight : array or None, default=None
            Weight k means the same as the row k times.
        """
        self.check_options()
        X, codes, classes = checked_partly(self, X, y)
        _doubt_minus_one(codes, classes)
        return self.fit_codes(X, codes, classes, input.check_weight(sample_weight, X))

    def fit_coded(self, X: Any, y: np.ndarray, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from checked rows and targets as readers code them."""
        return self.fit_codes(X, from_targets(y), classes, weight)

    def fit_codes(
        self, X: Any, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None = None
    ) -> Self:
        """The same for class numbers, ``UNLABELLED`` where there is none."""
        known = np.flatnonzero(codes != UNLABELLED)
        if not known.size:
            raise ValueError("no row has a label: give some of every class")
        own = None if weight is None else weight[known]
        self.check_codes(codes[known], classes, own)
        self._check_reject(classes)
        self.take_labels(classes)
        full = np.ones(codes.size) if weight is None else weight.copy()
        factors = self.class_weighted(codes[known], full[known])
        labelled = np.zeros(codes.size)
        labelled[known] = full[known] if factors is None else factors
        self._fit(input.to_rows(X), codes, full, labelled)
        return self

    def labelled_rows(self, y: np.ndarray) -> np.ndarray:
        return partly_coded(y)[1] != UNLABELLED

    def coded(self, codes: np.ndarray) -> tuple[np.ndarray, int]:
        k = int(self.classes_.size)
        if k == 2 and not METHODS[self.method].by_codes:
            return np.where(codes == 1, 1.0, -1.0), 1
        return codes.astype(np.float64), k

    def _fit(self, rows: Rows, codes: np.ndarray, weight: np.ndarray, labelled: np.ndarray) -> None:
        """``weight`` is that of rows, ``labelled`` that of labels."""
        self._forget()
        for name in ("cv_error_", "cv_results_"):
            self.__dict__.pop(name, None)
        units = self.learn_units(rows, None, weight)
        X = input.matrix_of(rows)
        X = X if units is None else units.matrix(X)
        kept = np.flatnonzero(weight > 0.0)
        if kept.size < weight.size:
            X, codes, weight, labelled = X[kept], codes[kept], weight[kept], labelled[kept]
        input.refuse_far_rows(X)
        known = np.flatnonzero((codes != UNLABELLED) & (labelled > 0.0))
        targets, outputs = self.coded(codes[known])
        labels = Labels(known, codes[known], targets, outputs, labelled[known])
        with np.errstate(over="ignore", invalid="ignore"):
            watch = Watch(self)
            found, tried = LabelSearch(self, self._machine(), watch).run(X, weight, labels)
            function = found.space.function_of(found.bent, found.trial, units)
        if not function.is_finite():
            raise ArithmeticError("the model overflows: scale the features or lower C")
        self._end(rows, kept, labels, function, found, tried, watch)

    def _end(
        self, rows: Rows, kept: np.ndarray, labels: Labels, function: Any, found: Found,
        tried: list[dict[str, Any]], watch: Watch,
    ) -> None:  # fmt: skip
        machine = found.trial.machine
        X = input.matrix_of(rows)[kept]
        problem = Problem(
            machine.loss(), L2(1.0 / (machine.C * float(labels.weight.sum()))), X.shape[1], True,
            rows.dtype, 0, None, labels.outputs,
        )  # fmt: skip
        stream = Stream(problem, machine, None)
        judges = driver.whole(
            input.to_rows(X[labels.rows]), labels.targets, np.ascontiguousarray(labels.weight)
        )
        status = watch.stopped or found.trial.fit.status
        if SEVERITY.index(status) < SEVERITY.index(Status.INTERRUPTED):
            status = self.judged(status, stream, judges, function, None)  # type: ignore[arg-type]
        self.kernel_ = found.space.kernel
        self.keep(function, status, max(len(tried), 1), stream)
        self.transduction_ = self._told(function.scores(input.matrix_of(rows)))
        if tried and found.trial.error is not None:
            self.cv_error_, self.cv_results_ = found.trial.error, tried
        if self.calibrate is not None:
            folds = labels.folds(self.folds, seed_from(self.random_state), self.classes_)
            hidden = hidden_scores(machine, found.bent, labels, folds)
            self.calibrator_ = calibrate(hidden, labels.codes, labels.weight, self.calibrate)
        warn_of_lonely_rows(found.space, type(self).__name__, kept.size)
        if SEVERITY.index(status) >= SEVERITY.index(Status.MAX_ITER):
            self._warn(status)

    # ------------------------------------------------------------ use

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes)."""
        check_is_fitted(self)
        return _shown(self.scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, or ``reject`` where no class has a positive one."""
        check_is_fitted(self)
        return self._told(self.scores(X))

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        probabilities = None if self.link is None else self.link(scores)
        return self._told(scores), _shown(scores), probabilities

    def _told(self, scores: np.ndarray) -> np.ndarray:
        labels = self.classes_[best_class(scores)]
        if self.reject is None:
            return labels
        none = scores.max(axis=1) <= 0.0 if scores.shape[1] > 1 else scores[:, 0] == 0.0
        return np.where(none, np.asarray(self.reject), labels)

    def _check_reject(self, classes: np.ndarray) -> None:
        if self.reject is None:
            return
        if isinstance(self.reject, str) != (classes.dtype.kind in "US"):
            kind = "words" if classes.dtype.kind in "US" else "numbers"
            raise ValueError(f"reject={self.reject!r} does not go with labels that are {kind}")
        if self.reject in classes.tolist():
            raise ValueError(f"reject={self.reject!r} is the label of a class")

    def expected_outputs(self) -> int:
        require(self.method in METHODS, f"the method {self.method!r:.100} is unknown")
        return self.coded(np.zeros(0))[1]

    def check_targets(self) -> None:
        super().check_targets()
        self.check_options()
        self._check_reject(self.classes_)
        require(isinstance(self.kernel_, Kernel), "kernel_ must be a Kernel")


def _shown(scores: np.ndarray) -> np.ndarray:
    """As ``decision_function`` gives them: one number for two classes."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _doubt_minus_one(codes: np.ndarray, classes: np.ndarray) -> None:
    """Elsewhere -1 is no label; here it is a class, and who meant none would hardly notice."""
    numbers = classes.dtype.kind in "if" and classes[0] == -1.0
    if numbers and np.all(codes != UNLABELLED) and classes.tolist() != [-1.0, 1.0]:
        warnings.warn(
            "every row has a label, and -1 is a class like others: if it stands for no label, give "
            "NaN instead, np.where(y == -1, np.nan, y)",
            UserWarning, stacklevel=4,
        )  # fmt: skip
