"""A user's own terms, as some of the golden files use them.

A file holds the fields of a term and not its code: change a method here, and the models that were
learned with it are others.  So, as with the files, these classes are never edited.
"""

import math
from dataclasses import dataclass

from thresher import Kernel, Loss, Penalty
from thresher.schedules import Schedule

__all__ = ["Asymmetric", "Cauchy", "Slowing", "SmoothHinge"]


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """The hinge with its corner rounded over ``width``; with a link, so it has probabilities."""

    width: float = 1.0
    smoothness = 2.0

    def value(self, y, p):
        gap = 1.0 - y * p
        if gap <= 0.0:
            return 0.0
        return 0.5 * gap * gap / self.width if gap < self.width else gap - 0.5 * self.width

    def deriv(self, y, p):
        return -y * min(max((1.0 - y * p) / self.width, 0.0), 1.0)

    def curvature(self, y, p):
        return 1.0 / self.width if 0.0 < 1.0 - y * p < self.width else 0.0

    def link(self, p):
        return 0.5 * (1.0 + min(max(p / (1.0 + self.width), -1.0), 1.0))


@dataclass(frozen=True)
class Asymmetric(Penalty):
    """strength sum_j |w_j|, and ``factor`` times that for weights below zero."""

    strength: float = 1.0
    factor: float = 2.0
    traits = frozenset({"lazy"})

    def value(self, w, j):
        return self.strength * (w if w >= 0.0 else -self.factor * w)

    def prox(self, w, step, j):
        if w >= 0.0:
            return max(w - step * self.strength, 0.0)
        return min(w + step * self.strength * self.factor, 0.0)

    def rest(self, w, step, j):
        if w >= 0.0:
            return max(w - step * self.strength, 0.0)
        return min(w + step * self.strength * self.factor, 0.0)


@dataclass(frozen=True)
class Cauchy(Kernel):
    """1 / (1 + gamma ||x - z||^2)."""

    gamma: float = 1.0
    traits = frozenset({"radial", "positive"})

    def of(self, inner, sq_x, sq_z):
        return 1.0 / (1.0 + self.gamma * max(sq_x + sq_z - 2.0 * inner, 0.0))


@dataclass(frozen=True)
class Slowing(Schedule):
    """theta / log(2 + t)."""

    theta: float = 0.1

    def at(self, t):
        return self.theta / math.log(2.0 + t)
