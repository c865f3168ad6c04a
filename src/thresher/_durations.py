"""Durations as people write them."""

from __future__ import annotations

import re

__all__ = ["seconds_of"]

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(text: str) -> float:
    """'90s', '10m', '1.5h' or a number of seconds.

    Examples
    --------
    >>> from thresher._durations import seconds_of
    >>> seconds_of("90s"), seconds_of("1.5h"), seconds_of("20")
    (90.0, 5400.0, 20.0)
    """
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([smh]?)", text.strip().lower())
    try:
        value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    except ValueError:
        value = 0.0
    if value <= 0.0:
        raise ValueError(f"{text!r} is no time: write 90s, 10m or 1h")
    return value
