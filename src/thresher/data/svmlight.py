"""svmlight / LIBSVM text: ``label index:value index:value ... # comment``, also with ``qid:n``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from thresher.data._svmlight_text import SvmlightBlock, cut, parse_svmlight
from thresher.data.batch import Batch, Sparse
from thresher.data.encode import Encoder, Origin
from thresher.data.errors import BadCell, DataError
from thresher.data.files import BLOCK_BYTES, STDIN, Span, TextBlock, text_blocks
from thresher.data.infer import with_layout
from thresher.data.infer_target import infer_target
from thresher.data.schema import MOST_FEATURES, Schema
from thresher.data.source import Files, Part, Source, sample_rows, sampled_enough
from thresher.data.spans import TallyAll, text_spans
from thresher.data.wishes import Wishes

__all__ = ["SvmlightSource"]


@dataclass
class SvmlightSource(Files, Source):
    """One or several svmlight files.

    ``zero_based``: whether the first feature has index 0; None: 1, unless an index 0 occurs.
    ``n_features``: None: the largest index that occurs, which takes one pass over the files.
    """

    paths: list[str]
    zero_based: bool | None = None
    n_features: int | None = None
    encoding: str = "utf-8"
    block_bytes: int = BLOCK_BYTES
    _held: list[TextBlock] = field(default_factory=list)  # read from standard input already

    def __post_init__(self) -> None:
        self.find_files()
        if self.n_features is not None and not 0 <= self.n_features <= MOST_FEATURES:
            raise ValueError(f"n_features must lie in 0 .. {MOST_FEATURES}, got {self.n_features}")

    @cached_property
    def _stdin(self) -> Iterator[TextBlock]:
        return text_blocks(Span(STDIN), cut, self.block_bytes, self.encoding)

    def infer(self, wishes: Wishes) -> Schema:
        sample = self._sample()
        low, high, labels = self._extent(sample)
        base = 0 if self.zero_based or (self.zero_based is None and low == 0) else 1
        features = max(high - base + 1, 0) if self.n_features is None else self.n_features
        if self.n_features is None and features > most_features():
            raise DataError(
                f"{self._widest}: feature {high} makes rows of {features} features, whose weights "
                f"alone do not fit in memory (n_features={features} insists)"
            )
        sample = _head([sample], sample_rows(features))
        target = infer_target("label", sample.labels, wishes, self.name, every=labels)
        schema = Schema(target=target, matrix_features=features, first_index=base)
        return with_layout(schema, sample.labels.size, sample.values.size - sample.zeros)

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        return self.parsed(self._text(), self._read, encoder)

    def _read(self, block: TextBlock, encoder: Encoder) -> Iterator[Batch]:
        schema = encoder.schema
        parsed = parse_svmlight(block.data, block.first_line, block.newlines)
        for line in parsed.bad:
            problem = f"{line.problem} (character {line.column})"
            encoder.bad.add(BadCell(block.file, line.line, None, problem))
        origin = _origin(block.file, parsed.lines)
        rows = Batch(_sparse(parsed, schema.first_index), parsed.labels, None)
        rows, origin = _known_features(rows, origin, encoder)
        if rows.size:
            target = rows.y if schema.target is not None else None
            yield encoder.encode_matrix(_laid_out(rows.matrix, schema), target, None, origin)

    def parts(self, n: int, tally_all: TallyAll) -> list[Part]:
        return self.grouped(text_spans(self.paths, n, cut, self.encoding, False, tally_all), n)

    # ------------------------------------------------------------ the sample

    def _sample(self) -> SvmlightBlock:
        """The first rows; bad lines are left for the reading proper to complain about."""
        parts: list[SvmlightBlock] = []
        rows = elements = 0
        for block in self._text(hold=True):
            parts.append(parse_svmlight(block.data, block.first_line))
            rows += parts[-1].labels.size
            elements += parts[-1].values.size
            if sampled_enough(rows, elements):
                break
        if not rows:
            bad = next((line for part in parts for line in part.bad), None)
            if bad:
                raise DataError(str(BadCell(self.paths[0], bad.line, None, bad.problem)))
            raise DataError(f"{self.name} is empty")
        return _head(parts, sample_rows(1))

    def _extent(self, sample: SvmlightBlock) -> tuple[int, int, np.ndarray | None]:
        """Smallest and largest index, and all labels, by a pass over the files where possible."""
        low, high = _index_range(sample.indices)
        self._widest = _place_of(high, sample, self.name)
        if self.n_features is not None or not self.rereadable:
            return low, high, None
        labels = np.unique(sample.labels)
        for block in self._text():
            part = parse_svmlight(block.data, block.first_line)
            low_part, high_part = _index_range(part.indices)
            if high_part > high:
                self._widest = _place_of(high_part, part, block.file)
            low, high = min(low, low_part), max(high, high_part)
            if labels.size <= 10_000:
                labels = np.union1d(labels, part.labels)
        return low, high, labels

    def _text(self, hold: bool = False) -> Iterator[TextBlock]:
        """All blocks; ``hold``: those of standard input will be needed again."""
        for span in self.read_spans():
            if span.path != STDIN:
                yield from text_blocks(span, cut, self.block_bytes, self.encoding)
            elif hold:
                for block in self._stdin:
                    self._held.append(block)
                    yield block
            else:
                while self._held:
                    yield self._held.pop(0)
                yield from self._stdin


def most_features() -> int:
    """So many that two vectors of weights are as large as the memory of the machine."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE")) // 16
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return MOST_FEATURES


