"""What files of earlier versions say otherwise: classes that moved, fields that were added."""

from __future__ import annotations

from typing import Any

__all__ = ["added_fields", "current_name"]

#: where the classes of a module have gone
_MOVED = {"thresher.kernels": "thresher.kernels.functions"}
#: fields that a class has got since, and what older files mean by not having them
_ADDED: dict[str, dict[str, Any]] = {"thresher.solvers.base.Problem": {"targets": "classes"}}


def current_name(name: str) -> str:
    """Where a class of ours lives now; other names are what they are."""
    module, _, cls = name.rpartition(".")
    return f"{_MOVED[module]}.{cls}" if module in _MOVED else name


def added_fields(name: str) -> dict[str, Any]:
    """Fields, as a file would give them, of a class of ours that older files do not have."""
    return _ADDED.get(name, {})
