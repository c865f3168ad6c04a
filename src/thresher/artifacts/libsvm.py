"""LIBSVM's text model files, written and read.

LIBSVM keeps the labels in the order in which it met them, and a positive value of a pair of classes
speaks for the first; here labels are sorted and a positive value speaks for the second.  It
subtracts ``rho`` where we add an intercept.  Its kernels are ``linear``, ``polynomial``, ``rbf``
and ``sigmoid``.  Probabilities of a file (``probA``, ``probB``) are not read.
"""

from __future__ import annotations

import os
from typing import IO, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from thresher._files import Path_, atomic_file
from thresher.artifacts.container import BadFile
from thresher.artifacts.model_text import (
    INTEGER,
    LINE,
    integer_labels,
    numbered_lines,
    read_number,
    read_numbers,
    read_whole,
    text_lines,
)
from thresher.functions import Duels, SupportFunction
from thresher.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid

__all__ = ["LibsvmModel", "read_libsvm", "write_libsvm"]

_CLASSIFIERS = ("c_svc", "nu_svc")
_TYPES = (*_CLASSIFIERS, "one_class", "epsilon_svr", "nu_svr")
_FIELDS = (
    "svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label",
    "probA", "probB", "prob_density_marks", "nr_sv",
)  # fmt: skip
_SPARSE = 0.1  # share of non-zeros below which vectors stay sparse
_MOST_FEATURES = 2**31


class LibsvmModel(NamedTuple):
    """A machine in Thresher's conventions: sorted labels, the second of a pair is positive."""

    function: SupportFunction | Duels
    labels: np.ndarray | None  # integers; None for a regression and one class
    svm_type: str


# ---------------------------------------------------------------- writing


def write_libsvm(
    path: Path_, function: SupportFunction | Duels, labels: Any = None, svm_type: str | None = None
) -> None:
    """Write a machine for LIBSVM's ``svm-predict``; ``labels`` are sorted integers.

    Parameters
    ----------
    path : file to write
    function : SupportFunction of one output, or Duels
        Without units: LIBSVM knows none.
    labels : array or None, default=None
        None: a regression, or one class.
    svm_type : str or None, default=None
        None: "c_svc" with labels, "epsilon_svr" without.
    """
    function.check()
    if function.units is not None:
        raise ValueError(
            "LIBSVM's files know no units of the features: learn from rows that are scaled before "
            "(scale=False), or export to .onnx"
        )
    kind = svm_type or ("epsilon_svr" if labels is None else "c_svc")
    if kind not in _TYPES or (labels is None) == (kind in _CLASSIFIERS):
        raise ValueError(f"svm_type={svm_type!r} does not fit: use one of {', '.join(_TYPES)}")
    lines = [f"svm_type {kind}", *_kernel_lines(function.kernel)]
    coef, rho, starts = _layout(function, labels)
    classes = 2 if labels is None else starts.size - 1
    lines += [f"nr_class {classes}", f"total_sv {coef.shape[1]}"]
    lines.append("rho " + " ".join(map(repr, rho.tolist())))
    order = np.arange(coef.shape[1])
    if labels is not None:
        numbers = integer_labels(np.asarray(labels), "LIBSVM")
        lines.append("label " + " ".join(map(str, numbers)))
        lines.append("nr_sv " + " ".join(map(str, np.diff(starts).tolist())))
        if not isinstance(function, Duels):  # of two classes: the signs tell them apart
            order = np.argsort(coef[0] < 0.0, kind="stable")
    vectors = csr_matrix(function.vectors)
    with atomic_file(path) as file:
        file.write(("\n".join([*lines, "SV"]) + "\n").encode("ascii"))
        for v in order.tolist():
            part = slice(vectors.indptr[v], vectors.indptr[v + 1])
            cells = zip(vectors.indices[part].tolist(), vectors.data[part].tolist(), strict=True)
            words = [*map(repr, coef[:, v].tolist()), *(f"{j + 1}:{x!r}" for j, x in cells)]
            file.write((" ".join(words) + " \n").encode("ascii"))


def _kernel_lines(kernel: Kernel) -> list[str]:
    if type(kernel) is Linear:
        return ["kernel_type linear"]
    if type(kernel) is RBF:
        return ["kernel_type rbf", f"gamma {float(kernel.gamma)!r}"]
    if type(kernel) is Polynomial:
        return [
            "kernel_type polynomial", f"degree {int(kernel.degree)}",
            f"gamma {float(kernel.gamma)!r}", f"coef0 {float(kernel.intercept)!r}",
        ]  # fmt: skip
    if type(kernel) is Sigmoid:
        return [
            "kernel_type sigmoid", f"gamma {float(kernel.gamma)!r}",
            f"coef0 {float(kernel.intercept)!r}",
        ]  # fmt: skip
    raise ValueError(
        f"LIBSVM does not know the kernel {type(kernel).__name__}: export to .onnx instead"
    )


