"""``KernelClassifier`` and ``KernelRegressor``: kernel machines of fixed size."""

from __future__ import annotations

from typing import Any

from thresher.estimators._kernel import KernelModel
from thresher.estimators.linear import LinearClassifier, LinearRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]

_SHARED = """
    kernel : {"rbf", "exponential", "polynomial", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    map : {"nystroem", "local", "fourier", "forest", "terms"} or transformer, default="nystroem"
        How rows become features.  An object is used as it is; kernel, gamma, n_components and
        landmarks are then its own affair; ``set_params(map__min_leaf=20)`` makes the object of a
        name.  A forest (``thresher.maps.ForestFeatures``) is a kernel of its own, without kernel,
        gamma and landmarks; so are weighted terms (``thresher.maps.TermFeatures``), for rows of
        counts or weights of words, which have no n_components either.
    n_components : int, "auto" or "sqrt", default="auto"
        Size of the model: landmarks, frequencies or trees.  More is better and slower.
    landmarks : {"uniform", "margin", "kmeans", "entropy", ...} or array, default="uniform"
        How the landmarks are chosen; see ``thresher.maps.Nystroem``.
    solver : {"auto", "asgd", "dcd", "least_squares", "asset", "newton", ...} or Solver
        Learns the linear model on the features.  "auto": one direct solve for the least-squares
        loss, otherwise as ``LinearClassifier`` would choose for rows of that shape; several
        classes are learned to the optimum by "quasi_newton" (smooth losses) or the dual.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha / 2 ||w||^2; None: 0.1/n, for weighted
        terms 1/n (1e-5 in ``partial_fit``).  From the C of a support vector machine:
        alpha = 1 / (C n).
    penalty : {"l2", "l1", ...}, Penalty or None, default=None
    fit_intercept : bool, default=True
    scale : bool or "relevance", default=False
        Standardise the features before the map.  "relevance" also weighs them by how much the
        scores of a pilot machine change along them (``thresher.maps.relevance``): a second or two
        that often pay for themselves many times where some features say little (covtype, a9a), but
        not always (ijcnn1): compare.  For up to 10,000 features.
    memory : float, default=2e9
        Bytes that the mapped rows may take.  Where they need more they are computed block by block
        in every pass, and the solver must be a streaming one.
    max_iter, steps, tol, order, early_stopping, validation_fraction, patience, n_jobs,
    random_state, trace, verbose, callbacks : as in ``LinearClassifier``

    Attributes
    ----------
    map_ : the fitted feature map
    coef_ : array of shape (n_outputs, n_components)
        The linear model on the features.
    dual_coef_ : array of shape (n_outputs, n_landmarks)
        The same model as coefficients of the landmarks ``map_.landmarks_``: a score is
        k(x, landmarks) . dual_coef_ + intercept_.  Without landmarks, ``coef_`` itself.
    intercept_ : array of shape (n_outputs,)
    loo_error_ : float, with the least-squares loss solved directly and all features in memory
        Leave-one-out error (classification) or mean squared error (regression), in closed form.
    n_features_in_, feature_names_in_, n_iter_, status_, solver_, penalty_, trace_ : as in
        ``LinearClassifier``
"""


class KernelClassifier(KernelModel, LinearClassifier):
    __doc__ = f"""Kernel classifier of fixed size: a feature map and a linear classifier in it.

    Fixed-size Pegasos (loss="hinge" or "pinball", solver="pegasos"), the fixed-size LS-SVM
    (loss="least_squares"), LLSVM (solver="dcd") and ASSET (solver="asset") are settings of it.

    Parameters
    ----------
    loss : {{"squared_hinge", "hinge", "logistic", ...}} or Loss, default="squared_hinge"
{
        _SHARED.replace(
            "    Attributes",
            '''    class_weight : dict, "balanced" or None, default=None
    calibrate : {"sigmoid", "isotonic"} or None, default=None

    Attributes''',
            1,
        )
    }    classes_ : array

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.estimators.kernel import KernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier(random_state=0).fit(X[:1200], y[:1200])
    >>> print(model.score(X[1200:], y[1200:]) > 0.93)
    True
    """

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
        LinearClassifier.__init__(
            self, loss, penalty=penalty, solver=solver, alpha=alpha, fit_intercept=fit_intercept,
            scale=scale, max_iter=max_iter, steps=steps, tol=tol, order=order,
            class_weight=class_weight, calibrate=calibrate, early_stopping=early_stopping,
            validation_fraction=validation_fraction, patience=patience, n_jobs=n_jobs,
            random_state=random_state, trace=trace, verbose=verbose, callbacks=callbacks,
        )  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.map = map
        self.n_components = n_components
        self.landmarks = landmarks
        self.memory = memory


class KernelRegressor(KernelModel, LinearRegressor):
    __doc__ = f"""Kernel regression of fixed size: a feature map and a linear regression in it.

    With the least-squares loss this is the fixed-size LS-SVM, one direct solve; with
    "epsilon_insensitive" support vector regression, with "huber" its robust sibling.

    Parameters
    ----------
    loss : {{"least_squares", "huber", "epsilon_insensitive", ...}} or Loss, default="least_squares"
{_SHARED}
    Examples
    --------
    >>> import numpy as np
    >>> from thresher.estimators.kernel import KernelRegressor
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
        LinearRegressor.__init__(
            self, loss, penalty=penalty, solver=solver, alpha=alpha, fit_intercept=fit_intercept,
            scale=scale, max_iter=max_iter, steps=steps, tol=tol, order=order,
            early_stopping=early_stopping, validation_fraction=validation_fraction,
            patience=patience, n_jobs=n_jobs, random_state=random_state, trace=trace,
            verbose=verbose, callbacks=callbacks,
        )  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.map = map
        self.n_components = n_components
        self.landmarks = landmarks
        self.memory = memory
