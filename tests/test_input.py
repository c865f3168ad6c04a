"""Everything that holds a matrix gives the same model, without needless copies."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from conftest import make_data
from thresher import LinearClassifier, LinearRegressor
from thresher._rows import as_rows
from thresher.estimators.input import checked_Xy, to_rows

NAMES = [f"f{j}" for j in range(6)]


@pytest.fixture(scope="module")
def data():
    return make_data(n=120, d=6, seed=3)


@pytest.fixture(scope="module")
def expected(data):
    return LinearClassifier("logistic", alpha=0.05).fit(*data)


def agrees(expected, X, given, y, **tolerance):
    model = LinearClassifier("logistic", alpha=0.05).fit(given, y)
    tolerance = {"rtol": 1e-6, "atol": 1e-8} | tolerance
    np.testing.assert_allclose(model.coef_, expected.coef_, **tolerance)
    np.testing.assert_allclose(
        model.decision_function(given), expected.decision_function(X), **tolerance
    )
    return model


def memmapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


DENSE = {
    "list": lambda X: X.tolist(),
    "fortran": np.asfortranarray,
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed twice": lambda X: X[::-1].copy()[::-1],
    "read-only": read_only,
    "byte order": lambda X: X.astype(X.dtype.newbyteorder()),
}


@pytest.mark.parametrize("kind", DENSE)
def test_dense_arrays(data, expected, kind):
    X, y = data
    agrees(expected, X, DENSE[kind](X), y)


def test_read_only_memory_map(data, expected, tmp_path):
    X, y = data
    agrees(expected, X, memmapped(X, tmp_path), y)


def long_indices(X):
    matrix = sparse.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def unsorted(X):
    matrix = sparse.csr_array(X)
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        matrix.indices[part] = matrix.indices[part][::-1].copy()
        matrix.data[part] = matrix.data[part][::-1].copy()
    return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=X.shape)


def repeated(X):
    """Every element stored as two entries that add up to it."""
    matrix = sparse.csr_array(X)
    data, indices = np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2)
    return sparse.csr_array((data, indices, 2 * matrix.indptr), shape=X.shape)


def stored_zeros(X):
    matrix = sparse.csr_array(np.where(X == 0.0, 9.0, X))
    matrix.data[matrix.data == 9.0] = 0.0
    return matrix


SPARSE = {
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "lil": sparse.lil_matrix,
    "int64 indices": long_indices,
    "unsorted": unsorted,
    "repeated": repeated,
    "stored zeros": stored_zeros,
}


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_matrices(data, expected, kind):
    X, y = data
    given = SPARSE[kind](X)
    before = given.copy()
    agrees(expected, X, given, y)
    assert given.nnz == before.nnz
    if given.format == "csr":
        assert np.array_equal(given.indices, before.indices)
        assert np.array_equal(given.data, before.data)


@pytest.mark.parametrize("solver", ["dcd", "asgd", "fobos", "rda", "pegasos"])
def test_order_and_repetition_of_entries_do_not_matter(data, solver):
    X, y = data
    options = {"penalty": "l2", "solver": solver, "alpha": 0.05, "random_state": 0, "max_iter": 5}
    models = [
        LinearClassifier("hinge", **options, tol=10.0).fit(given, y)
        for given in (sparse.csr_array(X), unsorted(X), repeated(X))
    ]
    for other in models[1:]:
        np.testing.assert_allclose(models[0].coef_, other.coef_, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------- single precision


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_float32_stays_float32(data, expected, layout):
    X, y = data
    given = X.astype(np.float32)
    given = given if layout == "dense" else sparse.csr_array(given)
    model = agrees(expected, X, given, y, rtol=1e-3, atol=1e-4)
    assert model.coef_.dtype == np.float32
    assert LinearRegressor(scale=True).fit(given, y).coef_.dtype == np.float32


def test_rows_share_the_memory_of_the_input(data):
    X, y = data
    given = X.astype(np.float32)
    assert np.shares_memory(as_rows(given).X, given)
    checked, _ = checked_Xy(LinearClassifier(), given, y, reset=True, numeric=False)
    assert np.shares_memory(to_rows(checked).X, given)
    matrix = sparse.csr_array(given)
    checked, _ = checked_Xy(LinearClassifier(), matrix, y, reset=True, numeric=False)
    rows = to_rows(checked)
    for ours, theirs in ((rows.data, matrix.data), (rows.indices, matrix.indices)):
        assert np.shares_memory(ours, theirs)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16])
def test_other_numbers_become_float64(dtype):
    X = (np.arange(60).reshape(20, 3) % 7 > 2).astype(dtype)
    y = np.arange(20) % 2
    model = LinearClassifier("logistic", alpha=0.1).fit(X, y)
    assert model.coef_.dtype == np.float64
    plain = LinearClassifier("logistic", alpha=0.1).fit(X.astype(float), y)
    assert np.array_equal(model.coef_, plain.coef_)


# ---------------------------------------------------------------- frames

FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "pyarrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_name_their_features(data, expected, kind):
    X, y = data
    model = agrees(expected, X, FRAMES[kind](X), y)
    assert list(model.feature_names_in_) == NAMES
    other = FRAMES[kind](X).rename(columns={"f0": "z"}) if kind == "pandas" else None
    if other is not None:
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(other)


def test_targets_may_be_series(data, expected):
    X, y = data
    agrees(expected, X, pd.DataFrame(X, columns=NAMES), pd.Series(y))
    agrees(expected, X, pl.DataFrame(X, schema=NAMES), pl.Series(y))
    model = LinearClassifier("logistic", alpha=0.05).fit(X, pd.Series(np.where(y > 0, "b", "a")))
    assert list(model.classes_) == ["a", "b"]
    assert np.array_equal(model.coef_, expected.coef_)


MIXED = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame(columns),
    "pyarrow": lambda columns: pa.table(columns),
}


@pytest.mark.parametrize("kind", MIXED)
def test_columns_of_several_types(kind):
    columns = {
        "flag": [True, False, True, True, False, False],
        "count": [3, 1, 4, 1, 5, 9],
        "size": [0.5, 1.5, 0.1, 0.2, 0.9, 0.4],
    }
    y = [0, 1, 0, 0, 1, 1]
    model = LinearClassifier("logistic", alpha=0.1).fit(MIXED[kind](columns), y)
    X = np.column_stack([np.asarray(values, dtype=float) for values in columns.values()])
    np.testing.assert_allclose(
        model.coef_, LinearClassifier("logistic", alpha=0.1).fit(X, y).coef_, rtol=1e-9
    )


@pytest.mark.parametrize("kind", MIXED)
def test_text_is_refused_by_the_name_of_its_column(kind):
    frame = MIXED[kind]({"size": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(ValueError, match="column 'colour' holds String"):
        LinearClassifier().fit(frame, [0, 1])


@pytest.mark.parametrize("kind", MIXED)
def test_missing_values_in_frames_are_refused(kind):
    frame = MIXED[kind]({"size": [1.0, None, 3.0], "weight": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="NaN"):
        LinearClassifier().fit(frame, [0, 1, 0])


@pytest.mark.parametrize("dtype", ["string", object, "boolean"])
def test_pandas_na_among_the_targets_is_a_missing_target(dtype):
    labels = [True, False] * 10 if dtype == "boolean" else ["a", "b"] * 10
    y = pd.Series(pd.array([*labels[:7], pd.NA, *labels[8:]], dtype=dtype))
    with pytest.raises(ValueError, match="contains NaN"):
        LinearClassifier().fit(np.arange(40.0).reshape(20, 2), y)
