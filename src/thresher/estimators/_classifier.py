"""What every classifier shares: labels and their codes, class weights, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thresher.estimators import _calibration, _input

__all__ = ["Classifier"]


class Classifier(ClassifierMixin):
    """Base of the classifiers: everything around ``_fit_rows`` and ``decision_function``.

    Subclasses have the parameters ``class_weight`` and ``calibrate``, and give scores of shape (n,)
    for two classes, positive for ``classes_[1]``, else (n, n_classes).
    """

    class_weight: Any
    calibrate: str | None
    classes_: np.ndarray

    def _labelled(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
        """For ``fit``: checked rows, labels, class numbers and weights (not yet of the classes)."""
        if self.calibrate not in (None, *_calibration.METHODS):
            raise ValueError(
                f"calibrate must be 'sigmoid', 'isotonic' or None, got {self.calibrate!r}"
            )
        X, y = _input.checked_Xy(self, X, y, reset=True, numeric=False)
        _check_labels(y)
        weight = _input.check_weight(sample_weight, X)
        self.classes_, codes = _classes_and_codes(y, weight)
        return X, y, codes, weight

    def _stream_codes(self, y: np.ndarray, classes: Any, first: bool) -> np.ndarray:
        """For ``partial_fit``: class numbers; the first call names the classes."""
        _check_labels(y)
        if isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' needs all rows at once; give the weights as a dict "
                "(or as sample_weight) in partial_fit"
            )
        if first:
            if classes is None and not hasattr(self, "classes_"):
                raise ValueError("classes must be passed on the first call to partial_fit")
            self.classes_ = np.unique(self.classes_ if classes is None else classes)
            if self.classes_.size < 2:
                raise ValueError("partial_fit needs at least two classes")
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(
                f"classes={np.unique(classes)} differ from those of the first call, {self.classes_}"
            )
        return _codes_of(y, self.classes_)

    def _targets(self, codes: np.ndarray) -> tuple[np.ndarray, int]:
        """-1 / +1 for two classes, class numbers for more; and the number of outputs."""
        if self.classes_.size == 2:
            return np.where(codes == 1, 1.0, -1.0), 1
        return codes.astype(np.float64), int(self.classes_.size)

    def _class_weighted(self, codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if self.class_weight is None:
            return weight
        present = np.unique(codes)
        if isinstance(self.class_weight, str) and weight is not None:
            # "balanced" must see the weights as repetitions too.
            mass = np.bincount(codes, weights=weight, minlength=self.classes_.size)
            factors = mass.sum() / (present.size * np.maximum(mass, 1e-300))
        else:
            given = compute_class_weight(
                self.class_weight, classes=self.classes_[present], y=self.classes_[codes]
            )
            factors = np.ones(self.classes_.size)
            factors[present] = given
        return factors[codes] * (1.0 if weight is None else weight)

    # ------------------------------------------------------------ use

    def decision_function(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def _has_probabilities(self) -> bool:
        if self.calibrate is not None:
            return True
        raise AttributeError("predict_proba needs calibrate='sigmoid' or 'isotonic'")

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, calibrated if ``calibrate`` was given."""
        check_is_fitted(self)
        scores = self.decision_function(X)
        return self._probabilities(scores[:, None] if scores.ndim == 1 else scores)

    @available_if(lambda self: self._has_probabilities())
    def predict_log_proba(self, X: Any) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        check_is_fitted(self, "calibrator_")
        return self.calibrator_(scores)

    def _fit_calibration(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> None:
        """Fit the calibrator on scores of rows that each fold's model has not seen."""
        if self.calibrate is None:
            return
        smallest = int(np.min(np.unique(y, return_counts=True)[1]))
        if smallest < 2:
            raise ValueError("calibrate needs at least two rows of every class")
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(min(5, smallest), shuffle=True, random_state=0)
        scores = np.empty((y.size, 1 if self.classes_.size == 2 else self.classes_.size))
        quiet: dict[str, Any] = {"calibrate": None, "verbose": 0, "callbacks": None}
        quiet |= {"trace": False} if hasattr(self, "trace") else {}
        for train, test in folds.split(np.zeros((y.size, 1)), y):
            fold: Any = clone(self).set_params(**quiet)  # type: ignore[attr-defined]
            fold.fit(X[train], y[train], None if weight is None else weight[train])
            scores[test] = np.reshape(fold.decision_function(X[test]), (test.size, -1))
        codes = np.searchsorted(self.classes_, y)
        self.calibrator_ = _calibration.calibrate(scores, codes, weight, self.calibrate)


def _classes_and_codes(y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    classes, codes = _distinct(y)
    present = classes if weight is None else np.unique(y[weight > 0.0])
    if present.size < 2:
        raise ValueError(
            "classification needs at least two classes, but the rows of positive weight hold "
            f"one class: {present[0]!r}"
        )
    return classes, codes


def _check_labels(y: np.ndarray) -> None:
    if y.dtype.kind not in "biuUS":  # integers and strings are labels; floats may be targets
        check_classification_targets(y)


def _distinct(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def _codes_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    codes = np.searchsorted(classes, y)
    wrong = classes[np.minimum(codes, classes.size - 1)] != y
    if np.any(wrong):
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"row {row} has label {y[row]!r}, which is not among the classes {classes}"
        )
    return codes
