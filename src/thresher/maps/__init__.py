"""Explicit feature maps: a linear model on the mapped rows is a kernel machine."""

from thresher.kernels.gram import Points, gram
from thresher.kernels.width import median_gamma
from thresher.maps.bank import BankFeatures
from thresher.maps.base import FeatureMap
from thresher.maps.boosted import BoostedFeatures
from thresher.maps.entropy import EntropySample
from thresher.maps.forest import ForestFeatures
from thresher.maps.fourier import FourierFeatures
from thresher.maps.local import LocalNystroem
from thresher.maps.nystroem import Nystroem
from thresher.maps.stack import StackFeatures
from thresher.maps.terms import TermFeatures

__all__ = [
    "BankFeatures", "BoostedFeatures", "EntropySample", "FeatureMap", "ForestFeatures",
    "FourierFeatures", "LocalNystroem", "Nystroem", "Points", "StackFeatures", "TermFeatures",
    "gram", "median_gamma",
]  # fmt: skip
