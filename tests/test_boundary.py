"""Pictures of decision boundaries show what the model predicts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from thresher import KernelClassifier
from thresher.views import plot_boundary

figure_module = pytest.importorskip("matplotlib.figure")


def axes():
    return figure_module.Figure().add_subplot()


def regions(ax):
    """(points of the grid, class numbers that are drawn there)."""
    mesh = next(c for c in ax.collections if type(c).__name__ == "QuadMesh")
    codes = np.asarray(mesh.get_array())
    rows, columns = codes.shape
    x, y = np.linspace(*ax.get_xlim(), columns), np.linspace(*ax.get_ylim(), rows)
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), codes.ravel()


def contours(ax):
    return [c for c in ax.collections if type(c).__name__ == "QuadContourSet"]


@pytest.mark.parametrize(
    "model", [KernelClassifier(random_state=0), LogisticRegression(), KNeighborsClassifier(3)]
)
def test_regions_are_the_predictions(model):
    X, y = make_moons(200, noise=0.25, random_state=0)
    labels = np.array(["no", "yes"])[y]
    model.fit(X, labels)
    ax = plot_boundary(model, X, labels, axes(), resolution=60, title="moons")
    grid, codes = regions(ax)
    assert np.array_equal(np.array(["no", "yes"])[codes.astype(int)], model.predict(grid))
    assert ax.get_legend_handles_labels()[1] == ["no", "yes"]


def test_boundary_and_margins_are_where_the_score_says():
    X, y = make_moons(200, noise=0.2, random_state=0)
    model = LogisticRegression(C=100).fit(X, y)
    ax = plot_boundary(model, X, y, axes(), resolution=80)
    levels = sorted(float(c.levels[0]) for c in contours(ax))
    assert levels == [-1.0, 0.0, 1.0]
    line = next(c for c in contours(ax) if c.levels[0] == 0.0)
    places = np.concatenate([path.vertices for path in line.get_paths()])
    assert np.abs(model.decision_function(places)).max() < 0.05
    assert len(contours(plot_boundary(model, X, y, axes(), margins=False))) == 1


def test_several_classes_and_many_points():
    X, y = make_blobs(5000, centers=4, random_state=0)
    model = LogisticRegression().fit(X, y)
    ax = plot_boundary(model, X, y, axes(), resolution=50, points=300, names=("a", "b"))
    grid, codes = regions(ax)
    assert np.array_equal(codes, model.predict(grid))
    assert contours(ax)
    shown = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    assert sum(len(c.get_offsets()) for c in shown) == 300
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")


def test_what_is_no_plane_is_refused():
    X, y = make_blobs(50, centers=2, n_features=3, random_state=0)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="two features"):
        plot_boundary(model, X, y, axes())
    with pytest.raises(ValueError, match="labels"):
        plot_boundary(model, X[:, :2], y[:10], axes())
    with pytest.raises(ValueError, match="resolution"):
        plot_boundary(model, X[:, :2], y, axes(), resolution=1)
