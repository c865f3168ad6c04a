"""The schema: what each column of the data means and which features it becomes.

It is read off a sample once, shown to the user, saved with the model and applied at prediction.
Features are numbered column by column:

=========  ==================================================================================
number     its value, a missing one replaced by the mean; with ``powers`` also those of its
           difference to the mean, from the square on; then one 0/1 feature "missing" if the
           sample had missing values and the policy is "mean"
boolean    0 or 1, treated as a number; capitals do not matter
date       days since 1970-01-01, treated as a number
category   one 0/1 feature for each category, one for every other value, one for missing;
           whole numbers may be written 7 or 7.0
hashed     2^bits 0/1 features; a value's is its hash.  Nothing is stored about the values
=========  ==================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from thresher.data.errors import DataError, nearest
from thresher.registry import TASKS

__all__ = ["KINDS", "MISSING", "NULLS", "Column", "Schema", "Target", "unique_names"]

KINDS = ("number", "boolean", "date", "category", "hashed", "ignored")
MISSING = ("mean", "most_frequent", "error")
MOST_BITS = 26
MOST_POWERS = 9
MOST_FEATURES = 2**31 - 1  # indices are 32 bits
#: what a missing value looks like in text
NULLS = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
    kind : {"number", "boolean", "date", "category", "hashed", "ignored"}
    values : tuple of str, default=()
        The categories, or the two spellings (false, true) of a boolean.
    bits : int, default=0
        Of a hashed column: it has 2^bits features.
    missing : {"mean", "most_frequent", "error"}, default="mean"
        What becomes of missing values.
    flag : bool, default=False
        The column has a feature of its own for "missing".
    fill : float, default=0.0
        Takes the place of a missing number, or is the position of the most frequent category.
    note : str, default=""
        A remark for people.
    powers : int, default=1
        Of a number: it has the features x, (x - fill)^2, ... up to this power.

    Examples
    --------
    >>> from thresher.data import Column
    >>> Column("colour", "category", ("blue", "red")).feature_names()
    ['colour=blue', 'colour=red', 'colour=(other)']
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    bits: int = 0
    missing: str = "mean"
    flag: bool = False  # has a feature of its own for "missing"
    fill: float = 0.0
    note: str = ""
    powers: int = 1

    @property
    def width(self) -> int:
        """Number of features."""
        if self.kind == "category":
            return len(self.values) + 1 + self.flag
        if self.kind == "hashed":
            return 2**self.bits + self.flag
        return 0 if self.kind == "ignored" else self.powers + self.flag

    def spellings(self) -> list[str]:
        """All ways to write the values, round after round: place modulo len(values) is the code."""
        rounds = [self.values]
        if self.kind == "boolean":
            rounds += [tuple(v.capitalize() for v in self.values)]
            rounds += [tuple(v.upper() for v in self.values)]
        if any(map(_is_whole, self.values)):
            rounds += [tuple(f"{v}.0" if _is_whole(v) else v for v in self.values)]
        return [word for words in rounds for word in words]

    def feature_names(self) -> list[str]:
        """Names of the features that it becomes, in order."""
        missing = [f"{self.name} is missing"] if self.flag else []
        if self.kind == "category":
            named = [f"{self.name}={value}" for value in self.values]
            return [*named, f"{self.name}=(other)", *missing]
        if self.kind == "hashed":
            return [f"{self.name}#{k}" for k in range(2**self.bits)] + missing
        if self.kind == "ignored":
            return []
        centred = f"({self.name} {'-' if self.fill >= 0.0 else '+'} {abs(self.fill):.6g})"
        powers = [f"{centred}^{k}" for k in range(2, self.powers + 1)]
        return [self.name, *powers, *missing]

    def describe(self) -> str:
        """What it is taken as, in a few words."""
        text = self.kind
        if self.kind == "category":
            text += f", {len(self.values)} values"
        elif self.kind == "hashed":
            text += f", {self.bits} bits"
        elif self.kind == "boolean":
            text += f" ({'/'.join(self.values)})" if self.values else ""
        elif self.powers > 1:
            text += f", powers up to {self.powers}"
        if self.flag and self.kind not in (
            "category",
            "hashed",
        ):  # these always have a place for it
            text += ", with missing values"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True)
class Target:
    """The column to predict.

    Parameters
    ----------
    name : str
    task : {"classification", "regression", "novelty"}
    classes : tuple of str or of numbers, default=()
        The labels in the order of their codes; empty for regression.
    outlier : str, number or None, default=None
        The one of them that rows of no class have; for novelty detection.
    partly : bool, default=False
        Rows without a label are kept.
    irrelevant : str, number or None, default=None
        The label of rows of no class, which is none of the classes.

    Examples
    --------
    >>> from thresher.data import Target
    >>> Target("income", "classification", ("<=50K", ">50K")).by_words
    True
    """

    name: str
    task: str
    classes: tuple[Any, ...] = ()
    outlier: Any = None
    partly: bool = False
    irrelevant: Any = None

    @property
    def by_words(self) -> bool:
        """Classes are text, to be compared as text; otherwise as numbers."""
        return bool(self.classes) and isinstance(self.classes[0], str)

    @property
    def labels(self) -> tuple[Any, ...]:
        """All that a row may be labelled with, sorted."""
        if self.irrelevant is None:
            return self.classes
        return tuple(sorted((*self.classes, self.irrelevant)))


@dataclass(frozen=True)
class Schema:
    """How examples become rows: a table by its columns, or a matrix that is taken as it is.

    Parameters
    ----------
    columns : tuple of Column, default=()
        Of a table, in the order of the file.
    target : Target or None, default=None
    weight : str or None, default=None
        The column of row weights.
    matrix_features : int or None, default=None
        Number of features of a matrix (svmlight text, arrays); None for a table.
    first_index : {0, 1}, default=1
        Number of the first feature in svmlight text.
    layout : {"dense", "sparse"}, default="dense"
        The rows' representation, chosen by their share of non-zeros.
    row_bytes : int, default=8
        About what one row takes in memory.
    nulls : tuple of str
        What a missing value looks like in text: an empty cell, ?, NA and their like by default.

    Examples
    --------
    >>> from thresher.data import Column, Schema
    >>> schema = Schema((Column("age", "number"), Column("sex", "category", ("f", "m"))))
    >>> schema.n_features, schema.feature_names()
    (4, ['age', 'sex=f', 'sex=m', 'sex=(other)'])
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    columns: tuple[Column, ...] = ()
    target: Target | None = None
    weight: str | None = None
    matrix_features: int | None = None  # of a matrix (svmlight, arrays); None for a table
    first_index: int = 1  # number of the first feature in svmlight text
    layout: str = "dense"
    row_bytes: int = 8
    nulls: tuple[str, ...] = field(default=NULLS)

    @property
    def is_table(self) -> bool:
        """Named columns, not a matrix."""
        return self.matrix_features is None

    @cached_property
    def features(self) -> tuple[Column, ...]:
        """The columns that become features, in order."""
        return tuple(c for c in self.columns if c.width)

    @cached_property
    def n_features(self) -> int:
        """Number of features of a row."""
        if self.matrix_features is not None:
            return self.matrix_features
        return sum(c.width for c in self.features)

    def feature_names(self) -> list[str] | None:
        """Names of all features, in order; None for a matrix."""
        if not self.is_table:
            return None
        return [name for c in self.features for name in c.feature_names()]

    def column(self, name: str) -> Column:
        """The column of that name; a DataError suggests the nearest if there is none."""
        found = next((c for c in self.columns if c.name == name), None)
        if found is None:
            raise DataError(f"no column {name!r}: {nearest(name, self.names)}")
        return found

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [c.name for c in self.columns]

    def without_target(self) -> Schema:
        """The same for data that has neither targets nor weights."""
        return replace(self, target=None, weight=None)

    # ------------------------------------------------------------ as JSON

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dictionaries, numbers and strings."""
        return _plain(asdict(self))

    @classmethod
    def from_json(cls, document: Any) -> Schema:
        """Read back what :meth:`to_json` wrote; anything else is refused."""
        try:
            known = {f.name for f in fields(cls)}
            if set(document) != known:
                raise ValueError(f"fields {sorted(set(document) ^ known)} do not belong")
            given = dict(document)
            given["columns"] = tuple(map(_column, given["columns"]))
            given["target"] = None if given["target"] is None else _target(given["target"])
            given["nulls"] = _words(given["nulls"], "null values")
            schema = cls(**given)
            _check(schema)
            return schema
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise DataError(f"not a valid schema: {error}") from None


def _plain(value: Any) -> Any:
    """The same with lists for tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal() and word.isascii()


