"""What every classifier shares: labels and their codes, class weights, probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thresher._interrupts import clean_interrupts
from thresher._scores import best_class
from thresher.estimators import calibration, input
from thresher.estimators.base import Learner
from thresher.estimators.holding import held_out
from thresher.functions import Link
from thresher.functions.base import require
from thresher.losses import Loss
from thresher.registry import resolve

__all__ = ["Classifier", "check_labels", "codes_of", "distinct"]


class Classifier(ClassifierMixin, Learner):
    """Base of the classifiers: everything around the coded core.

    Subclasses have the parameters ``class_weight`` and ``calibrate``; those that have a ``loss``
    take its link for probabilities where nothing is calibrated.
    """

    task = "classification"
    record = (*Learner.record, "classes_")
    optional_record = (*Learner.optional_record, "calibrator_")
    class_weight: Any
    calibrate: str | None
    classes_: np.ndarray
    #: targets are class numbers, also of two classes
    by_codes = False
    #: some rows may have no label
    partly_labelled = False

    # ------------------------------------------------------------ learning

    @clean_interrupts()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : labels
        sample_weight : array or None, default=None
            Weight k means the same as the row k times; learners that go over rows one by one take
            steps k times as long instead.
        """
        self.check_options()
        X, y = input.checked_Xy(self, X, y, reset=True, numeric=False)
        check_labels(y)
        weight = input.check_weight(sample_weight, X)
        classes, codes = distinct(y)
        return self.fit_codes(X, codes, classes, weight)

    def fit_coded(self, X: Any, y: np.ndarray, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from checked rows and targets as readers code them."""
        return self.fit_codes(X, y.astype(np.int64), classes, weight)

    def fit_codes(
        self, X: Any, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None = None
    ) -> Self:
        """The same for class numbers; a class without rows keeps its number, and is never right."""
        self.check_codes(codes, classes, weight)
        self.take_labels(classes)
        targets, outputs = self.coded(codes)
        weighted = self.class_weighted(codes, weight)
        if weighted is not weight:
            self.check_codes(codes, classes, weighted)
        rows, held = input.to_rows(X), None
        if self.early_stopping:
            rows, targets, weighted, held = held_out(self, X, targets, weighted, codes)
        self.fit_targets(rows, targets, weighted, outputs, held)
        if self.calibrate is not None:
            self._fit_calibration(X, codes, weight, self.calibrate)
        return self

    @available_if(lambda self: self._can_stream())
    @clean_interrupts()
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go once over these rows, in the given order; the first call names all ``classes``.

        The first call opens a new stream (after ``fit`` too, whose classes are then the default).
        What is left to be found from the data (step sizes, units, widths, a map) is found on the
        first call's rows; after that the cut of the stream into calls leaves no trace.
        """
        self.check_options()
        first = not self.has_feed
        X, y = input.checked_Xy(self, X, y, reset=first, numeric=False)
        codes = self._stream_codes(y, classes, first)
        weight = self.class_weighted(codes, input.check_weight(sample_weight, X))
        targets, outputs = self.coded(codes)
        self.feed_targets(input.to_rows(self._in_precision(X)), targets, weight, outputs)
        return self

    def _in_precision(self, X: Any) -> Any:
        return X

    def _stream_codes(self, y: np.ndarray, classes: Any, first: bool) -> np.ndarray:
        """For ``partial_fit``: class numbers; the first call names the classes."""
        check_labels(y)
        if isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' needs all rows at once; give the weights as a dict "
                "(or as sample_weight) in partial_fit"
            )
        if first:
            if classes is None and not hasattr(self, "classes_"):
                raise ValueError("classes must be passed on the first call to partial_fit")
            named = np.unique(self.classes_ if classes is None else classes)
            self.take_labels(self._stream_labels(named))
        elif classes is not None:
            named = np.unique(classes)
            if not np.array_equal(self.outcomes_, self._stream_labels(named)):
                raise ValueError(
                    f"classes={named} differ from those of the first call, {self.classes_}"
                )
        return codes_of(y, self.outcomes_)

    def _stream_labels(self, named: np.ndarray) -> np.ndarray:
        """All labels of a stream, where so many were named."""
        if named.size < 2:
            raise ValueError("partial_fit needs at least two classes")
        return named

    # ------------------------------------------------------------ codes and weights

    @property
    def outcomes_(self) -> np.ndarray:
        """The labels that codes are numbers of, in the order of the function's outputs."""
        return self.classes_

    @property
    def outlier(self) -> Any:
        """The label of rows of no class, if there can be such rows."""
        return None

    def labelled_rows(self, y: np.ndarray) -> np.ndarray:
        """Which rows have a label that a prediction can be compared with."""
        return np.ones(len(y), dtype=bool)

    def take_labels(self, labels: np.ndarray) -> None:
        """Those that the codes to come are numbers of."""
        self.classes_ = labels

    def check_codes(
        self, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None
    ) -> None:
        """ValueError for rows that nothing can be learned from."""
        _check_several(codes, classes, weight)

    def coded(self, codes: np.ndarray) -> tuple[np.ndarray, int]:
        """Targets for the solver, and the number of outputs."""
        classes = int(self.classes_.size)
        if classes == 2 and not self.by_codes:
            return np.where(codes == 1, 1.0, -1.0), 1
        return codes.astype(np.float64), classes

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Labels of scores (rows, outputs), the scores as ``decision_function`` gives them, and
        probabilities, if there are some."""
        probabilities = None if self.link is None else self.link(scores)
        shown = scores[:, 0] if scores.shape[1] == 1 else scores
        return self.classes_[best_class(scores)], shown, probabilities

    def class_weighted(self, codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Row weights times the weights of their classes."""
        if self.class_weight is None:
            return weight
        present = np.unique(codes)
        if isinstance(self.class_weight, str) and weight is not None:
            # "balanced" must see the weights as repetitions too.
            mass = np.bincount(codes, weights=weight, minlength=self.outcomes_.size)
            factors = mass.sum() / (present.size * np.maximum(mass, 1e-300))
        else:
            given = compute_class_weight(
                self.class_weight, classes=self.outcomes_[present], y=self.outcomes_[codes]
            )
            factors = np.ones(self.outcomes_.size)
            factors[present] = given
        check_factors(factors, self.outcomes_)
        return factors[codes] * (1.0 if weight is None else weight)

    # ------------------------------------------------------------ use

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes)."""
        check_is_fitted(self)
        scores = self.scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score."""
        best = best_class(self.decision_function(X))
        return self.classes_[best]

    @property
    def link(self) -> Any:
        """How scores become probabilities, calibrated or by the loss; None if nobody can say."""
        if self.calibrate is not None:
            return getattr(self, "calibrator_", None)
        if "loss" not in self.get_params(deep=False):
            return None
        loss = resolve(self.loss, Loss, "loss")  # type: ignore[attr-defined]
        return None if loss.link is None else Link(loss)

    def _has_probabilities(self) -> bool:
        if self.calibrate is not None or self.link is not None:
            return True
        loss = self.get_params(deep=False).get("loss")
        where = "" if loss is None else f" with loss={loss!r}"
        raise AttributeError(f"predict_proba needs calibrate='sigmoid' or 'isotonic'{where}")

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, calibrated if ``calibrate`` was given."""
        check_is_fitted(self)
        if self.calibrate is not None:
            check_is_fitted(self, "calibrator_")
        return self.link(self.scores(X))

    @available_if(lambda self: self._has_probabilities())
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def check_options(self) -> None:
        super().check_options()
        self._check_calibrate()

    def _check_calibrate(self) -> None:
        if self.calibrate not in (None, *calibration.METHODS):
            raise ValueError(
                f"calibrate must be 'sigmoid', 'isotonic' or None, got {self.calibrate!r}"
            )

    def _fit_calibration(
        self, X: Any, codes: np.ndarray, weight: np.ndarray | None, method: str
    ) -> None:
        """Fit the calibrator on scores of rows that each fold's model has not seen."""
        known = np.flatnonzero(codes >= 0)  # all rows, but for learners of partly labelled ones
        smallest = int(np.min(np.unique(codes[known], return_counts=True)[1]))
        if smallest < 2:
            raise ValueError("calibrate needs at least two rows of every class")
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(min(5, smallest), shuffle=True, random_state=0)
        scores = np.empty((known.size, self.function_.outputs))
        params = self.get_params(deep=False)
        quiet = {"calibrate": None, "verbose": 0, "callbacks": None, "trace": False}
        quiet = {name: value for name, value in quiet.items() if name in params}
        for _, test in folds.split(np.zeros((known.size, 1)), codes[known]):
            fold: Any = clone(self).set_params(**quiet)
            train = np.delete(np.arange(codes.size), known[test])
            mine = None if weight is None else weight[train]
            fold.n_features_in_ = X.shape[1]
            fold.fit_codes(X[train], codes[train], self.classes_, mine)
            scores[test] = fold.function_.scores(X[known[test]])
        weight = None if weight is None else weight[known]
        self.calibrator_ = calibration.calibrate(scores, codes[known], weight, method)

    def expected_outputs(self) -> int:
        """Outputs of a function for ``classes_``."""
        return 1 if self.classes_.size == 2 else int(self.classes_.size)

    def check_targets(self) -> None:
        """ValueError for classes, read from a file, that do not fit the function."""
        classes = self.classes_
        known = isinstance(classes, np.ndarray) and classes.ndim == 1
        require(known and classes.dtype.kind in "biufUO", "classes_ must be numbers or strings")
        require(classes.size >= 2, "a classifier needs at least two classes")
        require(np.all(classes[:-1] < classes[1:]), "classes_ must be sorted and distinct")
        expected, outputs = self.expected_outputs(), self.function_.outputs
        text = f"{classes.size} classes need {expected} rows of coef_, got {outputs}"
        require(outputs == expected, text)
        self._check_calibrate()
        if hasattr(self, "calibrator_"):  # where calibrate was wished, but not in a stream
            calibrator = self.calibrator_
            require(self.calibrate, "a calibrator_ without calibrate")
            plain = isinstance(calibrator, calibration.KINDS)
            require(plain, f"calibrator_ does not fit a model of {outputs} outputs")
            calibrator.check(outputs)


