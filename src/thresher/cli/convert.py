"""``thresher convert``: between data formats, and models of LIBLINEAR and LIBSVM to ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher._files import atomic_file
from thresher.cli import show
from thresher.cli.writers import TABLES, open_writer
from thresher.data import DataSet, open_data
from thresher.data.record_batches import record_batches
from thresher.data.rows_file import write_rows

__all__ = ["convert"]

_MATRICES = {".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".npz": "npz",
             ".rows": "rows"}  # fmt: skip


def convert(
    paths: list[str], output: Path, target: str | None, reading: dict[str, Any], as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    kind = output.suffix.lower()
    if kind == ".thresher":
        _import_model(paths, output, as_json)
        return
    if kind not in TABLES and kind not in _MATRICES:
        known = ", ".join([*TABLES, *_MATRICES, ".thresher"])
        raise ValueError(f"--output {output}: the suffix says the format, one of {known}")
    with show.Live(quiet or as_json) as live:
        if kind in TABLES:
            rows = _to_table(paths, output, reading, live)
        else:
            data = open_data(paths, target=target, **reading)
            if data.schema.is_table and target is None:
                raise ValueError(f"{kind} files hold rows with a target: name it with --target")
            rows = _to_matrix(data, output, _MATRICES[kind], live)
    if as_json:
        show.print_json({"rows": rows, "output": str(output)})
    elif not quiet:
        show.console.print(f"wrote {rows:,} rows to {output}")


def _to_table(paths: list[str], output: Path, reading: dict[str, Any], live: show.Live) -> int:
    rows = 0
    with open_writer(str(output)) as writer:
        for batch in record_batches(open_data(paths, **reading)):
            writer.write_batch(batch)
            rows += batch.num_rows
            live.count("converting", rows)
    return rows


def _to_matrix(data: DataSet, output: Path, kind: str, live: show.Live) -> int:
    if kind == "rows":
        return write_rows(data, output, lambda rows: live.count("converting", rows))
    if kind == "npz":
        return _to_npz(data, output)
    rows = 0
    with atomic_file(output) as file:
        for batch in data.chunks():
            file.write(svmlight_text(batch.X, _labels(data, batch.y)).encode())
            rows += batch.size
            live.count("converting", rows)
    return rows


def _labels(data: DataSet, y: Any) -> list[Any]:
    """Numbers as they are; text labels as their class number."""
    target = data.schema.target
    if y is None:
        raise ValueError("the data has no target")
    if target is None or not target.classes or target.by_words:
        values = y if target is None or not target.classes else y.astype(np.int64)
    else:
        values = np.array(target.classes)[y.astype(np.int64)]
    return values.tolist()


def svmlight_text(X: Any, labels: list[Any]) -> str:
    """One line per row, features counted from 1, numbers so that they read back the same."""
    if not hasattr(X, "indptr"):
        from scipy.sparse import csr_array

        X = csr_array(X)
    values = [repr(v).removesuffix(".0") for v in X.data.tolist()]
    cells = [f"{j + 1}:{v}" for j, v in zip(X.indices.tolist(), values, strict=True)]
    ends = X.indptr.tolist()
    lines = [
        " ".join([repr(label), *cells[ends[i] : ends[i + 1]]]) for i, label in enumerate(labels)
    ]
    return "\n".join(lines) + "\n"


def _to_npz(data: DataSet, output: Path) -> int:
    """The whole matrix, which has to fit in memory."""
    from scipy.sparse import vstack

    batches = list(data.chunks())
    parts = [batch.X for batch in batches]
    arrays: dict[str, Any] = {}
    if hasattr(parts[0], "indptr"):
        X = vstack(parts, format="csr")
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr,
                  "shape": np.array(X.shape), "format": np.array(b"csr")}  # fmt: skip
    else:
        arrays["X"] = np.concatenate(parts)
    target = data.schema.target
    if target is not None:
        y = np.concatenate([batch.y for batch in batches if batch.y is not None])
        arrays["y"] = np.array(target.classes)[y.astype(np.int64)] if target.classes else y
    if data.schema.weight is not None:
        arrays["weight"] = np.concatenate([b.weight for b in batches if b.weight is not None])
    with atomic_file(output) as file:
        np.savez(file, allow_pickle=False, **arrays)
    return sum(batch.size for batch in batches)


def _import_model(paths: list[str], output: Path, as_json: bool) -> None:
    from thresher.training import save_model

    if len(paths) != 1:
        raise ValueError("one model of LIBLINEAR or LIBSVM at a time")
    with open(paths[0], "rb") as file:
        is_machine = file.read(9) == b"svm_type "
    tool, read = ("LIBSVM", _libsvm) if is_machine else ("LIBLINEAR", _liblinear)
    estimator = read(paths[0])
    save_model(estimator, output, imported=paths[0])
    if as_json:
        show.print_json({"output": str(output), "features": int(estimator.n_features_in_)})
    else:
        show.console.print(f"wrote {output} from the {tool} model {paths[0]}")


def _liblinear(path: str) -> Any:
    from thresher.artifacts.liblinear import read_liblinear
    from thresher.estimators.linear import imported

    found = read_liblinear(path)
    labels = None if found.regression else found.labels
    logistic = found.solver_type.endswith("LR") or "_LR_" in found.solver_type
    return imported(found.coef, found.intercept, labels, logistic)


def _libsvm(path: str) -> Any:
    from thresher.artifacts.libsvm import read_libsvm
    from thresher.estimators.support import imported

    return imported(read_libsvm(path))
