"""What every source of examples offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

from thresher.data.background import in_order
from thresher.data.batch import Batch
from thresher.data.encode import Encoder
from thresher.data.errors import BadRows, DataError
from thresher.data.files import STDIN, Span, anchor, expand, stamp
from thresher.data.infer import by_name, distinct_words, null_words
from thresher.data.schema import Schema
from thresher.data.spans import TallyAll, joined, shares
from thresher.data.wishes import Wishes

__all__ = ["Files", "Part", "Source", "Table", "sample_rows", "sampled_enough"]

T = TypeVar("T")
_SAMPLE_ROWS = 1 << 14
_FEWEST_ROWS = 1 << 8
_SAMPLE_CELLS = 1 << 23


class Part(NamedTuple):
    """A source of some of the rows, and how many there are if none of them is bad."""

    source: Any
    rows: int


class Source:
    """Examples in some format; a concrete source reads a schema off itself and yields blocks."""

    name: str
    #: can be read again from the start; standard input cannot
    rereadable: bool = True

    def infer(self, wishes: Wishes) -> Schema:
        """The schema by a sample of the first rows."""
        raise NotImplementedError

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        """All rows, in order, in blocks of any size."""
        raise NotImplementedError

    def parsed(
        self, texts: Iterable[T], parse: Callable[[T, Encoder], Iterable[Batch]], encoder: Encoder
    ) -> Iterator[Batch]:
        """The blocks of many pieces of text, parsed in threads, as if one after the other."""

        def work(text: T) -> tuple[list[Batch], BadRows]:
            bad = BadRows(encoder.bad.policy)
            return list(parse(text, encoder.reporting_to(bad))), bad

        for blocks, bad in in_order(texts, work):
            encoder.bad.merge(bad)
            yield from blocks

    def anchored(self) -> Self:
        """The same source by names that hold in processes that work in another folder."""
        return self

    def parts(self, n: int, tally_all: TallyAll) -> list[Part]:
        """At most ``n`` sources that together have the rows of this one, in order.

        They can be sent to other processes: they name files and read them there.
        """
        raise DataError(f"{self.name} is in memory, where other processes cannot read it")

    def stamps(self) -> list[Any]:
        """(name, size, time of change) of the files read; empty for memory."""
        return []

    @property
    def is_shared(self) -> bool:
        """Whether other processes can read it where it is."""
        return bool(self.stamps())

    @property
    def usual_parts(self) -> int | None:
        """Parts that it comes in already; None: its size decides."""
        return None

    @property
    def is_table(self) -> bool:
        """Rows have named columns; otherwise they are a matrix of features."""
        return False

    @property
    def n_rows(self) -> int | None:
        """Number of rows where it is known without reading them."""
        return None


class Files:
    """What sources in files share: which files they are, and whether these have changed."""

    paths: Sequence[str]
    name: str
    rereadable: bool
    #: what is read of the files; None: all of them
    spans: Sequence[Span] | None = None

    def find_files(self) -> None:
        """Every file that the paths and globs name."""
        self.paths = expand(self.paths)
        self.rereadable = STDIN not in self.paths
        self.name = self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"

    def stamps(self) -> list[Any]:
        return [stamp(path) for path in self.paths]

    def anchored(self) -> Self:
        anchored = copy(self)
        anchored.paths = [anchor(path) for path in self.paths]
        if self.spans is not None:
            anchored.spans = [span._replace(path=anchor(span.path)) for span in self.spans]
        return anchored

    def read_spans(self) -> Sequence[Span]:
        return [Span(path) for path in self.paths] if self.spans is None else self.spans

    def only(self, spans: Sequence[Span]) -> Self:
        """The same source of some spans alone."""
        part = copy(self)
        part.spans, part.paths = joined(spans), list(dict.fromkeys(span.path for span in spans))
        return part

    def grouped(self, spans: Sequence[tuple[Span, int]], n: int) -> list[Part]:
        """At most ``n`` parts of spans that are given with their rows."""
        sizes = [max(rows, 1) for _, rows in spans]
        groups = [spans[run] for run in shares(sizes, n)]
        return [
            Part(self.only([s for s, _ in group]), sum(rows for _, rows in group))
            for group in groups
        ]


class Table(Source):
    """Named columns, in files or in memory."""

    names: list[str]

    @property
    def is_table(self) -> bool:
        return True

    def tables(self, columns: list[str]) -> Iterator[Any]:
        """All rows of some columns, as Arrow tables or batches."""
        raise NotImplementedError

    def listing(self, wishes: Wishes) -> Wishes:
        """With the values of all rows for columns that are to have them: one look at these alone.

        Standard input cannot be looked at twice: there the values are those of the first rows.
        """
        wishes = by_name(wishes, self.names, self.name)
        if not (wishes.whole and self.rereadable):
            return wishes
        nulls = null_words(wishes)
        listed: dict[str, set[str]] = {name: set() for name in wishes.whole}

        def words(table: Any) -> list[list[str]]:
            return [distinct_words(table.column(name), nulls) for name in listed]

        for found in in_order(self.tables(wishes.whole), words):
            for known, more in zip(listed.values(), found, strict=True):
                known.update(more)
        return replace(wishes, listed=listed)

    def wanted_rows(self, wishes: Wishes) -> int:
        """Rows of the sample: by the number of columns that may be features."""
        others = (wishes.target is not None) + (wishes.weight is not None)
        return sample_rows(len(self.names) - others)


def sample_rows(features: int) -> int:
    """How many rows a schema is read from: a power of two, fewer when they are wide.

    Only the data decides, never the format, so that equal data in any format makes equal models.
    """
    rows = _SAMPLE_ROWS
    while rows > _FEWEST_ROWS and rows * features > _SAMPLE_CELLS:
        rows //= 2
    return rows


def sampled_enough(rows: int, elements: int) -> bool:
    """Whether a sample is large enough before the number of features is known."""
    return rows >= _SAMPLE_ROWS or (rows >= _FEWEST_ROWS and elements >= _SAMPLE_CELLS)
