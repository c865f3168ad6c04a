"""Claims: on noisy copies, halves of images and parallel documents `ObjectMatching` finds no fewer
right pairs than SciPy's quadratic assignment (FAQ and 2-opt) and POT's Gromov-Wasserstein (plain
and entropic), on documents in no more time than FAQ; 2,000 objects take less than a minute by
default; `GridLayout` keeps distances better than vc-flas, an optional peer as POT is.

Copies are 5-dimensional Gaussian points with noise of 0, 0.1 and 0.3 of their deviation, Gaussian
kernels of median width.  FAQ starts from the barycentre, on kernels without their diagonals for
documents (with them it is worse); 2-opt goes on from there.  Gromov-Wasserstein takes 1 - K as
distances, the entropic one with epsilon 5e-4.  CPU seconds of one run, one thread.  Layouts are
judged by the distance preservation quality (p = 16), a mean of three seeds; vc-flas by default, and
with its radius falling more slowly (0.99), which is better and takes longer.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from reproduction import data
from reproduction.matchings import Pair, by_length, documents, halves, shuffled, texts
from scipy.optimize import quadratic_assignment

from benchmarks.measure import busy, seconds, table, verdict
from thresher import RBF, GridLayout, ObjectMatching
from thresher.kernels.gram import gram
from thresher.kernels.width import median_gamma
from thresher.matchings import distance_preservation
from thresher.matchings.assignment import best_assignment
from thresher.matchings.similarities import without_diagonal

SIZES, NOISES, LARGE, TWO_OPT_MOST = (40, 200, 500), (0.0, 0.1, 0.3), 2000, 100
BEYOND = 4000
DEFAULT = "refined"
OURS = ("convex", DEFAULT)
METHODS = (*OURS, "FAQ", "FAQ, 2-opt", "GW", "entropic GW")
LAYOUT_SEEDS = 3
LANGUAGES = (("europarl", "en", "fr"), ("europarl", "nl", "es"),
             ("libreoffice_help", "en", "fi"))  # fmt: skip

Method = Callable[[Pair], np.ndarray]
Layout = Callable[[np.ndarray, tuple[int, int], int], np.ndarray]


def run(sizes: tuple[int, ...] = SIZES, large: tuple[int, ...] = (LARGE, BEYOND)) -> str:
    pairs = {f"copies {m}, noise {noise:g}": copies(m, noise) for m in sizes for noise in NOISES}
    if data.available("ks_images"):
        pairs["halves of 320 images"] = halves(320, 0)
    if data.available("parallel_docs"):
        for corpus, one, other in LANGUAGES:
            pairs[f"{corpus} {one}-{other}"] = documents(corpus, one, other, 0)
    parts = [
        (__doc__ or "").strip(), busy(), _compared(pairs),
        table(["by default", "right", "CPU", "under a minute"], [_large(m) for m in large]),
        _layouts(),
    ]  # fmt: skip
    return "\n\n".join(parts)


def languages(*corpora: str) -> str:
    """All pairs of languages; ``python -m benchmarks.matchings europarl libreoffice_help``.

    Without entropic Gromov-Wasserstein, which takes 2 to 15 seconds a pair.
    """
    parts: list[str] = []
    for corpus in corpora:
        names = sorted(texts(corpus))
        pairs = {f"{corpus} {one}-{other}": documents(corpus, one, other, 0)
                 for one, other in combinations(names, 2)}  # fmt: skip
        lengths = [by_length(corpus, *pair) for pair in combinations(names, 2)]
        by_rank = f"{min(lengths)} to {max(lengths)} right, {np.mean(lengths):.1f} on average"
        parts += [_compared(pairs, ("entropic GW",)),
                  f"Paired by the rank of their lengths: {by_rank}."]  # fmt: skip
    return "\n\n".join(parts)


def _compared(pairs: dict[str, Pair], without: tuple[str, ...] = ()) -> str:
    lines, lost, slower = [], [], []
    for name, pair in pairs.items():
        found = {method: _timed(call, pair) for method, call in _methods(pair, name).items()
                 if method not in without}  # fmt: skip
        lines.append([name, *(_cell(found.get(method)) for method in METHODS)])
        if found[DEFAULT][0] < max(right for m, (right, _) in found.items() if m not in OURS):
            lost.append(name)
        if found[DEFAULT][1] > found["FAQ"][1]:
            slower.append(name)
    told = (
        f"A peer finds more than the default ({DEFAULT}): {', '.join(lost) or 'nowhere'}.  "
        f"FAQ is faster: {', '.join(slower) or 'nowhere'}."
    )
    return f"{table(['right pairs (CPU)', *METHODS], lines)}\n\n{told}"


def _large(m: int) -> list[object]:
    right, cpu = _timed(_ours(refine=True), copies(m, 0.1, np.float32))
    return [f"{m:,} copies, noise 0.1, float32", right, seconds(cpu), verdict(cpu < 60.0)]


# ---------------------------------------------------------------- layouts


def _layouts() -> str:
    """Quality and CPU seconds of layouts."""
    sets: dict[str, np.ndarray] = {
        f"{n:,} random colours": np.random.default_rng(n).random((n, 3)) for n in (256, 1024)
    }
    sets["400 Gaussian points, 10-D"] = np.random.default_rng(0).normal(size=(400, 10))
    if data.available("ks_images"):
        with np.load(data.ROOT / "ks_images" / "ks_images.npz") as archive:
            images = archive["images"].reshape(320, -1)
        sets["320 images"] = images / 255.0
    lines = []
    for name, X in sets.items():
        rows, columns = (16, 20) if len(X) == 320 else (int(len(X) ** 0.5),) * 2
        ways: dict[str, Layout] = {"GridLayout": _grid_layout}
        if importlib.util.find_spec("vc_flas") is not None:
            ways |= {"vc-flas": _flas(0.93), "vc-flas, slower": _flas(0.99)}
        found = {way: _laid_out(call, X, (rows, columns)) for way, call in ways.items()}
        cells = [f"{found[w][0]:.4f} ({seconds(found[w][1])})" if w in found else "not installed"
                 for w in ("GridLayout", "vc-flas", "vc-flas, slower")]  # fmt: skip
        better = all(found["GridLayout"][0] >= quality for quality, _ in found.values())
        lines.append([f"{name}, {rows} x {columns}", *cells, verdict(better)])
    header = ["quality (CPU)", "GridLayout", "vc-flas", "vc-flas, slower", "claim holds"]
    return table(header, lines)


def _laid_out(call: Layout, X: np.ndarray, shape: tuple[int, int]) -> tuple[float, float]:
    places = np.argwhere(np.ones(shape, dtype=bool))
    qualities, used = [], 0.0
    for seed in range(LAYOUT_SEEDS):
        start = time.process_time()
        grid = call(X, shape, seed)
        used += time.process_time() - start
        qualities.append(distance_preservation(X[grid.ravel()], places))
    return float(np.mean(qualities)), used / LAYOUT_SEEDS


def _grid_layout(X: np.ndarray, shape: tuple[int, int], seed: int) -> np.ndarray:
    return GridLayout(shape, random_state=seed).fit(X).grid_


def _flas(decay: float) -> Layout:
    import vc_flas

    def arranged(X: np.ndarray, shape: tuple[int, int], seed: int) -> np.ndarray:
        cells = X.reshape(*shape, -1).astype(np.float32)
        found = vc_flas.flas(cells, radius_decay=decay, seed=seed)
        return np.asarray(found.sorting)

    return arranged


# ---------------------------------------------------------------- pairs


def copies(m: int, noise: float, dtype: type = np.float64) -> Pair:
    rng = np.random.default_rng(m)
    X = rng.normal(size=(m, 5))
    K, L = (
        gram(RBF(median_gamma(RBF(), points)), points.astype(dtype))
        for points in (X, X + noise * rng.normal(size=X.shape))
    )
    return shuffled(K, L, m)


def _timed(call: Method, pair: Pair) -> tuple[int, float]:
    start = time.process_time()
    match = call(pair)
    return pair.right(match), time.process_time() - start


def _cell(found: tuple[int, float] | None) -> str:
    return "not run" if found is None else f"{found[0]} ({seconds(found[1])})"


def _methods(pair: Pair, name: str) -> dict[str, Method]:
    hollow = "-" in name  # documents
    methods = {"convex": _ours(refine=False), DEFAULT: _ours(refine=True), "FAQ": _faq(hollow)}
    if len(pair.truth) <= TWO_OPT_MOST:  # O(m^4) at worst
        methods["FAQ, 2-opt"] = _two_opt(hollow)
    if importlib.util.find_spec("ot") is not None:
        methods["GW"] = _gromov(lambda C, D, p, q: _ot().gromov.gromov_wasserstein(C, D, p, q))
        methods["entropic GW"] = _gromov(
            lambda C, D, p, q: _ot().gromov.entropic_gromov_wasserstein(
                C, D, p, q, "square_loss", epsilon=5e-4
            )
        )
    return methods


def _ours(refine: bool, **options: int) -> Method:
    model = ObjectMatching(kernel="precomputed", refine=refine, **options)

    def match(pair: Pair) -> np.ndarray:
        return model.fit(pair.K, pair.L).match_

    return match


def _faq(hollow: bool) -> Method:
    def match(pair: Pair) -> np.ndarray:
        K, L = (without_diagonal(A) if hollow else A for A in (pair.K, pair.L))
        return quadratic_assignment(K, L, options={"maximize": True, "maxiter": 100}).col_ind

    return match


def _two_opt(hollow: bool) -> Method:
    def match(pair: Pair) -> np.ndarray:
        start = _faq(hollow)(pair)
        guess = np.stack([np.arange(start.size), start], axis=1)
        K, L = (without_diagonal(A) if hollow else A for A in (pair.K, pair.L))
        options = {"maximize": True, "partial_guess": guess, "rng": np.random.default_rng(0)}
        return quadratic_assignment(K, L, method="2opt", options=options).col_ind

    return match


def _ot() -> Any:
    return importlib.import_module("ot")


def _gromov(solve: Callable[..., np.ndarray]) -> Method:
    def match(pair: Pair) -> np.ndarray:
        share = np.full(len(pair.truth), 1.0 / len(pair.truth))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: what there is counts
            return best_assignment(solve(1.0 - pair.K, 1.0 - pair.L, share, share))

    return match


if __name__ == "__main__":
    print(languages(*sys.argv[1:]) if sys.argv[1:] else run())
