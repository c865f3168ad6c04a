"""What files of earlier versions say otherwise: classes that have moved since."""

from __future__ import annotations

__all__ = ["current_name"]

#: where the classes of a module have gone
_MOVED = {"thresher.kernels": "thresher.kernels.functions"}


def current_name(name: str) -> str:
    """Where a class of ours lives now; other names are what they are."""
    module, _, cls = name.rpartition(".")
    return f"{_MOVED[module]}.{cls}" if module in _MOVED else name