# ---------------------------------------------------------------- what JSON may say


def _column(document: dict[str, Any]) -> Column:
    name = _text(document["name"], "a column's name")
    column = Column(**{**document, "values": _words(document["values"], f"values of {name!r}")})
    _text(column.note, "a note")
    if column.kind not in KINDS or column.missing not in MISSING:
        raise ValueError(f"column {name!r} has kind {column.kind!r}, {column.missing!r}")
    _whole(column.bits, 1 if column.kind == "hashed" else 0, MOST_BITS, f"bits of {name!r}")
    _whole(column.powers, 1, MOST_POWERS if column.kind == "number" else 1, f"powers of {name!r}")
    if not isinstance(column.flag, bool):
        raise ValueError(f"column {name!r} has flag {column.flag!r}")
    if column.kind == "boolean" and len(column.values) != 2:
        raise ValueError(f"boolean column {name!r} has {len(column.values)} values, not 2")
    _check_fill(column)
    return column


def _check_fill(column: Column) -> None:
    """Compiled code trusts the place of the most frequent category."""
    fill = column.fill
    if type(fill) not in (int, float) or not math.isfinite(fill):
        raise ValueError(f"column {column.name!r} is filled with {fill!r}")
    places = {"category": len(column.values) + 1, "hashed": 2**column.bits}.get(column.kind)
    if places is not None and not (0 <= fill < places and fill == int(fill)):
        raise ValueError(f"column {column.name!r} has no place {fill!r}")


