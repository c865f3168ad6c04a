"""``UniversumClassifier``: classes learned from labelled, irrelevant and unlabelled rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher._interrupts import clean_interrupts
from thresher.estimators import input
from thresher.estimators._partly_labelled import checked_partly
from thresher.estimators.universum_model import UniversumModel

__all__ = ["UniversumClassifier"]


class UniversumClassifier(UniversumModel):
    r"""Classes from few labels: 3C-SVM, which also learns from irrelevant and unlabelled rows.

    Rows have a label, or are known to belong to no class (``irrelevant``), or nobody has labelled
    them: their label is None, NaN or empty.  Irrelevant rows are to have scores near zero.  Of
    unlabelled rows the machine decides itself: those with a score of about 1 or more are taken for
    members of a class, doubtful ones for irrelevant.  That is not convex; the objective is lowered
    by concave-convex steps, each of which is a support vector machine, until nothing changes.

    Without irrelevant and unlabelled rows it is the support vector machine.  Several classes are
    learned one against the rest.

    Parameters
    ----------
    unlabelled : {"mixed", "relevant", "irrelevant"}, default="mixed"
        What unlabelled rows may be: of a class or of none (3C-SVM), all of a class (S3VM, the
        transductive machine), all of none (U-SVM, which is convex).
    irrelevant : int, float, str or None, default=None
        The label of rows that are known to belong to no class.
    C : float, default=10.0
        Weight of a labelled row's loss beside half the squared norm of the function.
    C_unlabelled, C_irrelevant : float or None, default=None
        Of an unlabelled and of an irrelevant row.  None: so that all irrelevant rows together weigh
        as much as the labelled ones, all unlabelled rows a tenth of it, and no row more than C.
    epsilon : float, default=0.1
        Scores of irrelevant rows within this cost nothing; in [0, 1).
    kappa : float, default=0.0
        In (-1, 0]: an unlabelled row costs at most 1 + kappa.
    balance : float, "labels" or None, default=None
        The mean score that unlabelled rows shall have; "labels": the mean label, -1 or +1, of the
        labelled ones.
    tuning : {"forward", "direct"} or None, default=None
        Find C, C_unlabelled, epsilon and kappa one after the other by cross-validation on the
        labelled rows.  "forward": C of the plain machine, C_unlabelled and epsilon of the U-SVM,
        kappa of the S3VM; "direct": after C, of the machine that is asked for.
    start : {"auto", "irrelevant", "labelled"}, default="auto"
        Steps begin with the U-SVM, or with the labelled and irrelevant rows alone; "auto": the
        latter if ``unlabelled="relevant"``.
    algorithm : {"auto", "exact", "mapped", "linear"}, default="auto"
        "exact": with the kernel between all rows; "mapped": linear in the features that ``map``
        makes, some hundred landmarks by default, for any number of rows; "linear": in the rows as
        they are.  "auto": exact for up to 5,000 rows, then mapped.
    kernel : {"rbf", "linear", "polynomial", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    map : {"nystroem", "fourier", ...} or transformer, default="nystroem"
        With "mapped": how rows become features.
    n_components, landmarks : as in ``KernelClassifier``
    scale : bool, default=False
        Standardise the features, by all rows; sparse data are scaled but not centred.
    tol : float, default=1e-3
        With "exact" how much the KKT conditions of a step may be violated by, as in LIBSVM, and
        steps end when they lower the objective by less than a thousandth of it, as a share.  Else
        steps end when they lower it by less than ``tol``, and each is within a tenth of that.
    memory : float, default=1e9
        Bytes for kernel columns, or for mapped rows.
    max_iter : int or None, default=None
        Most concave-convex steps; None: 50.
    class_weight : dict, "balanced" or None, default=None
        Factors for the labelled rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Offer ``predict_proba``, fitted on scores of labelled rows left out in five folds.
    n_jobs : int or None, default=None
        Threads.
    random_state : int, RandomState or None, default=None
        Seed of landmarks, folds, and the rows that the median distance is taken over.
    verbose : int, default=0
        Print a line every second or so.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` now and then (a pass is a concave-convex step); returning
        True stops the fit.

    Attributes
    ----------
    classes_ : array
        The labels, in the order of the outputs.
    objectives_ : list of lists of floats
        For each function the objective after each step: it never rises.
    relevant_ : bool array of shape (rows,)
        Which training rows were taken for members of a class in the end.
    tuned_ : dict
        What ``tuning`` found.
    algorithm_ : str
        What was used.
    function_ : what was learned
    n_iter_ : int
        Concave-convex steps, at most over the functions.
    n_features_in_, feature_names_in_, status_, solver_, penalty_ : as in ``LinearClassifier``

    References
    ----------
    Yang, Zhu, King and Lyu (2011), Can irrelevant data help semi-supervised learning, why and how?
    CIKM.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import UniversumClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.5, size=(100, 2)) for m in (-2, 2, 0)])
    >>> y = np.full(300, None)  # nobody has labelled most rows, and a third are of no class
    >>> y[[0, 1]], y[[100, 101]], y[[200, 201]] = "low", "high", "other"
    >>> model = UniversumClassifier(irrelevant="other", random_state=0).fit(X, y)
    >>> model.predict([[-2, -2], [2, 2]]).tolist(), model.status_.name
    (['low', 'high'], 'CONVERGED')
    """

    def __init__(
        self,
        unlabelled: str = "mixed",
        *,
        irrelevant: Any = None,
        C: float = 10.0,
        C_unlabelled: float | None = None,
        C_irrelevant: float | None = None,
        epsilon: float = 0.1,
        kappa: float = 0.0,
        balance: Any = None,
        tuning: str | None = None,
        start: str = "auto",
        algorithm: str = "auto",
        kernel: Any = "rbf",
        gamma: Any = None,
        map: Any = "nystroem",
        n_components: Any = "auto",
        landmarks: Any = "uniform",
        scale: Any = False,
        tol: float = 1e-3,
        memory: float = 1e9,
        max_iter: int | None = None,
        class_weight: Any = None,
        calibrate: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.unlabelled = unlabelled
        self.irrelevant = irrelevant
        self.C = C
        self.C_unlabelled = C_unlabelled
        self.C_irrelevant = C_irrelevant
        self.epsilon = epsilon
        self.kappa = kappa
        self.balance = balance
        self.tuning = tuning
        self.start = start
        self.algorithm = algorithm
        self.kernel = kernel
        self.gamma = gamma
        self.map = map
        self.n_components = n_components
        self.landmarks = landmarks
        self.scale = scale
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @clean_interrupts()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : labels; None, NaN and the empty word are rows without one
        sample_weight : array or None, default=None
            Weight k means the same as the row k times.
        """
        self.check_options()
        X, codes, classes = checked_partly(self, X, y, self.irrelevant)
        self.check_irrelevant(codes)
        weight = input.check_weight(sample_weight, X)
        return self.fit_codes(X, codes, classes, weight)

    def is_relevant(self, X: Any) -> np.ndarray:
        """Whether rows would be taken for members of a class: a score is beyond (1 + epsilon)/2.

        With ``kappa`` below zero the line is drawn where the costs of both are equal.
        """
        check_is_fitted(self)
        return self.taken_for_members(self.scores(X))
