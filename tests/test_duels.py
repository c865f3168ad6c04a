"""Pairs of classes in one compiled call each, against the solver of single problems."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from thresher import RBF, SupportVectorClassifier
from thresher.kernels.columns import KernelColumns
from thresher.solvers import Status
from thresher.solvers.duels import SmallDuels
from thresher.solvers.machines import KernelDual, classification

X, Y = load_digits(return_X_y=True)
ORDER = np.argsort(Y, kind="stable")
X, Y = X[ORDER] / 16.0, Y[ORDER]
STARTS = np.searchsorted(Y, np.arange(11))
COLUMNS = KernelColumns(RBF(0.5), X)
BOUNDS = 5.0 * np.random.default_rng(0).uniform(0.5, 2.0, Y.size)


def objective(z, y, K):
    return 0.5 * z @ K @ z - y @ z


@pytest.mark.parametrize("memory", [2e8, 1e5])  # with matrices of the classes, and without
@pytest.mark.parametrize("rows", [30, 170])  # a working set has room for all, or not
def test_a_duel_is_the_problem_of_two_classes(memory, rows):
    starts = np.concatenate([[0], np.cumsum(np.minimum(np.diff(STARTS), rows))])
    kept = np.concatenate(
        [np.arange(s, s + n) for s, n in zip(STARTS[:-1], np.diff(starts), strict=True)]
    )
    columns, bounds = COLUMNS.taken(kept), BOUNDS[kept]
    duels = SmallDuels(columns.dense, starts, bounds, 1e-4, memory)
    for c in (3, 8):
        duels.prepare(c)
    found = duels.between(3, 8)
    both = np.concatenate([np.arange(starts[c], starts[c + 1]) for c in (3, 8)])
    y = np.where(Y[kept][both] == 8, 1.0, -1.0)
    expected = classification(KernelDual(1e-4), columns.taken(both), y, bounds[both])
    assert found.status is Status.CONVERGED
    assert found.violation <= 1e-4
    assert abs(found.coef.sum()) < 1e-9
    assert np.all((found.coef * y >= 0.0) & (found.coef * y <= bounds[both]))
    assert found.objective == pytest.approx(expected.solution.objective, rel=1e-6)
    K = np.exp(-0.5 * ((X[kept][both][:, None] - X[kept][both]) ** 2).sum(axis=2))
    assert found.objective == pytest.approx(objective(found.coef, y, K), rel=1e-5)
    np.testing.assert_allclose(found.scores, K @ found.coef + found.intercept, atol=1e-4)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-3)


def test_threads_and_what_is_kept_of_classes_do_not_change_a_model():
    one, two = (SupportVectorClassifier(5.0, gamma=0.5, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert np.array_equal(one.intercept_, two.intercept_)
    assert one.status_ is Status.CONVERGED


def test_one_by_one_where_rounding_is_in_the_way(monkeypatch):
    at_once = SupportVectorClassifier(5.0, gamma=0.5).fit(X, Y)
    monkeypatch.setattr(SmallDuels, "between", lambda *_: None)
    apart = SupportVectorClassifier(5.0, gamma=0.5).fit(X, Y)
    assert not np.array_equal(at_once.dual_coef_, apart.dual_coef_)
    np.testing.assert_allclose(at_once.function_.duels(X), apart.function_.duels(X), atol=5e-3)
    assert np.array_equal(at_once.predict(X), apart.predict(X))


def test_too_few_steps_of_a_duel_are_told():
    duels = SmallDuels(COLUMNS.dense, STARTS, BOUNDS, 1e-6, 2e8, max_steps=1)
    found = duels.between(3, 8)
    assert found.status is Status.MAX_ITER
    assert found.steps == 1
    assert found.violation > 1e-6


def test_every_pair_is_told_of_and_who_stops_one_stops_all():
    events = []
    model = SupportVectorClassifier(5.0, gamma=0.5, callbacks=[events.append]).fit(X, Y)
    assert [event.output for event in events] == list(range(45))
    assert all(event.residual <= 1e-3 for event in events)
    assert model.status_ is Status.CONVERGED
    model.set_params(callbacks=[lambda event: event.output == 10]).fit(X, Y)
    assert model.status_ is Status.INTERRUPTED


def test_values_that_are_not_finite():
    dense = COLUMNS.dense
    squares = dense.squares.copy()
    squares[5] = np.nan
    duels = SmallDuels(dense._replace(squares=squares), STARTS, BOUNDS, 1e-3, 2e8)
    with pytest.raises(ArithmeticError, match="not finite"):
        duels.between(0, 1)
