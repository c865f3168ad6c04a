"""Explicit feature maps: a linear model on the mapped rows is a kernel machine."""

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
    "Points", "TermFeatures", "gram", "median_gamma",
]  # fmt: skip

BY_NAME = {
    "nystroem": Nystroem,
    "local": LocalNystroem,
    "fourier": FourierFeatures,
    "forest": ForestFeatures,
    "terms": TermFeatures,
}
