"""One number from whatever scikit-learn takes as ``random_state``."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

__all__ = ["seed_from"]


def seed_from(random_state: Any) -> int:
    """An int gives the same number every time, a generator the next of its own, None any."""
    return int(check_random_state(random_state).randint(2**31 - 1))
