"""Two sets of objects, and who belongs to whom, where no pair need be known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from thresher._allowed import FLAG, NOT_NEGATIVE, UNLIMITED, OneOf, check_allowed, number, whole
from thresher._rows import check_compressed
from thresher._seed import seed_from
from thresher.kernels.gram import gram
from thresher.kernels.width import resolve_kernel
from thresher.matchings.assignment import best_assignment, best_few, permutation_matrix, recall
from thresher.matchings.convex import is_degenerate, soft_match
from thresher.matchings.copies import matched_copies
from thresher.matchings.refining import refined
from thresher.matchings.similarities import (
    around_zero,
    centred,
    flattened,
    of_unit_size,
    without_diagonal,
)
from thresher.matchings.sorting import sorted_best
from thresher.matchings.spectra import Coupling, Spectrum

__all__ = ["ObjectMatching"]

_METHODS = ("convex", "sorting")
_SINGLE_FROM = 1e-4  # relative precision that single precision has, with room to spare
_SMALL = 2e-4  # squares of eigenvalues that do not matter, in units of the usual curvature
_EXACT_UP_TO, _LANDMARKS = 2000, 500


class ObjectMatching(BaseEstimator):
    """Match two sets of objects by how similar the objects of each set are to each other.

    The sets may have nothing in common, no feature and no unit: documents in two languages, images
    and places on a grid.  Two objects belong together if they are alike in how they relate to the
    others of their sets.

    Parameters
    ----------
    method : {"convex", "sorting"}, default="convex"
        "convex": convex kernelized sorting, one optimum and soft matches; "sorting": kernelized
        sorting by linear assignments, the best of several starts.
    kernel : {"rbf", "linear", "cosine", ..., "precomputed"} or Kernel, default="rbf"
        Similarity within a set.  "precomputed": X and Y are symmetric matrices of similarities.
    gamma : float, "median" or None, default=None
        Width of the kernel; None: the object's own, or "median", of each set, for a name.
    penalty : float, default=10.0
        Of sums of rows and columns that are not one, for kernels with a mean diagonal of one;
        infinity: exactly doubly stochastic.
    centre : bool, default=False
        Whether "convex" uses centred kernels, for which the problem is degenerate; there is a
        warning.  "sorting" always centres.
    refine : bool, default=True
        Whether kernelized sorting, on centred kernels without their diagonals and with a weak pull
        to the soft matches, goes on from the convex optimum, and then exchanges of partners; and
        from there both again with evened kernels, for sets of one size.  The soft matches stay as
        they are.
    power : float or None, default=None
        KS-p: entries of the kernels to this power, rows of length one, and their inner products.
    starts : int, default=10
        Of "sorting": the leading eigenvectors, and random permutations.
    rank : int, "auto" or None, default="auto"
        Use so many eigenvectors of each kernel only; "auto": without those whose eigenvalues are
        too small to matter, where that saves time; None: all.
    landmarks : int, "auto" or None, default="auto"
        Eigenvectors from the columns of so many objects, instead of from whole kernels; "auto": 500
        for more than 2,000 objects; None: never.
    max_iter : int, default=60
        Most steps of the convex solver.
    tol : float, default=1e-3
        Relative precision at which it stops.  From 1e-4 on it computes in single precision, which
        has these digits and takes half the time.
    random_state : int, RandomState or None, default=None
        Of random starts, and of the rows that the median width is taken from.

    Attributes
    ----------
    match_ : array of shape (n_x,)
        For each row of X the number of its row of Y; -1: none, where X is the larger set.
    probabilities_ : array of shape (n_x, n_y)
        Soft matches; they sum to one over the partners of an object of the smaller set.
    alignment_ : float
        Cosine between the centred kernels, matched: 1 for exact copies.
    n_iter_ : int
        Steps of the convex solver, or assignments of the best start; 0 where the sets are exact
        copies, which needs neither.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import ObjectMatching
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2))
    >>> order = rng.permutation(30)
    >>> Y = X[order] @ np.array([[0.0, -3.0], [3.0, 0.0]])  # turned and stretched
    >>> matching = ObjectMatching(random_state=0).fit(X, Y)
    >>> bool(np.all(order[matching.match_] == np.arange(30)))
    True
    >>> matching.top(3).shape
    (30, 3)
    """

    allowed = {
        "method": OneOf(*_METHODS), "penalty": UNLIMITED, "centre": FLAG, "refine": FLAG,
        "power": number(0.0, 1.0, "(]") | None, "starts": whole(1), "max_iter": whole(1),
        "rank": whole(1) | "auto" | None, "landmarks": whole(1) | "auto" | None,
        "tol": NOT_NEGATIVE,
    }  # fmt: skip

    def __init__(
        self,
        method: str = "convex",
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        penalty: float = 10.0,
        centre: bool = False,
        refine: bool = True,
        power: float | None = None,
        starts: int = 10,
        rank: Any = "auto",
        landmarks: Any = "auto",
        max_iter: int = 60,
        tol: float = 1e-3,
        random_state: Any = None,
    ):
        self.method = method
        self.kernel = kernel
        self.gamma = gamma
        self.penalty = penalty
        self.centre = centre
        self.refine = refine
        self.power = power
        self.starts = starts
        self.rank = rank
        self.landmarks = landmarks
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, Y: Any, seeds: Any = None) -> ObjectMatching:
        """Match the rows of X with those of Y.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_x, n_features)
            Float32 rows are computed with in that precision.
        Y : array or sparse matrix of shape (n_y, other_features)
            One column may be given as a vector.
        seeds : sequence of pairs (row of X, row of Y) or None, default=None
            Pairs that are known.
        """
        check_allowed(self)
        seed = seed_from(self.random_state)
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        check_compressed(X)
        X = validate_data(self, X, **options)
        Y = _as_rows(Y, X.dtype)
        if precomputed:
            K, L = _similarities(X, "X"), _similarities(Y, "Y")
        else:
            K = gram(resolve_kernel(self.kernel, self.gamma, X, seed), X)
            L = gram(resolve_kernel(self.kernel, self.gamma, Y, seed), Y)
        K, L = of_unit_size(K), of_unit_size(L)
        if self.power is not None:
            K, L = flattened(K, self.power), flattened(L, self.power)
        known = _checked_seeds(seeds, K.shape[0], L.shape[0])
        if self.method == "convex":
            self._convex(K, L, known, seed)
        else:
            self._sorting(K, L, known, seed)
        self.alignment_ = _alignment(centred(K), centred(L), self.match_)
        return self

    def _convex(self, K: np.ndarray, L: np.ndarray, known: np.ndarray, seed: int) -> None:
        given = K.dtype
        if self.centre:
            K, L = centred(K), centred(L)
        if is_degenerate(K, L) and not known.size and min(K.shape[0], L.shape[0]) > 1:
            warnings.warn(
                "the rows of each kernel sum to the same, as those of centred kernels do: the "
                "uniform matrix is a convex optimum, and matches from it mean nothing; use "
                "uncentred kernels (centre=False), others, or seeds",
                stacklevel=3,
            )
        copies = matched_copies(K, L) if not known.size else None
        if copies is not None:
            self.n_iter_, self.match_ = 0, copies
            self.probabilities_ = permutation_matrix(copies, L.shape[0], given)
            return
        if self.tol >= _SINGLE_FROM:
            K, L = K.astype(np.float32, copy=False), L.astype(np.float32, copy=False)
        allowed = _allowed(known, K.shape[0], L.shape[0]) if known.size else None
        soft = soft_match(
            self._coupling(K, L, seed), self.penalty, allowed=allowed, max_iter=self.max_iter,
            tol=self.tol,
        )  # fmt: skip
        self.n_iter_ = soft.n_iter
        self.probabilities_ = _normalised(soft.P).astype(given, copy=False)
        pulls = None if allowed is None else np.where(allowed, 0.0, -_impossible(K, L))
        if self.refine:
            self.match_ = refined(K, L, soft.P, pulls)
        else:
            self.match_ = best_assignment(soft.P if pulls is None else soft.P + pulls)

    def _coupling(self, K: np.ndarray, L: np.ndarray, seed: int) -> Coupling:
        """The two kernels by as many of their eigenvectors as were asked for."""
        rank = None if self.rank == "auto" else self.rank
        spectra = []
        for A in (K, L):
            count = self.landmarks
            if count == "auto":
                count = _LANDMARKS if len(A) > _EXACT_UP_TO else None
            if count is None:
                spectra.append(Spectrum.of(A, rank))
            else:
                spectra.append(Spectrum.by_landmarks(A, count, seed, rank))
        coupling = Coupling(*spectra)
        return coupling.without_small(_SMALL) if self.rank == "auto" else coupling

    def _sorting(self, K: np.ndarray, L: np.ndarray, known: np.ndarray, seed: int) -> None:
        K, L = map(without_diagonal, around_zero(K, L))
        pulls = None
        if known.size:
            allowed = _allowed(known, K.shape[0], L.shape[0])
            pulls = np.where(allowed, 0.0, -_impossible(K, L))
        run = sorted_best(K, L, self.starts, seed, pulls)
        self.n_iter_, self.match_ = run.n_iter, run.match
        self.probabilities_ = permutation_matrix(run.match, L.shape[0], K.dtype)

    def top(self, n: int = 5) -> np.ndarray:
        """For each row of X the ``n`` likeliest rows of Y, the likeliest first."""
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be a positive whole number, got {n!r}")
        return best_few(self.probabilities_, n)

    def recall(self, truth: Any, n: int = 1) -> float:
        """The share of rows of X whose true partner is among the ``n`` likeliest.

        With ``n`` = 1 it is about the soft matches; ``np.mean(match_ == truth)`` is about the hard
        ones.  Rows with truth -1 are left out.
        """
        check_is_fitted(self)
        truth = np.asarray(truth)
        if truth.shape != self.match_.shape:
            raise ValueError(
                f"truth has the shape {truth.shape}, but {self.match_.size} rows were matched"
            )
        return recall(self.probabilities_, truth, n)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.target_tags.required = True
        return tags


def _as_rows(Y: Any, dtype: Any) -> Any:
    """Y as a matrix in the precision of X; a vector becomes one column."""
    if Y is None:
        raise ValueError("requires y to be passed, but the target y is None: Y is the other set")
    check_compressed(Y, "Y")
    if not issparse(Y):
        Y = np.asarray(Y)
        Y = Y[:, None] if Y.ndim == 1 else Y
    return check_array(Y, accept_sparse="csr", dtype=dtype, input_name="Y")


def _similarities(K: Any, name: str) -> np.ndarray:
    K = K.toarray() if issparse(K) else K
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"kernel='precomputed': {name} must be square, got the shape {K.shape}")
    gap = np.abs(K - K.T)
    if gap.max() > 1e-5 * max(float(np.abs(K).max()), 1e-300):
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        raise ValueError(
            f"kernel='precomputed': {name} must be symmetric, but {name}[{i}, {j}] = {K[i, j]:g} "
            f"and {name}[{j}, {i}] = {K[j, i]:g}"
        )
    return (K + K.T) / 2.0


def _checked_seeds(seeds: Sequence[Any] | None, n: int, m: int) -> np.ndarray:
    """Pairs of row numbers, each row in one pair at most."""
    pairs = np.asarray([] if seeds is None else seeds)
    if not pairs.size:
        return np.empty((0, 2), dtype=np.intp)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError("seeds must be pairs of row numbers, (row of X, row of Y)")
    for column, (name, size) in enumerate((("X", n), ("Y", m))):
        rows, times = np.unique(pairs[:, column], return_counts=True)
        if rows[0] < 0 or rows[-1] >= size:
            bad = rows[0] if rows[0] < 0 else rows[-1]
            raise ValueError(f"seeds name row {bad} of {name}, which has {size} rows")
        if times.max() > 1:
            raise ValueError(f"seeds name row {rows[times.argmax()]} of {name} more than once")
    return pairs.astype(np.intp)


def _allowed(known: np.ndarray, n: int, m: int) -> np.ndarray:
    """Which pairs may be: those known, and those of rows that are in none of them."""
    allowed = np.ones((n, m), dtype=bool)
    allowed[known[:, 0]] = False
    allowed[:, known[:, 1]] = False
    allowed[known[:, 0], known[:, 1]] = True
    return allowed


def _impossible(K: np.ndarray, L: np.ndarray) -> float:
    """More than any score of a matching can be."""
    return 10.0 * len(K) * float(np.linalg.norm(K) * np.linalg.norm(L)) + 10.0


def _normalised(P: np.ndarray) -> np.ndarray:
    """Sums of one for every object of the smaller set."""
    sums = P.sum(axis=1 if P.shape[0] <= P.shape[1] else 0, keepdims=True)
    return P / np.where(sums > 0.0, sums, 1.0)


def _alignment(K: np.ndarray, L: np.ndarray, match: np.ndarray) -> float:
    pairs = np.flatnonzero(match >= 0)
    K, L = K[np.ix_(pairs, pairs)], L[np.ix_(match[pairs], match[pairs])]
    size = float(np.linalg.norm(K) * np.linalg.norm(L))
    return float(np.sum(K * L)) / size if size > 0.0 else 0.0
