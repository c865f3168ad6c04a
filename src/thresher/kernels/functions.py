r"""Kernels :math:`k(x, z)`, computed from the inner product and the two squared norms.

``of(inner, sq_x, sq_z)`` gets :math:`x \cdot z`, :math:`\|x\|^2` and :math:`\|z\|^2`: whoever
evaluates many kernels computes the inner products by one matrix product and keeps the norms.

A kernel of your own is a frozen dataclass with that one method, written in plain Python::

    @dataclass(frozen=True)
    class Cauchy(Kernel):
        gamma: float = 1.0

        def of(self, inner, sq_x, sq_z):
            return 1.0 / (1.0 + self.gamma * (sq_x + sq_z - 2.0 * inner))

Widths.  ``gamma`` multiplies the squared distance.  Where a text gives a bandwidth ``sigma`` with
:math:`\exp(-\|x-z\|^2 / (2\sigma^2))`, use ``RBF.from_sigma(sigma)``, gamma = 1/(2 sigma^2);
BudgetedSVM's ``-g G`` is gamma = G / 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from thresher._terms import Term

__all__ = ["RBF", "Cosine", "Exponential", "Kernel", "Linear", "Polynomial", "Sigmoid"]


class Kernel(Term):
    """Protocol of a kernel: a frozen dataclass with one method, ``of(inner, sq_x, sq_z)``.

    ``traits`` holds "radial" for a function of the distance alone and "positive" for a positive
    definite kernel; some maps and some ways to keep a budget ask for one of them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher import Kernel
    >>> @dataclass(frozen=True)
    ... class Cauchy(Kernel):
    ...     gamma: float = 1.0
    ...     traits = frozenset({"radial", "positive"})
    ...
    ...     def of(self, inner, sq_x, sq_z):
    ...         return 1.0 / (1.0 + self.gamma * max(sq_x + sq_z - 2.0 * inner, 0.0))
    >>> Cauchy().of(1.0, 1.0, 1.0), Cauchy(gamma=3.0).of(0.0, 1.0, 0.0)
    (1.0, 0.25)
    """

    #: "radial": a function of the distance alone; "positive": positive definite
    traits: ClassVar[frozenset[str]] = frozenset()

    #: optional: the same, as nodes of an ONNX graph (``thresher.artifacts.onnx_graph``)
    to_onnx: ClassVar[Any] = None

    def of(self, inner: Any, sq_x: Any, sq_z: Any) -> Any:
        raise NotImplementedError

    def check(self) -> None:
        """ValueError for parameters that are no numbers, also in single precision: files are not
        believed."""
        for name, value in self.get_params().items():
            if isinstance(value, int | float) and not abs(value) < 1e30:
                raise ValueError(f"{type(self).__name__}: {name} must be finite, got {value}")


@dataclass(frozen=True)
class RBF(Kernel):
    r"""Gaussian: :math:`\exp(-\gamma \|x-z\|^2)`.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the squared distance.

    Examples
    --------
    >>> from thresher import RBF
    >>> RBF(gamma=2.0).of(1.0, 1.0, 1.0)  # of a point with itself
    1.0
    >>> RBF.from_sigma(0.5)
    RBF(gamma=2.0)
    """

    gamma: float = 1.0
    traits = frozenset({"radial", "positive"})

    @classmethod
    def from_sigma(cls, sigma: float) -> RBF:
        """The width as a bandwidth, exp(-||x-z||^2 / (2 sigma^2))."""
        return cls(0.5 / sigma**2)

    def of(self, inner, sq_x, sq_z):
        return math.exp(-self.gamma * max(sq_x + sq_z - 2.0 * inner, 0.0))

    def to_onnx(self, graph, inner, sq_x, sq_z):
        rate = graph.constant(-float(self.gamma))
        return graph.add("Exp", graph.add("Mul", _distances(graph, inner, sq_x, sq_z), rate))


@dataclass(frozen=True)
class Exponential(Kernel):
    r"""Exponential, or Laplacian of the Euclidean distance: :math:`\exp(-\gamma \|x-z\|)`.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the distance.

    Examples
    --------
    >>> from thresher import Exponential
    >>> round(Exponential(gamma=0.5).of(0.0, 4.0, 0.0), 4)  # at distance 2
    0.3679
    """

    gamma: float = 1.0
    traits = frozenset({"radial", "positive"})

    def of(self, inner, sq_x, sq_z):
        return math.exp(-self.gamma * math.sqrt(max(sq_x + sq_z - 2.0 * inner, 0.0)))

    def to_onnx(self, graph, inner, sq_x, sq_z):
        distance = graph.add("Sqrt", _distances(graph, inner, sq_x, sq_z))
        return graph.add("Exp", graph.add("Mul", distance, graph.constant(-float(self.gamma))))


@dataclass(frozen=True)
class Polynomial(Kernel):
    r"""Polynomial: :math:`(\gamma\, x \cdot z + c)^{degree}`.

    Parameters
    ----------
    degree : int, default=2
    gamma : float, default=1.0
        Factor of the inner product.
    intercept : float, default=1.0
        The constant c; 0 leaves only products of exactly ``degree`` features.

    Examples
    --------
    >>> from thresher import Polynomial
    >>> Polynomial(degree=3).of(1.0, 1.0, 1.0)
    8.0
    """

    degree: int = 2
    gamma: float = 1.0
    intercept: float = 1.0
    traits = frozenset({"positive"})

    def of(self, inner, sq_x, sq_z):
        base = self.gamma * inner + self.intercept
        out = 1.0
        for _ in range(self.degree):
            out *= base
        return out

    def check(self):
        super().check()
        if not 0 <= self.degree <= 1000:
            raise ValueError(f"Polynomial: degree must lie in 0 .. 1000, got {self.degree}")

    def to_onnx(self, graph, inner, sq_x, sq_z):
        steep = graph.add("Mul", inner, graph.constant(float(self.gamma)))
        base = graph.add("Add", steep, graph.constant(float(self.intercept)))
        return graph.add("Pow", base, graph.constant(float(self.degree)))


@dataclass(frozen=True)
class Linear(Kernel):
    r"""The inner product itself, :math:`x \cdot z`.

    Examples
    --------
    >>> from thresher import Linear
    >>> Linear().of(3.0, 9.0, 1.0)
    3.0
    """

    traits = frozenset({"positive"})

    def of(self, inner, sq_x, sq_z):
        return inner

    def to_onnx(self, graph, inner, sq_x, sq_z):
        return inner


@dataclass(frozen=True)
class Sigmoid(Kernel):
    r"""Hyperbolic tangent: :math:`\tanh(\gamma\, x \cdot z + c)`; not positive definite.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the inner product.
    intercept : float, default=0.0
        The constant c.

    Examples
    --------
    >>> from thresher import Sigmoid
    >>> Sigmoid(intercept=-1.0).of(1.0, 1.0, 1.0)
    0.0
    """

    gamma: float = 1.0
    intercept: float = 0.0

    def of(self, inner, sq_x, sq_z):
        return math.tanh(self.gamma * inner + self.intercept)

    def to_onnx(self, graph, inner, sq_x, sq_z):
        steep = graph.add("Mul", inner, graph.constant(float(self.gamma)))
        return graph.add("Tanh", graph.add("Add", steep, graph.constant(float(self.intercept))))


@dataclass(frozen=True)
class Cosine(Kernel):
    r"""Cosine of the angle: :math:`x \cdot z / (\|x\| \|z\|)`, zero where a norm is.

    Examples
    --------
    >>> from thresher import Cosine
    >>> Cosine().of(6.0, 9.0, 4.0), Cosine().of(0.0, 0.0, 4.0)
    (1.0, 0.0)
    """

    traits = frozenset({"positive"})

    def of(self, inner, sq_x, sq_z):
        size = math.sqrt(sq_x * sq_z)
        return inner / size if size > 0.0 else 0.0

    def to_onnx(self, graph, inner, sq_x, sq_z):
        size = graph.add("Sqrt", graph.add("Mul", sq_x, sq_z))
        return graph.add("Div", inner, graph.or_one(size))


def _distances(graph: Any, inner: str, sq_x: str, sq_z: str) -> str:
    """Squared distances, none below zero."""
    twice = graph.add("Mul", inner, graph.constant(2.0))
    squared = graph.add("Sub", graph.add("Add", sq_x, sq_z), twice)
    return graph.add("Max", squared, graph.constant(0.0))
