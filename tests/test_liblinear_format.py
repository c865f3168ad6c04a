"""LIBLINEAR itself reads what we write, and we read what it writes; CSV of coefficients."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from thresher.artifacts.coefficients import write_coefficients
from thresher.artifacts.container import BadFile
from thresher.artifacts.liblinear import LiblinearModel, read_liblinear, write_liblinear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 5)) * (RNG.uniform(size=(80, 5)) < 0.7)


@pytest.fixture(scope="module")
def tool():
    return pytest.importorskip("liblinear.liblinearutil")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "liblinear.model"


def predictions(tool, model, rows=X):
    """LIBLINEAR's labels and decision values, its classes' columns sorted by label."""
    labels, _, values = tool.predict([], rows, model, "-q")
    values = np.array(values)
    if values.shape[1] > 1:
        values = values[:, np.argsort(model.get_labels())]
    return np.array(labels), values


def scores(coef, intercept):
    return X @ coef.T + intercept


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize(
    "labels", [[-1, 1], [3, 7], [-5, -2], [0.0, 1.0], [False, True], [-2, 0, 4], list(range(6))]
)
def test_liblinear_predicts_the_same(tool, path, labels):
    outputs = 1 if len(labels) == 2 else len(labels)
    coef, intercept = RNG.normal(size=(outputs, 5)) / 3, RNG.normal(size=outputs)
    write_liblinear(path, coef, intercept, np.array(labels))
    found, values = predictions(tool, tool.load_model(str(path)))
    wanted = scores(coef, intercept)
    np.testing.assert_allclose(values, wanted, rtol=1e-12, atol=1e-12)
    best = (wanted[:, 0] > 0).astype(int) if outputs == 1 else wanted.argmax(axis=1)
    assert np.array_equal(found, np.array(labels, float)[best])


def test_probabilities_of_logistic_models(tool, path):
    coef, intercept = RNG.normal(size=(1, 5)), np.array([0.3])
    write_liblinear(path, coef, intercept, [0, 1], solver_type="L2R_LR")
    model = tool.load_model(str(path))
    _, _, values = tool.predict([], X, model, "-q -b 1")
    second = np.array(values)[:, model.get_labels().index(1)]
    np.testing.assert_allclose(second, 1 / (1 + np.exp(-scores(coef, intercept)[:, 0])))


def test_regression(tool, path):
    coef, intercept = RNG.normal(size=(1, 5)), np.array([-0.7])
    write_liblinear(path, coef, intercept, regression=True)
    found, _ = predictions(tool, tool.load_model(str(path)))
    np.testing.assert_allclose(found, scores(coef, intercept)[:, 0], rtol=1e-12, atol=1e-12)


def test_a_score_of_zero_is_the_first_class_for_both(tool, path):
    write_liblinear(path, np.zeros((1, 5)), [0.0], [4, 9])
    assert set(predictions(tool, tool.load_model(str(path)))[0]) == {4.0}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=6))
def test_numbers_survive_exactly(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("exact") / "m"
    write_liblinear(path, [numbers[1:]], numbers[:1], [0, 1])
    found = read_liblinear(path)
    assert found.coef.tolist() == [numbers[1:]]
    assert found.intercept.tolist() == numbers[:1]
    assert found.labels.tolist() == [0, 1]


def test_sparse_and_single_precision(path):
    coef = sparse.csr_matrix(np.array([[0.1, 0.0, 3.0]], np.float32))
    write_liblinear(path, coef, np.float32([0.2]), [0, 1])
    found = read_liblinear(path)
    assert np.array_equal(found.coef, coef.toarray())
    assert found.intercept[0] == np.float32(0.2)


@pytest.mark.parametrize(
    ("labels", "options", "match"),
    [
        ([0.5, 1.0], {}, "integer labels only, got 0.5"),
        (["a", "b"], {}, "integer labels only, got 'a'"),
        ([0, 2**40], {}, "32 bits"),
        ([1, 0], {}, "sorted"),
        ([0, 1, 2], {}, "3 classes need 3 outputs"),
        (None, {}, "needs its labels"),
        ([0, 1], {"solver_type": "MCSVM_CS"}, "use one of"),
        ([0, 1], {"solver_type": "L2R_L2LOSS_SVR"}, "use one of"),
        ([0, 1], {"solver_type": "L2R_LR", "regression": True}, "use one of"),
    ],
)
def test_what_liblinear_cannot_hold(path, labels, options, match):
    with pytest.raises(ValueError, match=match):
        write_liblinear(path, np.ones((1, 3)), [0.0], labels, **options)
    assert not path.exists()


@pytest.mark.parametrize(
    ("coef", "intercept", "match"),
    [([[np.nan]], [0.0], "NaN"), ([[1.0]], [np.inf], "NaN"), ([[1.0]], [0.0, 1.0], "intercepts")],
)
def test_models_that_are_none(path, coef, intercept, match):
    with pytest.raises(ValueError, match=match):
        write_liblinear(path, coef, intercept, [0, 1])


# ---------------------------------------------------------------- reading


def trained(tool, path, y, options):
    model = tool.train(y.astype(float), X, f"{options} -q")
    tool.save_model(str(path), model)
    return model, read_liblinear(path)


SIGNS = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)


@pytest.mark.parametrize("solver", range(8))
@pytest.mark.parametrize("bias", ["", "-B 1", "-B 0", "-B 2.5"])
@pytest.mark.parametrize("flip", [1, -1])
def test_binary_models_of_liblinear(tool, path, solver, bias, flip):
    """Whichever label it met first."""
    model, found = trained(tool, path, flip * SIGNS, f"-s {solver} {bias}")
    labels, values = predictions(tool, model)
    sign = 1 if model.get_labels()[0] == 1 else -1
    ours = scores(found.coef, found.intercept)[:, 0]
    np.testing.assert_allclose(ours, sign * values[:, 0], rtol=1e-12, atol=1e-12)
    clear = np.abs(ours) > 1e-12
    assert np.array_equal(found.labels[(ours > 0).astype(int)][clear], labels[clear])
    assert found.labels.tolist() == [-1, 1]
    assert not found.regression


@pytest.mark.parametrize("solver", [0, 2, 4, 5])
def test_multiclass_models_of_liblinear(tool, path, solver):
    y = np.digitize(X[:, 0], [-0.5, 0.5])[::-1]
    rows = X[::-1]
    model = tool.train(y.astype(float), rows, f"-s {solver} -B 1 -q")
    tool.save_model(str(path), model)
    found = read_liblinear(path)
    labels, values = predictions(tool, model)
    ours = scores(found.coef, found.intercept)
    np.testing.assert_allclose(ours, values, rtol=1e-12, atol=1e-12)
    assert np.array_equal(found.labels[ours.argmax(axis=1)], labels)


@pytest.mark.parametrize("solver", [11, 12, 13])
def test_regression_models_of_liblinear(tool, path, solver):
    model, found = trained(tool, path, X[:, 0] + 0.1 * X[:, 2], f"-s {solver} -B 1")
    labels, _ = predictions(tool, model)
    np.testing.assert_allclose(scores(found.coef, found.intercept)[:, 0], labels, rtol=1e-12)
    assert found.regression
    assert found.labels is None


def test_there_and_back_through_both(tool, path):
    found = trained(tool, path, SIGNS, "-s 0 -B 1")[1]
    write_liblinear(path, found.coef, found.intercept, found.labels, solver_type=found.solver_type)
    again = read_liblinear(path)
    assert isinstance(again, LiblinearModel)
    assert np.array_equal(again.coef, found.coef)
    assert np.array_equal(again.intercept, found.intercept)


def test_one_class_models_are_refused(tool, path):
    with pytest.raises(BadFile, match="one-class"):
        trained(tool, path, SIGNS, "-s 21")


GOOD = "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n0.5 \n1e-3 \n-2 \n"


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("L2R_LR", "MAGIC", "unknown solver_type 'MAGIC'"),
        ("solver_type L2R_LR\n", "", "line 5: unknown solver_type"),
        ("nr_class 2\n", "", "'nr_class' is missing"),
        ("label 1 -1\n", "", "'label' is missing"),
        ("nr_class 2", "nr_class two", "line 2: nr_class"),
        ("nr_class 2", "nr_class 1", "line 2: nr_class"),
        ("nr_class 2", "nr_class 3", "line 7: 3 weights"),
        ("label 1 -1", "label 1", "line 3: 2 integer labels"),
        ("label 1 -1", "label 1 1", "line 3: a label is repeated"),
        ("label 1 -1", "label 1 0.5", "line 3: 2 integer labels"),
        ("nr_feature 2", "nr_feature 0", "line 4: nr_feature"),
        ("nr_feature 2", "nr_feature 999999999", "line 6: 1000000000 lines"),
        ("nr_feature 2", "nr_feature " + 30 * "9", "line 4: nr_feature"),
        ("nr_feature 2", "nr_feature 3", "line 10: the file ends after 3 of 4"),
        ("nr_feature 2", "nr_feature 1", "line 9: text after"),
        ("bias 1", "bias nan", "line 5: 'nan'"),
        ("bias 1", "bias", "line 5: '' is no finite"),
        ("bias 1", "bias 1\nbias 1", "line 6: 'bias' stands here a second time"),
        ("bias 1", "colour red", "line 5: 'colour' is no field"),
        ("\nw\n", "\n", "line 6: '0.5' is no field"),
        ("w\n0.5 \n1e-3 \n-2 \n", "", "line 6: the file ends before"),
        ("0.5", "nan", "line 7: 'nan'"),
        ("0.5", "inf", "line 7: 'inf'"),
        ("0.5", "1e999", "line 7: '1e999'"),
        ("0.5", "1_0", "line 7: '1_0'"),
        ("0.5", "0x1p3", "line 7: '0x1p3'"),
        ("0.5", "abc", "line 7: 'abc'"),
        ("0.5", "0.5 0.5", "line 7: 1 weights were expected, got 2"),
        ("0.5", "", "line 7: 1 weights were expected, got 0"),
        ("0.5", 500 * "0" + "1", "line 7: the line is too long"),
        ("0.5", "é", "line 7: the line is not plain text"),
    ],
)
def test_damaged_models_are_refused_by_line(path, old, new, match):
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadFile, match=match) as caught:
        read_liblinear(path)
    assert str(path) in str(caught.value)


def test_the_good_model_is_good(path):
    path.write_text(GOOD)
    assert read_liblinear(path).coef.tolist() == [[0.5, 0.001]]
    path.write_text(GOOD.replace("\n", "\r\n"))
    assert read_liblinear(path).intercept.tolist() == [-2.0]
    with pytest.raises(BadFile, match="max_bytes=10"):
        read_liblinear(path, max_bytes=10)


@given(place=st.integers(0, len(GOOD) - 1), new=st.binary(max_size=3), cut=st.integers(0, 3))
def test_mutants_are_read_or_refused(tmp_path_factory, place, new, cut):
    path = tmp_path_factory.mktemp("mutants") / "m"
    data = GOOD.encode()
    path.write_bytes(data[:place] + new + data[place + cut :])
    try:
        found = read_liblinear(path)
    except BadFile:
        return
    assert np.all(np.isfinite(found.coef))


# ---------------------------------------------------------------- coefficients as CSV


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_of_two_classes(path):
    write_coefficients(path, [[0.1, -2.0]], [0.3], ['a "quoted", name', "ü\nb"], ["no", "yes"])
    assert rows_of(path) == [
        ["feature", "yes"],
        ["(intercept)", "0.3"],
        ['a "quoted", name', "0.1"],
        ["ü\nb", "-2.0"],
    ]


def test_csv_of_many_classes_and_regression(path):
    coef = np.arange(6.0).reshape(3, 2)
    write_coefficients(path, sparse.csr_matrix(coef), [1.0, 2.0, 3.0], None, np.array([4, 5, 6]))
    table = rows_of(path)
    assert table[0] == ["feature", "4", "5", "6"]
    assert [row[0] for row in table[1:]] == ["(intercept)", "x0", "x1"]
    assert np.array_equal(np.array(table[2:])[:, 1:].astype(float), coef.T)
    write_coefficients(path, coef[:1], [1.0])
    assert rows_of(path)[0] == ["feature", "coefficient"]
    with pytest.raises(ValueError, match="1 feature names for 2 features"):
        write_coefficients(path, coef[:1], [1.0], ["a"])
    with pytest.raises(ValueError, match="one output"):
        write_coefficients(path, coef, [1.0, 2.0, 3.0])
