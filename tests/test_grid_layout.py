"""Layouts on grids: the measure against published software's numbers, places, shapes, blocks."""

import numpy as np
import pytest

from thresher import GridLayout
from thresher.matchings import distance_preservation
from thresher.views import plot_layout


def grid(h, w):
    return np.stack(np.meshgrid(range(h), range(w), indexing="ij"), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize(("p", "expected"), [(2, 0.708192171), (16, 0.908523346)])
def test_the_measure_is_that_of_its_authors(p, expected):
    # vc_flas 0.1.7, metrics.distance_preservation_quality(x.reshape(5, 6, 3), p=p)
    x = (np.arange(90) * 37 % 89).reshape(30, 3) / 89.0
    found = distance_preservation(np.sort(x, axis=0), grid(5, 6), p=p)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_measure_of_a_sample_is_near_that_of_all():
    x = np.random.default_rng(0).random((400, 3))
    layout = GridLayout(random_state=0).fit(x)
    some = distance_preservation(x, layout.places_, most=200)
    assert layout.quality_ == pytest.approx(some, abs=0.03)


@pytest.mark.parametrize("block", [512, 40])
def test_alike_objects_are_neighbours(block):
    x = np.random.default_rng(0).permutation(grid(12, 12)) / 12.0  # could be placed exactly
    layout = GridLayout(block=block, random_state=0).fit(x)
    assert layout.quality_ > 0.9 > distance_preservation(x, grid(12, 12)) + 0.4
    again = GridLayout(block=block, random_state=0).fit(x)
    assert np.array_equal(again.grid_, layout.grid_)


@pytest.mark.parametrize("n", [1, 2, 11, 12])
def test_every_object_has_a_place_of_the_mask(n):
    mask = np.array([[0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=bool)
    x = np.random.default_rng(n).random((n, 2))
    layout = GridLayout(mask).fit(x)
    assert np.array_equal(np.sort(layout.grid_[layout.grid_ >= 0]), np.arange(n))
    assert (layout.grid_[~mask] == -1).all()
    assert np.array_equal(layout.grid_[tuple(layout.places_.T)], np.arange(n))
    shown = layout.arranged(x, empty=-5.0)
    assert np.array_equal(shown[layout.grid_ >= 0], x[layout.grid_[layout.grid_ >= 0]])
    assert (shown[layout.grid_ < 0] == -5.0).all()


def test_objects_that_are_all_alike_and_one_row_of_places():
    assert GridLayout().fit(np.ones((7, 2))).quality_ == 1.0
    t = np.random.default_rng(0).permutation(20)[:, None].astype(float)
    line = GridLayout((1, 20), random_state=0).fit(t)
    assert line.quality_ > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (2, 2)}, "5 objects do not fit on 4 places"),
        ({"shape": (0, 9)}, "shape"),
        ({"shape": "round"}, "shape"),
        ({"decay": 1.0}, "decay"),
        ({"block": 1}, "block"),
    ],
)
def test_errors_name_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        GridLayout(**options).fit(np.eye(5))


def test_images_are_drawn_at_their_places():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    images = np.arange(6, dtype=np.uint8)[:, None, None] * np.ones((6, 3, 2), np.uint8)
    layout = GridLayout((2, 4), random_state=0).fit(np.arange(6.0)[:, None])
    shown = np.asarray(plot_layout(layout, images, figure.add_subplot()).images[0].get_array())
    expected = np.where(layout.grid_ >= 0, layout.grid_, 255)
    assert np.array_equal(shown, np.kron(expected, np.ones((3, 2))))
    with pytest.raises(ValueError, match="6 objects were placed, 5 are given"):
        plot_layout(layout, images[:5])
    with pytest.raises(ValueError, match="images must be"):
        plot_layout(layout, images[:, 0, 0])
