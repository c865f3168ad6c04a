"""The best model that can be had in a given time: learners race, and the clock decides.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thresher.race.auto import AutoClassifier, AutoRegressor

__all__ = ["AutoClassifier", "AutoRegressor"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from thresher.race import auto

        return getattr(auto, name)
    raise AttributeError(f"module 'thresher.race' has no attribute {name!r}")
