"""Local Nystroem maps: blocks of the kernel, one machine per cell, the contract."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from thresher import KernelClassifier, KernelRegressor, LinearClassifier, LocalNystroem, Nystroem
from thresher.kernels import RBF
from thresher.maps import gram
from thresher.maps.landmarks import nearest
from thresher.solvers import AveragedSGD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) + RNG.choice([-4.0, 0.0, 4.0], size=(300, 1))
Y = (np.sin(3.0 * X[:, 0]) * X[:, 1] > 0.0).astype(int)
Y3 = np.digitize(X[:, 0] * X[:, 1], [-1.0, 1.0])


def test_within_a_cell_the_kernel_and_one_between_cells_nothing():
    made = LocalNystroem(300, cells=4, gamma=0.3, random_state=0).fit(X)
    phi = made.transform(X)
    cell = nearest(X, made.centres_)
    together = cell[:, None] == cell
    expected = np.where(together, gram(RBF(0.3), X) + 1.0, 0.0)
    np.testing.assert_allclose((phi @ phi.T).toarray(), expected, atol=1e-6)
    assert phi.nnz == sum((np.bincount(cell) + 1) * np.bincount(cell))
    assert len(np.unique(cell)) == 4


def test_one_cell_is_the_map_of_all_rows_and_a_constant():
    one = LocalNystroem(20, cells=1, gamma=0.3, random_state=0).fit(X)
    phi = one.transform(X).toarray()
    plain = Nystroem(landmarks=one.landmarks_, gamma=0.3).fit(X).transform(X)
    np.testing.assert_allclose(phi, np.hstack([plain, np.ones((300, 1))]), atol=1e-9)


def test_the_model_is_one_machine_for_each_cell():
    alpha = 1e-3
    joint = KernelClassifier(
        "squared_hinge", map=LocalNystroem(30, cells=3, gamma=0.3, random_state=0), alpha=alpha,
        fit_intercept=False, solver="newton", tol=1e-10,
    ).fit(X, Y)  # fmt: skip
    cell = nearest(X, joint.map_.centres_)
    for c, one in enumerate(joint.map_.maps_):
        rows = np.flatnonzero(cell == c)
        Z = np.hstack([one.transform(X[rows]), np.ones((rows.size, 1))])
        single = LinearClassifier(
            "squared_hinge", alpha=alpha * 300 / rows.size, fit_intercept=False, solver="newton",
            tol=1e-10,
        ).fit(Z, Y[rows])  # fmt: skip
        np.testing.assert_allclose(
            joint.decision_function(X[rows]), single.decision_function(Z), atol=1e-5
        )


@pytest.mark.parametrize("target", [Y, Y3], ids=["two", "three"])
def test_scores_need_no_features(target):
    model = KernelClassifier(map=LocalNystroem(20, cells=5, random_state=0)).fit(X, target)
    by_features = model.map_.transform(X) @ model.coef_.T + model.intercept_
    scores = model.decision_function(X).reshape(300, -1)
    np.testing.assert_allclose(scores, by_features, atol=1e-6)
    assert model.score(X, target) > 0.8


def test_dense_equals_sparse_and_blocks_equal_the_whole():
    local, solver = LocalNystroem(15, cells=3, random_state=0), AveragedSGD(eta0=0.5, every=16)
    made = KernelClassifier("hinge", map=local, solver=solver, max_iter=3, random_state=0)
    whole = clone(made).fit(X, Y)
    thin = clone(made).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(thin.decision_function(X), whole.decision_function(X), atol=1e-6)
    parts = clone(made).set_params(memory=1.0).fit(X, Y)  # 256 rows a block
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-8, atol=1e-9)


def test_by_name():
    X_large = RNG.normal(size=(4000, 2))
    y = (np.sin(4.0 * X_large[:, 0]) * np.sin(4.0 * X_large[:, 1]) > 0.0).astype(int)
    local = KernelClassifier(map="local", gamma=5.0, random_state=0).fit(X_large, y)
    assert len(local.map_.maps_) == 4  # of 1000 rows
    assert local.score(X_large, y) > 0.9
    smooth = KernelRegressor(map="local", random_state=0).fit(X_large, np.sin(X_large[:, 0]))
    assert smooth.score(X_large, np.sin(X_large[:, 0])) > 0.99


def test_streams():
    ring = (np.linalg.norm(X, axis=1) > 4.0).astype(int)
    local = LocalNystroem(30, cells=3, random_state=0)
    model = KernelClassifier(map=local, alpha=1e-4, random_state=0)
    for part in np.split(RNG.permutation(300), 3) * 5:
        model.partial_fit(X[part], ring[part], classes=[0, 1])
    assert model.score(X, ring) > 0.9


@pytest.mark.filterwarnings("ignore:n_components")
def test_few_or_equal_rows_and_cells_of_one_class():
    same = np.ones((30, 2))
    assert LocalNystroem(5, cells=4).fit_transform(same).shape[0] == 30
    made = LocalNystroem(5, cells=50, random_state=0).fit(X[:10])
    assert len(made.maps_) <= 10
    two = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + RNG.normal(size=(40, 2))
    pure = LocalNystroem(5, cells=2, landmarks="margin", random_state=0)
    assert pure.fit(two, np.repeat([0, 1], 20)).transform(two).shape == (40, 12)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cells": 0}, "cells must be a whole number"),
        ({"cells": "many"}, "cells must be a whole number"),
        ({"landmarks": "nearest"}, "landmarks='nearest' is unknown"),
        ({"sample": 0}, "sample must be a whole number of at least 1"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        LocalNystroem(**options).fit(X)
