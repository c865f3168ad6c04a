"""Several models as one: the pool against SciPy, files, ONNX, absent classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, make_friedman1

from thresher import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    StackFeatures,
    load_model,
    save_model,
)
from thresher.maps.pooling import Pool, pool_classes, pool_numbers

RNG = np.random.default_rng(0)
X, Y = (part[:600] for part in load_digits(return_X_y=True))
TWO = (Y > 4).astype(int)


def members(classes=True):
    linear, kernel = (
        (LinearClassifier, KernelClassifier) if classes else (LinearRegressor, KernelRegressor)
    )
    return [
        linear(scale=True, random_state=0),
        kernel(map="forest", n_components=20, random_state=0),
        kernel(n_components=40, scale=True, random_state=0),
    ]


# ---------------------------------------------------------------- the pool


def deviance(at, scaled, codes, size):
    totals = np.tensordot(at[:size], scaled, 1) + at[size:]
    middle = np.append(np.full(size, 1 / size), np.zeros(at.size - size))
    logs = log_softmax(totals, axis=1)[np.arange(codes.size), codes]
    return -logs.sum() + 0.5 * np.sum((at - middle) ** 2)


def test_the_pool_of_several_classes_is_the_optimum():
    codes = RNG.integers(4, size=300)
    right = np.eye(4)[codes]
    scores = [3.0 * right + RNG.normal(size=(300, 4)), 7.0 * RNG.normal(size=(300, 4)), right]
    pool = pool_classes(scores, codes)
    spreads = [np.sqrt(np.mean((s - s.mean(axis=1, keepdims=True)) ** 2)) for s in scores]
    scaled = np.stack([s / spread for s, spread in zip(scores, spreads, strict=True)])
    start = np.append(np.full(3, 0.5), np.zeros(4))
    bounds = [(0, None)] * 3 + [(None, None)] * 4
    best = minimize(deviance, start, (scaled, codes, 3), method="SLSQP", bounds=bounds)
    found = np.append(pool.weights * spreads, pool.offsets)
    assert deviance(found, scaled, codes, 3) <= best.fun + 1e-3
    assert pool.weights[1] * spreads[1] < 0.2 < pool.weights[0] * spreads[0]


def test_two_classes_are_pooled_as_two_of_several():
    codes = RNG.integers(2, size=400)
    scores = [(2.0 * codes - 1 + RNG.normal(size=400))[:, None] for _ in range(3)]
    one = pool_classes(scores, codes)
    weight = np.full(400, 3.0)
    np.testing.assert_allclose(pool_classes(scores, codes, weight).weights, one.weights, rtol=1e-6)
    logit = one.scores(scores)[:, 0]
    wide = [np.hstack([-s / 2, s / 2]) for s in scores]
    several = pool_classes(wide, codes).scores(wide)
    np.testing.assert_allclose(several[:, 1] - several[:, 0], logit, atol=0.2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6), st.floats(-1e6, 1e6))
def test_numbers_are_pooled_in_any_units(seed, scale, shift):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=80)
    said = [(y + s * rng.normal(size=80))[:, None] for s in (0.3, 0.6, 2.0)]
    plain = pool_numbers(said, y).scores(said)
    other = [scale * s + shift for s in said]
    turned = pool_numbers(other, scale * y + shift).scores(other)
    np.testing.assert_allclose(
        (turned - shift) / scale, plain, atol=1e-6 + 1e-9 * abs(shift / scale)
    )
    assert np.mean((plain[:, 0] - y) ** 2) <= np.mean((said[0][:, 0] - y) ** 2) + 1e-12


def test_weights_of_rows_are_repetitions():
    codes = RNG.integers(3, size=120)
    scores = [np.eye(3)[codes] + 0.8 * RNG.normal(size=(120, 3)) for _ in range(2)]
    times = RNG.integers(1, 4, size=120)
    again = [np.repeat(s, times, axis=0) for s in scores]
    # The penalty counts rows, so that only the ratio of weights to it differs.
    weighted = pool_classes(scores, codes, times.astype(float))
    repeated = pool_classes(again, np.repeat(codes, times))
    np.testing.assert_allclose(weighted.weights, repeated.weights, rtol=0.1)


# ---------------------------------------------------------------- the map


@pytest.mark.parametrize("y", [Y, TWO], ids=["ten classes", "two classes"])
def test_a_stack_adds_up_what_its_members_say(y):
    stack = KernelClassifier(map=StackFeatures(members(), random_state=0)).fit(X, y)
    made = stack.map_
    said = [f.scores(X) for f in made.functions_]
    alone = [clone(one).fit(X, y) for one in members()]
    for scores, model in zip(said, alone, strict=True):
        np.testing.assert_allclose(scores, model.function_.scores(X), rtol=1e-6, atol=1e-6)
    pooled = Pool(made.weights_, made.offsets_).scores(said)
    np.testing.assert_allclose(stack.function_.scores(X), pooled, rtol=1e-9, atol=1e-9)
    assert np.all(made.weights_ >= 0)


def test_a_stack_is_hardly_worse_than_its_best_member_and_here_better():
    train, test = np.arange(0, 600, 2), np.arange(1, 600, 2)
    alone = [np.mean(m.fit(X[train], Y[train]).predict(X[test]) != Y[test]) for m in members()]
    stack = KernelClassifier(map=StackFeatures(members(), random_state=0)).fit(X[train], Y[train])
    assert np.mean(stack.predict(X[test]) != Y[test]) <= min(alone) + 0.01


def test_numbers_are_stacked_too():
    rows, y = make_friedman1(500, random_state=0)
    own = members(classes=False)
    stack = KernelRegressor(map=StackFeatures(own, random_state=0)).fit(rows[:300], y[:300])
    alone = [m.fit(rows[:300], y[:300]).score(rows[300:], y[300:]) for m in own]
    assert stack.score(rows[300:], y[300:]) >= max(alone) - 0.01


def test_the_usual_members_are_those_of_the_task():
    model = KernelClassifier(map="stack", random_state=0).fit(X[:200], TWO[:200])
    assert len(model.map_.functions_) == 3
    assert model.score(X, TWO) > 0.85


def test_given_weights_are_taken_and_no_folds_are_made():
    own, weights, offsets = members()[:2], [0.25, 1.5], np.arange(10.0)
    stack = StackFeatures(own, weights=weights, offsets=offsets, folds=0)
    model = KernelClassifier(map=stack).fit(X, Y)
    said = [f.scores(X) for f in model.map_.functions_]
    expected = 0.25 * said[0] + 1.5 * said[1] + offsets
    np.testing.assert_allclose(model.function_.scores(X), expected, rtol=1e-9)


def test_rows_of_weight_zero_do_not_count():
    weight = np.where(np.arange(600) < 400, 1.0, 0.0)
    stack = StackFeatures(members()[:1], weights=[1.0])
    model = KernelClassifier(map=stack).fit(X, TWO, weight)
    plain = KernelClassifier(map=stack).fit(X[:400], TWO[:400])
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), rtol=1e-6)


def test_a_class_without_rows_is_never_right():
    codes = np.where(Y[:300] == 9, 3, Y[:300])
    stack = KernelClassifier(map=StackFeatures(members()[:1], random_state=0))
    stack.n_features_in_ = X.shape[1]
    stack.fit_codes(X[:300], codes, np.arange(12))
    assert stack.function_.outputs == 12
    assert set(stack.predict(X)) <= set(range(9))


@pytest.mark.parametrize("y", [Y, TWO], ids=["ten classes", "two classes"])
def test_files_and_onnx_keep_a_stack(y, tmp_path):
    stack = StackFeatures(members(), random_state=0)
    model = KernelClassifier(map=stack, calibrate=None).fit(X, y)
    save_model(model, tmp_path / "stack.thresher")
    again = load_model(tmp_path / "stack.thresher").estimator
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert repr(again.map.members) == repr(stack.members)
    refitted = clone(again).fit(X, y)
    np.testing.assert_allclose(refitted.decision_function(X), model.decision_function(X))
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    write_onnx(tmp_path / "stack.onnx", model.function_, model.classes_, None, None)
    session = runtime.InferenceSession(str(tmp_path / "stack.onnx"))
    out = session.run(None, {session.get_inputs()[0].name: X.astype(np.float64)})
    scores = next(a for a in out if np.asarray(a).dtype.kind == "f")
    expected = model.function_.scores(X)
    np.testing.assert_allclose(np.reshape(scores, expected.shape), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        (StackFeatures([]), "at least one member"),
        (StackFeatures([LinearRegressor()]), "learners of classification, got LinearRegressor"),
        (StackFeatures(["linear"]), "learners of classification, got str"),
        (StackFeatures(members()[:1], weights=[1.0, 2.0]), "weights must be 1 finite numbers"),
        (StackFeatures(members()[:1], weights=[1.0], offsets=[0.0]), "offsets must be 10 finite"),
        (StackFeatures(members()[:1], weights=[np.nan]), "weights must be 1 finite"),
        (StackFeatures(members()[:1], folds=1), "folds must be a whole number of at least 2"),
    ],
)
def test_what_is_no_stack_is_refused(stack, message):
    with pytest.raises(ValueError, match=message):
        KernelClassifier(map=stack).fit(X, Y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        stack.fit(X)
