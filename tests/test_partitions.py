"""Agreement of partitions and silhouettes, against scikit-learn and against their definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import adjusted_rand_score, mutual_info_score, rand_score, silhouette_score

from thresher.partitions import agreement, contingency, silhouette

LABELS = st.integers(2, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


@given(LABELS)
def test_agreement_is_that_of_scikit_learn(pair):
    a, b = map(np.array, pair)
    found = agreement(contingency(a, b))
    assert found["rand"] == pytest.approx(rand_score(a, b))
    assert found["ari"] == pytest.approx(adjusted_rand_score(a, b), abs=1e-12)
    entropies = [mutual_info_score(labels, labels) for labels in (a, b)]
    wanted = sum(entropies) - 2.0 * mutual_info_score(a, b)
    assert found["vi"] == pytest.approx(wanted, abs=1e-9)


def test_rand_counts_pairs():
    a, b = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 0])
    pairs = list(itertools.combinations(range(5), 2))
    same = sum((a[i] == a[j]) == (b[i] == b[j]) for i, j in pairs)
    assert agreement(contingency(a, b))["rand"] == pytest.approx(same / len(pairs))


def test_vi_of_one_split_in_half_is_the_entropy_of_the_split():
    found = agreement(contingency(np.zeros(6), np.array([0, 0, 0, 1, 1, 1])))
    assert found["vi"] == pytest.approx(math.log(2.0))
    assert found["ari"] == 0.0


def test_weights_are_repetitions():
    a, b, w = np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), np.array([3, 1, 0, 2])
    repeated = agreement(contingency(np.repeat(a, w), np.repeat(b, w)))
    assert agreement(contingency(a, b, w)) == pytest.approx(repeated)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_silhouette_is_that_of_scikit_learn(layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) + 1000.0 * (layout is np.asarray)
    labels = np.append(rng.integers(0, 3, 299), 7)  # one row alone
    assert silhouette(layout(X), labels) == pytest.approx(silhouette_score(X, labels), abs=1e-6)


def test_silhouette_of_a_sample_is_near_that_of_all_rows():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 3000)
    X = rng.normal(size=(3000, 2)) + 4.0 * labels[:, None]
    whole, sampled = silhouette(X, labels, most=3000), silhouette(X, labels, most=500)
    assert sampled == silhouette(X, labels, most=500)
    assert sampled != whole
    assert abs(sampled - whole) < 0.03


def test_one_cluster_has_no_silhouette():
    assert silhouette(np.eye(3), np.zeros(3)) is None
