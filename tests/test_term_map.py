"""Weighted terms: the formula, its invariants, and the models on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from thresher import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    TermFeatures,
    train,
)
from thresher.race.capacity import capacity, smaller, work
from thresher.race.contestants import contestants
from thresher.search import space_for
from thresher.solvers import AveragedSGD

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(RNG.gamma(0.3, 2.0, size=12), size=(400, 12)).astype(float)
THIN = sparse.csr_matrix(COUNTS)
Y = (COUNTS[:, 0] + COUNTS[:, 3] > COUNTS[:, 5]).astype(int)
Y3 = np.digitize(COUNTS[:, 1] - COUNTS[:, 2], [-0.5, 0.5])


# ---------------------------------------------------------------- the features


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_matrix])
@pytest.mark.parametrize(("power", "rarity"), [(0.5, 0.3), (1.0, 0.0), (0.3, 0.6), (2, 1)])
def test_the_formula(layout, power, rarity):
    signed = COUNTS * RNG.choice([-1.0, 1.0], size=COUNTS.shape)
    having = (signed != 0.0).sum(axis=0)
    raw = np.sign(signed) * np.abs(signed) ** power * (401 / (having + 1)) ** rarity
    found = TermFeatures(power, rarity).fit_transform(layout(signed))
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, normalize(raw), rtol=1e-12)


def test_powers_of_one_and_none_are_the_usual_length():
    made = TermFeatures(power=1.0, rarity=0.0).fit_transform(THIN)
    usual = TfidfTransformer(use_idf=False).fit_transform(THIN)
    np.testing.assert_allclose(made.toarray(), usual.toarray(), rtol=1e-12)


def test_the_order_of_weights_is_that_of_inverse_frequencies():
    usual = TfidfTransformer().fit(THIN)
    ours = TermFeatures().fit(THIN)
    assert np.array_equal(np.argsort(ours.weights_), np.argsort(usual.idf_))


@given(
    st.lists(
        st.lists(
            st.one_of(st.just(0.0), st.floats(-(2.0**99), 2.0**99, width=32)),
            min_size=3,
            max_size=3,
        ),
        min_size=1,
        max_size=8,
    ),
    st.floats(0.1, 2.0),
    st.floats(0.0, 2.0),
    st.sampled_from([np.float32, np.float64]),
)
def test_rows_have_length_one_or_none_and_keep_their_signs(rows, power, rarity, dtype):
    X = np.array(rows, dtype=dtype)
    made = TermFeatures(power, rarity).fit(X)
    Z, thin = made.transform(X), made.transform(sparse.csr_matrix(X))
    assert Z.dtype == thin.dtype == dtype
    np.testing.assert_allclose(thin.toarray(), Z, rtol=1e-4, atol=1e-6)
    lengths = np.linalg.norm(Z.astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, X.any(axis=1), atol=1e-5)
    assert np.all((Z == 0.0) | (np.sign(Z) == np.sign(X)))


@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e6])
def test_the_length_of_a_text_does_not_matter(factor):
    made = TermFeatures().fit(THIN)
    longer = made.transform(factor * THIN)
    np.testing.assert_allclose(longer.toarray(), made.transform(THIN).toarray(), rtol=1e-12)


def test_sparse_rows_stay_sparse_and_as_they_were():
    before = THIN.copy()
    Z = TermFeatures().fit_transform(THIN)
    assert Z.nnz == THIN.nnz
    assert np.array_equal(before.toarray(), THIN.toarray())


def test_repeated_entries_are_added_up_and_stored_zeros_do_not_count():
    twice = sparse.csr_matrix(
        (np.repeat(THIN.data / 2, 2), np.repeat(THIN.indices, 2), 2 * THIN.indptr), THIN.shape
    )
    full = sparse.csr_matrix(
        (COUNTS.ravel(), np.tile(np.arange(12), 400), 12 * np.arange(401)), COUNTS.shape
    )
    expected = TermFeatures().fit_transform(THIN).toarray()
    for rows in (twice, full):
        np.testing.assert_allclose(TermFeatures().fit_transform(rows).toarray(), expected)


def test_terms_that_were_never_met_are_the_rarest():
    made = TermFeatures(rarity=1.0).fit(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_allclose(made.weights_, [4.0 / 3.0, 4.0])
    assert np.array_equal(made.transform(np.array([[0.0, 5.0]])), [[0.0, 1.0]])


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("y", [Y, Y3], ids=["two", "three"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_classifier_is_the_linear_one_on_the_terms(y, dtype):
    model = KernelClassifier(map="terms", random_state=0).fit(THIN.astype(dtype), y)
    Z = TermFeatures().fit_transform(THIN.astype(dtype))
    linear = LinearClassifier(alpha=model.penalty_.strength, random_state=0).fit(Z, y)
    assert type(model.solver_) is type(linear.solver_)
    np.testing.assert_array_equal(model.coef_, linear.coef_)
    np.testing.assert_allclose(
        model.decision_function(THIN.astype(dtype)), linear.decision_function(Z), rtol=1e-6
    )


def test_regression_on_sparse_terms():
    target = np.sqrt(COUNTS[:, 0]) / np.maximum(np.sqrt(COUNTS).sum(axis=1), 1.0)
    model = KernelRegressor(map="terms", alpha=1e-5).fit(THIN[:300], target[:300])
    assert model.score(THIN[300:], target[300:]) > 0.5


def test_blocks_equal_the_whole():
    solver = AveragedSGD(eta0=0.5, every=16)
    made = KernelClassifier("hinge", map="terms", solver=solver, max_iter=3, random_state=0)
    whole = clone(made).fit(THIN, Y)
    parts = clone(made).set_params(memory=1.0).fit(THIN, Y)  # 256 rows a block
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-8, atol=1e-9)


def test_streams_have_the_weights_of_their_first_rows():
    model = KernelClassifier(map="terms", alpha=1e-4, random_state=0)
    for start in (0, 200) * 10:
        part = slice(start, start + 200)
        model.partial_fit(THIN[part], Y[part], classes=[0, 1])
    np.testing.assert_array_equal(model.map_.weights_, TermFeatures().fit(THIN[:200]).weights_)
    assert model.score(THIN, Y) > 0.85


@pytest.mark.parametrize(
    ("feature_map", "alpha"), [("terms", 0.003), (TermFeatures(), 0.003), ("nystroem", 0.001)]
)
def test_the_strength_in_streams_of_known_length_is_that_of_a_fit(feature_map, alpha):
    model = train(COUNTS[:100], Y[:100], learner="kernel", params={"map": feature_map}, memory=1,
                  holdout=0.0).estimator  # fmt: skip
    assert model.penalty_.strength == alpha
    assert model.alpha is None
    assert KernelClassifier(map=feature_map).fit(COUNTS[:100], Y[:100]).penalty_.strength == alpha


def test_what_is_told_of_them():
    params = {"map": TermFeatures(power=0.4), "scale": False}
    model = train(THIN, y=Y, learner="kernel", params=params)
    assert model.described().endswith("TermFeatures(power=0.4)")
    assert model.function.describe() == "12 weighted terms"
    assert model.coefficients()[0].shape == (1, 12)
    assert not model.is_linear
    np.testing.assert_array_equal(
        model.weighted(THIN).toarray(), model.estimator.map_.transform(THIN).toarray()
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"power": 0.0}, "power must be a positive number, got 0.0"),
        ({"power": np.nan}, "power must be a positive number"),
        ({"power": "half"}, "power must be a positive number, got 'half'"),
        ({"power": True}, "power must be a positive number, got True"),
        ({"rarity": -0.5}, "rarity must be a number of at least 0, got -0.5"),
        ({"rarity": np.inf}, "rarity must be a number of at least 0"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        TermFeatures(**options).fit(THIN)


# ---------------------------------------------------------------- tuning


def test_the_space_has_the_powers_of_an_object():
    by_name, made = (KernelClassifier(map=m) for m in ("terms", TermFeatures()))
    known, more = (set(space_for(model, THIN, Y).dimensions) for model in (by_name, made))
    assert "gamma" not in more
    assert more - known == {"map__power", "map__rarity"}


def test_only_sparse_rows_have_terms_and_no_number_of_them():
    assert "weighted terms" not in contestants("classification", False, 10)
    assert "least-squares terms" not in contestants("regression", True, 10)  # as "weighted terms"
    runner = contestants("classification", True, 10)["weighted terms"]
    assert capacity(runner, 1000) == {}
    assert smaller(runner, {}, 1000) is None
    assert work(runner, {}, 2000) == pytest.approx(2.0 * work(runner, {}, 1000))
