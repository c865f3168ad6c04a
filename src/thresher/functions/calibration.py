"""Probabilities of classes from scores: learned ones, and the link of a loss.

Each is called with scores (rows, outputs) and gives (rows, classes); ``check(outputs)`` and
``to_onnx(graph, scores, outputs)`` are as those of the other functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from thresher.functions.base import require

__all__ = ["Isotonic", "Link", "Sigmoid", "Sigmoids", "Softmax", "VectorSoftmax", "normalised"]


class Sigmoid(NamedTuple):
    """1 / (1 + exp(-(slope * score + offset))) for two classes.

    Parameters
    ----------
    slope, offset : float
        Of the score.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Sigmoid
    >>> Sigmoid(2.0, 1.0)(np.array([[-0.5]])).tolist()
    [[0.5, 0.5]]
    """

    slope: float
    offset: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return normalised(expit(self.slope * scores + self.offset))

    def check(self, outputs: int) -> None:
        require(outputs == 1, f"a sigmoid does not fit a model of {outputs} outputs")
        for name, value in (("slope", self.slope), ("offset", self.offset)):
            require(_is_number(value), f"{name} must be a finite number")

    def to_onnx(self, graph: Any, scores: str, outputs: int) -> str:
        steep = graph.add("Mul", scores, graph.constant(float(self.slope)))
        turned = graph.add("Add", steep, graph.constant(float(self.offset)))
        return graph.normalised(graph.add("Sigmoid", turned), outputs)


class Softmax(NamedTuple):
    """Softmax of slope * scores: one slope for all classes, so the best class stays the best.

    Parameters
    ----------
    slope : float
        Of all scores.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Softmax
    >>> Softmax(3.0)(np.zeros((1, 4))).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """

    slope: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return softmax(self.slope * scores, axis=1)

    def check(self, outputs: int) -> None:
        require(outputs > 1, "a softmax needs several outputs")
        require(_is_number(self.slope), "slope must be a finite number")

    def to_onnx(self, graph: Any, scores: str, outputs: int) -> str:
        steep = graph.add("Mul", scores, graph.constant(float(self.slope)))
        return graph.add("Softmax", steep, axis=1)


class VectorSoftmax(NamedTuple):
    """Softmax of slopes * scores + offsets, a slope and an offset for each class.

    Vector scaling (Guo et al., 2017): the offsets mend what one-vs-rest scores of frequent and rare
    classes do not share.  The most probable class need not be that of the largest score.

    Parameters
    ----------
    slopes, offsets : arrays of shape (outputs,)
        Of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import VectorSoftmax
    >>> soft = VectorSoftmax(np.array([1.0, 2.0, 1.0]), np.log([1.0, 1.0, 2.0]))
    >>> soft(np.zeros((1, 3))).tolist()
    [[0.25, 0.25, 0.5]]
    """

    slopes: np.ndarray
    offsets: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return softmax(self.slopes * scores + self.offsets, axis=1)

    def check(self, outputs: int) -> None:
        require(outputs > 1, "a softmax needs several outputs")
        _check_lines(self.slopes, self.offsets, outputs)

    def to_onnx(self, graph: Any, scores: str, outputs: int) -> str:
        return graph.add("Softmax", _lines_to_onnx(self, graph, scores), axis=1)


class Sigmoids(NamedTuple):
    """A sigmoid for each class against the rest, normalised to a distribution.

    Parameters
    ----------
    slopes, offsets : arrays of shape (outputs,)
        Of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Sigmoids
    >>> Sigmoids(np.ones(2), np.zeros(2))(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """

    slopes: np.ndarray
    offsets: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return normalised(expit(self.slopes * scores + self.offsets))

    def check(self, outputs: int) -> None:
        require(outputs > 1, "sigmoids of the classes need several outputs")
        _check_lines(self.slopes, self.offsets, outputs)

    def to_onnx(self, graph: Any, scores: str, outputs: int) -> str:
        turned = _lines_to_onnx(self, graph, scores)
        return graph.normalised(graph.add("Sigmoid", turned), outputs)


class Isotonic(NamedTuple):
    """A monotone, piecewise linear function per output.

    Parameters
    ----------
    steps : list of pairs of arrays
        Of each output: thresholds, which rise, and values at them, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Isotonic
    >>> rises = Isotonic([(np.array([-1.0, 1.0]), np.array([0.0, 1.0]))])
    >>> rises(np.array([[-0.5], [7.0]])).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """

    steps: list[tuple[np.ndarray, np.ndarray]]

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        columns = [
            np.interp(np.clip(scores[:, c], x[0], x[-1]), x, y)
            for c, (x, y) in enumerate(self.steps)
        ]
        return normalised(np.column_stack(columns))

    def check(self, outputs: int) -> None:
        pairs = isinstance(self.steps, list) and all(
            isinstance(s, tuple) and len(s) == 2 for s in self.steps
        )
        require(pairs, "damaged isotonic calibration")
        fits = len(self.steps) == outputs
        require(fits, f"{len(self.steps)} step functions do not fit {outputs} outputs")
        for x, y in self.steps:
            _check_steps(x, y)

    def to_onnx(self, graph: Any, scores: str, outputs: int) -> str:
        columns = []
        for c, (x, y) in enumerate(self.steps):
            column = graph.add("Gather", scores, graph.constant(np.array([c])), axis=1)
            columns.append(graph.interpolated(column, x, y))
        return graph.normalised(graph.add("Concat", *columns, axis=1), outputs)


class Link(NamedTuple):
    """The loss's own probability of a score, ``loss.link``.

    Parameters
    ----------
    loss : Loss
        One that has a link, such as ``Logistic()``.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Link
    >>> from thresher.losses import Logistic
    >>> Link(Logistic())(np.zeros((1, 1))).tolist()
    [[0.5, 0.5]]
    """

    loss: Any

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return normalised(np.vectorize(self.loss.link, otypes=[np.float64])(scores))

    def check(self, outputs: int) -> None:
        require(self.loss.link is not None, f"{type(self.loss).__name__} has no link")

    def to_onnx(self, graph: Any, scores: str, outputs: int) -> str | None:
        """None: the loss does not say how."""
        if self.loss.link_to_onnx is None:
            return None
        return graph.normalised(self.loss.link_to_onnx(graph, scores), outputs)


def normalised(table: np.ndarray) -> np.ndarray:
    """One-vs-rest probabilities to a distribution.

    Parameters
    ----------
    table : array of shape (rows, outputs)
        One column is that of the second of two classes; a row of zeros becomes uniform.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import normalised
    >>> normalised(np.array([[0.25]])).tolist()
    [[0.75, 0.25]]
    >>> normalised(np.array([[0.5, 0.5, 1.0], [0.0, 0.0, 0.0]])).round(2).tolist()
    [[0.25, 0.25, 0.5], [0.33, 0.33, 0.33]]
    """
    if table.shape[1] == 1:
        return np.hstack([1.0 - table, table])
    total = table.sum(axis=1, keepdims=True)
    uniform = np.full_like(table, 1.0 / table.shape[1])
    return np.divide(table, total, out=uniform, where=total > 0.0)


def _is_number(value: Any) -> bool:
    return type(value) is float and bool(np.isfinite(value))


def _check_lines(slopes: Any, offsets: Any, outputs: int) -> None:
    for name, values in (("slopes", slopes), ("offsets", offsets)):
        plain = isinstance(values, np.ndarray) and values.dtype.kind == "f"
        fits = plain and values.shape == (outputs,) and bool(np.all(np.isfinite(values)))
        require(fits, f"{name} must be {outputs} finite numbers")


def _lines_to_onnx(lines: VectorSoftmax | Sigmoids, graph: Any, scores: str) -> str:
    steep = graph.add("Mul", scores, graph.constant(lines.slopes[None]))
    return graph.add("Add", steep, graph.constant(lines.offsets[None]))


def _check_steps(x: Any, y: Any) -> None:
    for values in (x, y):
        plain = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "f"
        finite = plain and values.size > 0 and np.all(np.isfinite(values))
        require(finite, "isotonic calibration: thresholds must be finite numbers")
    ordered = np.all(np.diff(x) > 0) and np.all(np.diff(y) >= 0) and y[0] >= 0 and y[-1] <= 1
    rises = x.size == y.size and ordered
    require(rises, "isotonic calibration: thresholds must rise, values from 0 to 1")
