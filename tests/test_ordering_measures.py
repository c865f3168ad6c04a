"""Codes, measures and cuts of orders, against plain formulas and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse
from scipy.spatial.distance import cdist

from thresher.orderings import (
    anti_robinson_events,
    banded_anti_robinson,
    coded_bits,
    cut_dummy,
    cut_longest,
    cut_variance,
    decode,
    encode,
    figure_of_merit,
    neumann_stress,
    path_length,
    random_figure_of_merit,
)

# ---------------------------------------------------------------- codes

TABLES = st.sampled_from(["f4", "f8", "i1", "u1", "i4", "u8", "i8"]).flatmap(
    lambda dtype: arrays.arrays(dtype, st.tuples(st.integers(1, 12), st.integers(1, 4)))
)


@given(TABLES, st.integers(0, 2**31))
def test_what_is_decoded_is_what_was_encoded(X, seed):
    order = np.random.default_rng(seed).permutation(X.shape[0])
    code = encode(X, order)
    assert code.steps.shape == (X.shape[0] - 1, X.shape[1])
    back = decode(code)
    assert back.dtype == X.dtype
    assert back.tobytes() == np.ascontiguousarray(X).tobytes()  # NaN and -0.0 included


def test_steps_of_whole_numbers_are_differences():
    X = np.random.default_rng(0).integers(-50, 50, (9, 3))
    order = np.random.default_rng(1).permutation(9)
    np.testing.assert_array_equal(encode(X, order).steps, np.diff(X[order], axis=0))


def test_nearby_floats_have_small_steps():
    X = np.array([[1.0], [np.nextafter(1.0, 2.0)], [-1e-320], [1e-320]])
    steps = encode(X, np.arange(4)).steps.ravel()
    assert steps[0] == 1
    assert abs(steps[2]) < 5000


@pytest.mark.parametrize(
    ("X", "order", "says"),
    [
        (np.zeros((2, 2)), [0, 0], "every row once"),
        (np.zeros((2, 2)), [0], "every row once"),
        (np.zeros(2), [0, 1], "table of numbers"),
        (np.array([["a"]]), [0], "table of numbers"),
    ],
)
def test_what_cannot_be_encoded_is_refused(X, order, says):
    with pytest.raises(ValueError, match=says):
        encode(X, order)


def test_coded_bits_are_the_entropy_of_quantised_steps():
    # four levels, steps 0 1 1 1 0 modulo 5: shares 2/5 and 3/5
    X = np.array([[0.0], [0.0], [1.0], [2.0], [3.0], [3.0]])
    share = np.array([0.4, 0.6])
    assert coded_bits(X, np.arange(6), levels=4) == pytest.approx(-(share @ np.log2(share)))
    assert coded_bits(np.full((5, 2), 3.0), np.arange(5)) == 0.0
    assert coded_bits(np.array([[1.0, np.nan]]), [0]) == 0.0
    assert coded_bits(np.array([[np.nan], [1.0], [2.0]]), np.arange(3)) == 1.0


# ---------------------------------------------------------------- measures


def case(n=25, d=3, seed=2):
    rng = np.random.default_rng(seed)
    X, order = rng.standard_normal((n, d)), rng.permutation(n)
    D = cdist(X, X)[np.ix_(order, order)]
    return X, order, D


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_lengths_and_bands_are_sums_of_distances(convert):
    X, order, D = case()
    assert path_length(convert(X), order) == pytest.approx(np.trace(D, 1))
    for band in (1, 4, 100):
        weights = [(band + 1 - k) * np.trace(D, k) for k in range(1, min(band, 24) + 1)]
        found = banded_anti_robinson(convert(X), order, band)
        assert found == pytest.approx(sum(weights), rel=1e-5)


def test_anti_robinson_events_are_counted_over_triples():
    X, order, D = case()
    events = sum(
        int(D[i, k] > D[i, j]) + int(D[k, j] > D[i, j])
        for i, k, j in itertools.combinations(range(25), 3)
    )
    share = events / (2 * len(list(itertools.combinations(range(25), 3))))
    assert anti_robinson_events(X, order) == pytest.approx(share)
    line = np.arange(40.0)[:, None]
    assert anti_robinson_events(line, np.arange(40), sample=20) == 0.0
    shuffled = np.random.default_rng(3).permutation(40)
    assert anti_robinson_events(line, shuffled, sample=20) > 0.1
    assert anti_robinson_events(line[:2], [0, 1]) == 0.0


def test_neumann_stress_is_that_of_all_neighbours():
    X, order, _ = case(6, 4)
    columns = np.array([2, 0, 3, 1])
    table, total = X[order][:, columns], 0.0
    for i, j in np.ndindex(6, 4):
        for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if 0 <= a < 6 and 0 <= b < 4:
                total += (table[i, j] - table[a, b]) ** 2
    assert neumann_stress(X, order, columns) == pytest.approx(total)


def test_the_merit_of_random_orders_is_known():
    rng = np.random.default_rng(4)
    labels = np.array(["a"] * 5 + ["b"] * 3 + ["c"])
    found = [figure_of_merit(labels, rng.permutation(9)) for _ in range(4000)]
    assert np.mean(found) == pytest.approx(random_figure_of_merit(labels), abs=0.01)
    assert figure_of_merit([1], [0]) == 0.0


# ---------------------------------------------------------------- cuts


def within(X, labels):
    return sum(((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in set(labels))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_cuts_by_variance_are_the_best_of_all(k):
    X, order, _ = case(11, 2)
    best = min(
        within(X[order], np.searchsorted(cuts, np.arange(11), side="right"))
        for cuts in itertools.combinations(range(1, 11), k - 1)
    )
    labels = cut_variance(X, order, k)
    assert within(X, labels) == pytest.approx(best)
    assert np.all(np.diff(labels[order]) >= 0)
    assert len(set(labels)) == k
    sparse_labels = cut_variance(sparse.csr_matrix(X), order, k)
    np.testing.assert_array_equal(labels, sparse_labels)


def test_longest_steps_are_cut():
    X, order, D = case(30)
    labels = cut_longest(X, order, 5)
    cuts = np.flatnonzero(np.diff(labels[order]))
    assert set(cuts) == set(np.argsort(-np.diag(D, 1))[:4])


def test_dummy_cities_find_the_shortest_paths_through_all_rows():
    rng = np.random.default_rng(5)
    paths = np.array(list(itertools.permutations(range(7))))
    for k in (2, 3):
        X = rng.standard_normal((7, 2))
        steps = np.sort(cdist(X, X)[paths[:, :-1], paths[:, 1:]], axis=1)
        best = steps[:, : 7 - k].sum(axis=1).min()  # without the k - 1 longest
        order, labels = cut_dummy(X, rng.permutation(7), k)
        np.testing.assert_array_equal(np.sort(order), np.arange(7))
        assert np.all(np.diff(labels[order]) >= 0)
        assert len(set(labels)) == k
        found = sum(path_length(X, order[labels[order] == c]) for c in range(k))
        assert found <= best * 1.02


def test_separate_groups_are_cut_by_all():
    rng = np.random.default_rng(6)
    y = rng.integers(4, size=300)
    X = rng.standard_normal((300, 3)) * 0.1 + np.eye(4)[y][:, :3] * 9
    order = np.lexsort((X[:, 0], y))
    found = [cut(X, order, 4) for cut in (cut_longest, cut_variance)]
    for labels in [*found, cut_dummy(X, order, 4)[1]]:
        pairs = set(zip(labels.tolist(), y.tolist(), strict=True))
        assert len(pairs) == 4


def test_impossible_cuts_are_refused():
    with pytest.raises(ValueError, match="n_clusters must be 1 to 3"):
        cut_longest(np.zeros((3, 1)), [0, 1, 2], 4)
    with pytest.raises(ValueError, match="order has 2 numbers for 3 rows"):
        cut_variance(np.zeros((3, 1)), [0, 1], 2)


def test_measures_are_those_of_seriation():
    # R's seriation 1.4.1, criterion(dist(X), ser_permutation(order), ...), and of the table itself
    # for Neumann stress: criterion(X, ser_permutation(order, columns), "Neumann_stress").
    X = np.sin(1.3 * np.arange(36.0) ** 1.5).reshape(12, 3)
    order = np.arange(12) * 5 % 12
    triples = 12 * 11 * 10 / 6
    assert path_length(X, order) == pytest.approx(17.911447522797)
    assert 2 * triples * anti_robinson_events(X, order) == pytest.approx(228)
    assert neumann_stress(X, order, [1, 2, 0]) == pytest.approx(113.62258736104)
    banded = {1: 17.911447522797, 2: 53.926334869784, 3: 103.9509634912, 5: 241.80111374724,
              11: 833.92522199748}  # fmt: skip
    for band, expected in banded.items():
        assert banded_anti_robinson(X, order, band) == pytest.approx(expected, rel=1e-6)


def test_orders_and_matrices_that_lead_outside_are_refused():
    X = np.eye(4)
    for order in ([0, 1, 2, 9], [0, 1, -5, 2]):
        with pytest.raises(ValueError, match="rows beyond the 4"):
            banded_anti_robinson(X, order)
    bad = sparse.csr_array(X)
    bad.indices[2] = 10**6
    with pytest.raises(ValueError, match="not a sound sparse matrix"):
        banded_anti_robinson(bad, range(4))
