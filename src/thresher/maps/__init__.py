"""Explicit feature maps: a linear model on the mapped rows is a kernel machine."""

from typing import Any

from thresher.maps.entropy import EntropySample
from thresher.maps.forest import ForestFeatures
from thresher.maps.fourier import FourierFeatures
from thresher.maps.gram import Points, gram
from thresher.maps.local import LocalNystroem
from thresher.maps.nystroem import Nystroem
from thresher.maps.terms import TermFeatures
from thresher.maps.width import median_gamma

__all__ = [
    "BY_NAME", "EntropySample", "ForestFeatures", "FourierFeatures", "LocalNystroem", "Nystroem",
    "Points", "TermFeatures", "gram", "median_gamma", "name_of",
]  # fmt: skip

BY_NAME = {
    "nystroem": Nystroem,
    "local": LocalNystroem,
    "fourier": FourierFeatures,
    "forest": ForestFeatures,
    "terms": TermFeatures,
}


def name_of(value: Any) -> str | None:
    """The name of a map that is an object, if it is one of ours."""
    return next((name for name, cls in BY_NAME.items() if type(value) is cls), None)
