"""What a user says about the data that are opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thresher.data.schema import (
    KINDS,
    MISSING,
    MOST_BITS,
    MOST_FEATURES,
    MOST_POWERS,
    NULLS,
)
from thresher.registry import TASKS

__all__ = ["WHOLE", "Wishes"]

#: the type of a category whose values are those of the whole file
WHOLE = "category:all"


@dataclass(frozen=True)
class Wishes:
    """What the user says about the data; everything left out is read off the sample.

    ``types`` maps column names to kinds (or "hashed:18" for 2^18 features, "powers:3" for a number
    with its square and cube).  ``listed``: all values of columns that are "category:all", once
    somebody has looked for them.
    """

    target: str | int | None = None
    weight: str | None = None
    ignore: Collection[str] = ()
    types: Mapping[str, str] | None = None
    task: str | None = None
    classes: Sequence[Any] = ()
    outlier_label: Any = None
    missing: str = "mean"
    max_categories: int = 256
    hash_bits: int | None = None  # hash every text column into so many bits
    nulls: Sequence[str] = NULLS
    partly_labelled: bool = False
    irrelevant: Any = None
    listed: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ValueError(f"missing={self.missing!r}: choose one of {', '.join(MISSING)}")
        known = [name for name, task in TASKS.items() if task.has_target]
        if self.task is not None and self.task not in known:
            raise ValueError(f"task={self.task!r}: {' or '.join(map(repr, known))}")
        if self.outlier_label is not None and self.task != "novelty":
            raise ValueError(
                f"outlier_label={self.outlier_label!r} is about novelty detection: say "
                "task='novelty' with it"
            )
        if self.hash_bits is not None and not 1 <= self.hash_bits <= MOST_BITS:
            raise ValueError(f"hash_bits must lie in 1 .. 26, got {self.hash_bits}")
        if self.max_categories < 1:
            raise ValueError(f"max_categories must be at least 1, got {self.max_categories}")

    def kind_of(self, name: str) -> tuple[str | None, int | None]:
        """The kind that was asked for, and its number: bits, most values, or the highest power."""
        wish = (self.types or {}).get(name)
        if wish is None:
            return None, None
        if wish == WHOLE:
            return "category", MOST_FEATURES
        kind, _, bits = wish.partition(":")
        if kind == "powers":
            if not bits.isdigit() or not 1 <= int(bits) <= MOST_POWERS:
                raise ValueError(
                    f"column {name!r}: powers:3 is a number with its square and cube; the highest "
                    f"power lies in 1 .. {MOST_POWERS}, got {wish!r}"
                )
            return "number", int(bits)
        numbered = kind in ("hashed", "category") and bits.isdigit()
        if kind not in KINDS or (bits and not numbered):
            raise ValueError(
                f"column {name!r}: unknown type {wish!r}, choose one of {', '.join(KINDS)} "
                "(hashed:18 for 2^18 features, category:1000 for up to 1000 values, category:all "
                "for all of the file, powers:3 for a number with its powers)"
            )
        if kind == "hashed" and bits and not 1 <= int(bits) <= MOST_BITS:
            raise ValueError(f"column {name!r}: hashing takes 1 .. 26 bits, got {bits}")
        return kind, int(bits) if bits else None

    @property
    def whole(self) -> list[str]:
        """Columns whose values are those of all rows, not of the sample alone."""
        return [name for name, wish in (self.types or {}).items() if wish == WHOLE]
