"""Nonlinear models in files: predictions come back to the bit, damage is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from thresher import (
    BudgetedClassifier,
    BudgetedRegressor,
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    LocalNystroem,
    MultiHyperplaneClassifier,
    Polynomial,
    load_model,
    save_model,
)
from thresher.artifacts import container
from thresher.artifacts.container import BadFile

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
    "ls-svm": (KernelClassifier("least_squares", n_components=20, random_state=0), X, TWO),
    "calibrated": (
        KernelClassifier(n_components=20, calibrate="sigmoid", random_state=0), X, TWO),
    "kernel regression": (KernelRegressor(n_components=30, random_state=0), X, TARGET),
    "budgeted": (BudgetedClassifier(budget=20, random_state=0), X, THREE),
    "budgeted scaled": (BudgetedClassifier(budget=20, scale=True, random_state=0), X, TWO),
    "polynomial": (
        BudgetedClassifier(Polynomial(2), budget=20, maintenance="remove", random_state=0), X, TWO),
    "budgeted regression": (BudgetedRegressor(budget=20, random_state=0), X, TARGET),
    "hyperplanes": (MultiHyperplaneClassifier(random_state=0), X, TWO),
    "gamm": (MultiHyperplaneClassifier("gamm", scale=True, random_state=0), X, THREE),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_predictions_come_back_to_the_bit(name, tmp_path):
    estimator, rows, y = MODELS[name]
    estimator.fit(rows, y)
    save_model(estimator, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(estimator, method):
            assert np.array_equal(getattr(again, method)(rows), getattr(estimator, method)(rows))
    assert again.get_params(deep=False).keys() == estimator.get_params(deep=False).keys()
    save_model(again, tmp_path / "n.thresher")
    assert (tmp_path / "n.thresher").read_bytes() == (tmp_path / "m.thresher").read_bytes()


@pytest.mark.parametrize("name", ["nystroem", "local", "fourier", "budgeted", "hyperplanes"])
def test_damaged_arrays_are_refused(name, tmp_path):
    estimator, rows, y = MODELS[name]
    save_model(estimator.fit(rows, y), tmp_path / "m.thresher")
    document, arrays = container.read(tmp_path / "m.thresher", "model")
    for key in ("format", "kind", "version", "versions", "arrays"):
        document.pop(key)
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
    from thresher.artifacts.onnx_graph import write_onnx_scores
    from thresher.estimators._exporting import onnx_scores, probability_of

    estimator, rows, y = MODELS[name]
    estimator.fit(rows, y)
    classes = getattr(estimator, "classes_", None)
    probability = None if classes is None else probability_of(estimator)
    write_onnx_scores(tmp_path / "m.onnx", onnx_scores(estimator), classes, probability)
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
