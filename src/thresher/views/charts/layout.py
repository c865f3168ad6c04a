"""Images on a grid, as one picture, drawn by Matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.views.charts.style import axes

__all__ = ["plot_layout"]


def plot_layout(layout: Any, images: Any, ax: Any = None) -> Any:
    """Draw the images of the objects at their places.

    Parameters
    ----------
    layout : fitted GridLayout
    images : array of shape (n_objects, height, width), (..., 3), or (n_objects, 3)
        Grey or coloured images, or one colour for each object; numbers from 0 to 1, or bytes.
    ax : Matplotlib axes or None, default=None
        None: new ones.

    Returns
    -------
    ax : Matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from thresher import GridLayout
    >>> from thresher.views import plot_layout
    >>> colours = np.random.default_rng(0).random((20, 3))
    >>> ax = plot_layout(GridLayout((4, 5)).fit(colours), colours)
    >>> ax.images[0].get_array().shape
    (4, 5, 3)
    """
    images = np.asarray(images)
    if images.ndim == 2 and images.shape[1] == 3:
        images = images[:, None, None]
    if images.ndim not in (3, 4):
        raise ValueError(f"images must be matrices or colours, got an array of {images.shape}")
    white = 255 if images.dtype == np.uint8 else 1
    cells = layout.arranged(images, white)
    mosaic = np.concatenate(np.concatenate(cells, axis=1), axis=1)
    ax = axes(ax)
    ax.imshow(mosaic, cmap="gray", vmin=0, vmax=white)
    ax.set_axis_off()
    return ax
