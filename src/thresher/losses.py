r"""Losses :math:`\ell(y, p)` of a target ``y`` and a prediction ``p`` (always in this order).

Classification losses take y in {-1, +1} and depend on the margin m = y p; regression losses depend
on the residual r = p - y.  Besides ``value`` and ``deriv`` a loss may offer, and solvers may need,

``curvature(y, p)``
    the second derivative (any element of its generalised Jacobian at a kink);
``conjugate(y, a)``
    :math:`\ell^*(a) = \sup_p\, a p - \ell(y, p)`, infinite outside its domain;
``dual_step(y, p, b, q, c)``
    the new dual variable: the minimiser over :math:`b'` of
    :math:`\tfrac q2 (b'-b)^2 + p (b'-b) + c\,\ell^*(y, -b'/c)`, where p is the current prediction,
    q the squared norm of the row and c its cost;
``link(p)``
    the probability of the positive class;
``smoothed(width)``
    for a loss with kinks: a smooth loss that lies above it, by a few ``width`` at the kinks;
``kinks(y)``
    for a loss that is made of straight lines: where they meet, a tuple of pairs in increasing
    order, each the prediction and by how much the slope rises there.

Register a loss of your own with :func:`thresher.register` to give it a name; unregistered objects
work just as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from numba import njit

from thresher._terms import Term
from thresher.dimensions import Float

__all__ = [
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "LeastSquares",
    "Logistic",
    "Loss",
    "ModifiedHuber",
    "Pinball",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
]


# A dual variable at its bound comes back as (c * tau) / c, which rounding may put past tau.
_SLACK = 1e-12


class Loss(Term):
    """Protocol of a convex loss; see the module's text for the methods.

    A loss of your own is a frozen dataclass with ``value`` and ``deriv``, and with those of the
    optional methods that it can offer.  ``tasks`` says what it is for, ``smoothness`` how much its
    derivative may change.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher import Loss
    >>> @dataclass(frozen=True)
    ... class Absolute(Loss):
    ...     tasks = frozenset({"regression"})
    ...
    ...     def value(self, y, p):
    ...         return abs(p - y)
    ...
    ...     def deriv(self, y, p):
    ...         return 1.0 if p > y else -1.0
    >>> Absolute().value(2.0, 1.5)
    0.5
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"classification"})
    #: fields that a search may try, and where (``thresher.dimensions``)
    space: ClassVar[dict[str, Any]] = {}
    #: Lipschitz constant of ``deriv`` in p; infinite where the loss has kinks.
    smoothness: ClassVar[float] = math.inf

    curvature: ClassVar[Any] = None
    conjugate: ClassVar[Any] = None
    dual_step: ClassVar[Any] = None
    link: ClassVar[Any] = None
    #: optional: the same, as nodes of an ONNX graph (``thresher.artifacts.onnx_graph``)
    link_to_onnx: ClassVar[Any] = None
    smoothed: ClassVar[Any] = None
    kinks: ClassVar[Any] = None

    def value(self, y, p):
        raise NotImplementedError

    def deriv(self, y, p):
        raise NotImplementedError


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - yp): the support vector machine.

    Examples
    --------
    >>> from thresher import Hinge
    >>> Hinge().value(1.0, 0.25), Hinge().deriv(1.0, 0.25), Hinge().value(1.0, 3.0)
    (0.75, -1.0, 0.0)
    """

    def value(self, y, p):
        return max(0.0, 1.0 - y * p)

    def deriv(self, y, p):
        return -y if y * p < 1.0 else 0.0

    def conjugate(self, y, a):
        return a * y if -1.0 - _SLACK <= a * y <= _SLACK else math.inf

    def dual_step(self, y, p, b, q, c):
        return y * min(max(y * b + (1.0 - y * p) / q, 0.0), c)

    def smoothed(self, width):
        return RoundedPinball(0.0, width)

    def kinks(self, y):
        return ((1.0 / y, abs(y)),)


@dataclass(frozen=True)
class Pinball(Loss):
    """1 - yp where yp <= 1, else tau (yp - 1); tau = 0 is the hinge.

    Also charging the points beyond the margin makes the solution depend on quantiles instead of on
    the few extreme points, hence robust to label noise.  Jumutc, Huang and Suykens (2013).

    Parameters
    ----------
    tau : float, default=0.5
        Slope beyond the margin, in [0, 1].

    Examples
    --------
    >>> from thresher import Pinball
    >>> loss = Pinball(tau=0.5)
    >>> loss.value(1.0, 0.25), loss.value(1.0, 3.0)
    (0.75, 1.0)
    """

    tau: float = 0.5
    space = {"tau": Float(0.0, 1.0)}

    def __post_init__(self):
        if not 0.0 <= self.tau <= 1.0:
            raise ValueError(f"Pinball: tau must lie in [0, 1], got {self.tau}")

    def value(self, y, p):
        m = y * p
        return 1.0 - m if m <= 1.0 else self.tau * (m - 1.0)

    def deriv(self, y, p):
        m = y * p
        if m < 1.0:
            return -y
        return self.tau * y if m > 1.0 else 0.0

    def conjugate(self, y, a):
        return a * y if -1.0 - _SLACK <= a * y <= self.tau + _SLACK else math.inf

    def dual_step(self, y, p, b, q, c):
        return y * min(max(y * b + (1.0 - y * p) / q, -self.tau * c), c)

    def smoothed(self, width):
        return RoundedPinball(self.tau, width)

    def kinks(self, y):
        return ((1.0 / y, (1.0 + self.tau) * abs(y)),)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - yp)^2: the hinge without its kink.

    Examples
    --------
    >>> from thresher import SquaredHinge
    >>> SquaredHinge().value(1.0, 0.5), SquaredHinge().deriv(1.0, 0.5)
    (0.25, -1.0)
    """

    smoothness = 2.0

    def value(self, y, p):
        v = max(0.0, 1.0 - y * p)
        return v * v

    def deriv(self, y, p):
        return -2.0 * y * max(0.0, 1.0 - y * p)

    def curvature(self, y, p):
        return 2.0 if y * p < 1.0 else 0.0

    def conjugate(self, y, a):
        s = a * y
        return s + 0.25 * s * s if s <= _SLACK else math.inf

    def dual_step(self, y, p, b, q, c):
        z = y * b
        return y * max(0.0, z + (1.0 - y * p - 0.5 * z / c) / (q + 0.5 / c))


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-yp)); its link is the logistic function.

    Examples
    --------
    >>> from thresher import Logistic
    >>> Logistic().deriv(1.0, 0.0), Logistic().link(0.0)
    (-0.5, 0.5)
    """

    smoothness = 0.25

    def value(self, y, p):
        m = y * p
        return math.log1p(math.exp(-m)) if m > 0.0 else math.log1p(math.exp(m)) - m

    def deriv(self, y, p):
        m = y * p
        if m > 0.0:
            e = math.exp(-m)
            return -y * e / (1.0 + e)
        return -y / (1.0 + math.exp(m))

    def curvature(self, y, p):
        e = math.exp(-abs(p))
        return e / ((1.0 + e) * (1.0 + e))

    def conjugate(self, y, a):
        s = -a * y
        if s < -_SLACK or s > 1.0 + _SLACK:
            return math.inf
        entropy = s * math.log(s) if s > 0.0 else 0.0
        return entropy + ((1.0 - s) * math.log(1.0 - s) if s < 1.0 else 0.0)

    def dual_step(self, y, p, b, q, c):
        # Root of the increasing f(d) = z + d - c s(-(m + q d)), z = yb, m = yp, by Newton steps.
        # Where one leaves the bracket, or is not much shorter than the last, the bracket is halved:
        # between the flat ends of a steep f, Newton steps alone go back and forth for ever.
        z, m = y * b, y * p
        low, high, d, last = -z, c - z, 0.0, math.inf
        for _ in range(60):
            e = math.exp(-abs(m + q * d))
            s = e / (1.0 + e) if m + q * d > 0.0 else 1.0 / (1.0 + e)
            f = z + d - c * s
            if f > 0.0:
                high = d
            else:
                low = d
            step = -f / (1.0 + c * q * e / ((1.0 + e) * (1.0 + e)))
            # The ends belong to the bracket: at the root itself the step is zero and low = d.
            if low <= d + step <= high and abs(step) <= 0.5 * last:
                d, last = d + step, abs(step)
                if last <= 1e-3 * min(z + d, c - z - d):
                    break
            else:
                last = 0.5 * (high - low)
                d = low + last
        return y * (z + d)

    def link(self, p):
        return 1.0 / (1.0 + math.exp(-p)) if p > 0.0 else math.exp(p) / (1.0 + math.exp(p))

    def link_to_onnx(self, graph, scores):
        return graph.add("Sigmoid", scores)


@dataclass(frozen=True)
class ModifiedHuber(Loss):
    """max(0, 1 - yp)^2, continued as the line -4yp where yp < -1; Zhang (2004).

    Examples
    --------
    >>> from thresher import ModifiedHuber
    >>> ModifiedHuber().value(1.0, 0.5), ModifiedHuber().value(1.0, -3.0)
    (0.25, 12.0)
    """

    smoothness = 2.0

    def value(self, y, p):
        m = y * p
        if m < -1.0:
            return -4.0 * m
        v = max(0.0, 1.0 - m)
        return v * v

    def deriv(self, y, p):
        m = y * p
        return -4.0 * y if m < -1.0 else -2.0 * y * max(0.0, 1.0 - m)

    def curvature(self, y, p):
        return 2.0 if -1.0 <= y * p < 1.0 else 0.0

    def conjugate(self, y, a):
        s = a * y
        return s + 0.25 * s * s if -4.0 - _SLACK <= s <= _SLACK else math.inf

    def dual_step(self, y, p, b, q, c):
        z = y * b
        return y * min(max(z + (1.0 - y * p - 0.5 * z / c) / (q + 0.5 / c), 0.0), 4.0 * c)

    def link(self, p):
        return 0.5 * (min(max(p, -1.0), 1.0) + 1.0)

    def link_to_onnx(self, graph, scores):
        clipped = graph.add("Clip", scores, graph.constant(-1.0), graph.constant(1.0))
        raised = graph.add("Add", clipped, graph.constant(1.0))
        return graph.add("Mul", raised, graph.constant(0.5))


@dataclass(frozen=True)
class LeastSquares(Loss):
    """(p - y)^2 / 2: ridge regression, and the LS-SVM when y is a label.

    Examples
    --------
    >>> from thresher import LeastSquares
    >>> LeastSquares().value(2.0, 5.0), LeastSquares().deriv(2.0, 5.0)
    (4.5, 3.0)
    """

    traits = frozenset({"square"})  # a model can be found by one direct solve
    tasks = frozenset({"classification", "regression"})
    smoothness = 1.0

    def value(self, y, p):
        return 0.5 * (p - y) * (p - y)

    def deriv(self, y, p):
        return p - y

    def curvature(self, y, p):
        return 1.0

    def conjugate(self, y, a):
        return 0.5 * a * a + a * y

    def dual_step(self, y, p, b, q, c):
        return b + (y - p - b / c) / (q + 1.0 / c)


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2): outliers pull with bounded force.

    Parameters
    ----------
    delta : float, default=1.35
        Residual, in the units of the target, from which on the loss is a line.

    Examples
    --------
    >>> from thresher import Huber
    >>> loss = Huber(delta=1.0)
    >>> loss.value(0.0, 0.5), loss.value(0.0, 10.0), loss.deriv(0.0, 10.0)
    (0.125, 9.5, 1.0)
    """

    delta: float = 1.35
    space = {"delta": Float(0.1, 10.0, log=True)}
    tasks = frozenset({"classification", "regression"})
    smoothness = 1.0

    def __post_init__(self):
        if not self.delta > 0.0:
            raise ValueError(f"Huber: delta must be positive, got {self.delta}")

    def value(self, y, p):
        r = abs(p - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def deriv(self, y, p):
        return min(max(p - y, -self.delta), self.delta)

    def curvature(self, y, p):
        return 1.0 if abs(p - y) <= self.delta else 0.0

    def conjugate(self, y, a):
        inside = abs(a) <= self.delta * (1.0 + _SLACK)
        return 0.5 * a * a + a * y if inside else math.inf

    def dual_step(self, y, p, b, q, c):
        bound = c * self.delta
        return min(max(b + (y - p - b / c) / (q + 1.0 / c), -bound), bound)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, |r| - epsilon): support vector regression; epsilon = 0 is the absolute error.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width of the tube in which residuals cost nothing, in the units of the target.

    Examples
    --------
    >>> from thresher import EpsilonInsensitive
    >>> loss = EpsilonInsensitive(epsilon=0.5)
    >>> loss.value(1.0, 1.25), loss.value(1.0, 3.0)
    (0.0, 1.5)
    """

    epsilon: float = 0.1
    space = {"epsilon": Float(1e-3, 1.0, log=True)}
    traits = frozenset({"tube"})  # residuals up to epsilon cost nothing, beyond it a line
    tasks = frozenset({"regression"})

    def __post_init__(self):
        _check_epsilon(self)

    def value(self, y, p):
        return max(0.0, abs(p - y) - self.epsilon)

    def deriv(self, y, p):
        r = p - y
        if r > self.epsilon:
            return 1.0
        return -1.0 if r < -self.epsilon else 0.0

    def conjugate(self, y, a):
        return self.epsilon * abs(a) + a * y if abs(a) <= 1.0 + _SLACK else math.inf

    def dual_step(self, y, p, b, q, c):
        z = b + (y - p) / q
        z = math.copysign(max(abs(z) - self.epsilon / q, 0.0), z)
        return min(max(z, -c), c)

    def smoothed(self, width):
        return RoundedTube(self.epsilon, width)

    def kinks(self, y):
        return ((y - self.epsilon, 1.0), (y + self.epsilon, 1.0))


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """max(0, |r| - epsilon)^2: support vector regression without kinks.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width of the tube in which residuals cost nothing, in the units of the target.

    Examples
    --------
    >>> from thresher import SquaredEpsilonInsensitive
    >>> loss = SquaredEpsilonInsensitive(epsilon=0.5)
    >>> loss.value(1.0, 1.25), loss.value(1.0, 3.0)
    (0.0, 2.25)
    """

    epsilon: float = 0.1
    space = {"epsilon": Float(1e-3, 1.0, log=True)}
    tasks = frozenset({"regression"})
    smoothness = 2.0

    def __post_init__(self):
        _check_epsilon(self)

    def value(self, y, p):
        v = max(0.0, abs(p - y) - self.epsilon)
        return v * v

    def deriv(self, y, p):
        r = p - y
        return 2.0 * math.copysign(max(abs(r) - self.epsilon, 0.0), r)

    def curvature(self, y, p):
        return 2.0 if abs(p - y) > self.epsilon else 0.0

    def conjugate(self, y, a):
        return self.epsilon * abs(a) + a * y + 0.25 * a * a

    def dual_step(self, y, p, b, q, c):
        z = q * b + (y - p)
        return math.copysign(max(abs(z) - self.epsilon, 0.0), z) / (q + 0.5 / c)


# Beyond so many widths from a kink, a rounded loss is the original one to the last digit.
_FAR = 36.0


@njit(cache=True, nogil=True)
def _ramp(z):
    """log(1 + exp(z)): max(z, 0) with its kink rounded."""
    if abs(z) > _FAR:
        return max(z, 0.0)
    return math.log1p(math.exp(-abs(z))) + max(z, 0.0)


@njit(cache=True, nogil=True)
def _rise(z):
    """Derivative of ``_ramp``: from 0 to 1."""
    if abs(z) > _FAR:
        return 1.0 if z > 0.0 else 0.0
    return 1.0 / (1.0 + math.exp(-z))


@njit(cache=True, nogil=True)
def _bump(z):
    """Second derivative of ``_ramp``; nothing where it could no longer matter."""
    if abs(z) > 0.6 * _FAR:
        return 0.0
    e = math.exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


@dataclass(frozen=True)
class RoundedPinball(Loss):
    """Pinball (hinge if tau = 0) with a soft kink at yp = 1."""

    tau: float
    width: float

    def value(self, y, p):
        m = 1.0 - y * p
        return (1.0 + self.tau) * self.width * _ramp(m / self.width) - self.tau * m

    def deriv(self, y, p):
        return -y * ((1.0 + self.tau) * _rise((1.0 - y * p) / self.width) - self.tau)

    def curvature(self, y, p):
        return (1.0 + self.tau) * _bump((1.0 - y * p) / self.width) / self.width


@dataclass(frozen=True)
class RoundedTube(Loss):
    """Epsilon-insensitive loss with soft kinks."""

    epsilon: float
    width: float
    tasks = frozenset({"regression"})

    def value(self, y, p):
        r, e, u = p - y, self.epsilon, self.width
        return u * (_ramp((r - e) / u) + _ramp((-r - e) / u))

    def deriv(self, y, p):
        r, e, u = p - y, self.epsilon, self.width
        return _rise((r - e) / u) - _rise((-r - e) / u)

    def curvature(self, y, p):
        r, e, u = p - y, self.epsilon, self.width
        return (_bump((r - e) / u) + _bump((-r - e) / u)) / u


def _check_epsilon(loss: EpsilonInsensitive | SquaredEpsilonInsensitive) -> None:
    if not loss.epsilon >= 0.0:
        raise ValueError(f"{type(loss).__name__}: epsilon must be at least 0, got {loss.epsilon}")
