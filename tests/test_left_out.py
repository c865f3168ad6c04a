"""Widths by rows that are left out: the closed form against fits without each row."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from thresher import (
    RBF,
    BudgetedClassifier,
    KernelClassifier,
    KernelRegressor,
    NoveltyClassifier,
    OneClassMachine,
    SemiparametricRegressor,
    SupportVectorClassifier,
    SupportVectorRegressor,
    UniversumClassifier,
)
from thresher.estimators.base import UnitsWarning
from thresher.kernels import left_out
from thresher.kernels.hidden_columns import hidden_columns
from thresher.maps import Nystroem, median_gamma
from thresher.solvers import Status

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
    with pytest.raises(ValueError, match=r"'auto' or 'sqrt' or 'full'\), got 'all'"):
        Nystroem(n_components="all").fit(X)


# ---------------------------------------------------------------- columns that others hide

SPREAD = np.random.default_rng(3).normal(size=(400, 4)) * [1.0, 1.0, 1.0, 300.0]
SIDES = np.where(SPREAD[:, 0] * SPREAD[:, 1] > 0.0, "up", "down")
HILL = np.sin(2.0 * SPREAD[:, 0]) + SPREAD[:, 1]


@pytest.mark.parametrize("kernel", [RBF(1e-5), RBF(1e-3)])
def test_hidden_columns_are_found(kernel):
    y = (SIDES == "up").astype(int)
    found = hidden_columns(kernel, SPREAD, y)
    assert found is not None
    assert found.standard < 0.5 * found.now
    assert hidden_columns(kernel, SPREAD / SPREAD.std(axis=0), y) is None
    assert hidden_columns(kernel, SPREAD[:40], y[:40]) is None
    assert hidden_columns(kernel, SPREAD, np.zeros(400, dtype=int)) is None
    large = (np.abs(SPREAD[:, 3]) > 200.0).astype(int)  # the column that is seen says it all
    assert hidden_columns(kernel, SPREAD, large) is None


def test_rows_without_targets_are_not_judged():
    assert OneClassMachine(0.1).fit(SPREAD).status_ is Status.CONVERGED


LEARNERS = {
    "svc": (SupportVectorClassifier(10.0), SIDES),
    "svr": (SupportVectorRegressor(10.0), HILL),
    "landmarks": (KernelClassifier(random_state=0), SIDES),
    "regression": (KernelRegressor(random_state=0), HILL),
    "budgeted": (BudgetedClassifier(random_state=0), SIDES),
    "novelty": (NoveltyClassifier(algorithm="exact"), SIDES),
    "universum": (UniversumClassifier(algorithm="exact", random_state=0), SIDES),
    "universum, landmarks": (UniversumClassifier(algorithm="mapped", random_state=0), SIDES),
    "semiparametric": (SemiparametricRegressor("1, x1", random_state=0), HILL),
    "semiparametric, landmarks": (
        SemiparametricRegressor("1, x1", map="nystroem", random_state=0),
        HILL,
    ),
}


@pytest.mark.parametrize("case", LEARNERS)
def test_learners_tell_of_hidden_columns(case):
    """Not of columns in standard units, of sparse rows, or where standard units are no better."""
    model, y = LEARNERS[case]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.set_params(scale=False).fit(SPREAD, y)
    assert any(issubclass(w.category, UnitsWarning) for w in told)
    alike, sparse = SPREAD / [1.0, 1.0, 1.0, 300.0], csr_matrix(SPREAD)
    for rows, scale in ((SPREAD, True), (alike, False), (sparse, False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", UnitsWarning)
            model.set_params(scale=scale).fit(rows, y)
