"""Damaged and hostile input: readers refuse it with an error that says so, and never with another.

Each property has a short run that always happens and a long one for `make test-slow`, where the
Atheris programs of ``fuzz/`` run for a minute each as well.
"""

import copy
import functools
import importlib.util
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thresher import (
    BudgetedClassifier,
    DataError,
    KernelClassifier,
    LinearClassifier,
    load_model,
    open_data,
    save_model,
    train,
)
from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import UnknownTerm
from thresher.data import _svmlight_text
from thresher.data._svmlight_text import cut, parse_svmlight
from thresher.data.rows_file import RowsFile, write_rows
from thresher.training import Training, run
from thresher.training.checkpoint import Checkpointer, Every, checkpoint_path
from thresher.training.one_run import Run

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 30.0  # seconds; an example that takes longer hangs (the first may have to compile)


def both(strategy, quick, long):
    """The decorated check as a quick test, always of the same cases, and as a slow one."""

    def decorate(check):
        compiled = []

        def made(examples, same):
            @given(strategy)
            @settings(max_examples=examples, derandomize=same)
            def test(case):
                started = time.monotonic()
                check(case)
                assert time.monotonic() - started < PATIENCE or not compiled
                compiled.append(True)

            return test

        name = check.__name__.removeprefix("check_")
        module = sys.modules[__name__]
        setattr(module, f"test_{name}", made(quick, same=True))
        setattr(module, f"test_{name}_at_length", pytest.mark.slow(made(long, same=False)))
        return check

    return decorate


# ---------------------------------------------------------------- mutations


def edits(pieces):
    """Lists of (what to do, where, how much, new bytes)."""
    edit = st.tuples(
        st.sampled_from(["insert", "replace", "delete", "repeat", "flip", "cut"]),
        st.floats(0.0, 1.0),
        st.integers(0, 24),
        st.one_of(st.sampled_from(pieces), st.binary(max_size=6)),
    )
    return st.lists(edit, min_size=1, max_size=6)


def edited(data, changes):
    data = bytearray(data)
    for what, where, size, new in changes:
        p = int(where * len(data))
        if what == "insert":
            data[p:p] = new
        elif what == "replace":
            data[p : p + len(new)] = new
        elif what == "delete":
            del data[p : p + size]
        elif what == "repeat":
            data[p:p] = data[p : p + size] * 3
        elif what == "flip" and p < len(data):
            data[p] ^= 1 << (size % 8)
        elif what == "cut" and size > 20:
            del data[p:]
    return bytes(data)


def mutated(seeds, pieces=(b"\0", b"\xff")):
    return st.builds(edited, st.sampled_from(seeds), edits(list(pieces)))


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 2**64, -(2**70)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "C", "f", "<f8", "|O", "coef_", "a0", "hinge", "inf", "nan", "é" * 30]),
    st.sampled_from(["thresher.losses.Hinge", "thresher.solvers.dcd.DualDescent", "os.system"]),
    st.sampled_from([[], {}, [[]], {"": 0}, {"$array": ["coef_", "C"]}, {"$tuple": [1]}]),
    st.sampled_from([{"$array": ["a0", "C"]}, {"$array": ["a1", "F"]}, {"$float": "nan"}]),
    st.sampled_from([10**400, 1e308, {"$float": "inf"}, {"$scalar": ["<f2", 1.0]}]),
    st.sampled_from([{"$dtype": "<f2"}, {"$type": "<f8"}, {"$dict": [[{"$tuple": [[]]}, 1]]}]),
    st.just({"$strings": {"shape": [0], "width": 10**12, "values": []}}),
)


