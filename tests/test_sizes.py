"""The default strength: the same model in all units, and not decided by a few rows or columns."""

import numpy as np
import pytest
from scipy import sparse

from thresher import LinearClassifier
from thresher._rows import as_rows, scaled
from thresher.estimators import sizes as module
from thresher.solvers import AveragedSGD, Newton
from thresher.solvers.auto import choose_solver

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2000, 8)) @ RNG.normal(size=(8, 8))
Y = (X[:, 0] + X[:, 1] > RNG.normal(size=2000)).astype(int)


def sizes(rows, weight=None):
    return module.sizes(rows, np.ones(rows.shape[0]) if weight is None else weight)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_a_weight_is_a_number_of_rows(layout):
    weight = RNG.integers(0, 4, 300)
    found = sizes(as_rows(layout(X[:300])), weight.astype(float))
    again = sizes(as_rows(layout(np.repeat(X[:300], weight, axis=0))))
    assert found.strength == pytest.approx(again.strength, rel=1e-9)


def test_strength_is_a_share_of_the_squared_distance_from_the_mean():
    """Of independent standard normal columns that is their number."""
    rows = as_rows(RNG.normal(size=(5000, 200)))
    assert sizes(rows).strength == pytest.approx(0.3 * 200, rel=0.03)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_what_varies_by_rounding_is_constant(layout):
    """Formerly 1e-29: no penalty at all."""
    rows = np.full((300, 3), 0.1)
    assert sizes(as_rows(layout(rows))).strength == 1.0


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("factor", [1e-6, 1e4])
def test_strength_follows_the_units(layout, factor):
    one, other = (sizes(as_rows(layout(k * X))).strength for k in (1.0, factor))
    assert other == pytest.approx(factor**2 * one, rel=1e-9)


@pytest.mark.parametrize("factor", [1e-4, 1e3])
def test_the_default_model_is_the_same_in_all_units(factor):
    one = LinearClassifier(random_state=0).fit(X, Y)
    other = LinearClassifier(random_state=0).fit(factor * X, Y)
    np.testing.assert_allclose(factor * other.coef_, one.coef_, rtol=1e-4)
    np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=1e-3, atol=1e-6)


def test_a_shift_does_not_matter():
    shift = np.linspace(-1e3, 1e3, 8)
    assert sizes(as_rows(X + shift)).strength == pytest.approx(sizes(as_rows(X)).strength, rel=1e-6)


def test_views_are_measured_in_their_units():
    shift, scale = X.mean(axis=0), 1.0 / X.std(axis=0)
    seen, made = sizes(scaled(as_rows(X), shift, scale)), sizes(as_rows((X - shift) * scale))
    assert seen.strength == pytest.approx(made.strength)


def test_few_large_rows_or_columns_do_not_decide():
    plain = sizes(as_rows(X)).strength
    rows = X.copy()
    rows[::20] *= 30.0  # a mean of squares would be 45 times as large
    assert sizes(as_rows(rows)).strength < 3.0 * plain
    columns = X.copy()
    columns[:, 3] *= 1e5
    assert sizes(as_rows(columns)).strength < 3.0 * plain
    assert sizes(as_rows(columns)).uneven
    assert not sizes(as_rows(X)).uneven


@pytest.mark.parametrize("rows", [np.ones((9, 3)), np.zeros((1, 2)), sparse.csr_matrix((5, 4))])
def test_rows_that_say_nothing_leave_one_over_n(rows):
    assert sizes(as_rows(np.asarray(rows) if not sparse.issparse(rows) else rows)) == (1.0, False)


def test_uneven_columns_are_for_newton():
    """What steps along the gradient make of two columns, the larger one without any meaning."""
    n = 60_000
    Z = np.column_stack([RNG.normal(size=n), 1e6 * RNG.normal(size=n), RNG.normal(size=(n, 3))])
    y = (Z[:, 0] > 0.3 * RNG.normal(size=n)).astype(int)
    model = LinearClassifier(random_state=0).fit(Z, y)
    assert isinstance(model.solver_, Newton)
    reference = LinearClassifier(random_state=0).fit(Z / Z.std(axis=0), y)
    assert isinstance(reference.solver_, AveragedSGD)
    assert model.score(Z, y) > reference.score(Z / Z.std(axis=0), y) - 0.002


def test_newton_is_not_for_uneven_columns_that_are_many():
    from thresher.losses import SquaredHinge
    from thresher.penalties import L2

    def chosen(outputs, d):
        return choose_solver(SquaredHinge(), L2(0.1), (10**6, d), 10**6 * d, False, outputs)

    assert isinstance(chosen(1, 50), Newton)
    assert isinstance(chosen(100, 50), AveragedSGD)
    assert isinstance(chosen(1, 1000), AveragedSGD)
