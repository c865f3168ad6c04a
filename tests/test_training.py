"""Training on data of any size: every way of reading the same rows gives the same model."""

from __future__ import annotations

import io
import itertools
import pickle
import re
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import confusion_matrix, f1_score, log_loss, r2_score, roc_auc_score

from thresher import LinearClassifier, load_model, open_data, train
from thresher.penalties import GroupL2
from thresher.schedules import Constant
from thresher.solvers import SGD, Status
from thresher.training import Training, run
from thresher.training.checkpoint import Every, checkpoint_path
from thresher.training.choice import Choice
from thresher.training.holdout import HoldOut
from thresher.training.metrics import ClassificationMetrics, RegressionMetrics

SMALL = 1 << 16  # memory that forces a stream


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(4000, 6)) + 0.5, 4)
    y = (X @ [1.0, -2.0, 0.5, 0.0, 0.0, 1.0] + rng.normal(size=4000) > 0).astype(int)
    return X, y


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    X, y = table
    folder = tmp_path_factory.mktemp("formats")
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=y)
    frame.to_csv(folder / "d.csv", index=False)
    frame.to_parquet(folder / "d.parquet")
    frame.to_feather(folder / "d.feather")
    dump_svmlight_file(X, y, str(folder / "d.svm"), zero_based=False)
    np.savez(folder / "d.npz", X=X, y=y)
    return folder, frame


def weights(model):
    return np.append(model.estimator.coef_, model.estimator.intercept_)


@pytest.mark.parametrize("params", [{}, {"solver": "rda", "penalty": "l1", "alpha": 1e-3}])
def test_every_format_gives_the_same_model_to_the_bit(table, files, params):
    X, y = table
    folder, frame = files
    sources = [(X, y), (csr_array(X), y), (frame,)]
    sources += [(str(folder / name),) for name in ("d.csv", "d.parquet", "d.feather", "d.svm")]
    sources += [(str(folder / "d.npz"),)]
    models = []
    for source in sources:
        named = isinstance(source[0], pd.DataFrame) or str(source[0]).endswith(
            ("csv", "parquet", "feather")
        )
        options = {"target": "y"} if named else {}
        models.append(train(*source, memory=SMALL, passes=2, params=params, **options))
    assert not models[0].training["in_memory"]
    assert models[0].training["held_out"]["error"] < 0.2
    for other in models[1:]:
        assert np.array_equal(weights(models[0]), weights(other))
        assert models[0].training["held_out"] == other.training["held_out"]


def test_block_sizes_leave_no_trace(files):
    folder, _ = files
    models = []
    for size in (1 << 8, 5000, 1 << 22):
        data = open_data(str(folder / "d.csv"), target="y")
        data.source.block_bytes = size
        models.append(run(data, Training(memory=SMALL)))
    assert all(np.array_equal(weights(models[0]), weights(m)) for m in models[1:])


def test_memory_does_not_change_a_streaming_solver(files):
    folder, _ = files
    path, params = str(folder / "d.csv"), {"solver": "asgd"}
    streamed = train(path, target="y", memory=SMALL, params=params)
    kept = train(path, target="y", params=params)
    assert np.array_equal(weights(streamed), weights(kept))


def test_rows_in_memory_are_fitted_as_the_estimator_fits_them(table):
    X, y = table
    model = train(X, y)
    assert model.training["in_memory"]
    hold = HoldOut(0.1, 100_000, 0)
    held = hold.mask(next(open_data(X, y).chunks(4000)))
    direct = LinearClassifier(scale=True, random_state=0).fit(X[~held], y[~held])
    assert np.array_equal(model.estimator.coef_, direct.coef_)
    assert held.sum() == model.training["held_out_rows"]


def test_standard_input_is_read_once(files, monkeypatch):
    folder, _ = files
    text = (folder / "d.csv").read_bytes()
    stdin = io.TextIOWrapper(io.BytesIO(text))
    monkeypatch.setattr(sys, "stdin", stdin)
    kept = train("-", target="y", params={"solver": "asgd"})
    direct = train(str(folder / "d.csv"), target="y", params={"solver": "asgd"})
    assert np.array_equal(weights(kept), weights(direct))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    streamed = train("-", target="y", memory=SMALL)
    assert streamed.training["passes"] == 1
    assert streamed.training["rows"] + streamed.training["held_out_rows"] == 4000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    with pytest.raises(ValueError, match="read only once"):
        train("-", target="y", memory=SMALL, passes=2)