def _target(document: dict[str, Any]) -> Target:
    target = Target(**{**document, "classes": tuple(document["classes"])})
    _text(target.name, "the target's name")
    if target.task not in TASKS:
        raise ValueError(f"unknown task {target.task!r}")
    if bool(target.classes) != TASKS[target.task].has_classes:
        raise ValueError(f"{target.task} with {len(target.classes)} classes")
    kinds = {type(c) for c in target.classes}
    if not (kinds <= {int, float} or kinds == {str}):
        raise ValueError("class labels must be all text or all numbers")
    pairs = zip(target.classes, target.classes[1:], strict=False)
    if not all(a < b for a, b in pairs) or not all(math.isfinite(c) for c in target.classes
                                                   if not isinstance(c, str)):  # fmt: skip
        raise ValueError("class labels must be in ascending order")
    if not isinstance(target.partly, bool) or (target.partly and not target.classes):
        raise ValueError(f"partly labelled: {target.partly!r}, of {len(target.classes)} classes")
    marker = target.irrelevant
    if marker is not None and not (
        target.partly and kinds | {type(marker)} <= ({str} if target.by_words else {int, float})
        and marker == marker and marker not in target.classes
    ):  # fmt: skip
        raise ValueError(f"the label {marker!r} of irrelevant rows does not go with the classes")
    if (target.outlier is None) == (target.task == "novelty") or (
        target.outlier is not None and target.outlier not in target.classes
    ):
        raise ValueError(f"{target.task} with the outliers' label {target.outlier!r}")
    return target


def _check(schema: Schema) -> None:
    if schema.matrix_features is not None:
        _whole(schema.matrix_features, 0, MOST_FEATURES, "number of features")
        if schema.columns:
            raise ValueError("a matrix with named columns")
    _whole(schema.n_features, 0, MOST_FEATURES, "number of features")
    _whole(schema.first_index, 0, 1, "first index")
    _whole(schema.row_bytes, 1, 2**62, "bytes of a row")
    if schema.layout not in ("dense", "sparse"):
        raise ValueError(f"layout {schema.layout!r}")
    if schema.weight is not None:
        _text(schema.weight, "the weight's name")
    if len(set(schema.names)) != len(schema.columns):
        raise ValueError("two columns have the same name")


def _whole(value: Any, low: int, high: int, what: str) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what}: {value!r} is not a whole number in {low} .. {high}")


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}, not text")
    return value


def _words(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{what} are {values!r}, not a list")
    return tuple(_text(v, what) for v in values)


# ---------------------------------------------------------------- names


def unique_names(names: Sequence[str]) -> list[str]:
    """Column names with blanks filled and repetitions numbered."""
    seen: set[str] = set()
    out = []
    for position, given in enumerate(names, start=1):
        base = name = given.strip() or f"c{position}"
        count = 1
        while name in seen:
            count += 1
            name = f"{base}_{count}"
        seen.add(name)
        out.append(name)
    return out