def places(value, path=()):
    """The path to every value in a JSON document."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))
        else:
            yield (*path, key)


def changed(document, where, what, new):
    """The document with one value replaced, removed, or taken twice."""
    document = copy.deepcopy(document)
    known = list(places(document))[1:]
    path = known[int(where * (len(known) - 1))]
    holder = functools.reduce(lambda value, key: value[key], path[:-1], document)
    if what == "remove":
        del holder[path[-1]]
    elif what == "double" and isinstance(holder, list):
        holder.append(holder[path[-1]])
    else:
        holder[path[-1]] = new
    return document


CHANGES = st.lists(
    st.tuples(
        st.floats(0.0, 1.0), st.sampled_from(["replace", "replace", "remove", "double"]), PLAIN
    ),
    min_size=1,
    max_size=2,
)


def with_changes(document, changes):
    for change in changes:
        document = changed(document, *change)
    return document


def temporary(data, suffix):
    """A file of these bytes in a folder that goes away with the object."""
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "data" + suffix)
    Path(path).write_bytes(data)
    return folder, path


# ---------------------------------------------------------------- svmlight text

SVMLIGHT = [
    b"+1 1:0.5 3:-2e-3 7:1 # note\n-1 2:1\n\n1 qid:4 1:.5 2:1e5\r\n0 5:123456789.123456789\n",
    b"3 1:1 2:1 3:1\n2.5 3:1 1:2\n-1 qid:18446744073709551616 1:1\n" * 3,
    b"1 2147483647:1 \t\n1 2147483648:1\n1,2 1:1\n# only a comment\n1",
    b"1 4:179769313486231580793728971405303415079934132710037826936173778980444968292764750946649\n"
    b"-0 1:0.000000000000000000000000000000000000000000000000000000000000000000000001e-300\n",
]
SVMLIGHT_PIECES = [b" ", b":", b"\n", b"#", b"\r\n", b"qid:", b"1:1 ", b"e", b"-", b".", b"nan",
                   b"1e999", b"\0", b"0" * 40, b"9" * 40, b"\xc3", b"\t"]  # fmt: skip


@both(st.one_of(mutated(SVMLIGHT, SVMLIGHT_PIECES), st.binary(max_size=80)), 150, 8000)
def check_svmlight_parser(text):
    block = parse_svmlight(text)
    n = block.labels.size
    assert block.indptr[0] == 0
    assert block.indptr.size == n + 1
    assert np.all(np.diff(block.indptr) >= 0)
    assert block.indices.size == block.values.size == block.indptr[-1]
    assert np.all(np.isfinite(block.values))
    assert np.all(np.isfinite(block.labels))
    assert np.all(block.indices >= 0)
    for i in range(n):
        assert np.all(np.diff(block.indices[block.indptr[i] : block.indptr[i + 1]]) > 0)
    wanted, bad = [], []
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            row = _svmlight_text._careful_line(line)
        except _svmlight_text._Bad:
            bad.append(number)
            continue
        wanted += [] if row is None else [(number, row)]
    assert block.lines.tolist() == [number for number, _ in wanted]
    assert [line.line for line in block.bad] == bad
    assert block.labels.tolist() == [row[0] for _, row in wanted]
    assert block.indices.tolist() == [j for _, row in wanted for j in row[2]]
    assert block.values.tolist() == [x for _, row in wanted for x in row[3]]
    middle = cut(text[: len(text) // 2])
    if middle:
        first, second = parse_svmlight(text[:middle]), parse_svmlight(text[middle:])
        values = np.concatenate([first.values, second.values])
        np.testing.assert_array_equal(values, block.values)


@both(mutated(SVMLIGHT[:2], SVMLIGHT_PIECES), 60, 3000)
def check_svmlight_file(text):
    folder, path = temporary(text, ".svm")
    with folder:
        outcomes = [
            tried(path, policy, size) for policy in ("error", "skip") for size in (16, 4096)
        ]
    compare(outcomes)


# ---------------------------------------------------------------- delimited text

CSV = [
    b"age,city,ok,y\n31,Oslo,yes,1\n45,Pune,no,0\n,Oslo,yes,1\n7.5,?,no,0\n",
    b'a;b;y\n1;"x ; y";high\n2;"line\nbreak";low\n3;"say ""hi""";high\n',
    b"1,2,3,0\n4,5,6,1\n7,8,9,0\n",
    b"day\tv\ty\n2024-01-01\t1e5\t3.5\n2024-02-30\t-2\t4.25\n2024-03-01\tNA\t1\n",
    b"y,t\r\n1,\xc3\xa9t\xc3\xa9\r\n0,hiver\r\n1,hiver\r\n",
]
CSV_PIECES = [b",", b";", b"\t", b"\n", b"\r", b"\r\n", b'"', b'""', b" ", b"NA", b"1e999", b"nan",
              b"\0", b"\xff", b"\xef\xbb\xbf", b"-", b"1", b",,,,", b"\n\n", b"|"]  # fmt: skip


def rows_of(path, policy, size, **options):
    """Everything that a reader makes of a file, as plain values."""
    data = open_data(path, on_bad_rows=policy, block_bytes=size, **options)
    parts = []
    for batch in data.chunks():
        rows = batch.rows
        d = data.schema.n_features
        assert rows.shape == (batch.size, d)
        matrix = rows.X if hasattr(rows, "X") else dense(rows, d)
        assert np.all(np.isfinite(matrix))
        target = data.schema.target
        if target is not None:
            assert batch.y.shape == (batch.size,)
            codes = len(target.classes)
            assert np.all(np.isfinite(batch.y))
            assert not codes or np.all((batch.y >= 0) & (batch.y < codes))
        parts.append((matrix.tolist(), None if batch.y is None else batch.y.tolist()))
    return data.schema, parts, data.bad.count


