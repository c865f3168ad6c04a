"""What the feature maps share: scikit-learn's transformer contract, and all that others ask of one.

A map knows everything about itself.  Whoever saves, exports, tunes, races or shows a model with a
map asks the map; a new one is its class and one line in ``thresher.registry``.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from thresher._allowed import Allowed, check_allowed
from thresher._rows import check_compressed
from thresher._seed import seed_from
from thresher.dimensions import Int
from thresher.kernels.gram import blocks
from thresher.registry import Contestant
from thresher.solvers import AveragedSGD, DirectLeastSquares, DualDescent, Problem, QuasiNewton
from thresher.solvers.base import Solver
from thresher.solvers.compatible import takes

__all__ = ["CHECKS", "Circumstances", "FeatureMap"]

CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
    "order": "C",
}
# Averaged SGD is far from the optimum of several classes after the 20 passes that it plans at most
# (letter, 490 landmarks: 6.4 % against 4.5).  Up to so many features their Gram matrix is cheap.
_MOST_FEATURES = 4000
# Where the loss is not smooth: the dual's passes soon leave most rows out, and cost no more than
# averaged SGD's below so many rows for each feature.
_ROWS_PER_FEATURE = 32


class Circumstances(NamedTuple):
    """What a map's preferred solver depends on.

    Parameters
    ----------
    problem : Problem
        With its penalty.
    shape : pair of int
        Rows, and features of the map.
    task : {"classification", "regression"}
    usual : Solver
        What a linear model would take for rows of this shape.
    streaming : bool
        Whether rows come in parts.
    max_iter, steps : int or None
        As the estimator was given them.
    """

    problem: Problem
    shape: tuple[int, int]
    task: str
    usual: Solver
    streaming: bool
    max_iter: int | None
    steps: int | None

    @property
    def limited(self) -> bool:
        """Passes are given or rows come in parts, so that a stochastic solver stays one."""
        return bool(self.streaming or self.max_iter or self.steps)


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows to features in which a linear model is a kernel machine.

    A map is made from a sample of the rows (``fit``), and then takes rows block by block: memory
    never holds more features than are asked for.  ``learn`` and ``features`` are ``fit`` and
    ``transform`` for float rows that have been validated already.

    A linear model on the features, coef of shape (outputs, features), is a function of x itself:
    ``fold`` turns coef into a table once, and ``scores`` evaluates it without the features.
    Features are an array, or a CSR matrix where most of them are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import KernelClassifier
    >>> from thresher.maps import FeatureMap
    >>> class Squares(FeatureMap):
    ...     def learn(self, X, y=None):
    ...         self.width_ = 2 * X.shape[1]
    ...         return self
    ...     def features(self, X, out=None):
    ...         return np.hstack([X, X**2])
    ...     @property
    ...     def width(self):
    ...         return self.width_
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = (X**2).sum(axis=1) < 1.4
    >>> bool(KernelClassifier(map=Squares()).fit(X, y).score(X, y) > 0.95)
    True
    """

    #: features are a CSR matrix, whose products need the weights of all outputs side by side;
    #: ``fold`` only reorders them
    by_entries: ClassVar[bool] = False
    #: what a feature is, in the plural
    unit: ClassVar[str] = "features of the kernel"
    #: alpha n where no alpha is given: at the median width 1 underfits on most data
    usual_strength: float = 0.1
    #: the penalty of a model behind it that names none
    usual_penalty: ClassVar[str] = "l2"
    #: its kernels are narrower by this factor than those for all rows
    closer: ClassVar[float] = 1.0
    #: a kernel sets its features
    uses_kernel: ClassVar[bool] = True
    #: there is one feature for each column, with a weight that can be shown
    by_columns: ClassVar[bool] = False
    #: more components only add to what was learned, as trees do: they wait for all rows
    additive: ClassVar[bool] = False
    #: components that tell how good it is, and the fewest that are of use
    few: ClassVar[int | None] = None
    least: ClassVar[int] = 50
    #: how it takes part in a race, if it does
    contestants: ClassVar[tuple[Contestant, ...]] = ()
    #: fitted attributes, in the order in which files keep them
    state_names: ClassVar[tuple[str, ...]] = ()
    #: what options may be, besides what subclasses add
    allowed: ClassVar[dict[str, Allowed]] = {}
    random_state: Any

    # ------------------------------------------------------------ for subclasses

    def check_options(self) -> None:
        """Refuse options that cannot work, before any row is looked at."""
        check_allowed(self)

    def learn(self, X: Any, y: np.ndarray | None = None) -> Self:
        """``fit`` for rows that have been checked; targets of an integer type are classes."""
        raise NotImplementedError

    def learn_weighted(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> Self:
        """The same for rows of these weights, none of them zero; most maps count each row once."""
        return self.learn(X, y)

    def needs_units(self, X: Any) -> bool:
        """Whether it can tell values of X apart in standardised units only."""
        return False

    def features(self, X: Any, out: np.ndarray | None = None) -> Any:
        """``transform`` for rows that have been checked."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """The number of features."""
        raise NotImplementedError

    def fold(self, coef: np.ndarray) -> np.ndarray:
        """A linear model on the features as a table for :meth:`scores`."""
        return np.asfortranarray(coef) if self.by_entries else coef

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        """Features times coef', in blocks; ``table`` is what ``fold`` made of coef."""
        out = np.empty((X.shape[0], table.shape[0]), dtype=np.float64)
        for part in blocks(X.shape[0], self.width):
            out[part] = self.features(X[part]) @ table.T.astype(X.dtype, copy=False)
        return out

    def parts(self, names: Any = None) -> list[tuple[str, int]] | None:
        """What its features come from, in order: a name and a number of features each.

        The groups of a penalty over groups; None: every feature stands for itself.  ``names`` are
        those of the columns.
        """
        return None

    @property
    def table_width(self) -> int:
        """Columns of the table that ``fold`` makes."""
        return self.width

    @property
    def stored_per_row(self) -> int:
        """Numbers that the features of one row take in memory."""
        return self.width

    @property
    def size(self) -> int:
        """Numbers that it takes to map a row, besides the table and units of the columns."""
        return 0

    @property
    def learns_weights(self) -> bool:
        """Whether a solver is to learn the weights of the features; else the map brings them."""
        return True

    @property
    def serves_all_folds(self) -> bool:
        """Whether one map, learned from all rows without their targets, may serve all folds of a
        search."""
        return False

    def check(self, features: int, width: int) -> None:
        """ValueError for a state, read from a file, that does not map so many to so many."""
        raise ValueError(f"a map of type {type(self).__name__} cannot be kept in a file")

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        """``scores`` of rows, as nodes of an ONNX graph."""
        raise ValueError(f"the map {type(self).__name__} is not known to ONNX")

    def describe(self) -> str:
        """The map in a few words."""
        return str(getattr(self, "kernel_", self))

    def prefers(self, found: Circumstances) -> Solver:
        """The solver for its features: least squares directly; else what a linear model would take,
        or a solver that reaches the optimum of several classes."""
        if takes(DirectLeastSquares(), found.problem):
            return DirectLeastSquares()
        stochastic = isinstance(found.usual, AveragedSGD)
        return best_of_stochastic(found) if stochastic else found.usual

    def space(self, estimator: Any, X: Any) -> dict[str, Any]:
        """Dimensions to search, for rows X if given; besides the strength of the penalty."""
        return {}

    def components(self, wanted: Any, rows: int) -> int:
        """How many components ``n_components=wanted`` are for so many rows."""
        return 1

    def room(self, rows: int) -> Int | None:
        """How many components so many rows can fill; None where that is no parameter."""
        return None

    def work(self, size: int, rows: int) -> float:
        """What a fit with so many components costs, up to a factor of the map's own."""
        return float(rows * size)

    def starts(self, rows: int, numbers: bool = False) -> list[dict[str, Any]]:
        """Settings of the estimator that a race tries first, besides the defaults; ``numbers`` are
        to be predicted, or classes."""
        return []

    def finer(self, params: dict[str, Any], factor: float) -> dict[str, Any] | None:
        """Settings with which more rows may be followed more closely; None: ask the kernel."""
        return None

    def state(self) -> dict[str, Any]:
        """What was learned, as files keep it."""
        if not self.state_names:
            raise TypeError(f"a model with the map {type(self).__name__} cannot be saved")
        return {name: getattr(self, name) for name in self.state_names}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state` gave; it is checked by :meth:`check`."""
        for name, value in state.items():
            setattr(self, name, value)

    # ------------------------------------------------------------ scikit-learn's contract

    @property
    def shown(self) -> Any:
        """The map as users know it."""
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the map from the rows of X; y is used by landmarks that follow the targets.

        Of targets with several columns, those of many tasks, no map takes notice.
        """
        self.check_options()
        X = self.checked(X, reset=True)
        if y is not None:  # of many tasks some targets may be missing
            y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False)
            y = None if y.ndim == 2 and y.shape[1] > 1 and y.shape[0] == X.shape[0] else y
        if y is not None:
            y = check_array(y, ensure_2d=False, dtype=None).ravel()
            if y.size != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows, but y {y.size} targets")
            if not type_of_target(y).startswith("continuous"):
                y = np.unique(y, return_inverse=True)[1]
        return self.learn(X, y)

    def transform(self, X: Any) -> Any:
        """The features of the rows of X, in the precision of X."""
        check_is_fitted(self)
        return self.features(self.checked(X, reset=False))

    def checked(self, X: Any, reset: bool) -> Any:
        """Rows that users give, as float arrays or sound CSR matrices."""
        check_compressed(X)
        return validate_data(self, X, reset=reset, **CHECKS)

    @property
    def _n_features_out(self) -> int:
        return self.width

    def _seed(self) -> int:
        return seed_from(self.random_state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def best_of_stochastic(found: Circumstances, enough: bool = False) -> Solver:
    """Averaged SGD, or what reaches the optimum where it does not (and is not good ``enough``)."""
    if found.limited:
        return AveragedSGD()
    n, d = found.shape
    if found.problem.outputs > 1 and not enough:
        if d <= _MOST_FEATURES and takes(QuasiNewton(), found.problem):
            return QuasiNewton()
        if n < _ROWS_PER_FEATURE * d and takes(DualDescent(), found.problem):
            return DualDescent()
    return AveragedSGD()
