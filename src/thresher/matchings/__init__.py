"""Matchings: which object of one set belongs to which of another, from similarities within each."""

from thresher.matchings.grid_layout import GridLayout, distance_preservation
from thresher.matchings.object_matching import ObjectMatching

__all__ = ["GridLayout", "ObjectMatching", "distance_preservation"]