def dense(rows, d):
    """The first thousand columns; SciPy would crash on what is checked before."""
    from scipy.sparse import csr_array

    indices, indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    assert indices.size == 0 or (indices.min() >= 0 and indices.max() < d)
    assert indptr[0] == 0
    assert indptr[-1] == indices.size
    assert np.all(np.diff(indptr) >= 0)
    return csr_array((rows.data, indices, indptr), shape=rows.shape)[:, :1000].toarray() * 1.0


def tried(path, policy, size, **options):
    try:
        return rows_of(path, policy, size, **options)
    except ValueError as error:
        return error


def compare(outcomes):
    """(error, small), (error, large), (skip, small), (skip, large): blocks leave no trace."""
    for small, large in (outcomes[:2], outcomes[2:]):
        assert isinstance(small, ValueError) == isinstance(large, ValueError), (small, large)
        if not isinstance(small, ValueError):
            assert small == large
    if not isinstance(outcomes[0], ValueError):  # nothing is wrong: nothing is skipped
        assert outcomes[2] == outcomes[0]


@both(mutated(CSV, CSV_PIECES), 80, 4000)
def check_csv_file(text):
    folder, path = temporary(text, ".csv")
    with folder:
        outcomes = [
            tried(path, policy, size, target=-1)
            for policy in ("error", "skip")
            for size in (16, 1 << 20)
        ]
    compare(outcomes)


@both(st.tuples(mutated(CSV, CSV_PIECES), st.integers(0, len(CSV) - 1)), 60, 3000)
def check_csv_by_the_schema_of_another(case):
    text, which = case
    folder, path = temporary(CSV[which], ".csv")
    with folder:
        schema = open_data(path, target=-1, types={"day": "date"} if which == 3 else None).schema
        Path(path).write_bytes(text)
        for policy in ("error", "skip"):
            tried(path, policy, 1 << 20, schema=schema)


# ---------------------------------------------------------------- model files


@functools.cache
def models():
    """(bytes, document, arrays) of some model files."""
    rng = np.random.default_rng(0)
    frame = {"a": rng.normal(size=60), "b": rng.choice(["x", "y", "z"], 60)}
    frame["y"] = np.where(frame["a"] + (frame["b"] == "x") > 0, "high", "low")
    text = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in zip(*frame.values(), strict=True))
    folder, path = temporary(text.encode(), ".csv")
    found = []
    with folder:
        out = os.path.join(folder.name, "m.thresher")
        train(path, target="y", params={"calibrate": "isotonic"}).save(out)
        found.append(Path(out).read_bytes())
        X = frame["a"][:, None] * np.array([1.0, -2.0, 0.0])
        three = np.digitize(frame["a"], [-0.5, 0.5])
        save_model(LinearClassifier("logistic", solver="asgd").fit(X, three).sparsify(), out)
        found.append(Path(out).read_bytes())
        forest = KernelClassifier(map="forest", n_components=3, random_state=0).fit(X, three)
        save_model(forest, out)
        found.append(Path(out).read_bytes())
        save_model(KernelClassifier(map="terms", alpha=0.01, random_state=0).fit(X, three), out)
        found.append(Path(out).read_bytes())
        save_model(BudgetedClassifier(budget=5, random_state=0).fit(X, three), out)
        found.append(Path(out).read_bytes())
    return [(data, *unpacked(data)) for data in found]


def unpacked(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("document.json")), members


