"""Where classes live: ``"thresher.losses.Hinge"``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["imported", "place_of"]


def imported(where: str) -> Any:
    """The class that lives there."""
    module, _, name = where.rpartition(".")
    return getattr(import_module(module), name)


def place_of(cls: type) -> str:
    """Where a class lives."""
    return f"{cls.__module__}.{cls.__qualname__}"
