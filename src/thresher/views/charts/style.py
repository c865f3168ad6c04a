"""Colours, dashes and markers that can be told apart without colour, and optional packages."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["DASHES", "GREY", "MARKERS", "OKABE_ITO", "axes", "have", "lightened", "needed", "style"]

#: Okabe and Ito's colours, which colour-blind people can tell apart; the pale yellow comes last
OKABE_ITO = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442",
)  # fmt: skip
GREY = "#6b6b6b"
DASHES = ("solid", "dashed", "dotted", "dashdot")
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "x", "plus", "star")


def style(number: int) -> tuple[str, str, str]:
    """(colour, dash, marker) of the series with this number."""
    return (
        OKABE_ITO[number % len(OKABE_ITO)],
        DASHES[number % len(DASHES)],
        MARKERS[number % len(MARKERS)],
    )


def lightened(colour: str, share: float) -> str:
    """The colour mixed with so much white, for areas behind points."""
    parts = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(p + (255 - p) * share):02x}" for p in parts)


def have(package: str) -> bool:
    return find_spec(package) is not None


def needed(module: str, extra: str = "report") -> Any:
    """An optional module, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f'{package} is not installed: pip install "thresher[{extra}]" ({error})'
        ) from None


def axes(given: Any = None, **options: Any) -> Any:
    """Matplotlib's: those that were given, or new ones."""
    return needed("matplotlib.pyplot").subplots(**options)[1] if given is None else given
