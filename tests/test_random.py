import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from thresher._random import generator, shuffled, uniform

COUNTS = st.integers(0, 2**40)


def reference(seed, t, j):
    """The definition, in Python's unbounded integers."""

    def mix(h):
        for _ in range(2):
            h = ((h ^ (h >> 16)) * 0x45D9F3B) % 2**32
        return h ^ (h >> 16)

    h = mix(seed % 2**32 ^ 0x9E3779B9)
    h = mix(h ^ t % 2**32)
    h = mix((h + (t >> 32)) % 2**32)
    return mix(h ^ j % 2**32) / 2**32


@given(seed=st.integers(0, 2**31), t=COUNTS, j=COUNTS)
def test_uniform_is_its_definition_to_the_bit(seed, t, j):
    """Compiled 64-bit arithmetic must not overflow: interpreted runs draw the same numbers."""
    assert uniform(seed, t, j) == reference(seed, t, j)
    assert 0.0 <= uniform(seed, t, j) < 1.0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_uniform_along_each_counter(axis):
    """Uniform, and not correlated from one draw to the next."""
    address = [7, 11, 13]
    draws = []
    for k in range(4000):
        address[axis] = k
        draws.append(uniform(*address))
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.06


def test_long_runs_do_not_repeat():
    early = [uniform(0, t, 0) for t in range(50)]
    assert early != [uniform(0, t + 2**32, 0) for t in range(50)]


def test_generator_is_a_function_of_seed_and_counters():
    draw = generator(3, 1, 4).permutation(50)
    assert np.array_equal(draw, generator(3, 1, 4).permutation(50))
    for other in [(3, 1, 5), (3, 2, 4), (4, 1, 4), (3, 1)]:
        assert not np.array_equal(draw, generator(*other).permutation(50))


def test_shuffled_is_a_fair_permutation_named_by_its_counters():
    items = np.arange(8, dtype=np.uint32)
    draw = shuffled(items, 3, 1)
    assert np.array_equal(draw, shuffled(items, 3, 1))
    assert np.array_equal(items, np.arange(8))
    counts = np.zeros((8, 8))
    for k in range(2000):
        order = shuffled(items, 0, k)
        assert np.array_equal(np.sort(order), items)
        counts[np.arange(8), order] += 1
    # every item in every place equally often: 49 degrees of freedom
    assert stats.chi2.sf(np.sum((counts - 250.0) ** 2 / 250.0) * 7 / 8, 49) > 1e-3
