"""Penalties over groups: who is in which, values and proximal maps against a conic solver."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from thresher import LinearClassifier, LinearRegressor, load_model, save_model
from thresher.penalties import (
    Features,
    GroupL2,
    SparseGroupL2,
    dummies,
    edge_groups,
    evaluate,
    lp_value,
    powers,
)
from thresher.penalties.blocks import split
from thresher.solvers import RDA, Problem
from thresher.solvers.base import check_compatible

NAMES = ["age", "town=a", "town=b", "size"]


# ---------------------------------------------------------------- who is in which


@pytest.mark.parametrize(
    ("groups", "order", "pointers", "names"),
    [
        (["x", "y", "x", "y"], [0, 2, 1, 3], [0, 2, 4], ("x", "y")),
        ([[3, 1], [0, 2]], [1, 3, 0, 2], [0, 2, 4], None),
        ({"b": [1], "a": [0, 2, 3]}, [1, 0, 2, 3], [0, 1, 4], ("b", "a")),
        ([["age", "size"], ["town=a", "town=b"]], [0, 3, 1, 2], [0, 2, 4], None),
        (r"^(\w+)=", [0, 1, 2, 3], [0, 1, 3, 4], ("age", "town", "size")),
        ("columns", [0, 1, 2, 3], [0, 1, 3, 4], ("age", "town", "size")),
        ([["age", "size"], ["town"]], [0, 3, 1, 2], [0, 2, 4], None),  # a column's features
        ([[0, 1], [1, 2, 3]], [0, 1, 1, 2, 3], [0, 2, 5], None),
    ],
)
def test_all_ways_to_write_groups(groups, order, pointers, names):
    columns = [("age", 1), ("town", 2), ("size", 1)]
    penalty = GroupL2(groups, 1.0).bound(Features(4, NAMES, columns))
    assert penalty.order.tolist() == order
    assert penalty.pointers.tolist() == pointers
    assert penalty.names == names
    assert penalty.misfit(4) == ""
    for j in range(4):  # the copies of each feature
        copies = penalty.places[penalty.starts[j] : penalty.starts[j + 1]]
        assert_array_equal(penalty.order[copies], j)
        assert_array_equal(penalty.pointers[penalty.owners[copies]] <= copies, True)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "there are no groups"),
        ([[0, 1], []], "group 1 is empty"),
        ({"a": [0], "b": []}, "group 'b' is empty"),
        ([[0, 1], [3]], "feature 2 is in no group"),
        ([["age"], ["size"]], r"features 'town=a', 'town=b' are in no group"),
        ([["age", "twon=a"]], "names 'twon=a', which is no feature: did you mean 'town=a'"),
        ([["age", 7]], "group 0 has feature 7, which is none of 4"),
        ([[0, -1]], "feature -1, which is none"),
        ([[0, 0]], "feature 0 twice"),
        ([[0, 1.5]], "1.5, which is neither a name nor a place"),
        ({"a": 3}, "group 'a' must be a list"),
        ([[0, 1], "size"], "group 1 must be a list"),
        ("(", "no regular expression"),
        ("zzz", "no feature's name matches"),
        ([0, 1, math.nan], "NaN"),
    ],
)
def test_groups_that_are_none_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        GroupL2(groups, 1.0).bound(Features(4, NAMES))


def test_a_feature_beyond_the_last_is_named_though_nothing_is_known_of_the_features():
    with pytest.raises(ValueError, match="feature 2 is in no group, but feature 3 is in one"):
        GroupL2([[0, 1], [3]])


def test_a_feature_is_in_a_group_once_by_its_name_or_its_column():
    features = Features(4, NAMES, [("age", 1), ("town", 2), ("size", 1)])
    with pytest.raises(ValueError, match="group 0 has feature 'town=b' twice"):
        GroupL2([["town", "town=b"], ["age", "size"]], 1.0).bound(features)


def test_names_need_features_that_have_some():
    with pytest.raises(ValueError, match="the features have none"):
        GroupL2("^a").bound(Features(3))
    with pytest.raises(ValueError, match="the features have no names"):
        GroupL2([["a"]]).bound(Features(1))
    with pytest.raises(ValueError, match="are not yet those of features"):
        check_compatible(RDA(), Problem(None, GroupL2("^a", 1.0), 3))
    with pytest.raises(ValueError, match="has no strength yet"):
        check_compatible(RDA(), Problem(None, GroupL2([0, 1, 0]), 3))
    with pytest.raises(ValueError, match="has 2 features in its groups, but the data has 3"):
        check_compatible(RDA(), Problem(None, GroupL2([[0, 1], [1]], 1.0), 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": [1.0, -2.0]}, "weights must be .* got -2.0 for group 'b'"),
        ({"weights": [1.0]}, r"weights of shape \(1,\) for 2 groups"),
        ({"within": [0.5, math.inf]}, "within must be .* got inf for group 'b'"),
        ({"within": -1.0}, "within must be finite and at least 0, got -1.0"),
        ({"weights": ["a", "b"]}, "weights must be a number for each group"),
        ({"elastic": 1.5}, "elastic must lie in"),
        ({"elastic": "word"}, "elastic must lie in .* got 'word'"),
        ({"strength": -1.0}, "strength must be"),
        ({"strength": "word"}, "strength must be .* got 'word'"),
        ({"names": ("x",), "groups": [0, 1]}, "1 names for 2 groups"),
    ],
)
def test_numbers_that_are_wrong_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        SparseGroupL2(**{"groups": ["a", "b", "a"], **fields})


def test_builders():
    X, groups = powers([[2.0, 3.0]], 2)
    assert X.tolist() == [[2.0, 4.0, 3.0, 9.0]]
    assert groups.tolist() == [0, 0, 1, 1]
    Z, labels = dummies(["u", "v", "u"], [1, 2, 3])
    assert Z.sum() == 6.0
    assert labels.tolist() == [0, 0, 1, 1, 1]
    assert edge_groups([(2, 0)], 4) == [[0, 2], [1], [3]]
    for wrong in ([(0, 0)], [(0, 9)]):
        with pytest.raises(ValueError, match="does not join two"):
            edge_groups(wrong, 3)
    with pytest.raises(ValueError, match="degree"):
        powers([[1.0]], 0)
    with pytest.raises(ValueError, match=r"column 1 of dummies has shape \(2,\), not \(3,\)"):
        dummies(["u", "v", "u"], [1, 2])
    for lost in (None, float("nan")):
        with pytest.raises(ValueError, match="column 0 of dummies has no category in row 1"):
            dummies(["u", lost, "u"])


def test_lp_measures_sparsity():
    w = np.array([1.0, 0.0, -4.0, 0.0])
    assert lp_value(w, 0.5) == pytest.approx(3.0)
    assert lp_value(w, 0.5, GroupL2([0, 1, 0, 1])) == pytest.approx(17.0**0.25)
    with pytest.raises(ValueError, match="p must be"):
        lp_value(w, -1.0)
    with pytest.raises(ValueError, match="groups of 3 features, for 4 weights"):
        lp_value(w, 0.5, GroupL2([0, 1, 0]))


# ---------------------------------------------------------------- against a conic solver


def conic(v, step, groups, weights, thresholds, ridge):
    """min over latent copies u_g of |sum_g u_g - v|^2 / (2 step) + ridge part + sum_g ...: the
    weights of the copies, by Clarabel.  ``step`` inf: the sums must be v."""
    import clarabel

    d, sizes = len(v), [len(g) for g in groups]
    copies = sum(sizes)
    fold = np.zeros((d, copies))
    fold[np.concatenate(groups), np.arange(copies)] = 1.0
    exact = math.isinf(step)
    P = ridge * np.eye(copies) + (0.0 if exact else fold.T @ fold / step)
    n = 2 * copies + len(groups)  # u, their absolute values, the norms
    whole = np.zeros((n, n))
    whole[:copies, :copies] = P
    q = np.concatenate([
        np.zeros(copies) if exact else -fold.T @ v / step,
        np.repeat(thresholds, sizes), weights,
    ])  # fmt: skip
    blocks, right, cones = [], [], []
    if exact:
        blocks.append(np.hstack([fold, np.zeros((d, n - copies))]))
        right.append(v)
        cones.append(clarabel.ZeroConeT(d))
    bound = np.zeros((2 * copies, n))
    for k in range(copies):
        bound[2 * k, [k, copies + k]] = 1.0, -1.0
        bound[2 * k + 1, [k, copies + k]] = -1.0, -1.0
    blocks.append(bound)
    right.append(np.zeros(2 * copies))
    cones.append(clarabel.NonnegativeConeT(2 * copies))
    start = 0
    for g, size in enumerate(sizes):
        block = np.zeros((size + 1, n))
        block[0, 2 * copies + g] = -1.0
        block[1 + np.arange(size), start + np.arange(size)] = -1.0
        blocks.append(block)
        right.append(np.zeros(size + 1))
        cones.append(clarabel.SecondOrderConeT(size + 1))
        start += size
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    A = sparse.csc_array(np.vstack(blocks))
    solved = clarabel.DefaultSolver(
        sparse.csc_array(whole), q, A, np.concatenate(right), cones, options
    ).solve()
    return np.array(solved.x[:copies])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31))
def test_proximal_maps_are_what_a_conic_solver_finds(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    labels = rng.integers(0, 3, d)
    _, labels = np.unique(labels, return_inverse=True)
    count = labels.max() + 1
    within, weights = rng.choice([0.0, 0.5, 1.0]) * rng.uniform(size=count), rng.uniform(size=count)
    elastic, strength = rng.choice([0.0, 0.4]), rng.uniform(0.1, 1.5)
    v, step = rng.normal(0.0, 2.0, d), float(10.0 ** rng.uniform(-1.0, 0.5))
    penalty = SparseGroupL2(labels, strength, within, weights, elastic)
    groups = [np.flatnonzero(labels == g) for g in range(count)]
    pull = strength * (1.0 - elastic)
    found = conic(v, step, groups, pull * weights, pull * within, strength * elastic)
    for g, places in enumerate(groups):
        out = np.empty(places.size)
        penalty.prox_block(v[places], step, g, out)
        at = sum(len(other) for other in groups[:g])
        assert_allclose(out, found[at : at + places.size], atol=2e-5)
        if not within.any():
            same = np.empty(places.size)
            GroupL2(labels, strength, weights, elastic).prox_block(v[places], step, g, same)
            assert_allclose(same, out, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_value_of_shared_features_is_that_of_the_best_split(seed):
    rng = np.random.default_rng(seed)
    groups = [[0, 1, 2], [2, 3], [3, 4, 0], [5]]
    penalty = GroupL2(groups, 0.7)
    w = rng.normal(size=6) * (rng.uniform(size=6) < 0.8)
    copies = split(penalty, w)
    assert_allclose(np.bincount(penalty.order, copies), w, atol=1e-12)
    found = conic(w, math.inf, groups, 0.7 * np.sqrt([3, 2, 3, 1]), np.zeros(4), 0.0)
    bounds = np.cumsum([0, 3, 2, 3, 1])
    best = sum(0.7 * math.sqrt(b - a) * np.linalg.norm(found[a:b]) for a, b in pairwise(bounds))
    assert evaluate(penalty, w) == pytest.approx(best, rel=1e-4)
    assert evaluate(penalty, w) >= best - 1e-7


def test_a_group_of_shared_features_that_is_not_needed_has_no_weight_at_all():
    penalty = SparseGroupL2([[0, 1, 2], [2, 3, 4, 5], [5, 6]], 0.7)
    copies = split(penalty, np.array([1.0, 0.9, -1.2, 0.0, 0.0, 0.0, 1e-9]))
    # Feature 2 is in a group that is used; feature 6 is tiny, but has no other group.
    assert copies.tolist() == [1.0, 0.9, -1.2, 0.0, 0.0, 0.0, 0.0, 0.0, 1e-9]


@pytest.mark.parametrize("kind", [GroupL2, SparseGroupL2])
def test_the_least_strength_that_leaves_nothing(kind):
    rng = np.random.default_rng(0)
    labels, gradient = np.array([0, 1, 1, 2, 2, 2]), rng.normal(size=6)
    least = kind(labels).emptying(gradient)
    if kind is GroupL2:
        norms = np.sqrt(np.bincount(labels, gradient**2) / np.bincount(labels))
        assert least == pytest.approx(norms.max())
    for strength, empty in ((1.0001 * least, True), (0.9999 * least, False)):
        penalty, moved = kind(labels, strength), False
        for g in range(3):
            out = gradient[labels == g].copy()
            penalty.prox_block(out, 1.0, g, out)
            moved = moved or np.any(out)
        assert moved != empty


# ---------------------------------------------------------------- in estimators and files


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)


def test_groups_by_name_of_a_frame_column_and_the_strength_is_found():
    import pandas as pd

    X, y = data()
    frame = pd.DataFrame(X, columns=["a_1", "a_2", "b_1", "b_2", "b_3", "c", "d_1", "d_2"])
    model = LinearRegressor(penalty=GroupL2("^[a-z]")).fit(frame, y)
    assert model.penalty_.names == ("a", "b", "c", "d")
    assert np.argmax(model.group_norms_) == 0
    full = model.penalty_.strength
    assert full > 0.0
    stronger = LinearRegressor(penalty=GroupL2("^[a-z]"), alpha=30.0 * full).fit(frame, y)
    assert np.flatnonzero(stronger.group_norms_).tolist() == [0]
    assert_allclose(stronger.group_norms_[0], np.linalg.norm(stronger.coef_[0, :2]))
    none = LinearRegressor(penalty=GroupL2("^[a-z]"), alpha=101.0 * full)
    with pytest.warns(UserWarning, match="all-zero"):
        assert none.fit(frame, y).density_ == 0.0
    by_name = LinearRegressor(penalty="group").fit(frame, y)
    assert by_name.penalty_.names == tuple(frame.columns)


def test_groups_may_name_the_columns_of_a_frame():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["height", "width", "age"])
    target = frame["height"] - frame["width"] + 0.1 * rng.normal(size=60)
    named = GroupL2({"size": ["height", "width"], "other": ["age"]})
    model = LinearRegressor(penalty=named, alpha=0.3).fit(frame, target)
    assert model.penalty_.names == ("size", "other")
    assert (model.group_norms_ > 0.0).tolist() == [True, False]


def test_groups_that_do_not_fit_the_data_fail_before_any_work():
    X, y = data()
    with pytest.raises(ValueError, match=r"has 7 .* has 8 features: feature 7 is in no group"):
        LinearRegressor(penalty=GroupL2([[0, 1, 2], [3, 4, 5, 6]])).fit(X, y)
    with pytest.raises(ValueError, match="3 labels of groups, but the data has 8"):
        LinearRegressor(penalty=GroupL2([0, 1, 1], 0.1)).fit(X, y)
    with pytest.raises(ValueError, match=r"Pegasos does not take GroupL2, .* these do: prox"):
        LinearClassifier(penalty=GroupL2(np.arange(8) // 2, 0.1), solver="pegasos").fit(X, y > 0)


@pytest.mark.parametrize("groups", [np.arange(8) // 2, [[0, 1, 2], [2, 3, 4], [4, 5, 6, 7]]])
def test_models_and_penalties_can_be_kept(tmp_path, groups):
    X, y = data()
    penalty = SparseGroupL2(groups, 0.05, within=0.2, elastic=0.1)
    model = LinearRegressor(penalty=penalty).fit(X, y)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert_array_equal(again.predict(X), model.predict(X))
    ranked = again.ranked_groups()
    assert ranked[0]["norm"] == pytest.approx(model.group_norms_.max())
    other = pickle.loads(pickle.dumps(penalty))
    for name in ("order", "pointers", "starts", "places", "owners", "factors", "thresholds"):
        assert_array_equal(getattr(other, name), getattr(penalty, name))


@pytest.mark.parametrize(
    "penalty",
    [
        GroupL2(["a", "b", "a"]), GroupL2([[0, 1], [1, 2]], 0.5), GroupL2("^a"),
        SparseGroupL2({"x": [0, 1], "y": [1, 2]}, within=[0.1, 0.2], weights=[1.0, 2.0]),
    ],
)  # fmt: skip
def test_estimators_with_groups_can_be_cloned(penalty):
    for copy in (clone(LinearClassifier(penalty=penalty)), LinearClassifier(penalty=penalty)):
        again = clone(copy).penalty
        assert again.names == penalty.names
        assert_array_equal(again.order, penalty.order)
        assert_array_equal(again.factors, penalty.factors)
