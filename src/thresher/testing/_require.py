"""What the checks share: claims that fail with a message, and compiled against interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np


def require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def require_close(got: Any, wanted: Any, tol: float, message: str) -> None:
    scale = 1.0 + np.abs(np.asarray(wanted, dtype=np.float64))
    close = np.all(np.abs(np.asarray(got, dtype=np.float64) - wanted) <= tol * scale)
    require(close, f"{message}: got {got}, expected {wanted}")


def require_dataclass(thing: Any, base: type) -> None:
    name = type(thing).__name__
    require(isinstance(thing, base), f"{name} is not a {base.__name__}")
    parameters = getattr(thing, "__dataclass_params__", None)
    require(
        parameters is not None and parameters.frozen, f"{name} must be a @dataclass(frozen=True)"
    )


def same_compiled(kernel: Any, shape: tuple[int, ...], name: str, *arguments: Any) -> None:
    compiled, interpreted = np.zeros(shape), np.zeros(shape)
    kernel(*arguments, compiled)
    getattr(kernel, "py_func", kernel)(*arguments, interpreted)
    require(
        np.allclose(compiled, interpreted, rtol=1e-9, atol=1e-9, equal_nan=True),
        f"{name}: compiled code disagrees with the Python methods ({kernel.__name__})",
    )
