"""Nonlinear models in files: predictions come back to the bit, damage is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from thresher import (
    BudgetedClassifier,
    BudgetedRegressor,
    ConfidenceClassifier,
    ConfidenceRegressor,
    ForestFeatures,
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    LocalNystroem,
    MultiHyperplaneClassifier,
    Polynomial,
    TermFeatures,
    load_model,
    save_model,
)
from thresher.artifacts import container
from thresher.artifacts.container import BadFile

# Two of the models find nothing in these rows; what is saved need not be good.
pytestmark = pytest.mark.filterwarnings("ignore:.*no better than a constant")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)) * (RNG.random((300, 5)) < 0.7)
TWO = (X[:, 0] * X[:, 1] > 0).astype(int)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.3, 0.3])]
TARGET = np.sin(X[:, 0]) + X[:, 1]

MODELS = {
    "nystroem": (KernelClassifier(n_components=30, scale=True, random_state=0), X, TWO),
    "three": (KernelClassifier("hinge", n_components=20, random_state=0), X, THREE),
    "sparse": (KernelClassifier(n_components=30, random_state=0), csr_matrix(X), TWO),
    "local": (KernelClassifier(map=LocalNystroem(20, cells=4, random_state=0)), X, THREE),
    "local sparse": (
        KernelClassifier(map=LocalNystroem(20, cells=4, random_state=0)), csr_matrix(X), TWO),
    "fourier": (KernelClassifier(map=FourierFeatures(20, random_state=0)), X, TWO),
    "forest": (KernelClassifier(map=ForestFeatures(7, random_state=0)), X, THREE),
    "forest sparse": (
        KernelClassifier("logistic", map="forest", n_components=5, random_state=0),
        csr_matrix(X), TWO),
    "forest regression": (
        KernelRegressor(map=ForestFeatures(5, random_state=0), scale=True), X, TARGET),
    "terms": (KernelClassifier(map=TermFeatures(0.7, 0.2), random_state=0), X, THREE),
    "terms sparse": (KernelRegressor(map="terms", scale=True), csr_matrix(X), TARGET),
    "ls-svm": (KernelClassifier("least_squares", n_components=20, random_state=0), X, TWO),
    "calibrated": (
        KernelClassifier(n_components=20, calibrate="sigmoid", random_state=0), X, TWO),
    "kernel regression": (KernelRegressor(n_components=30, random_state=0), X, TARGET),
    "budgeted": (BudgetedClassifier(budget=20, random_state=0), X, THREE),
    "budgeted scaled": (BudgetedClassifier(budget=20, scale=True, random_state=0), X, TWO),
    "polynomial": (
        BudgetedClassifier(
            Polynomial(2, 0.01), budget=20, maintenance="remove", random_state=0), X, TWO),
    "budgeted regression": (BudgetedRegressor(budget=20, random_state=0), X, TARGET),
    "hyperplanes": (MultiHyperplaneClassifier(random_state=0), X, TWO),
    "confidence": (ConfidenceClassifier(random_state=0), X, THREE),
    "full": (ConfidenceClassifier("scw", covariance="full", random_state=0), X, TWO),
    "low rank": (ConfidenceClassifier(covariance="low_rank", rank=2, random_state=0), X, THREE),
    "confidence sparse": (
        ConfidenceClassifier(prior_variance=[1.0] * X.shape[1], random_state=0),
        csr_matrix(X), TWO),
    "confidence regression": (ConfidenceRegressor(random_state=0), X, TARGET),
    "gamm": (MultiHyperplaneClassifier("gamm", scale=True, random_state=0), X, THREE),
}  # fmt: skip


def written(model, folder):
    """What a file of the model holds, without what the container adds, to be changed."""
    save_model(model, folder / "m.thresher")
    document, arrays = container.read(folder / "m.thresher", "model")
    added = ("format", "kind", "version", "versions", "arrays")
    return {key: value for key, value in document.items() if key not in added}, arrays


def map_of(document):
    """The description of the model's fitted map."""
    return document["model"]["function"]["$object"]["fields"]["map"]["$map"]


@pytest.mark.parametrize("name", MODELS)
def test_predictions_come_back_to_the_bit(name, tmp_path):
    estimator, rows, y = MODELS[name]
    estimator.fit(rows, y)
    save_model(estimator, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(estimator, method):
            assert np.array_equal(getattr(again, method)(rows), getattr(estimator, method)(rows))
    assert str(again.get_params()) == str(estimator.get_params())  # also those of the map
    save_model(again, tmp_path / "n.thresher")
    assert (tmp_path / "n.thresher").read_bytes() == (tmp_path / "m.thresher").read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "nystroem",
        "local",
        "fourier",
        "forest",
        "terms",
        "budgeted",
        "hyperplanes",
        "confidence",
        "full",
        "low rank",
    ],
)
def test_damaged_arrays_are_refused(name, tmp_path):
    estimator, rows, y = MODELS[name]
    document, arrays = written(estimator.fit(rows, y), tmp_path)
    refused = 0
    for spoilt in arrays:
        if not arrays[spoilt].size or arrays[spoilt].dtype.kind != "f":
            continue
        for change in (lambda a: a.ravel()[:-1], lambda a: np.full_like(a, np.nan)):
            damaged = {**arrays, spoilt: change(arrays[spoilt])}
            container.write(tmp_path / "bad.thresher", document, damaged, "model")
            with pytest.raises(BadFile):
                load_model(tmp_path / "bad.thresher")
            refused += 1
    assert refused >= 4