def _place_of(index: int, block: SvmlightBlock, file: str) -> str:
    """File and line of a feature."""
    found = np.flatnonzero(block.indices == index)
    if not found.size:
        return file
    row = int(np.searchsorted(block.indptr, found[0], side="right")) - 1
    return f"{file}, line {block.lines[row]}"


def _origin(file: str, lines: np.ndarray) -> Origin:
    return Origin(file, lambda i: int(lines[i]))


def _known_features(rows: Batch, origin: Origin, encoder: Encoder) -> tuple[Batch, Origin]:
    """The rows whose features are all in the schema; the others are reported."""
    assert isinstance(rows.matrix, Sparse)
    indices, features = rows.matrix.indices, encoder.schema.n_features
    low, high = _index_range(indices)
    if low >= 0 and high < features:
        return rows, origin
    first = encoder.schema.first_index
    wrong = np.flatnonzero((indices < 0) | (indices >= features))
    good = np.ones(rows.size, dtype=bool)
    for i, k in zip(np.searchsorted(rows.matrix.indptr, wrong, side="right") - 1, wrong,
                    strict=True):  # fmt: skip
        if good[i]:
            index = int(indices[k]) + first
            last = first + features - 1
            problem = f"feature {index} is outside {first} .. {last} (n_features= says how many)"
            encoder.bad.add(origin.cell(int(i), None, problem))
            good[i] = False
    return rows.taken(good), origin.taken(good)


def _index_range(indices: np.ndarray) -> tuple[int, int]:
    return (int(indices.min()), int(indices.max())) if indices.size else (MOST_FEATURES, -1)


def _sparse(parsed: SvmlightBlock, base: int) -> Sparse:
    """Compressed rows without zeros, features counted from 0."""
    values, indices, indptr = parsed.values, parsed.indices, parsed.indptr
    if parsed.zeros:
        kept = values != 0.0
        indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
        values, indices = values[kept], indices[kept]
    if base:
        indices -= np.int32(base)  # the block's own: nobody else reads them
    return Sparse(values, indices, indptr.astype(np.int32))


def _laid_out(matrix: Any, schema: Schema) -> np.ndarray | Sparse:
    if schema.layout == "sparse":
        return matrix
    out = np.zeros((matrix.indptr.size - 1, schema.n_features))
    _scatter(matrix.data, matrix.indices, matrix.indptr, out)
    return out


@njit(cache=True, nogil=True)
def _scatter(data, indices, indptr, out):
    for i in range(out.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            out[i, indices[k]] = data[k]


def _head(parts: list[SvmlightBlock], wanted: int) -> SvmlightBlock:
    """The first rows of several blocks."""
    sizes = np.concatenate([np.diff(p.indptr) for p in parts])[:wanted]
    end = int(sizes.sum())
    values = np.concatenate([p.values for p in parts])[:end]
    return parts[0]._replace(
        labels=np.concatenate([p.labels for p in parts])[:wanted],
        indptr=np.concatenate([[0], np.cumsum(sizes)]),
        indices=np.concatenate([p.indices for p in parts])[:end],
        values=values,
        lines=np.concatenate([p.lines for p in parts])[:wanted],
        zeros=int(np.count_nonzero(values == 0.0)),
    )