def test_without_a_scan_the_first_rows_decide(files):
    folder, _ = files
    model = train(str(folder / "d.csv"), target="y", memory=SMALL, scan=False)
    assert model.training["passes"] == 1
    assert model.training["held_out"]["error"] < 0.2
    again = train(str(folder / "d.csv"), target="y", memory=SMALL, scan=False)
    assert np.array_equal(weights(model), weights(again))


def test_several_classes_and_words(table):
    X, _ = table
    y = np.array(["low", "middle", "top"])[np.digitize(X[:, 0] - X[:, 1], [-1.0, 1.0])]
    for memory in (SMALL, 1 << 30):
        model = train(X, y, memory=memory)
        assert model.training["held_out"]["error"] < 0.3
        assert set(model.predict(X[:50])) <= {"low", "middle", "top"}
    for solver in ("pegasos", "asgd"):
        params = {"solver": solver, "alpha": 1e-3}
        assert train(X, y, params=params).training["held_out"]["error"] < 0.35


def test_regression(table):
    X, _ = table
    y = X @ np.arange(6.0) + 3.0
    for memory in (SMALL, 1 << 30):
        metrics = train(X, y, memory=memory, passes=4).training["held_out"]
        assert metrics["r2"] > 0.99
        assert metrics["rmse"] < 1.0


def test_weights_mean_repetition_in_a_stream(table):
    X, y = table
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    params = {"solver": "pegasos", "alpha": 1e-2, "order": "sequential"}
    weighted = open_data(X, y, weight=weight)
    model = run(weighted, Training(params, holdout=0.0, passes=20))
    repeated = run(
        open_data(np.repeat(X, weight, axis=0), np.repeat(y, weight)),
        Training(params, holdout=0.0, passes=20),
    )
    angle = model.estimator.coef_.ravel() @ repeated.estimator.coef_.ravel()
    size = np.linalg.norm(model.estimator.coef_) * np.linalg.norm(repeated.estimator.coef_)
    assert angle / size > 0.99


def test_balanced_classes(table):
    X, _ = table
    y = (X[:, 0] + np.random.default_rng(0).normal(size=4000) > 2.5).astype(int)
    plain = train(X, y, memory=SMALL).training["held_out"]["confusion"]
    even = train(X, y, memory=SMALL, params={"class_weight": "balanced"})
    counts = np.array(even.training["held_out"]["confusion"])
    assert counts[1, 1] / counts[1].sum() > np.array(plain)[1, 1] / np.array(plain)[1].sum()
    heavy = train(X, y, memory=SMALL, params={"class_weight": {1: 50.0}})
    assert np.array(heavy.training["held_out"]["confusion"])[1, 0] <= counts[1, 0]


def test_calibration_in_a_stream(table):
    X, y = table
    model = train(X, y, memory=SMALL, params={"calibrate": "sigmoid"})
    assert model.training["held_out"]["log_loss"] < 0.5
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="held-out"):
        train(X, y, memory=SMALL, holdout=0.0, params={"calibrate": "sigmoid"})


def test_early_stopping_keeps_the_best_pass(table):
    X, y = table
    params = {"early_stopping": True, "patience": 1}
    model = train(X, y, memory=SMALL, passes=30, params=params)
    assert model.training["status"] in ("EARLY_STOPPED", "COMPLETED")
    best = min(line["error"] for line in model.training["history"])
    assert model.training["held_out"]["error"] == best


def test_a_stopped_job_goes_on_as_if_nothing_had_happened(table, tmp_path):
    X, y = table
    path = tmp_path / "m.thresher"
    data = open_data(X, y, chunk_bytes=1 << 14)
    params = {"params": {"solver": "asgd"}, "passes": 6}
    whole = run(open_data(X, y), Training(**params))
    stops = iter([False, True] + [False] * 100)
    part = run(data, Training(checkpoint="1", model=path, stop=lambda: next(stops),
                              **params))  # fmt: skip
    assert part.training["status"] == "INTERRUPTED"
    assert part.predict(X[:3]).shape == (3,)
    assert checkpoint_path(path).exists()
    rest = run(data, Training(checkpoint="1", model=path, resume=True, **params))
    assert np.array_equal(weights(rest), weights(whole))
    assert rest.training["history"] == whole.training["history"]
    assert not checkpoint_path(path).exists()


