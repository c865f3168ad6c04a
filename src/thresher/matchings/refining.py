r"""From soft matches to hard ones: kernelized sorting that remembers where it came from.

.. math:: \max_\pi \operatorname{tr}(K \pi L \pi') + 2 \lambda \langle \pi, P \rangle

by linear assignments (``sorting.py``), then by exchanges of the partners of two objects as long as
one gains.  K and L are centred and without diagonals: with them assignments stick to where they
began, since every object is most like itself.  It is done twice where the sets have one size: for
the kernels as they are, and from there for evened ones,

.. math:: K (K + c)^{-1}, \qquad c = \operatorname{tr} K / m,

whose eigenvalues lie between 0 and 1: what tells objects apart in the second place counts as much
as what does in the first, and noise little.  The trace is then the squared size of the normalised
cross-covariance (Fukumizu, Gretton, Sun and Schoelkopf, 2008) instead of the covariance.

*The pull.*  Where the kernels of true pairs agree only roughly, wrong matches have a larger
trace than the true ones, and sorting alone walks away from good soft matches; where they agree well
a weak pull changes nothing.  Its first strength, and the number of steps before, were chosen over
copies, splits of columns, images and documents, 73 problems; evening and its pull over 88 of these
kinds (``docs/matchings.md``).

*Exchanges.*  What assignments leave is mostly pairs of objects that have each other's partner.  All
gains of an exchange come from one matrix product.
"""

from __future__ import annotations

import numpy as np

from thresher.matchings.assignment import permutation_matrix
from thresher.matchings.similarities import around_zero, evened, without_diagonal
from thresher.matchings.sorting import pair_scores, sort_from

__all__ = ["exchanged", "refined"]

_PULL, _EVENED_PULL = 0.03, 0.1  # in units in which scores and soft matches have the same spread
_SWEEPS = 100


def refined(
    K: np.ndarray, L: np.ndarray, P: np.ndarray, pulls: np.ndarray | None = None
) -> np.ndarray:
    """Hard matches, -1 for none, from the soft matches P; ``pulls`` as in :func:`sort_from`."""
    match = _climbed(*around_zero(K, L), P, P, _PULL, pulls)
    if K.shape != L.shape:
        return match  # evened kernels depend on who is there
    start = permutation_matrix(match, len(L), K.dtype)
    return _climbed(evened(K), evened(L), start, P, _EVENED_PULL, pulls)


def _climbed(
    K: np.ndarray, L: np.ndarray, start: np.ndarray, P: np.ndarray, strength: float,
    pulls: np.ndarray | None,
) -> np.ndarray:  # fmt: skip
    """Sorting from a soft or hard matching, with a pull to P, and exchanges."""
    K, L = map(without_diagonal, (K, L))
    spread = float(P.std())
    pull = strength * float(pair_scores(K, P, L).std()) / spread if spread > 0.0 else 0.0
    towards = pull * P if pulls is None else pull * P + pulls
    return exchanged(K, L, sort_from(K, L, start, towards).match, towards)


def exchanged(
    K: np.ndarray, L: np.ndarray, match: np.ndarray, pulls: np.ndarray
) -> np.ndarray:  # fmt: skip
    """Matches between which no exchange of two partners gains; diagonals of K and L are zero.

    With M the kernel L of the partners, i and j gain
    2 (S_ij + S_ji - S_ii - S_jj + 2 K_ij M_ij) with S = KM + pulls.
    """
    match = match.copy()
    pairs = np.flatnonzero(match >= 0)
    partners, K, pulls = match[pairs], K[np.ix_(pairs, pairs)], pulls[pairs]
    best = _value(K, L, pulls, partners)
    for _ in range(_SWEEPS):
        swaps = _gaining(K, L[np.ix_(partners, partners)], pulls[:, partners], 1e-7 * abs(best))
        while len(swaps):  # together they may lose: then fewer of them, at last one
            trial = partners.copy()
            trial[swaps], trial[swaps[:, ::-1]] = partners[swaps[:, ::-1]], partners[swaps]
            value = _value(K, L, pulls, trial)
            if value > best:
                break
            swaps = swaps[: len(swaps) // 2]
        if not len(swaps):
            break
        partners, best = trial, value
    match[pairs] = partners
    return match


def _gaining(K: np.ndarray, M: np.ndarray, pulls: np.ndarray, least: float) -> np.ndarray:
    """Exchanges that gain, the most first, no object in two of them; of shape (exchanges, 2)."""
    S = K @ M + pulls
    own = np.diag(S)
    gains = S + S.T - own[:, None] - own + 2.0 * K * M
    other = gains.argmax(axis=1)
    gain = gains[np.arange(len(K)), other]
    taken, swaps = np.zeros(len(K), dtype=bool), []
    for i in np.argsort(-gain, kind="stable"):
        j = other[i]
        if gain[i] <= least / len(K):
            break
        if not (taken[i] or taken[j]):
            taken[i] = taken[j] = True
            swaps.append((i, j))
    return np.array(swaps, dtype=np.intp).reshape(-1, 2)


def _value(K: np.ndarray, L: np.ndarray, pulls: np.ndarray, partners: np.ndarray) -> float:
    alike = np.einsum("ij,ij->", K, L[np.ix_(partners, partners)], dtype=np.float64)
    return float(alike) + 2.0 * float(
        pulls[np.arange(partners.size), partners].sum(dtype=np.float64)
    )
