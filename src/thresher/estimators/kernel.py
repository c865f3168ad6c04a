"""``KernelClassifier`` and ``KernelRegressor``: the linear estimators behind a feature map."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from thresher.estimators.base import Learner, Setup
from thresher.estimators.classifier import Classifier
from thresher.estimators.fronts import MapFront
from thresher.estimators.linear_model import LinearModel
from thresher.estimators.mapped import MapModel
from thresher.estimators.regressor import Regressor
from thresher.estimators.spaces import kernel_dimensions, strength, term_dimensions
from thresher.estimators.views import view
from thresher.functions import LinearFunction
from thresher.functions.base import dense
from thresher.maps.base import FeatureMap
from thresher.registry import TASKS
from thresher.solvers import Chunk, DirectLeastSquares, Result, Status
from thresher.solvers.given import Given
from thresher.solvers.stream import Stream

__all__ = ["KernelClassifier", "KernelModel", "KernelRegressor"]


class KernelModel(MapModel, LinearModel):
    """What the two share: a linear model behind a map."""

    optional_record = (*Learner.optional_record, "loo_error_")
    dual_coef_ = view("table", "The weights, folded into the map.")

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        if isinstance(self.map, FeatureMap):
            own = self.map.space(self, X)
            rest = {"alpha": strength(X)} | own | term_dimensions(self)
            return rest if self.map.learns_weights else own
        made, parts = self.make_map(), {"alpha": strength(X)}
        parts |= kernel_dimensions(self, X, made.closer) if made.uses_kernel else {}
        return parts | term_dimensions(self)

    def assembled(self, made: FeatureMap, linear: LinearFunction, like: Any) -> Self:
        """Take a map and the weights of its features that were learned elsewhere.

        What else a fit leaves is that of ``like``, a model of the same rows.
        """
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if name in vars(like):
                setattr(self, name, getattr(like, name))
        problem = self.problem(made.width, np.dtype(np.float64), linear.outputs)
        solver = Given(linear.coef, linear.intercept)
        stream = Stream(problem, solver, solver.init(problem))
        function = MapFront(None, made, like.n_features_in_).fold(linear)
        self.keep(function, Status.COMPLETED, 1, stream)
        return self

    def _default_penalty(self) -> str:
        return self.planned_map().usual_penalty

    def chosen_parts(self, names: Any = None) -> list[tuple[str, list[float]]]:
        """Norms of the weights of each part of the map, if it has parts, the largest first."""
        names = getattr(self, "feature_names_in_", None) if names is None else names
        parts, coef = self.function_.map.parts(names), dense(self.function_.coef)
        if parts is None:
            return []
        cut = np.split(coef, np.cumsum([width for _, width in parts])[:-1], axis=1)
        norms = np.array([np.linalg.norm(part, axis=1) for part in cut])
        largest = norms.max(axis=1)
        order = np.argsort(-largest, kind="stable")
        return [(parts[q][0], norms[q].tolist()) for q in order if largest[q] > 0.0]

    def _learned(self, setup: Setup, result: Result, chunk: Chunk) -> None:
        """The leave-one-out error, which direct least squares knows in closed form."""
        if isinstance(setup.solver, DirectLeastSquares):
            pairs = setup.solver.leave_one_out(setup.problem, result.state, chunk)
            self.loo_error_ = self._left_out(*pairs, chunk.weight[chunk.order])

    def _left_out(self, targets: np.ndarray, predictions: np.ndarray, weight: np.ndarray) -> float:
        """Share of rows misclassified, or mean squared error."""
        if not TASKS[self.task].has_classes:
            wrong = ((targets - predictions) ** 2)[:, 0]
        elif targets.shape[1] == 1:
            wrong = (targets[:, 0] * predictions[:, 0] <= 0.0).astype(float)
        else:
            wrong = (targets.argmax(axis=1) != predictions.argmax(axis=1)).astype(float)
        return float(np.average(wrong, weights=weight))


class KernelClassifier(Classifier, KernelModel):
    """Kernel classifier of fixed size: a feature map and a linear classifier in it.

    Fixed-size Pegasos (loss="hinge" or "pinball", solver="pegasos"), the fixed-size LS-SVM
    (loss="least_squares"), LLSVM (solver="dcd") and ASSET (solver="asset") are settings of it.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "logistic", ...} or Loss, default="squared_hinge"
        A name, or an object such as ``Pinball(tau=0.2)`` or one of your own classes.
    kernel : {"rbf", "exponential", "polynomial", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    map : {"nystroem", "local", "fourier", "bank", "forest", "terms"} or transformer, \
default="nystroem"
        How rows become features: a name, also one that ``thresher.register`` gave, or an object,
        whose kernel, gamma, n_components and landmarks are then its own affair;
        ``set_params(map__min_leaf=20)`` makes the object of a name.  A forest
        (``thresher.maps.ForestFeatures``) is a kernel of its own, without kernel, gamma and
        landmarks; so are weighted terms (``thresher.maps.TermFeatures``), for rows of counts or
        weights of words, which have no n_components either.  A bank (``thresher.BankFeatures``) has
        many kernels, of which a penalty over groups, its default, chooses.
    n_components : int, "auto" or "sqrt", default="auto"
        Size of the model: landmarks, frequencies or trees.  More is better and slower.  "auto" is
        the map's own choice; "sqrt" is a rule for landmarks, see ``thresher.maps.Nystroem``.
    landmarks : {"uniform", "margin", "kmeans", "entropy", ...} or array, default="uniform"
        How the landmarks are chosen; see ``thresher.maps.Nystroem``.
    solver : {"auto", "asgd", "dcd", "asset", "newton", ...} or Solver, default="auto"
        Learns the linear model on the features.  "auto" is what the map prefers: one direct solve
        for the least-squares loss, otherwise as ``LinearClassifier`` would choose for rows of that
        shape; several classes are learned to the optimum by "quasi_newton" (smooth losses) or the
        dual, unless ``max_iter`` or ``steps`` is given.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha / 2 ||w||^2; None: 0.1/n, for weighted
        terms 0.3/n (1e-5 in ``partial_fit``).  From the C of a support vector machine:
        alpha = 1 / (C n).
    penalty : {"l2", "l1", ...}, Penalty or None, default=None
        Of the weights of the features; None: "l2".
    fit_intercept : bool, default=True
        Learn an intercept; unpenalised, except with the solver "dcd".
    scale : bool or "relevance", default=False
        Standardise the features before the map.  "relevance" also weighs them by how much the
        scores of a pilot machine change along them (``thresher.maps.relevance``): a second or two
        that often pay for themselves many times where some features say little (covtype, a9a), but
        not always (ijcnn1): compare.  For up to 10,000 features.
    memory : float, default=2e9
        Bytes that the mapped rows may take.  Where they need more they are computed block by block
        in every pass, and the solver must be a streaming one.
    max_iter, steps, tol, order : as in ``LinearClassifier``
    early_stopping, validation_fraction, patience : as in ``LinearClassifier``
    n_jobs : int or None, default=None
        Threads for one-vs-rest problems and for the trees of a forest.  -1 uses all cores; the
        result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    trace, verbose, callbacks : as in ``LinearClassifier``
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Fit ``predict_proba`` on out-of-fold scores. None: probabilities by the loss's own link,
        where it has one (logistic, modified Huber).

    Attributes
    ----------
    map_ : FeatureMap or transformer
        Fitted.
    coef_ : array of shape (n_outputs, width of the map)
        The linear model on the features.
    dual_coef_ : array of shape (n_outputs, n_landmarks)
        The same model as coefficients of the landmarks ``map_.landmarks_``: a score is
        k(x, landmarks) . dual_coef_ + intercept_.  Without landmarks, ``coef_`` itself.
    intercept_ : array of shape (n_outputs,)
    function_ : MappedFunction
        What was learned: the map and the numbers above.
    loo_error_ : float
        Share of wrong predictions of rows that were left out one by one, in closed form; with the
        least-squares loss solved directly, and all features in memory.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_, status_, density_, solver_, penalty_, trace_ : as in ``LinearClassifier``
    classes_ : array
        The labels, in the order of the outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher import KernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier(random_state=0).fit(X[:1200], y[:1200])
    >>> print(model.score(X[1200:], y[1200:]) > 0.93)
    True
    """

    optional_record = (*Classifier.optional_record, "loo_error_")

    def __init__(
        self,
        loss: Any = "squared_hinge",
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        map: Any = "nystroem",
        n_components: Any = "auto",
        landmarks: Any = "uniform",
        solver: Any = "auto",
        alpha: float | None = None,
        penalty: Any = None,
        fit_intercept: bool = True,
        scale: Any = False,
        memory: float = 2e9,
        max_iter: int | None = None,
        steps: int | None = None,
        tol: float | None = None,
        order: str = "shuffle",
        class_weight: Any = None,
        calibrate: str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
        trace: bool = False,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        LinearModel.__init__(
            self, loss, penalty, solver, alpha, fit_intercept, scale, max_iter, steps, tol, order,
            early_stopping, validation_fraction, patience, n_jobs, random_state, trace, verbose,
            callbacks,
        )  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.map = map
        self.n_components = n_components
        self.landmarks = landmarks
        self.memory = memory
        self.class_weight = class_weight
        self.calibrate = calibrate


class KernelRegressor(Regressor, KernelModel):
    """Kernel regression of fixed size: a feature map and a linear regression in it.

    With the least-squares loss this is the fixed-size LS-SVM, one direct solve; with
    "epsilon_insensitive" support vector regression, with "huber" its robust sibling.

    Parameters
    ----------
    loss : {"least_squares", "huber", "epsilon_insensitive", ...} or Loss, default="least_squares"
        A name, or an object such as ``Huber(delta=2.0)`` or one of your own classes.
    kernel : {"rbf", "exponential", "polynomial", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    map : {"nystroem", "local", "fourier", "bank", "forest", "terms"} or transformer, \
default="nystroem"
        How rows become features: a name, also one that ``thresher.register`` gave, or an object,
        whose kernel, gamma, n_components and landmarks are then its own affair;
        ``set_params(map__min_leaf=20)`` makes the object of a name.  A forest
        (``thresher.maps.ForestFeatures``) is a kernel of its own, without kernel, gamma and
        landmarks; so are weighted terms (``thresher.maps.TermFeatures``), for rows of counts or
        weights of words, which have no n_components either.  A bank (``thresher.BankFeatures``) has
        many kernels, of which a penalty over groups, its default, chooses.
    n_components : int, "auto" or "sqrt", default="auto"
        Size of the model: landmarks, frequencies or trees.  More is better and slower.  "auto" is
        the map's own choice; "sqrt" is a rule for landmarks, see ``thresher.maps.Nystroem``.
    landmarks : {"uniform", "margin", "kmeans", "entropy", ...} or array, default="uniform"
        How the landmarks are chosen; see ``thresher.maps.Nystroem``.
    solver : {"auto", "asgd", "dcd", "asset", "newton", ...} or Solver, default="auto"
        Learns the linear model on the features.  "auto" is what the map prefers: one direct solve
        for the least-squares loss, otherwise as ``LinearRegressor`` would choose for rows of that
        shape.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha / 2 ||w||^2; None: 0.1/n, for weighted
        terms 0.3/n, for forests 0.01/n (1e-5 in ``partial_fit``).  From the C of a support vector
        machine: alpha = 1 / (C n).
    penalty : {"l2", "l1", ...}, Penalty or None, default=None
        Of the weights of the features; None: "l2".
    fit_intercept : bool, default=True
        Learn an intercept; unpenalised, except with the solver "dcd".
    scale : bool or "relevance", default=False
        Standardise the features before the map.  "relevance" also weighs them by how much the
        scores of a pilot machine change along them (``thresher.maps.relevance``): a second or two
        that often pay for themselves many times where some features say little (covtype, a9a), but
        not always (ijcnn1): compare.  For up to 10,000 features.
    memory : float, default=2e9
        Bytes that the mapped rows may take.  Where they need more they are computed block by block
        in every pass, and the solver must be a streaming one.
    max_iter, steps, tol, order : as in ``LinearRegressor``
    early_stopping, validation_fraction, patience : as in ``LinearRegressor``
    n_jobs : int or None, default=None
        Threads for the trees of a forest.  -1 uses all cores; the result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    trace, verbose, callbacks : as in ``LinearRegressor``

    Attributes
    ----------
    map_ : FeatureMap or transformer
        Fitted.
    coef_ : array of shape (1, width of the map)
        The linear model on the features.
    dual_coef_ : array of shape (1, n_landmarks)
        The same model as coefficients of the landmarks ``map_.landmarks_``: a score is
        k(x, landmarks) . dual_coef_ + intercept_.  Without landmarks, ``coef_`` itself.
    intercept_ : array of shape (1,)
    function_ : MappedFunction
        What was learned: the map and the numbers above.
    loo_error_ : float
        Mean squared error of rows that were left out one by one, in closed form; with the
        least-squares loss solved directly, and all features in memory.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_, status_, density_, solver_, penalty_, trace_ : as in ``LinearRegressor``

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import KernelRegressor
    >>> x = np.linspace(-3, 3, 200)[:, None]
    >>> model = KernelRegressor(random_state=0).fit(x, np.sinc(x[:, 0]))
    >>> print(round(model.score(x, np.sinc(x[:, 0])), 2))
    0.98
    """

    def __init__(
        self,
        loss: Any = "least_squares",
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        map: Any = "nystroem",
        n_components: Any = "auto",
        landmarks: Any = "uniform",
        solver: Any = "auto",
        alpha: float | None = None,
        penalty: Any = None,
        fit_intercept: bool = True,
        scale: Any = False,
        memory: float = 2e9,
        max_iter: int | None = None,
        steps: int | None = None,
        tol: float | None = None,
        order: str = "shuffle",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
        trace: bool = False,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        LinearModel.__init__(
            self, loss, penalty, solver, alpha, fit_intercept, scale, max_iter, steps, tol, order,
            early_stopping, validation_fraction, patience, n_jobs, random_state, trace, verbose,
            callbacks,
        )  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.map = map
        self.n_components = n_components
        self.landmarks = landmarks
        self.memory = memory