def test_a_checkpoint_of_another_job_is_refused(table, tmp_path):
    X, y = table
    path = tmp_path / "m.thresher"
    how = {"checkpoint": "1", "model": path, "passes": 3}
    run(open_data(X, y), Training({"solver": "asgd"}, stop=lambda: True, **how))
    with pytest.raises(ValueError, match="other parameters"):
        run(open_data(X, y), Training({"solver": "asgd", "alpha": 1.0}, resume=True, **how))
    with pytest.raises(ValueError, match="other seed"):
        run(open_data(X, y), Training({"solver": "asgd"}, resume=True, seed=7, **how))


def test_a_solver_that_needs_all_rows_says_so(table):
    X, y = table
    with pytest.raises(ValueError, match="must see all rows at once"):
        train(X, y, memory=SMALL, params={"solver": "newton"})
    groups = {"solver": "proximal_newton", "loss": "logistic"}
    for penalty in ("group", GroupL2()):
        with pytest.raises(ValueError, match="'auto', or 'rda_plus' for the optimum"):
            train(X, y, memory=SMALL, params={**groups, "penalty": penalty})
    with pytest.raises(ValueError, match="one class only"):
        train(X, np.zeros(4000, dtype=int))
    with pytest.raises(ValueError, match="needs a target"):
        train(X)
    with pytest.raises(TypeError, match="schedule must be a Schedule"):
        train(X, y, params={"solver": "sgd", "solver__schedule": 1.0})


@pytest.mark.parametrize(
    ("learner", "params", "message"),
    [
        ("hyperplanes", {"loss": "logistic"}, "it always learns with hinge"),
        ("kmeans", {"loss": "hinge"}, "'kmeans' does not let its loss be chosen: it has none"),
        ("linear", {"aplha": 1.0}, "has no option 'aplha': did you mean 'alpha'?"),
        ("linear", {"colour__hue": 1.0}, "has no option 'colour__hue'"),
        ("linear", {"solver__batch": 3}, "name the solver whose batch is to be set"),
    ],
)
def test_options_that_a_learner_does_not_have(table, learner, params, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        train(*table, learner=learner, params=params)


def test_the_loss_that_a_learner_has_anyway_may_be_named(table):
    named = train(*table, learner="hyperplanes", params={"loss": "hinge"})
    plain = train(*table, learner="hyperplanes")
    assert named.training["held_out"] == plain.training["held_out"]


def test_divergence_leaves_a_finite_model_and_advice(table):
    X, y = table
    params = {"solver": SGD(schedule=Constant(1.0)), "loss": "least_squares", "scale": False}
    with np.errstate(all="ignore"):
        model = train(X * 1e6, y, memory=SMALL, params=params)
    assert np.all(np.isfinite(model.estimator.coef_))
    assert Status[model.training["status"]] is Status.DIVERGED


def test_progress_is_told(table):
    X, y = table
    told = []
    train(X, y, memory=SMALL, passes=3, on_progress=told.append)
    stages = [event.stage for event in told]
    assert stages[0] == "reading"
    assert stages.count("learning") >= 3
    last = told[-1]
    assert last.planned == 3
    assert last.total == last.rows
    assert last.metrics["error"] < 0.2


def test_models_survive_a_round_trip(table, tmp_path):
    X, y = table
    model = train(X, y, params={"loss": "logistic"})
    model.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.training == model.training
    assert again.schema == model.schema


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize("most", [10, 100_000])
def test_held_out_rows_are_spread_and_do_not_depend_on_chunks(table, most):
    X, y = table
    found = []
    for size in (64, 1000, 4000):
        hold = HoldOut(0.2, most, seed=5)
        for batch in open_data(X, y).chunks(size):
            hold.collect(batch)
        found.append(hold)
    for hold in found[1:]:
        assert hold.threshold == found[0].threshold
        assert np.array_equal(hold.batch().matrix, found[0].batch().matrix)
    assert found[0].size <= most
    if most > 10:
        assert abs(found[0].size / 4000 - 0.2) < 0.03


def test_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    codes = rng.integers(2, size=500)
    scores = np.round(codes + rng.normal(size=500), 1)  # with ties
    p = 1 / (1 + np.exp(-scores))
    weight = rng.random(500)
    metrics = ClassificationMetrics(np.array([0, 1]))
    for part in np.array_split(np.arange(500), 7):
        table = np.column_stack([1 - p, p])[part]
        metrics.add(codes[part], scores[part], table, weight[part])
    out = metrics.summary()
    guess = (scores > 0).astype(int)
    assert out["error"] == pytest.approx(1 - np.average(guess == codes, weights=weight))
    assert out["auc"] == pytest.approx(roc_auc_score(codes, scores, sample_weight=weight), abs=1e-6)
    assert out["f1"] == pytest.approx(f1_score(codes, guess, sample_weight=weight))
    assert out["log_loss"] == pytest.approx(log_loss(codes, p, sample_weight=weight))
    assert out["confusion"] == pytest.approx(confusion_matrix(codes, guess, sample_weight=weight))


def test_metrics_of_several_classes_and_of_regression():
    rng = np.random.default_rng(2)
    codes, table = rng.integers(3, size=300), rng.normal(size=(300, 3))
    metrics = ClassificationMetrics(np.arange(3))
    metrics.add(codes, table, None)
    out = metrics.summary()
    p = np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)
    each = [roc_auc_score(codes == c, table[:, c]) for c in range(3)]
    assert out["auc"] == pytest.approx(np.mean(each), abs=1e-6)
    assert out["log_loss"] is None
    assert out["f1"] == pytest.approx(f1_score(codes, p.argmax(axis=1), average="macro"))
    y, guess = rng.normal(size=300) + 1e6, rng.normal(size=300) + 1e6
    numbers = RegressionMetrics()
    for part in np.array_split(np.arange(300), 5):
        numbers.add(y[part], guess[part])
    assert numbers.summary()["r2"] == pytest.approx(r2_score(y, guess), rel=1e-6)
    assert numbers.summary()["rmse"] == pytest.approx(np.sqrt(np.mean((y - guess) ** 2)))


