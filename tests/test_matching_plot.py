"""The picture of soft matches has partners on its diagonal."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from thresher import ObjectMatching
from thresher.views import plot_matching

figure_module = pytest.importorskip("matplotlib.figure")


@pytest.mark.parametrize(("n", "m"), [(15, 15), (15, 10), (10, 15)])
def test_partners_are_on_the_diagonal_the_surest_first(n, m):
    X = np.random.default_rng(0).normal(size=(15, 3))
    matching = ObjectMatching().fit(X[:n], X[::-1][:m])
    ax = plot_matching(matching, figure_module.Figure().add_subplot(), title="pairs")
    shown = np.asarray(ax.images[0].get_array())
    pairs = np.flatnonzero(matching.match_ >= 0)
    expected = np.sort(matching.probabilities_[pairs, matching.match_[pairs]])[::-1]
    np.testing.assert_array_equal(np.diag(shown), expected)
    assert np.array_equal(np.sort(shown, axis=None), np.sort(matching.probabilities_, axis=None))
    assert ax.get_title() == "pairs"


def test_there_must_be_something_to_draw():
    with pytest.raises(NotFittedError):
        plot_matching(ObjectMatching())
