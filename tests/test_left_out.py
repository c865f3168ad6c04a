"""Widths by rows that are left out: the closed form against fits without each row."""

import numpy as np
import pytest

from thresher import RBF, KernelClassifier, KernelRegressor
from thresher.kernels import left_out
from thresher.maps import Nystroem, median_gamma

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
WAVE = np.sin(3.0 * X[:, 0])


def brute_force(gamma, ridge, y):
    """Kernel ridge regression without each row, around the mean of all targets."""
    square = ((X[:, None] - X) ** 2).sum(axis=2)
    K, middle = np.exp(-gamma * square), y.mean()
    found = np.empty(60)
    for i in range(60):
        rest = np.arange(60) != i
        system = K[np.ix_(rest, rest)] + ridge * np.eye(59)
        found[i] = middle + K[i, rest] @ np.linalg.solve(system, y[rest] - middle)
    return found


def test_the_best_of_all_widths_and_ridges_is_found():
    kernel, ridge = left_out.kernel_by_left_out(RBF(), X, WAVE, seed=0)
    middle = median_gamma(RBF(), X)
    losses = {
        (width, a): np.mean((brute_force(width * middle, a, WAVE) - WAVE) ** 2)
        for width in 4.0 ** np.arange(-2, 3)
        for a in 10.0 ** np.arange(-4.0, 1.6, 0.5)
    }
    best = min(losses, key=losses.get)
    assert kernel.gamma == pytest.approx(best[0] * middle)
    assert ridge == pytest.approx(best[1])


def test_errors_decide_between_classes():
    board = (np.floor(X).sum(axis=1) % 2).astype(int)
    kernel, ridge = left_out.kernel_by_left_out(RBF(), X, board, seed=0)
    signs = 2.0 * board - 1.0
    mine = np.mean((brute_force(kernel.gamma, ridge, signs) > 0) != board)
    usual = np.mean((brute_force(median_gamma(RBF(), X), 0.1, signs) > 0) != board)
    assert mine <= usual


def test_estimators_take_width_and_strength():
    many = RNG.uniform(-2, 2, size=(400, 1))
    y = np.sin(8.0 * many[:, 0])
    model = KernelRegressor(gamma="loo", n_components="full", random_state=0).fit(many, y)
    kernel, ridge = left_out.kernel_by_left_out(RBF(), many, y, seed=0)
    assert model.map_.kernel_.gamma == kernel.gamma
    assert model.penalty_.strength == pytest.approx(ridge / 400)
    assert model.score(many, y) > 0.99 > 0.9
    given = KernelRegressor(gamma="loo", alpha=0.5, random_state=0).fit(many, y)
    assert given.penalty_.strength == 0.5
    assert model.map_.landmarks_.shape[0] == 400


def test_several_classes_and_a_sample_of_many_rows():
    many = RNG.uniform(-2, 2, size=(5000, 2))
    rings = np.minimum(np.hypot(*many.T).astype(int), 2)
    model = KernelClassifier(loss="least_squares", gamma="loo", random_state=0).fit(many, rings)
    assert model.score(many, rings) > 0.97


def test_what_cannot_be_left_out_is_refused():
    with pytest.raises(ValueError, match="gamma='loo' leaves out targets"):
        Nystroem(gamma="loo").fit(X)
    with pytest.raises(ValueError, match="has no gamma"):
        Nystroem(kernel="cosine", gamma="loo").fit(X, WAVE)
    with pytest.raises(ValueError, match="'auto', 'sqrt' or 'full', got 'all'"):
        Nystroem(n_components="all").fit(X)