@pytest.mark.parametrize("name", ["forest", "fourier", "terms"])
def test_the_same_weights_are_kept_once(name, tmp_path):
    """Features and scores of these maps have the same weights."""
    estimator, rows, y = MODELS[name]
    save_model(estimator.fit(rows, y), tmp_path / "m.thresher")
    document, _ = container.read(tmp_path / "m.thresher", "model")
    fields = document["model"]["function"]["$object"]["fields"]
    assert fields["coef"] == fields["table"]  # the name of an array


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("power", 0.0, "power must be a positive number"),
        ("power", "x", "power must be a positive number"),
        ("rarity", -0.1, "rarity must be a number of at least 0"),
        ("entries_", -1.0, "weights of the terms are wrong"),
        ("entries_", 6.0, "weights of the terms are wrong"),
    ],
)
def test_damaged_terms_are_refused(field, value, match, tmp_path):
    estimator, rows, y = MODELS["terms"]
    document, arrays = written(estimator.fit(rows, y), tmp_path)
    parts = map_of(document)
    parts["state" if field in parts["state"] else "parameters"][field] = value
    container.write(tmp_path / "bad.thresher", document, arrays, "model")
    with pytest.raises(BadFile, match=match):
        load_model(tmp_path / "bad.thresher")


@pytest.mark.parametrize(
    ("field", "node", "value", "match"),
    [
        ("right", "inner", 0, "after their parent"),  # for ever in a circle
        ("right", "inner", 1, "after their parent"),
        ("right", "inner", 2**31, "in the same tree"),
        ("right", "inner", "next tree", "in the same tree"),
        ("right", "inner", "a left child", "the right child of one node"),
        ("right", "leaf", 2**31, "numbered in order"),
        ("feature", "inner", 5, "none of the 5 features"),
        ("feature", "leaf", 0, "the last node of a tree"),
        ("feature", "inner", 2**32 - 1, "numbered in order"),
        ("threshold", "inner", np.nan, "finite"),
        ("threshold", "leaf", np.inf, "finite"),
        ("roots", "inner", 1, "roots must rise"),
        ("roots", "leaf", 2**32 - 1, "roots must rise"),
    ],
)
def test_damaged_trees_are_refused(field, node, value, match, tmp_path):
    estimator, rows, y = MODELS["forest"]
    document, arrays = written(estimator.fit(rows, y), tmp_path)
    trees = estimator.map_.trees_
    damaged = getattr(trees, field).copy()
    place = {"inner": 0, "leaf": damaged.size - 1}[node]
    if value == "next tree":
        value = trees.roots[1]
    elif value == "a left child":
        inner = np.flatnonzero(~trees.is_leaf[: trees.roots[1]])
        place, value = inner[-2], inner[-1] + 1
    damaged[place] = value
    name, _ = map_of(document)["state"]["trees_"]["$object"]["fields"][field]["$array"]
    container.write(tmp_path / "bad.thresher", document, {**arrays, name: damaged}, "model")
    with pytest.raises(BadFile, match=match):
        load_model(tmp_path / "bad.thresher")


@pytest.mark.parametrize(
    ("described", "match"),
    [
        ({"name": "magic"}, "unknown map 'magic'"),
        ({"name": ["forest"]}, "unknown map"),
        ({"name": None}, "unknown map None"),
        ({"evil": 1}, "damaged feature map"),
        ({"parameters": {"min_leaf": 1}}, "TermFeatures has no 'min_leaf'"),
        ({"parameters": 3}, "damaged feature map"),
        ({"state": {"weights_": 1}}, "needs weights_, entries_"),
    ],
)
def test_a_damaged_description_of_a_map(described, match, tmp_path):
    estimator, rows, y = MODELS["terms"]
    document, arrays = written(estimator.fit(rows, y), tmp_path)
    document["model"]["parameters"]["map"]["$map"].update(described)
    container.write(tmp_path / "bad.thresher", document, arrays, "model")
    with pytest.raises(BadFile, match=match):
        load_model(tmp_path / "bad.thresher")


def test_a_map_of_another_library_is_named(tmp_path):
    from sklearn.preprocessing import PolynomialFeatures

    model = KernelClassifier(map=PolynomialFeatures(2)).fit(X, TWO)
    with pytest.raises((TypeError, ValueError), match="PolynomialFeatures"):
        save_model(model, tmp_path / "m.thresher")


def test_the_document_is_plain(tmp_path):
    estimator, rows, y = MODELS["nystroem"]
    save_model(estimator.fit(rows, y), tmp_path / "m.thresher")
    document, _ = container.read(tmp_path / "m.thresher", "model")
    assert json.loads(json.dumps(document)) == document
    assert document["model"]["estimator"] == "kernel_classifier"


@pytest.mark.parametrize("name", MODELS)
def test_onnx_gives_the_same_predictions(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    estimator, rows, y = MODELS[name]
    estimator.fit(rows, y)
    classes = getattr(estimator, "classes_", None)
    link = None if classes is None else estimator.link
    write_onnx(tmp_path / "m.onnx", estimator.function_, classes, link)
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    outputs = [output.name for output in session.get_outputs()]
    results = dict(zip(outputs, session.run(outputs, {"X": X}), strict=True))
    if classes is None:
        assert results["prediction"] == pytest.approx(estimator.predict(rows), rel=1e-4, abs=1e-4)
        return
    scores = estimator.decision_function(rows)
    assert results["scores"] == pytest.approx(scores, rel=1e-3, abs=1e-3)
    sure = np.abs(scores) > 1e-2 if scores.ndim == 1 else np.ptp(scores, axis=1) > 1e-2
    agree = results["label"] == estimator.predict(rows)
    assert np.mean(agree[sure]) > 0.995
    if "probabilities" in results:
        assert results["probabilities"] == pytest.approx(estimator.predict_proba(rows), abs=1e-3)