def packed(document, members):
    """A zip whose checksums are right, whatever it says."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in {"document.json": json.dumps(document).encode(), **members}.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def load_or_refuse(data):
    folder, path = temporary(data, ".thresher")
    with folder:
        try:
            model = load_model(path)
        except (BadFile, UnknownTerm):
            return
    d = model.schema.n_features
    if d <= 100_000 and not model.schema.is_table:
        assert model.predict(np.zeros((2, d))).shape == (2,)
        assert np.all(np.isfinite(model.function.scores(np.ones((1, d)))))


MODELS = st.integers(0, 4)
BYTE_CHANGES = st.tuples(MODELS, edits([b"\0", b"\xff", b"PK\x01\x02", b"PK\x05\x06"]))


@both(BYTE_CHANGES, 100, 5000)
def check_model_bytes(case):
    which, changes = case
    load_or_refuse(edited(models()[which][0], changes))


@both(st.tuples(MODELS, CHANGES), 150, 8000)
def check_model_document(case):
    which, changes = case
    _, document, members = models()[which]
    load_or_refuse(packed(with_changes(document, changes), members))


@both(st.tuples(MODELS, st.integers(0, 20), edits([b"\0", b"<f8", b"|O"])), 60, 3000)
def check_model_arrays(case):
    which, member, changes = case
    _, document, members = models()[which]
    name = sorted(members)[member % len(members)]
    load_or_refuse(packed(document, {**members, name: edited(members[name], changes)}))


# ---------------------------------------------------------------- files of parsed rows


@functools.cache
def rows_files():
    found = []
    for text, options in ((CSV[0], {"target": "y"}), (SVMLIGHT[0], {"n_features": 200})):
        folder, path = temporary(text, ".csv" if options.get("target") else ".svm")
        with folder:
            write_rows(open_data(path, **options), path + ".rows")
            found.append(Path(path + ".rows").read_bytes())
    return found


def read_or_refuse(data):
    folder, path = temporary(data, ".rows")
    with folder:
        try:
            schema, parts, _ = rows_of(path, "error", 1 << 16)
        except DataError:
            return
        assert sum(len(X) for X, _ in parts) == RowsFile(path).n_rows
        assert schema.n_features >= 0


@both(st.tuples(st.integers(0, 1), edits([b"\0" * 8, b"\xff" * 8, b"THRROWS2"])), 100, 5000)
def check_rows_file_bytes(case):
    which, changes = case
    read_or_refuse(edited(rows_files()[which], changes))


@both(st.tuples(st.integers(0, 1), CHANGES), 100, 5000)
def check_rows_file_header(case):
    which, changes = case
    data = rows_files()[which]
    size = struct.unpack("<Q", data[8:16])[0]
    header = json.loads(data[16 : 16 + size])
    text = json.dumps(with_changes(header, changes)).encode()
    text += b" " * (-(16 + len(text)) % 64)
    read_or_refuse(data[:8] + struct.pack("<Q", len(text)) + text + data[16 + size :])


# ---------------------------------------------------------------- checkpoints


LEARNERS = ["linear", "kernel", "budgeted", "hyperplanes", "confidence"]


@functools.cache
def checkpoints():
    """Of all learners at once, for that compiles."""
    return {learner: checkpoint(learner) for learner in LEARNERS}


def checkpoint(learner):
    """(bytes, document, arrays, how to resume) of a checkpoint that a stopped stream has left."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    params = {"linear": {"solver": "asgd"}, "kernel": {"n_components": 10}}.get(learner, {})
    folder = tempfile.TemporaryDirectory()
    with folder:
        out = Path(folder.name) / "m.thresher"
        learning = []  # the first pass is done: it may stop

        def listen(event):
            learning.extend([True] if event.stage == "learning" else [])

        how = Training(
            params, learner, passes=2, checkpoint="60s", model=out, on_progress=listen,
            stop=lambda: bool(learning), memory=1 << 12,
        )  # fmt: skip
        data = open_data(X, np.digitize(X[:, 0], [-0.5, 0.5]))
        run(data, how)
        bytes_ = checkpoint_path(out).read_bytes()
    return (bytes_, *unpacked(bytes_), lambda: Run(data, how))


def resume_or_refuse(learner, data):
    folder, path = temporary(data, ".checkpoint")
    training = checkpoints()[learner][3]()

    with folder, suppress(ValueError):  # BadFile is one
        checkpointer = Checkpointer(Path(path), Every(), training._checkpointer().task)
        checkpointer.load(training.estimator, 3, 3)


@both(st.tuples(st.sampled_from(LEARNERS), edits([b"\0", b"\xff", b"PK\x05\x06"])), 60, 3000)
def check_checkpoint_bytes(case):
    learner, changes = case
    resume_or_refuse(learner, edited(checkpoints()[learner][0], changes))


@both(st.tuples(st.sampled_from(LEARNERS), CHANGES), 300, 12000)
def check_checkpoint_document(case):
    learner, changes = case
    _, document, members, _ = checkpoints()[learner]
    document = {**document, "job": with_changes(document["job"], changes)}
    resume_or_refuse(learner, packed(document, members))


# ---------------------------------------------------------------- Atheris


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("name", ["fuzz_svmlight", "fuzz_model"])
def test_atheris(name, tmp_path):
    limits = ["-max_total_time=60", "-rss_limit_mb=1024", "-timeout=20"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "fuzz" / f"{name}.py"), *limits, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
