"""Models written by version 0.1.0.dev0 load in this version and predict the same to the bit.

``golden/make_golden.py`` says what the files are.  They stay as they are: a new format gets files
of its own.
"""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from golden import own_terms
from golden.outputs import HERE, TABLE, facts_of, outputs, probe, unpacked
from thresher import load_model, save_model

FILES = sorted(HERE.glob("*.thresher"))
FACTS = json.loads((HERE / "facts.json").read_text(encoding="utf-8"))
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """BLAS splits sums by its threads; the expected numbers were made with one."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def expected(_one_thread):
    with np.load(HERE / "expected.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def same_machine(expected):
    """Whether to the bit is asked for.

    The last bits of a matrix product or an exponential are a matter of the processor: BLAS picks
    its kernels by it, NumPy and the C library their functions, Numba its instructions.  Where a
    probe of these gives the bits that it gave the writer, so must the models; elsewhere they are
    held to the accuracy of the numbers that they compute with.
    """
    return all(str(expected[f"probe/{name}"]) == bits for name, bits in probe().items())


def loaded(path):
    return load_model(path, terms=[getattr(own_terms, t) for t in FACTS[path.stem]["terms"]])


def rows_of(name, arrays):
    return TABLE if name == "table" else unpacked(arrays, name)


def check_outputs(model, name, arrays, exact):
    for form in FACTS[name]["rows"]:
        rows = rows_of(form, arrays)
        prefix = f"{name}/{form}/"
        wanted = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        found = outputs(model, rows)
        assert wanted
        assert found.keys() == wanted.keys()
        # Budgeted models keep their vectors in singles where they can, whatever the rows are.
        numbers = (rows, getattr(model.estimator, "support_vectors_", None))
        single = any(getattr(part, "dtype", None) == np.float32 for part in numbers)
        for key, values in found.items():
            check_same(values, wanted[key], prefix + key, exact, 1e-5 if single else 1e-12)


def check_same(values, wanted, what, exact, tol):
    assert values.shape == wanted.shape, what
    if wanted.dtype.kind == "U":
        assert values.dtype.kind in "UO", what
    else:
        assert values.dtype == wanted.dtype, what
    if exact or wanted.dtype.kind != "f":
        np.testing.assert_array_equal(values, wanted, err_msg=what, strict=values.dtype != object)
    else:  # sums of numbers as large as the largest: a small one has no more digits
        size = np.abs(wanted).max()
        np.testing.assert_allclose(values, wanted, rtol=tol, atol=tol * size, err_msg=what)


# ---------------------------------------------------------------- each file


@each_file
def test_predictions(path, expected, same_machine):
    """Scores, labels and probabilities, on every form of rows."""
    check_outputs(loaded(path), path.stem, expected, same_machine)


@each_file
def test_saved_again(path, tmp_path, expected, same_machine):
    """What this version makes of a file is worth as much as the file."""
    model = loaded(path)
    save_model(model, tmp_path / path.name)
    again = loaded(tmp_path / path.name)
    check_outputs(again, path.stem, expected, same_machine)
    assert facts_of(again) == facts_of(model)


@each_file
def test_what_else_is_kept(path):
    """Classes, passes, how the fit ended, the solver, ...; parameters; the story of a training."""
    model, document = loaded(path), document_of(path)
    ours = ("rows", "terms", "evaluated")  # what the test needs to know
    wanted = {name: fact for name, fact in FACTS[path.stem].items() if name not in ours}
    assert facts_of(model) == wanted
    assert str(model.estimator.status_)
    params = model.estimator.get_params()
    for name, value in plain_parameters(document["model"]["parameters"]):
        assert params[name] == value, name
    assert model.training == document["training"]  # trials of a search, of a race, ...


@each_file
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_the_schema_opens_data(path, expected):
    """A :class:`Model` takes rows as they come: a matrix by its width, a table by its columns."""
    model, facts = loaded(path), FACTS[path.stem]
    assert model.schema.n_features == facts["features"]
    for form in facts["rows"]:
        labels = expected[f"{path.stem}/{form}/predict"]
        found = model.predict(rows_of(form, expected))
        if model.is_classifier:
            assert found.tolist() == labels.tolist()
        else:
            assert found == pytest.approx(labels, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", [name for name, facts in FACTS.items() if "evaluated" in facts])
def test_models_of_tables_are_measured(name):
    """Their schema also knows the target and the weights."""
    found, wanted = load_model(HERE / f"{name}.thresher").evaluate(TABLE), FACTS[name]["evaluated"]
    assert found.keys() >= wanted.keys()
    for key, value in wanted.items():
        close = isinstance(value, float)
        assert found[key] == (pytest.approx(value, rel=1e-5) if close else value), key


# ---------------------------------------------------------------- the folder


def test_nothing_is_missing(expected):
    """Every file has its facts and its numbers, and nothing else does."""
    names = {path.stem for path in FILES}
    assert names == set(FACTS)
    numbers = {key.split("/")[0] for key in expected} - {"rows", "probe"}
    assert numbers == names


def test_the_machine_is_the_writers(same_machine):
    if not same_machine:
        pytest.skip("the probe gives other last bits here: predictions compared within a tolerance")


def test_what_the_files_cover():
    """All kinds of estimators, packed attributes and objects of the first format.

    Each name is also one that this version knows, or the files that hold it would not load.
    """
    documents = [document_of(path) for path in FILES]
    assert {d["version"] for d in documents} == {1}
    assert {d["versions"]["thresher"] for d in documents} == {"0.1.0.dev0"}
    assert {d["model"]["estimator"] for d in documents} == {
        "linear_classifier", "linear_regressor", "kernel_classifier", "kernel_regressor",
        "budgeted_classifier", "budgeted_regressor", "hyperplanes",
    }  # fmt: skip
    parts = [part for d in documents for part in nested(d["model"])]
    assert {part["form"] for part in parts if isinstance(part.get("form"), str)} == {
        "csr", "sigmoid", "softmax", "isotonic", "units", "nystroem", "local", "fourier", "forest",
        "terms",
    }  # fmt: skip
    names = {part["$object"]["class"] for part in parts if "$object" in part}
    assert {name.rpartition(".")[2] for name in names} == {
        "RBF", "Cosine", "Exponential", "Linear", "Polynomial", "Sigmoid",
        "Huber", "Pinball",
        "L1", "L2", "Box", "ElasticNet", "WeightedL1", "WeightedL2",
        "Constant", "InverseRoot", "InverseTime",
        "ASSET", "FOBOS", "RDA", "SGD", "AdaptiveRDA", "AveragedSGD", "DirectLeastSquares",
        "DropoutPegasos", "DualDescent", "Hyperplanes", "Newton", "Pegasos", "ProximalNewton",
        "QuasiNewton", "ReweightedL1", "ReweightedL2", "SmoothedNewton", "TruncatedGradient",
        "WeightedPegasos", "Record",
        "Asymmetric", "Cauchy", "Slowing", "SmoothHinge",
    }  # fmt: skip
    assert {key for part in parts for key in part if key.startswith("$")} == {
        "$array", "$dict", "$enum", "$float", "$object", "$scalar", "$strings", "$tuple",
    }  # fmt: skip
    schedules = {name for name in names if name.startswith("thresher.schedules.")}
    assert len(schedules) == 4  # one of them shares its name with a solver


@pytest.mark.parametrize("name", [name for name, facts in FACTS.items() if facts["terms"]])
def test_own_terms_are_asked_for(name):
    with pytest.raises(ValueError, match=f"({'|'.join(FACTS[name]['terms'])})"):
        load_model(HERE / f"{name}.thresher")


def document_of(path):
    """Read without any code of ours, which may have come to write it differently."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("document.json"))


def nested(value):
    """All dictionaries in a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from nested(item)


def plain_parameters(stored):
    """(name, value) of numbers and words, also of those within a term or a map: loss__tau."""
    for name, value in stored.items():
        within = {}
        if not isinstance(value, dict | list):
            yield name, value
        elif "$object" in value:
            within = value["$object"]["fields"]
        elif name == "map":
            within = {key: own for key, own in value.items() if key != "map"}
        for key, own in within.items():
            if not isinstance(own, dict | list):
                yield f"{name}__{key}", own
