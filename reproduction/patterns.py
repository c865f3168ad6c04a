"""Signs of weights as images: small squares in rows and columns, in one picture for the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

__all__ = ["drawn"]

_IMAGES = Path("docs/images")
_SIDE = 1.3  # inches


def drawn(
    signs: Sequence[Sequence[np.ndarray]], rows: Sequence[str], columns: Sequence[str], name: str
) -> None:
    """A picture of tables of -1, 0 and 1, with the names of its rows and columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_SIDE * len(columns) + 0.6, _SIDE * len(rows) + 0.3))
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for r, (line, row) in enumerate(zip(axes, rows, strict=True)):
        for c, (ax, column) in enumerate(zip(line, columns, strict=True)):
            ax.imshow(signs[r][c], cmap="RdBu", vmin=-1.3, vmax=1.3, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            if r == 0:
                ax.set_title(column, fontsize=9)
            if c == 0:
                ax.set_ylabel(row, fontsize=9)
    figure.tight_layout(pad=0.4)
    _IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(_IMAGES / name, dpi=80)