def _check_several(codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None) -> None:
    kept = codes if weight is None else codes[weight > 0.0]
    present = np.flatnonzero(np.bincount(kept, minlength=classes.size))
    if present.size < 2:
        found = classes[present].tolist()
        raise ValueError(
            "classification needs at least two classes, but the rows of positive weight hold "
            + (f"one class: {found[0]!r}" if found else "none")
        )


def check_factors(factors: np.ndarray, classes: np.ndarray) -> None:
    """ValueError for class weights that are no weights."""
    wrong = np.flatnonzero(~(np.isfinite(factors) & (factors >= 0.0)))
    if wrong.size:
        label, factor = classes[wrong[0]], factors[wrong[0]]
        raise ValueError(
            f"class_weight of {np.asarray(label).item()!r} must be a number of at least 0, got "
            f"{factor:g}"
        )


def check_labels(y: np.ndarray) -> None:
    """ValueError for targets that cannot be labels."""
    if y.dtype.kind not in "biuUS":  # integers and strings are labels; floats may be targets
        check_classification_targets(y)


def distinct(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct labels, and the number of each row's among them.

    By counting where labels are small integers, as most often; else by a search, which is cheaper
    than the inverse of ``np.unique``.
    """
    if y.dtype.kind in "iu" and y.size and int(y.max()) - int(y.min()) < 10_000:
        low = int(y.min())
        places = y.astype(np.int64) - low
        present = np.bincount(places) > 0
        return (np.flatnonzero(present) + low).astype(y.dtype), (np.cumsum(present) - 1)[places]
    classes = np.unique(y)
    return classes, np.searchsorted(classes, y)


def codes_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The number of every label among the sorted classes; ValueError names one that is not."""
    codes = np.searchsorted(classes, y)
    wrong = classes[np.minimum(codes, classes.size - 1)] != y
    if np.any(wrong):
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"row {row} has label {y[row]!r}, which is not among the classes {classes}"
        )
    return codes
