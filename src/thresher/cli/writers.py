"""Predictions as they come: CSV, Parquet, Arrow, or one value per line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from thresher.artifacts.container import atomic_file
from thresher.training.model import Predicted

__all__ = ["open_writer"]


@contextmanager
def open_writer(output: str) -> Iterator[Any]:
    """The writer for this file name; the file appears when it is complete."""
    if output == "-":
        yield Lines(sys.stdout.buffer)
        sys.stdout.flush()
        return
    kind = Path(output).suffix.lower()
    makers: dict[str, Any] = {
        ".csv": Csv, ".parquet": Parquet, ".pq": Parquet, ".arrow": Arrow, ".feather": Arrow,
    }  # fmt: skip
    with _opened(output) as file:
        writer = makers.get(kind, Lines)(file)
        yield writer
        writer.close()


def _opened(output: str) -> Any:
    """Devices and pipes are written to as they are; a file takes its name when complete."""
    if os.path.exists(output) and not os.path.isfile(output) and not os.path.isdir(output):
        return open(output, "wb")
    return atomic_file(output)


class Lines:
    """One prediction per line, as LIBSVM's predict writes it; scores and probabilities follow."""

    def __init__(self, file: IO[bytes]):
        self.file = file

    def write(self, part: Predicted, classes: Any, scores: bool, probabilities: bool) -> None:
        table = columns(part, classes, scores, probabilities)
        texts = [[_text(v) for v in column.tolist()] for column in table.values()]
        lines = (" ".join(cells) for cells in zip(*texts, strict=True))
        self.file.write("".join(line + "\n" for line in lines).encode())

    def close(self) -> None:
        pass


class _Batches:
    """Formats that PyArrow writes, batch by batch."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self._writer: Any = None

    def write(self, part: Predicted, classes: Any, scores: bool, probabilities: bool) -> None:
        table = columns(part, classes, scores, probabilities)
        batch = pa.table({name: pa.array(column) for name, column in table.items()})
        if self._writer is None:
            self._writer = self._open(batch.schema)
        self._writer.write_table(batch)

    def _open(self, schema: pa.Schema) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Csv(_Batches):
    def _open(self, schema: pa.Schema) -> Any:
        import pyarrow.csv as pa_csv

        return pa_csv.CSVWriter(self.file, schema)


class Parquet(_Batches):
    def _open(self, schema: pa.Schema) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(self.file, schema)


class Arrow(_Batches):
    def _open(self, schema: pa.Schema) -> Any:
        return pa.ipc.new_file(self.file, schema)


def columns(
    part: Predicted, classes: Any, scores: bool, probabilities: bool
) -> dict[str, np.ndarray]:
    """The prediction, then the asked-for scores and probabilities, one column per class."""
    out = {"prediction": part.values}
    if scores and classes is not None:
        out |= _named("score", part.scores, classes)
    if probabilities and part.probabilities is not None:
        out |= _named("probability", part.probabilities, classes)
    return out


def _named(what: str, table: np.ndarray, classes: Any) -> dict[str, np.ndarray]:
    if table.ndim == 1:
        return {what: table}
    return {f"{what} {label}": table[:, c] for c, label in enumerate(classes.tolist())}


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
