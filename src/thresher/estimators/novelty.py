"""``NoveltyClassifier``: which class a row belongs to, or that it belongs to none."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from thresher._interrupts import clean_interrupts
from thresher._outliers import outlier_label
from thresher.estimators import input
from thresher.estimators.classifier import check_labels, codes_of
from thresher.estimators.novelty_model import NoveltyModel

__all__ = ["NoveltyClassifier"]


class NoveltyClassifier(NoveltyModel):
    r"""Supervised novelty detection: classes and "none of them" in one convex model.

    A function for each class, f_j(x) = <w_j, phi(x)> - rho_j, positive where its rows lie.  A row
    belongs to the class with the highest score, or to none if no score is positive.  All functions
    are learned together: beside the one-class machines' objectives stand the inner products of
    their normals w_j, so that the classes are kept apart.  Known outliers are rows of no class.
    With one class, and no outliers, it is the one-class support vector machine.

    Parameters
    ----------
    algorithm : {"auto", "exact", "least_squares", "pegasos"}, default="auto"
        "exact": the quadratic program over all rows; "least_squares": one linear system, dense in
        the rows; "pegasos": stochastic steps, linear or behind a ``map``, for many rows and for
        streams.  "auto": exact while rows times classes are at most 20,000, then "pegasos".
    reading : {"boundary", "margin"}, default="boundary"
        With "exact": rows of other classes are to lie outside of a class, or at least as far beyond
        its margin as its own lie within.  "boundary" finds novel rows better, "margin" is as the
        multi-class program was printed; with two classes and no outliers the latter's normals are
        opposite, whatever the coupling.
    coupling : float, default=2.0
        The gamma of gamma/2 sum ||w_j||^2 + sum_{i<j} <w_i, w_j>, larger than 1: the smaller, the
        more the normals turn away from each other.
    nu : float, default=0.1
        With "exact": at most about this share of the rows of a class (with "margin": of all rows)
        may lie on the wrong side.  C = 1 / (nu n).
    C : float or None, default=None
        The weight of a row's slack, in place of nu; at least 1 over the rows of the smallest class
        (with "margin": over all rows).  With "least_squares" that of its square; None: 10.
    false_alarms : float or None, default=0.05
        The threshold is moved, for all classes alike, so that about this share of new rows of the
        known classes is rejected: by rows left out in five folds, with "least_squares" one by one
        in closed form.  None: no row counts beyond the published rule (with few rows in many
        features most new rows are then rejected).  Not in ``partial_fit`` and streams.
    outlier_label : int, float, str or None, default=None
        What rows of no class are called; training rows with this label are known outliers.  None:
        none are, and it is -1 (or the next whole number below all labels), "outlier" among words.
    kernel : {"rbf", "exponential", "polynomial", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    map : {"nystroem", "fourier", "forest", ...}, transformer or None, default="nystroem"
        With "pegasos": how rows become features; None: they are taken as they are.
    n_components, landmarks : as in ``KernelClassifier``
    alpha : float or None, default=None
        With "pegasos": strength of the penalty (lambda); None: 0.1/n behind a map, 1/n for linear
        functions, 1e-5 in ``partial_fit``.
    radius : {"corrected", "published", None}, default="corrected"
        With "pegasos": of the ball that the weights are kept within; see
        ``thresher.solvers.novelty_pegasos``.
    average : bool, default=True
        With "pegasos": predict with the mean of the iterates instead of the last one.
    batch : int, default=1
        With "pegasos": rows per step.
    scale : bool or "relevance", default=False
        Standardise the features, as in ``KernelClassifier``.
    tol : float, default=1e-3
        With "exact": how much the KKT conditions may be violated by, as in LIBSVM.
    memory : float, default=2e9
        Bytes for kernel values, or for mapped rows.
    max_iter : int or None, default=None
        Working sets with "exact", passes with "pegasos" (None: 10), at most.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        With "pegasos", how rows are visited.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class, and of ``outlier_label``.
    n_jobs : int or None, default=None
        Threads.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line now and then.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every step or pass; returning True stops the fit.

    Attributes
    ----------
    classes_ : array
        The known labels, in the order of ``decision_function``.
    outlier_label_ : int, float or str
        What rows of no class are called.
    outcomes_ : array
        All of these, sorted.
    rho_ : array of shape (n_classes,)
        Offsets of the functions (minus the intercepts, with "pegasos").
    threshold_ : float
        What was taken from all scores for ``false_alarms``.
    norms_ : array of shape (n_classes,)
        ||w_j||.
    cosines_ : array of shape (n_classes, n_classes)
        Of the angles between the normals.
    algorithm_ : str
        What was used.
    violation_ : float
        With "exact": by how much the KKT conditions are violated.
    function_ : Rejecting
        What was learned: the functions of the classes, and that of none.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_, status_, solver_, penalty_ : as in ``LinearClassifier``

    References
    ----------
    Jumutc and Suykens (2014), Multi-class supervised novelty detection, IEEE TPAMI 36(12).

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import NoveltyClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 0.3, size=(100, 2)) for c in (-1, 1)])
    >>> y = np.repeat(["left", "right"], 100)
    >>> model = NoveltyClassifier(random_state=0).fit(X, y)
    >>> model.predict([[-1, -1], [1, 1], [3, -3]]).tolist()
    ['left', 'right', 'outlier']
    """

    def __init__(
        self,
        algorithm: str = "auto",
        *,
        reading: str = "boundary",
        coupling: float = 2.0,
        nu: float = 0.1,
        C: float | None = None,
        false_alarms: float | None = 0.05,
        outlier_label: Any = None,
        kernel: Any = "rbf",
        gamma: Any = None,
        map: Any = "nystroem",
        n_components: Any = "auto",
        landmarks: Any = "uniform",
        alpha: float | None = None,
        radius: str | None = "corrected",
        average: bool = True,
        batch: int = 1,
        scale: Any = False,
        tol: float = 1e-3,
        memory: float = 2e9,
        max_iter: int | None = None,
        order: str = "shuffle",
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.algorithm = algorithm
        self.reading = reading
        self.coupling = coupling
        self.nu = nu
        self.C = C
        self.false_alarms = false_alarms
        self.outlier_label = outlier_label
        self.kernel = kernel
        self.gamma = gamma
        self.map = map
        self.n_components = n_components
        self.landmarks = landmarks
        self.alpha = alpha
        self.radius = radius
        self.average = average
        self.batch = batch
        self.scale = scale
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.order = order
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------ learning

    @clean_interrupts()
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, outliers: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : labels or None, default=None
            Rows with ``outlier_label`` are known outliers.  None: all rows are of one class, 1.
        sample_weight : array or None, default=None
            Weight k means the same as the row k times.
        outliers : array, frame or sparse matrix or None, default=None
            Further rows of no class, of weight one.
        """
        self.check_options()
        if y is None:
            X = input.checked_X(self, X, reset=True)
            y = np.ones(X.shape[0], dtype=np.int64)
        else:
            X, y = input.checked_Xy(self, X, y, reset=True, numeric=False)
            check_labels(y)
        weight = input.check_weight(sample_weight, X)
        labels = self._stream_labels(np.unique(y))
        codes = codes_of(y, labels)
        if outliers is not None:
            Z = input.checked_X(self, outliers)
            place = int(np.flatnonzero(labels == self._outlier_of(labels))[0])
            codes = np.append(codes, np.full(Z.shape[0], place))
            weight = None if weight is None else np.append(weight, np.ones(Z.shape[0]))
            X = input.stacked(X, Z)
        return self.fit_codes(X, codes, labels, weight)

    def _stream_labels(self, named: np.ndarray) -> np.ndarray:
        """All labels, sorted: those that were named, and that of rows of no class."""
        known = named if self.outlier_label is None else named[named != self.outlier_label]
        label = outlier_label(known if known.size else named, self.outlier_label)
        return np.unique(np.append(known, label))

    # ------------------------------------------------------------ use

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, or ``outlier_label_`` where no score is positive."""
        known = self._known(X)
        best = self.classes_[known.argmax(axis=1)]
        rejected = known.max(axis=1) <= 0.0
        return np.where(rejected, np.asarray(self.outlier_label_), best).astype(self._kind)

    def classify(self, X: Any) -> np.ndarray:
        """The class with the highest score, whatever it is: no row is rejected."""
        return self.classes_[self._known(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """(rows, classes): positive where a row looks like the class; (rows,) for one class."""
        known = self._known(X)
        return known[:, 0] if known.shape[1] == 1 else known

    def score_samples(self, X: Any) -> np.ndarray:
        """The highest score of all classes: the lower, the less a row looks like any of them."""
        return self._known(X).max(axis=1)

    @property
    def _kind(self) -> Any:
        return self.outcomes_.dtype

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
