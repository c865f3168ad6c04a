"""Moments in one pass: stable, mergeable, and blind to how rows are cut into chunks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from thresher._rows import as_rows
from thresher.data import Moments, open_data


def moments(X, weight=None, cuts=()):
    out = Moments.empty(X.shape[1])
    for a, b in zip([0, *cuts], [*cuts, X.shape[0]], strict=True):
        part = None if weight is None else weight[a:b]
        out = out.updated(as_rows(X[a:b]), part)
    return out


def bits(found):
    return [np.asarray(part).tobytes() for part in found]


def test_far_from_zero():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(20_000, 3))
    X = noise + np.array([1e9, -1e9, 0.0])
    mean, deviation = moments(X).mean_and_deviation()
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-14, atol=1e-15)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(deviation, np.sqrt((centred**2).mean(axis=0)), rtol=1e-7)
    assert np.all(abs(deviation - 1.0) < 0.02)


@given(st.lists(st.integers(1, 59), max_size=5), st.booleans(), st.booleans())
def test_chunks_leave_no_trace(cuts, weighted, is_sparse):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    weight = rng.random(60) if weighted else None
    X = sparse.csr_array(X) if is_sparse else X
    assert bits(moments(X, weight, sorted(cuts))) == bits(moments(X, weight))


@given(st.integers(0, 60), st.booleans())
def test_merging_is_reading_both(cut, weighted):
    rng = np.random.default_rng(2)
    X = sparse.csr_array(rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.3))
    weight = rng.integers(0, 3, 60) * 1.0 if weighted else np.ones(60)
    merged = moments(X[:cut], weight[:cut]).merged(moments(X[cut:], weight[cut:]))
    whole = moments(X, weight)
    for a, b in zip(merged, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    mean, deviation = merged.mean_and_deviation()
    dense = X.toarray()
    expected = np.average(dense, axis=0, weights=weight)
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-14)
    variance = np.average((dense - expected) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(deviation, np.sqrt(variance), rtol=1e-12, atol=1e-14)


def test_weights_are_repetitions():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 2))
    times = rng.integers(0, 4, 20)
    repeated = moments(np.repeat(X, times, axis=0))
    for a, b in zip(moments(X, times.astype(float)), repeated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_columns_that_are_empty_constant_or_huge():
    X = sparse.csr_array(np.array([[0.0, 7.0], [0.0, 7.0]]))
    mean, deviation = moments(X).mean_and_deviation()
    assert mean.tolist() == [0.0, 7.0]
    assert deviation.tolist() == [0.0, 0.0]
    assert Moments.empty(2).mean_and_deviation()[1].tolist() == [0.0, 0.0]
    mean, deviation = moments(np.full((3, 1), 1e200)).mean_and_deviation()
    assert (mean.tolist(), deviation.tolist()) == ([1e200], [0.0])
    with np.errstate(over="ignore", invalid="ignore"):
        huge = moments(np.array([[1.0, 1e200], [2.0, -1e200]]))
    with pytest.raises(ValueError, match="column 1 holds values too large"):
        huge.mean_and_deviation()


def test_a_scan_is_the_same_in_every_chunk_size():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 3))
    scans = [open_data(X, chunk_bytes=size, block_bytes=size).scan() for size in (1, 5000, 1 << 26)]
    assert bits(scans[0].moments) == bits(scans[1].moments) == bits(scans[2].moments)
    assert scans[0].moments.total == 500.0
