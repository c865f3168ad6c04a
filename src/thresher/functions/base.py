"""What every function can do, and the checks that they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

__all__ = ["Function", "bytes_of", "check_numbers", "count_nonzero", "dense", "require"]


_HUGE = 1e150


class Function(Protocol):
    """What every function can do; see the package's text for the methods.

    Functions are NamedTuples of arrays and terms.  A solver of your own may give one of your own
    from ``finish``; it then also needs ``unscaled(units)``, the same function of rows in their
    original units, and to be loaded from a file its class among the ``terms`` of ``load_model``.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Function, LinearFunction
    >>> f: Function = LinearFunction(np.array([[1.0, 0.0]]), np.array([0.5]))
    >>> f.features, f.outputs, f.size, f.is_finite()
    (2, 1, 1, True)
    """

    @property
    def features(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def size(self) -> int: ...
    def unscaled(self, units: Any) -> Any: ...
    def scores(self, X: Any) -> np.ndarray: ...
    @property
    def basis(self) -> str: ...
    def columns(self, X: Any) -> Any: ...
    def describe(self) -> str: ...
    def is_finite(self) -> bool: ...
    def check(self) -> None: ...
    def to_onnx(self, graph: Any, rows: str) -> str: ...


def require(condition: Any, message: str) -> None:
    """ValueError with this message unless the condition holds.

    Parameters
    ----------
    condition : anything that has a truth value
    message : str
        What is wrong, for people.

    Examples
    --------
    >>> from thresher.functions import require
    >>> require(1 < 2, "numbers are broken")
    >>> require(2 < 1, "2 is not below 1")
    Traceback (most recent call last):
    ValueError: 2 is not below 1
    """
    if not condition:
        raise ValueError(message)


def check_numbers(name: str, value: Any, shape: tuple[int, ...], most: float = _HUGE) -> None:
    """ValueError unless it is an array (or a CSR matrix) of finite floats of this shape.

    Numbers whose squares overflow are as good as infinite: so are scores that are made of them.
    """
    plain = issparse(value) or isinstance(value, np.ndarray)
    require(plain and value.dtype.kind == "f", f"{name} must be an array of floats")
    require(value.dtype.itemsize >= 4, f"{name} must have single or double precision")
    require(value.shape == shape, f"{name} must be an array of shape {shape}, got {value.shape}")
    numbers = value.data if issparse(value) else value
    require(np.all(np.isfinite(numbers)), f"{name} holds NaN or infinite numbers")
    largest = float(np.max(np.abs(numbers), initial=0.0))
    require(largest < most, f"{name} holds numbers beyond {most:g}")


def count_nonzero(values: Any) -> int:
    """Of an array or of a sparse matrix."""
    return int(values.nnz if issparse(values) else np.count_nonzero(values))


def dense(values: Any) -> np.ndarray:
    """An array of doubles, whatever it was."""
    return np.asarray(values.toarray() if issparse(values) else values, dtype=np.float64)


def bytes_of(function: Any) -> int:
    """Memory of the arrays that a function is made of; what it holds twice counts once."""
    return sum({id(array): array.nbytes for array in _arrays(function)}.values())


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif issparse(value):
        yield from (value.data, value.indices, value.indptr)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(part)
    elif hasattr(value, "__sklearn_tags__"):  # a map
        yield from _arrays(tuple(vars(value).values()))
