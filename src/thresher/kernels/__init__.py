"""Kernels, and all that is computed from their values: blocks, widths, expansions."""

from thresher.kernels.functions import (
    RBF,
    Cosine,
    Exponential,
    Kernel,
    Linear,
    Polynomial,
    Sigmoid,
)

__all__ = ["RBF", "Cosine", "Exponential", "Kernel", "Linear", "Polynomial", "Sigmoid"]