def test_the_auc_is_thinned_beyond_its_memory(monkeypatch):
    monkeypatch.setattr("thresher.training.metrics._MOST_SCORES", 2000)
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=20_000)
    scores = codes + rng.normal(size=20_000)
    metrics = ClassificationMetrics(np.array([0, 1]))
    for part in np.array_split(np.arange(20_000), 11):
        metrics.add(codes[part], scores[part], None)
    assert metrics.summary()["auc"] == pytest.approx(roc_auc_score(codes, scores), abs=0.03)
    assert len(pickle.dumps(metrics)) < 2000 * 12 + 2000  # three numbers for each score


@pytest.mark.parametrize(
    ("text", "seconds", "rows"),
    [("30s", 30.0, None), ("5m", 300.0, None), ("1000000", None, 10**6), ("1e6 rows", None, 10**6)],
)
def test_intervals(text, seconds, rows):
    assert Every.parse(text) == Every(seconds, rows)


@pytest.mark.parametrize("text", ["", "s", "-3s", "0", "often", "nan"])
def test_intervals_that_are_none(text):
    with pytest.raises(ValueError, match="not an interval"):
        Every.parse(text)


def test_a_winner_learns_from_as_many_rows_as_there_is_time_for(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    seen = []

    class Spied(LinearClassifier):
        def fit_coded(self, X, *given):
            seen.append(X.shape[0])
            return super().fit_coded(X, *given)

    for some in (500, 10_000, None):
        chosen = Choice(Spied(random_state=0), "given", [], rows=some)
        monkeypatch.setattr("thresher.training.one_run.choose", lambda *given, it=chosen: it)
        train(rows, (rows[:, 0] > 0).astype(int), budget=1e6)
    assert seen[0] == 500
    assert seen[1] == seen[2] > 2000


def test_a_race_on_a_stream_ends_in_time(monkeypatch):
    """The winner learns from all rows until the clock says that it is over."""
    rows = np.random.default_rng(0).normal(size=(300_000, 3))
    ticks = itertools.count()
    late = SimpleNamespace(perf_counter=lambda: float(next(ticks)), monotonic=time.monotonic)
    chosen = Choice(LinearClassifier(solver="asgd", random_state=0), "given", [])
    monkeypatch.setattr("thresher.training.one_run.choose", lambda *given: chosen)
    for module in ("session", "one_run"):
        monkeypatch.setattr(f"thresher.training.{module}.time", late)
    model = train(rows, (rows[:, 0] > 0).astype(int), budget=2.0, memory=1)
    assert model.training["status"] == "OUT_OF_TIME"
    assert model.training["held_out"]["error"] < 0.05
    for module in ("session", "one_run"):
        monkeypatch.setattr(f"thresher.training.{module}.time", time)
    model = train(rows, (rows[:, 0] > 0).astype(int), budget=1e6, memory=1)
    assert model.training["status"] == "COMPLETED"
