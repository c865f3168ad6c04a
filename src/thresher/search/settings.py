"""Settings as dictionary keys: which of two trials share what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["settings_key"]


def settings_key(params: dict[str, Any], which: Callable[[str], bool]) -> tuple:
    """The parameters that ``which`` selects, hashable; 1, 1.0 and True are told apart."""
    chosen = sorted((name, value) for name, value in params.items() if which(name))
    return tuple((name, type(value).__name__, _hashable(value)) for name, value in chosen)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)  # an array among the choices of a space, which keeps it alive
    return value