def _layout(
    function: SupportFunction | Duels, labels: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients, rho and the places of the classes, as LIBSVM has them."""
    coef, intercept = function.coef.astype(np.float64), function.intercept.astype(np.float64)
    if labels is None:
        return coef, -intercept, np.zeros(3, dtype=np.int64)
    if isinstance(function, Duels):
        return -coef, intercept, function.starts
    if function.outputs > 1:
        raise ValueError("LIBSVM knows pairs of classes only: learn with multiclass='ovo'")
    first = int(np.count_nonzero(coef[0] <= 0.0))
    return -coef, intercept, np.array([0, first, coef.shape[1]])


# ---------------------------------------------------------------- reading


def read_libsvm(
    path: Path_, features: int | None = None, max_bytes: int = 4 * 2**30
) -> LibsvmModel:
    """Read a model that LIBSVM saved; errors name the line.

    Parameters
    ----------
    path : file to read
    features : int or None, default=None
        Of a row; None: the last column of any support vector, since the file does not say.
    max_bytes : int, default=4 GiB
        A larger file is refused.
    """
    with open(path, "rb") as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise BadFile(f"line 1: the file has {size} bytes, more than {max_bytes=}")
            return _read(file, size, features)
        except BadFile as error:
            raise BadFile(f"{os.fspath(path)}, {error}") from None


def _read(file: IO[bytes], size: int, features: int | None) -> LibsvmModel:
    fields, line = _header(file)
    kind = fields["svm_type"]
    kernel = _kernel(fields)
    classifier = kind in _CLASSIFIERS
    k = read_whole(fields, "nr_class", 2, 10_000)
    total = read_whole(fields, "total_sv", 0, 2**31)
    if 2 * total > size:
        raise BadFile(f"line {line}: {total} support vectors do not fit into {size} bytes")
    rho = _row(fields, "rho", k * (k - 1) // 2 if classifier else 1)
    coef, vectors = _vectors(file, line, total, k - 1 if classifier else 1, features, size)
    if not classifier:
        return LibsvmModel(SupportFunction(kernel, vectors, coef, -rho), None, kind)
    labels, counts = _whole_row(fields, "label", k), _whole_row(fields, "nr_sv", k)
    if np.unique(labels).size != k:
        raise BadFile(f"line {_place(fields, 'label')}: a label is repeated")
    if counts.min() < 0 or counts.sum() != total:
        raise BadFile(f"line {_place(fields, 'nr_sv')}: nr_sv does not add up to {total}")
    return _sorted(kernel, vectors, coef, rho, labels, counts, kind)


def _sorted(
    kernel: Kernel, vectors: Any, coef: np.ndarray, rho: np.ndarray, labels: np.ndarray,
    counts: np.ndarray, kind: str,
) -> LibsvmModel:  # fmt: skip
    """With the classes in the order of their labels, and pairs speaking for the second."""
    k, order = labels.size, np.argsort(labels)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if k == 2:
        sign = 1.0 if labels[0] > labels[1] else -1.0
        two = SupportFunction(kernel, vectors, sign * coef, -sign * rho)
        return LibsvmModel(two, labels[order], kind)
    number = {pair: p for p, pair in enumerate((i, j) for i in range(k) for j in range(i + 1, k))}
    rows = np.concatenate([np.arange(starts[c], starts[c + 1]) for c in order])
    out, intercept = np.zeros((k - 1, rows.size)), np.zeros(k * (k - 1) // 2)
    ends = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int64)
    for (i, j), p in number.items():  # ours; theirs are the classes a and b
        a, b = int(order[i]), int(order[j])
        sign = -1.0 if a < b else 1.0  # theirs speaks for the one that it met first
        intercept[p] = -sign * rho[number[min(a, b), max(a, b)]]
        for own, other, c, d in ((i, j - 1, a, b), (j, i, b, a)):
            theirs = coef[d - 1 if d > c else d, starts[c] : starts[c + 1]]
            out[other, ends[own] : ends[own + 1]] = sign * theirs
    function = Duels(kernel, vectors[rows], out, intercept, ends)
    return LibsvmModel(function, labels[order], kind)


def _header(file: IO[bytes]) -> tuple[dict[str, str], int]:
    """The fields above the support vectors by name, and the number of their last line."""
    fields: dict[str, str] = {}
    for place, line in numbered_lines(text_lines(file, LINE * 2**20), 0):
        key, _, value = line.partition(" ")
        if key == "SV" and not value:
            _check_header(fields, place)
            return fields, place
        if key not in _FIELDS:
            raise BadFile(f"line {place}: {key[:50]!r} is no field of a LIBSVM model")
        if key in fields:
            raise BadFile(f"line {place}: {key!r} stands here a second time")
        fields[key] = value.strip()
    raise BadFile(f"line {len(fields) + 1}: the file ends before the line 'SV'")


def _check_header(fields: dict[str, str], line: int) -> None:
    kind = fields.get("svm_type", "")
    if kind not in _TYPES:
        raise BadFile(f"line {line}: unknown svm_type {kind[:50]!r}")
    needed = ["kernel_type", "nr_class", "total_sv", "rho"]
    needed += ["label", "nr_sv"] if kind in _CLASSIFIERS else []
    missing = [name for name in needed if name not in fields]
    if missing:
        raise BadFile(f"line {line}: {missing[0]!r} is missing above")


def _kernel(fields: dict[str, str]) -> Kernel:
    kind = fields["kernel_type"]

    def value(name: str) -> float:
        if name not in fields:
            raise BadFile(f"line {len(fields) + 1}: {name!r} of the kernel is missing above")
        return read_number(fields[name], _place(fields, name))

    if kind == "linear":
        return Linear()
    if kind == "rbf":
        return RBF(value("gamma"))
    if kind == "polynomial":
        if "degree" not in fields:
            raise BadFile(f"line {len(fields) + 1}: 'degree' of the kernel is missing above")
        degree = read_whole(fields, "degree", 0, 1000)
        return Polynomial(degree, value("gamma"), value("coef0"))
    if kind == "sigmoid":
        return Sigmoid(value("gamma"), value("coef0"))
    known = "linear, polynomial, rbf or sigmoid"
    raise BadFile(f"line {_place(fields, 'kernel_type')}: kernel {kind[:50]!r} is not {known}")


def _place(fields: dict[str, str], name: str) -> int:
    return list(fields).index(name) + 1


def _row(fields: dict[str, str], name: str, count: int) -> np.ndarray:
    words, line = fields[name].split(), _place(fields, name)
    if len(words) != count:
        raise BadFile(f"line {line}: {count} numbers of {name} were expected, got {len(words)}")
    return np.array(read_numbers(words, line), dtype=np.float64)


def _whole_row(fields: dict[str, str], name: str, count: int) -> np.ndarray:
    words, line = fields[name].split(), _place(fields, name)
    if len(words) != count or not all(map(INTEGER.fullmatch, words)):
        raise BadFile(f"line {line}: {count} whole numbers of {name} were expected")
    return np.array([int(word) for word in words], dtype=np.int64)


def _vectors(
    file: IO[bytes], line: int, total: int, outputs: int, features: int | None, size: int
) -> tuple[np.ndarray, Any]:
    """Coefficients (outputs, vectors) and the vectors, dense unless most of them is zero."""
    coef = np.empty((outputs, total))
    ends, columns, values = [0], [], []
    for place, text in numbered_lines(text_lines(file, max(size, 1)), line):
        words = text.split()
        v = place - line - 1
        if v >= total:
            if words:
                raise BadFile(f"line {place}: text after the last support vector")
            continue
        if len(words) < outputs:
            raise BadFile(f"line {place}: {outputs} coefficients were expected")
        coef[:, v] = read_numbers(words[:outputs], place)
        cells = [word.partition(":") for word in words[outputs:]]
        where = [int(c) if INTEGER.fullmatch(c) else 0 for c, _, _ in cells]
        if any(a >= b for a, b in zip([0, *where], where, strict=False)):
            raise BadFile(f"line {place}: columns must be numbers from 1 that rise")
        if where and where[-1] > (features or _MOST_FEATURES):
            raise BadFile(f"line {place}: column {where[-1]} is beyond the features")
        columns += where
        values += read_numbers([x for _, _, x in cells], place)
        ends.append(len(columns))
    if len(ends) <= total:
        raise BadFile(f"line {line + len(ends)}: the file ends after {len(ends) - 1} of {total} "
                      "support vectors")  # fmt: skip
    width = features or max(columns, default=1)
    indices = np.array(columns, dtype=np.int64) - 1
    vectors = csr_matrix((np.array(values), indices, np.array(ends)), shape=(total, width))
    sparse = vectors.nnz < _SPARSE * total * width
    return coef, vectors if sparse else vectors.toarray()
