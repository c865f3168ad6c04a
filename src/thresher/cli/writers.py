"""Tables and predictions as they come: CSV, Parquet, Arrow, or one value per line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from thresher._files import output_file
from thresher.training.model import Predicted

__all__ = ["TABLES", "open_writer"]

#: formats of tables by the file's suffix
TABLES = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
          ".feather": "arrow"}  # fmt: skip


@contextmanager
def open_writer(output: str) -> Iterator[Any]:
    """The writer for this file name; the file appears when it is complete."""
    if output == "-":
        yield Lines(sys.stdout.buffer)
        sys.stdout.flush()
        return
    kind = TABLES.get(Path(output).suffix.lower())
    with output_file(output) as file:
        writer = Lines(file) if kind is None else Batches(file, kind)
        yield writer
        writer.close()


class Lines:
    """One prediction per line, as LIBSVM's predict writes it; scores and probabilities follow."""

    def __init__(self, file: IO[bytes]):
        self.file = file

    def write(self, part: Predicted, classes: Any, wanted: Sequence[str]) -> None:
        table = columns(part, classes, wanted)
        texts = [[_text(v) for v in column.tolist()] for column in table.values()]
        lines = (" ".join(cells) for cells in zip(*texts, strict=True))
        self.file.write("".join(line + "\n" for line in lines).encode())

    def close(self) -> None:
        pass


class Batches:
    """Formats that PyArrow writes, batch by batch."""

    def __init__(self, file: IO[bytes], kind: str):
        self.file, self.kind = file, kind
        self._writer: Any = None

    def write(self, part: Predicted, classes: Any, wanted: Sequence[str]) -> None:
        table = columns(part, classes, wanted)
        self.write_batch(pa.record_batch({name: pa.array(c) for name, c in table.items()}))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = self._open(batch.schema)
        self._writer.write_batch(batch)

    def _open(self, schema: pa.Schema) -> Any:
        if self.kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self.file, schema)
        if self.kind == "csv":
            import pyarrow.csv as pa_csv

            return pa_csv.CSVWriter(self.file, schema)
        return pa.ipc.new_file(self.file, schema)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def columns(part: Predicted, classes: Any, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the task's columns that are wanted; scores and probabilities of every class."""
    known = {"score": part.scores, "probability": part.probabilities}
    out = {"prediction": part.values}
    for what in wanted:
        found = known.get(what)
        if found is not None:
            out |= _named(what, found, classes)
    return out


def _named(what: str, table: np.ndarray, classes: Any) -> dict[str, np.ndarray]:
    if table.ndim == 1:
        return {what: table}
    labels = range(table.shape[1]) if classes is None else classes.tolist()
    return {f"{what} {label}": table[:, c] for c, label in enumerate(labels)}


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
