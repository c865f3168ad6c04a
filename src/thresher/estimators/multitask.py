"""``MultiTaskRegressor`` and ``MultiTaskClassifier``: many related targets, few common features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from thresher.estimators.classifier import check_labels
from thresher.estimators.task_model import MultiTaskModel
from thresher.estimators.task_targets import Given, named, numbers_of
from thresher.functions.base import require
from thresher.losses import Loss
from thresher.registry import resolve

__all__ = ["MultiTaskClassifier", "MultiTaskRegressor"]


class MultiTaskRegressor(RegressorMixin, MultiTaskModel):
    r"""A linear regression for each of many tasks, learned together.

    .. math:: \sum_q \operatorname{mean}_{i\in q}\,\ell(y_i, W_{\cdot q}\cdot x_i + b_q)
              + \alpha\,\psi(W), \qquad W \in R^{\mathrm{features}\times\mathrm{tasks}}

    Tasks (people, schools, sensors) share the penalty: it finds the features that matter to all of
    them, or which features matter to which.

    Parameters
    ----------
    loss : {"least_squares", "huber", "epsilon_insensitive", ...} or Loss, default="least_squares"
    penalty : {"group", "sparse_group", "l1", "elastic_net", "l2"} or Penalty, default="group"
        "group": whole rows of W, so that all tasks use the same features (aMTFS, the multi-task
        lasso); "sparse_group": rows, and then tasks within rows (MTFTS); "l1": single weights, each
        task for itself (iMTFS).  Objects such as ``GroupL2(elastic=0.1)`` have a ridge besides.
    solver : {"auto", "proximal_newton", "rda", "rda_plus"} or Solver, default="auto"
        "proximal_newton": the optimum, from all rows; "rda": dual averaging, row by row;
        "rda_plus": that until it is known which weights are zero, then the optimum, in streams too.
        "auto": the optimum for smooth losses, dual averaging for others and in ``partial_fit``.
    alpha : float or None, default=None
        Strength of the penalty.  None: a hundredth of the strength that would leave an empty model.
    fit_intercept : bool, default=True
        Learn an intercept for each task, without a penalty.
    scale : bool, default=False
        Standardise the features on the fly, for all tasks together; sparse data are not centred.
    balance : {"tasks", "rows"}, default="tasks"
        Every task counts the same, as above; or every row, so that tasks with many rows count more.
    new_tasks : {"mean", "error"}, default="mean"
        What is predicted for rows of a task that was not there when learning: the mean of the
        predictions of all tasks; or nothing, with an error that names it.
    least_rows : int, default=2
        Tasks with fewer targets are refused by name.
    task_columns : (int, int) or None, default=None
        Set by trainings on files with a ``task_column``: the features, from the first to before the
        second, that hold a one for the task of a row.
    max_iter : int or None, default=None
        Most passes over the data; None: the solver's own.
    tol : float or None, default=None
        With "proximal_newton": the relative decrease of the objective to stop at; None: 1e-9.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        With "rda": how rows are visited.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (n_tasks, n_features)
    intercept_ : array of shape (n_tasks,)
    tasks_ : array of shape (n_tasks,)
        Names or numbers of the tasks; of a matrix the places of its columns.
    selection_ : Selection
        How many weights and features are in use, by task and by feature; ``features_of(task)``
        lists those of a task.
    targets_ : {"single", "matrix", "pairs"}
        How targets were given.
    group_norms_ : array of shape (n_features,)
        With penalties over rows: the norm of each feature's weights, as the solver saw them.
    function_ : LinearFunction
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_, status_, solver_, penalty_ : as in ``LinearRegressor``

    References
    ----------
    Yang, Lyu and King (2010), Online learning for multi-task feature selection, CIKM.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import MultiTaskRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, school = rng.normal(size=(300, 6)), rng.choice(["north", "south", "west"], 300)
    >>> y = X[:, 0] * np.where(school == "west", -1.0, 1.0) + 0.1 * rng.normal(size=300)
    >>> model = MultiTaskRegressor(alpha=0.1).fit(X, y, task=school)
    >>> model.tasks_.tolist(), model.selection_.features
    (['north', 'south', 'west'], 1)
    >>> model.predict([[1, 0, 0, 0, 0, 0]] * 2, task=["north", "west"]).round(1).tolist()
    [0.9, -0.9]
    """

    task = "regression"

    def __init__(
        self,
        loss: Any = "least_squares",
        *,
        penalty: Any = "group",
        solver: Any = "auto",
        alpha: float | None = None,
        fit_intercept: bool = True,
        scale: Any = False,
        balance: str = "tasks",
        new_tasks: str = "mean",
        least_rows: int = 2,
        task_columns: Any = None,
        max_iter: int | None = None,
        tol: float | None = None,
        order: str = "shuffle",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        super().__init__(
            loss, penalty, solver, alpha, fit_intercept, scale, balance, new_tasks, least_rows,
            task_columns, max_iter, tol, order, random_state, verbose, callbacks,
        )  # fmt: skip

    def _values(self, given: Given, first: bool) -> Given:
        return numbers_of(given)

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        """Predictions of scores (rows, 1) of a file's rows, twice, and no probabilities."""
        return scores[:, 0], scores[:, 0], None

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """A number for every row, of the task that it names; (rows, tasks) where none is named.

        Rows of a task that was not there when learning get the mean over the tasks, unless
        ``new_tasks="error"``.
        """
        return self._task_scores(X, task)

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """R^2 of all rows where they name their tasks; else its mean over the tasks."""
        from sklearn.metrics import r2_score  # slow to import

        predicted = self.predict(X, task)
        y = np.asarray(y, dtype=np.float64)
        if predicted.ndim == 1 or not np.isnan(y).any():
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        weight = np.ones(y.shape[0]) if sample_weight is None else np.asarray(sample_weight)
        each = [
            r2_score(y[seen, q], predicted[seen, q], sample_weight=weight[seen])
            for q, seen in enumerate(~np.isnan(y).T)
            if seen.sum() > 1
        ]
        return float(np.mean(each))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class MultiTaskClassifier(ClassifierMixin, MultiTaskModel):
    r"""A linear classifier of the same two classes for each of many tasks, learned together.

    As :class:`MultiTaskRegressor`, with losses of classes.  Targets are two labels: a matrix of
    them with a column for each task and NaN (None) for holes, or one for each row, whose task is
    named.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "hinge", ...} or Loss, default="logistic"
    penalty : {"group", "sparse_group", "l1", "elastic_net", "l2"} or Penalty, default="group"
        "group": whole rows of W, so that all tasks use the same features (aMTFS);
        "sparse_group": rows, and then tasks within rows (MTFTS); "l1": single weights (iMTFS).
    solver : {"auto", "proximal_newton", "rda", "rda_plus"} or Solver, default="auto"
        As in ``MultiTaskRegressor``.
    alpha : float or None, default=None
        Strength of the penalty.  None: a hundredth of the strength that would leave an empty model.
    fit_intercept, scale, balance, new_tasks, least_rows, task_columns : as in the regressor
        See ``MultiTaskRegressor``.
    max_iter, tol, order, random_state : as in the regressor
        See ``MultiTaskRegressor``.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    classes_ : array of two labels
        Scores are positive for the second.
    coef_, intercept_, tasks_, selection_, targets_, group_norms_ : as in ``MultiTaskRegressor``
    function_ : LinearFunction
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_, status_, solver_, penalty_ : as in ``LinearRegressor``

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import MultiTaskClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 6))
    >>> Y = (X[:, :1] * [1.0, 2.0, -1.0] > 0).astype(float)
    >>> Y[rng.uniform(size=Y.shape) < 0.3] = np.nan  # holes
    >>> model = MultiTaskClassifier(alpha=0.05).fit(X, Y)
    >>> model.predict([[2, 0, 0, 0, 0, 0]]).tolist(), model.selection_.features
    ([[1.0, 1.0, 0.0]], 1)
    """

    task = "classification"
    record = (*MultiTaskModel.record, "classes_")
    classes_: np.ndarray

    def __init__(
        self,
        loss: Any = "logistic",
        *,
        penalty: Any = "group",
        solver: Any = "auto",
        alpha: float | None = None,
        fit_intercept: bool = True,
        scale: Any = False,
        balance: str = "tasks",
        new_tasks: str = "mean",
        least_rows: int = 2,
        task_columns: Any = None,
        max_iter: int | None = None,
        tol: float | None = None,
        order: str = "shuffle",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        super().__init__(
            loss, penalty, solver, alpha, fit_intercept, scale, balance, new_tasks, least_rows,
            task_columns, max_iter, tol, order, random_state, verbose, callbacks,
        )  # fmt: skip

    # ------------------------------------------------------------ learning

    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None, tasks: Any = None,
        classes: Any = None,
    ) -> Self:  # fmt: skip
        """As in ``MultiTaskRegressor``; the first call names both ``classes``, too."""
        if not self.has_feed:
            if classes is None and "classes_" not in vars(self):
                raise ValueError("classes must be passed on the first call to partial_fit")
            if classes is not None:
                self.classes_ = _two(np.unique(np.asarray(classes)))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes differ from those of the first call, {self.classes_}")
        return super().partial_fit(X, y, sample_weight, task=task, tasks=tasks)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from all rows; their labels are two.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : array or frame of shape (rows, tasks), or (rows,)
            Labels, as in ``MultiTaskRegressor``; NaN or None where a task has none for a row.
        sample_weight : array or None, default=None
            Weight k means the same as the row k times.
        task : array of shape (rows,) or None, default=None
            The task of each row, a number or a word, in any order.
        """
        self.__dict__.pop("classes_", None)
        return super().fit(X, y, sample_weight, task=task)

    def _values(self, given: Given, first: bool) -> Given:
        missing = given.missing()
        labels = given.values[~missing]
        if labels.dtype.kind == "O":
            kinds = {isinstance(v, str) for v in labels}
            labels = labels.astype(str) if kinds == {True} else labels.astype(np.float64)
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            raise ValueError("y holds infinity, which is no label")
        check_labels(labels)
        if "classes_" not in vars(self):
            self.classes_ = _two(np.unique(labels))
        second = labels == self.classes_[1]
        wrong = np.flatnonzero(~second & (labels != self.classes_[0]))
        if wrong.size:
            raise ValueError(
                f"a target is {labels[wrong[0]]!r}, which is neither of the classes "
                f"{self.classes_.tolist()}"
            )
        values = np.full(given.values.shape, np.nan)
        values[~missing] = np.where(second, 1.0, -1.0)
        return given._replace(values=values)

    def _check_tasks(self, given: Given, codes: np.ndarray | None) -> None:
        if codes is None:
            totals, counts = np.nansum(given.values, axis=0), (~given.missing()).sum(axis=0)
        else:
            totals = np.bincount(codes, given.values, self.tasks_.size)
            counts = np.bincount(codes, minlength=self.tasks_.size)
        alike = np.flatnonzero(np.abs(totals) == counts)
        if alike.size:
            raise ValueError(
                f"{named(self.tasks_, alike)} with targets of one class only: there is nothing to "
                "tell apart"
            )

    def take_labels(self, labels: np.ndarray) -> None:
        """Those that the codes of a file are numbers of."""
        self.classes_ = _two(labels)

    def _from_codes(self, y: np.ndarray) -> np.ndarray:
        return np.where(y == 1, 1.0, -1.0)

    # ------------------------------------------------------------ use

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Labels of scores (rows, 1) of a file's rows, the scores, and probabilities, if any."""
        link = resolve(self.loss, Loss, "loss").link
        labels = self.classes_[(scores[:, 0] > 0.0).astype(int)]
        if link is None:
            return labels, scores[:, 0], None
        second = np.vectorize(link, otypes=[float])(scores[:, 0])
        return labels, scores[:, 0], np.column_stack([1.0 - second, second])

    @property
    def outcomes_(self) -> np.ndarray:
        """The labels that readers' codes are numbers of."""
        return self.classes_

    @property
    def outlier(self) -> None:
        """No row is of no class."""
        return None

    def decision_function(self, X: Any, task: Any = None) -> np.ndarray:
        """Scores, positive for ``classes_[1]``: of the rows' tasks, or (rows, tasks)."""
        return self._task_scores(X, task)

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """A label for every row, of the task that it names; (rows, tasks) where none is named.

        Rows of a task that was not there when learning are told by the mean of all tasks' scores,
        unless ``new_tasks="error"``.
        """
        second = self.decision_function(X, task) > 0.0
        return self.classes_[second.astype(int)]

    def _has_probabilities(self) -> bool:
        if resolve(self.loss, Loss, "loss").link is not None:
            return True
        raise AttributeError(f"loss={self.loss!r} gives no probabilities: use 'logistic'")

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any, task: Any = None) -> np.ndarray:
        """(rows, 2) of the rows' tasks; where none is named, (rows, tasks) of the second class."""
        scores = self.decision_function(X, task)
        link = np.vectorize(resolve(self.loss, Loss, "loss").link, otypes=[float])
        second = link(scores)
        return np.column_stack([1.0 - second, second]) if scores.ndim == 1 else second

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of the known targets that are predicted."""
        predicted, y = self.predict(X, task), np.asarray(y)
        known = ~Given("matrix", y, None).missing()
        weight = np.ones(y.shape[0]) if sample_weight is None else np.asarray(sample_weight)
        mass = known * weight.reshape(-1, *[1] * (y.ndim - 1))
        return float(np.sum((predicted == y) * mass) / mass.sum())

    def check_targets(self) -> None:
        super().check_targets()
        classes = self.classes_
        plain = isinstance(classes, np.ndarray) and classes.shape == (2,)
        require(plain and classes.dtype.kind in "biufU", "classes_ must be two numbers or words")
        require(classes[0] < classes[1], "classes_ must be sorted and distinct")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.target_tags.multi_output = True
        return tags


def _two(labels: np.ndarray) -> np.ndarray:
    if labels.size == 2:
        return labels
    if labels.size < 2:
        found = f"one class: {labels[0]!r}" if labels.size else "none"
        raise ValueError(f"classification needs at least two classes, but the targets hold {found}")
    shown = labels[:5].tolist()
    raise ValueError(
        f"Only binary classification is supported: tasks tell two classes apart, but the targets "
        f"hold {labels.size}, such as {shown}. For more, use LinearClassifier"
    )
