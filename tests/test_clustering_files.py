"""Clusterings through ``train``, files, the command line, the tuner and ONNX."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from thresher import StochasticKMeans, TunedClusterer, load_model, open_data, save_model, train
from thresher._rows import as_rows
from thresher.cli import main
from thresher.losses import LeastSquares
from thresher.penalties import L1
from thresher.solvers import Problem, driver
from thresher.solvers.lloyd import Lloyd
from thresher.training import Training, run
from thresher.training.clustering import ClusteringMetrics

RNG = np.random.default_rng(0)
PLACES = RNG.normal(size=(3, 4)) * 8.0
KINDS = RNG.integers(0, 3, 2500)
X = PLACES[KINDS] + RNG.normal(size=(2500, 4))
SMALL = 1 << 14  # memory that forces a stream


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("clusters") / "d.csv"
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = np.array(["x", "y", "z"])[KINDS]
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("params", [{}, {"algorithm": "lloyd"}, {"alpha": 0.1}])
@pytest.mark.parametrize("memory", [1 << 30, SMALL])
def test_without_a_target(table, memory, params, tmp_path):
    params = {"n_clusters": 3, **params}
    model = train(table, learner="kmeans", params=params, memory=memory, ignore=["kind"])
    assert model.training["in_memory"] == (memory > SMALL)
    held = model.training["held_out"]
    assert held["silhouette"] > 0.6
    assert set(held) == {"rows", "distance", "silhouette"}
    model.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert np.array_equal(again.predict(table), model.predict(table))
    assert np.array_equal(again.estimator.cluster_centers_, model.estimator.cluster_centers_)
    whole = model.evaluate(table)
    assert whole["rows"] == 2500


def test_labels_are_only_compared_with(table):
    how = {"learner": "kmeans", "params": {"n_clusters": 3}}
    labelled, plain = train(table, target="kind", **how), train(table, ignore=["kind"], **how)
    assert np.array_equal(labelled.predict(table), plain.predict(table))
    found = labelled.evaluate(table)
    assert found["ari"] > 0.99
    assert found["rand"] > 0.99
    assert found["vi"] < 0.05


def test_exact_passes_over_windows_are_those_in_memory(table):
    params = {"n_clusters": 3, "algorithm": "lloyd", "init": PLACES, "scale": False, "tol": 0.0}
    models = [
        train(table, learner="kmeans", params=params, memory=memory, ignore=["kind"])
        for memory in (1 << 30, SMALL)
    ]
    centres = [model.estimator.cluster_centers_ for model in models]
    assert np.allclose(*centres)
    sizes = (300, 1 << 20)
    streams = [
        run(open_data(X, block_bytes=size), Training({"n_clusters": 3}, "kmeans", memory=SMALL))
        for size in sizes
    ]
    first, second = (model.estimator.cluster_centers_ for model in streams)
    assert np.array_equal(first, second)


def test_a_killed_stream_goes_on(table, tmp_path):
    how = {"learner": "kmeans", "params": {"n_clusters": 3}, "memory": SMALL, "passes": 4}
    data = {"ignore": ["kind"]}
    path = tmp_path / "m.thresher"
    asked = iter([False, True])
    stopped = run(
        open_data(table, **data),
        Training(**how, model=path, checkpoint="1", stop=lambda: next(asked, True)),
    )
    assert stopped.training["status"] == "INTERRUPTED"
    resumed = run(open_data(table, **data), Training(**how, model=path, resume=True))
    whole = run(open_data(table, **data), Training(**how))
    assert np.array_equal(resumed.estimator.cluster_centers_, whole.estimator.cluster_centers_)


def test_planes_from_files(table, tmp_path):
    for memory in (1 << 30, SMALL):
        how = {"params": {"n_clusters": 2}, "memory": memory, "target": "kind"}
        model = train(table, learner="planes", **how)
        model.save(tmp_path / "m.thresher")
        again = load_model(tmp_path / "m.thresher")
        assert np.array_equal(again.predict(table), model.predict(table))


def test_what_needs_all_rows_says_so(table):
    params = {"n_clusters": 3, "algorithm": "stochastic", "draws": 100}
    assert train(table, learner="kmeans", params=params, ignore=["kind"]).training["in_memory"]
    with pytest.raises(ValueError, match="algorithm='stochastic' must see all rows at once"):
        train(table, learner="kmeans", params=params, ignore=["kind"], memory=SMALL)
    with pytest.raises(ValueError, match="training needs a target"):
        train(table, ignore=["kind"])


def test_a_saved_estimator(tmp_path):
    estimator = StochasticKMeans(3, metric="cosine", random_state=0).fit(X)
    save_model(estimator, tmp_path / "m.thresher")
    model = load_model(tmp_path / "m.thresher")
    assert np.array_equal(model.predict(X), estimator.labels_)
    assert model.estimator.inertia_ == estimator.inertia_
    save_model(StochasticKMeans(3, init=X[:3]).fit(X), tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    assert np.array_equal(again.init, X[:3])
    assert np.array_equal(again.solver_.start, X[:3])


def test_a_state_from_a_file_is_not_believed():
    problem = Problem(LeastSquares(), L1(0.0), 4, outputs=3, targets="none")
    chunk = driver.whole(as_rows(X), np.zeros(len(X)))
    solver = Lloyd(bounded=False)
    good = solver.update(problem, solver.init(problem, chunk), chunk)
    solver.check_state(problem, good)
    bad = {
        "bounds": Lloyd().init(problem, chunk).bounds, "counts": -good.counts, "spread": -1.0,
        "centres": good.centres[:2], "sums": good.sums.astype(np.float32), "step": -1,
    }  # fmt: skip
    for name, value in bad.items():
        with pytest.raises(ValueError, match=r"."):
            solver.check_state(problem, good._replace(**{name: value}))


def test_the_command_line(table, tmp_path, monkeypatch, capsys):
    def thresher(*words):
        monkeypatch.setattr(sys, "argv", ["thresher", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        code, (out, err) = ended.value.code, capsys.readouterr()
        assert code == 0, err
        return out

    model, predicted = tmp_path / "m.thresher", tmp_path / "p.csv"
    thresher("train", table, "-t", "kind", "--learner", "kmeans", "--set", "n_clusters=3",
             "-m", model, "--quiet")  # fmt: skip
    thresher("predict", model, table, "-o", predicted, "--scores")
    frame = pd.read_csv(predicted)
    assert list(frame) == ["prediction", "score 0", "score 1", "score 2"]
    assert np.array_equal(frame.iloc[:, 1:].to_numpy().argmax(axis=1), frame["prediction"])
    metrics = json.loads(thresher("evaluate", model, table, "--json"))
    assert metrics["ari"] > 0.99
    assert "silhouette" in thresher("evaluate", model, table)
    assert json.loads(thresher("inspect", model, "--json"))["training"]["learner"] == "kmeans"
    assert "centres" in thresher("inspect", model)
    thresher("export", model, "-o", tmp_path / "m.onnx")
    thresher("report", model, "--data", table, "--html", tmp_path / "m.html", "--quiet")
    assert "The clusters" in (tmp_path / "m.html").read_text()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [2, 3])
def test_onnx(metric, k, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    estimator = StochasticKMeans(k, metric=metric, scale=True, random_state=0).fit(X)
    path = tmp_path / "m.onnx"
    write_onnx(path, estimator.function_, np.arange(k))
    session = runtime.InferenceSession(str(path))
    labels, scores = session.run(["label", "scores"], {"X": X})
    assert np.array_equal(labels, estimator.labels_)
    assert np.allclose(scores, estimator.function_.scores(X))


def test_the_number_of_clusters_by_the_silhouette(table):
    search = TunedClusterer(space={"n_clusters": (2, 6)}, random_state=0).fit(X)
    assert search.best_params_ == {"n_clusters": 3}
    assert len(search.trials_) == 5
    assert search.labels_.size == 2500
    for memory in (1 << 30, SMALL):
        model = train(
            table, learner="kmeans", tune=19, search="grid", ignore=["kind"], memory=memory
        )
        assert model.estimator.n_clusters == 3
        assert "silhouette" in model.training["reason"]


def test_metrics_do_not_depend_on_chunks():
    scores, codes = RNG.normal(size=(9000, 3)), RNG.integers(0, 4, 9000).astype(float)
    rows = RNG.normal(size=(9000, 2))
    found = []
    for size in (9000, 700):
        metrics = ClusteringMetrics(None)
        for a in range(0, 9000, size):
            part = slice(a, a + size)
            metrics.add(codes[part], scores[part], None, None, rows[part])
        found.append(metrics.summary())
    assert found[0] == pytest.approx(found[1])


def test_labels_are_named_when_they_are_compared_with(table, tmp_path, capsys, monkeypatch):
    model = train(table, learner="kmeans", params={"n_clusters": 3}, ignore=["kind"])
    assert "ari" not in model.evaluate(table)
    found = model.evaluate(table, target="kind")
    assert found["ari"] > 0.99
    rows = train(X, learner="kmeans", params={"n_clusters": 3})
    assert rows.evaluate(X, y=KINDS)["ari"] > 0.99
    with pytest.raises(ValueError, match="clusters were made of"):
        train(table, learner="kmeans").evaluate(table, target="kind")
    with pytest.raises(ValueError, match="its own target"):
        train(table, target="kind", passes=1).evaluate(table, target="a")
    model.save(tmp_path / "m.thresher")
    words = ["evaluate", str(tmp_path / "m.thresher"), str(table), "--target", "kind", "--json"]
    monkeypatch.setattr(sys, "argv", ["thresher", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["ari"] > 0.99


@pytest.mark.parametrize("learner", ["kmeans", "planes"])
def test_a_report(table, tmp_path, learner):
    pytest.importorskip("matplotlib")
    from thresher.views import write_report

    model = train(table, learner=learner, params={"n_clusters": 3}, target="kind")
    page = tmp_path / "report.html"
    sections = {s.key: s for s in write_report(model, table, html=page, static=True)}
    assert {"summary", "data", "winner", "clusters", "costs", "reproduce"} <= set(sections)
    assert "3 clusters: silhouette" in sections["summary"].paragraphs[0]
    measures, sizes = sections["clusters"].tables
    assert any("adjusted Rand" in row[0] for row in measures.rows)
    assert sum(int(row[1].replace(",", "")) for row in sizes.rows) == 2500
    assert [chart.key for chart in sections["clusters"].charts] == ["shares", "places"]
    text = page.read_text()
    assert "what sets it apart" in text
    alone = {s.key: s for s in write_report(model, html=page, static=True)}
    assert "need --data" in alone["clusters"].paragraphs[-1]
