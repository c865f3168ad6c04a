"""SVMlight text: against scikit-learn on good files, against a slow reader on messy ones."""

import io
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from conftest import JIT_DISABLED
from thresher.data._svmlight_text import cut, parse_svmlight

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FUZZ = settings(max_examples=60 if JIT_DISABLED else 400)
# just above half way between two floats, by the last digit: Python's own reader must be asked
HARD = b"9007199254740993.00000000000000000001"


def slow_row(line):
    """(label, qid, {index: value}), None for an empty line; ValueError for a bad one."""
    body = line.split(b"#")[0] if b"#" in line else re.sub(rb"\r\Z", b"", line)
    words = [word for word in re.split(rb"[ \t]+", body) if word]
    if not words:
        return None

    def number(word):
        if not NUMBER.fullmatch(word) or math.isinf(float(word)):
            raise ValueError(word)
        return float(word)

    label, qid, row = number(words[0]), -1, {}
    for place, word in enumerate(words[1:]):
        name, value = word.split(b":")
        if name == b"qid" and place == 0 and re.fullmatch(rb"\d+", value):
            qid = int(value)
            continue
        if not re.fullmatch(rb"\d+", name) or int(name) > 2**31 - 1 or int(name) in row:
            raise ValueError(word)
        row[int(name)] = number(value)
    return label, qid, row


def slow(text, first_line=1):
    rows, bad = [], []
    lines = text.split(b"\n")
    for number, line in enumerate(lines, first_line):
        try:
            row = slow_row(line)
        except ValueError:
            bad.append(number)
        else:
            rows += [] if row is None else [(number, row[0], row[1], sorted(row[2].items()))]
    return rows, bad


def as_rows(block):
    rows = []
    for i in range(block.labels.size):
        a, b = block.indptr[i], block.indptr[i + 1]
        pairs = zip(block.indices[a:b].tolist(), block.values[a:b].tolist(), strict=True)
        qid = -1 if block.qid is None else int(block.qid[i])
        rows.append((int(block.lines[i]), float(block.labels[i]), qid, list(pairs)))
    return rows


def check(text, first_line=1):
    block = parse_svmlight(text, first_line)
    rows, bad = slow(bytes(text), first_line)
    assert repr(as_rows(block)) == repr(rows)  # tells -0.0 from 0.0
    assert [report.line for report in block.bad] == bad
    assert (block.qid is not None) == any(qid >= 0 for _, _, qid, _ in rows)
    assert block.indptr[-1] == block.indices.size == block.values.size
    assert block.zeros == sum(value == 0.0 for _, _, _, pairs in rows for _, value in pairs)
    return block


@pytest.mark.parametrize("decimals", [1, 6, 17])
def test_same_as_scikit_learn(decimals):
    rng = np.random.default_rng(decimals)
    X = sparse.random(40 if JIT_DISABLED else 2000, 500, 0.03, format="csr", random_state=rng)
    X.data = (rng.normal(size=X.nnz) * 10.0 ** rng.integers(-8, 9, X.nnz)).round(decimals)
    y = rng.integers(-1, 3, X.shape[0]).astype(float)
    y[::7] += 0.25
    qid = np.sort(rng.integers(0, 40, X.shape[0]))
    file = io.BytesIO()
    dump_svmlight_file(X, y, file, query_id=qid, comment="made up")
    text = file.getvalue()
    want, labels, queries = load_svmlight_file(io.BytesIO(text), query_id=True, zero_based=True)
    got = parse_svmlight(text)
    assert not got.bad
    for ours, theirs in [
        (got.labels, labels),
        (got.qid, queries),
        (got.indptr, want.indptr),
        (got.indices, want.indices),
        (got.values, want.data),
    ]:
        np.testing.assert_array_equal(ours, theirs)
    assert got.indices.dtype == np.int32
    assert got.lines[0] == text[: text.index(b" qid:")].count(b"\n") + 1


PIECES = [
    *(
        b"1",
        b"-1",
        b"+1",
        b"0.5",
        b"1,3",
        b"nan",
        b"1e999",
        b"abc",
        b"3",
        b"qid:7",
        b"qid:",
        b"qid",
    ),
    *(b"1:1", b"2:0.5", b"3:-1.25e-3", b"4:.5", b"5:5.", b"6:+2", b"12345678:1", b"2147483647:9"),
    *(b"2147483648:1", b"9:inf", b"9:1e400", b"10:0x1", b"11:1:2", b":1", b"7:", b"-3:1", b"0:0"),
    *(b"8:" + HARD, b"0000000000003:1", b"qid:123456789012345678", b"13:1\0", b"\0", b"x:1"),
    *(b"14:1234567890123456789012", b"15:0.12345678901234567", b"16:1e5", b"17:1e", b"+", b"-"),
    *(b"\xff\xfe", b"#", b"# 3:4 ", b"\r", b"\r\n", b"\n", b"\n", b"\n", b"\n1 ", b"\n-1 "),
]
MESSY = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from([b" "] * 6 + [b"", b"\t", b"  "])),
    max_size=60,
).map(lambda parts: b"".join(piece + blank for piece, blank in parts))


@FUZZ
@given(MESSY)
def test_messy_text_is_read_like_the_slow_reader_does(text):
    check(text, first_line=3)


@FUZZ
@given(st.binary(max_size=200))
def test_random_bytes(text):
    check(text)


@FUZZ
@given(st.text("0123456789:.e+-# \tqid\r\n", max_size=200))
def test_random_characters(text):
    check(text.encode())


@given(MESSY, st.integers(1, 60))
def test_blocks_do_not_matter(text, size):
    whole = parse_svmlight(text)
    rows, bad, line, start = [], [], 1, 0
    while start < len(text):
        end = start + cut(text[start : start + size])
        while end == start and start + size < len(text):
            size *= 2
            end = start + cut(text[start : start + size])
        end = len(text) if end == start else end
        part = parse_svmlight(memoryview(text)[start:end], line)
        rows += [(a, b, d) for a, b, _, d in as_rows(part)]
        bad += part.bad
        line += text.count(b"\n", start, end)
        start = end
    assert rows == [(a, b, d) for a, b, _, d in as_rows(whole)]
    assert bad == whole.bad


def test_any_buffer_and_the_last_newline():
    text = b"1 3:4\n-1 2:0.5"
    for buffer in (text, bytearray(text), memoryview(text), np.frombuffer(text, dtype=np.uint8)):
        block = parse_svmlight(buffer)
        assert block.labels.tolist() == [1.0, -1.0]
        assert block.values.tolist() == [4.0, 0.5]
    for text in (b"", b"\n", b"# nothing\n", b"\r\n \t\n"):
        block = parse_svmlight(text)
        assert block.labels.size == 0
        assert block.indptr.tolist() == [0]
        assert block.qid is None
        assert not block.bad


def test_long_rows_unsorted_rows_and_empty_rows():
    order = np.random.default_rng(0).permutation(3000)
    text = b"1 " + b" ".join(b"%d:%d" % (j, j) for j in order) + b"\r\n2\r\n3 7:1 5:2#x"
    block = check(text)
    assert block.indptr.tolist() == [0, 3000, 3000, 3002]
    assert block.indices[-2:].tolist() == [5, 7]
    assert block.values[-2:].tolist() == [2.0, 1.0]


def test_numbers_that_python_must_round():
    block = check(b"1 2:%s 3:-%s\n%s 1:1\n" % (HARD, HARD, HARD))
    assert block.values.tolist() == [9007199254740994.0, -9007199254740994.0, 1.0]
    assert block.labels.tolist() == [1.0, 9007199254740994.0]


def test_rows_without_a_query_number():
    assert parse_svmlight(b"1 2:1\n1 qid:4 2:1\n").qid.tolist() == [-1, 4]


@pytest.mark.parametrize(
    ("line", "column", "token", "problem"),
    [
        (b"abc 1:2", 1, "abc", "'abc' is not a number"),
        (b"1 2:abc", 5, "abc", "'abc' is not a number"),
        (b"1  2:nan", 6, "nan", "'nan' is not a finite number"),
        (b"-inf 2:1", 1, "-inf", "'-inf' is not a finite number"),
        (b"1 2:1e400", 5, "1e400", "'1e400' is too large for a number"),
        (b"1 3:1 3:2", 7, "3:2", "feature index 3 appears twice"),
        (b"1 5:1 3:1 5:2", 11, "5:2", "feature index 5 appears twice"),
        (b"1 -3:2", 3, "-3", "feature index -3 is negative"),
        (b"1 2147483648:2", 3, "2147483648", "feature index 2147483648 is larger than 2147483647"),
        (b"1 x:2", 3, "x", "'x' is not a feature index"),
        (b"1 17", 3, "17", "index:value expected"),
        (b"1 17:", 3, "17:", "index:value expected"),
        (b"1 :17", 3, ":17", "index:value expected"),
        (b"3:1 4:1", 1, "3:1", "a label expected before index:value"),
        (b"1,3 4:1", 1, "1,3", "several labels in one line (1,3), one expected"),
        (b"1 qid:x 4:1", 7, "x", "'x' is not a query number"),
        (b"1 4:1 qid:3", 7, "qid:3", "qid:n expected right after the label, once"),
        (b"1 4:1\0", 5, "1\0", "'1\\x00' is not a number"),
        ("1 é:1 ".encode(), 3, "é", "'é' is not a feature index"),
        (b"1 4:" + b"9" * 50 + b"x", 5, "9" * 40, f"'{'9' * 40}' is not a number"),
    ],
)
def test_what_is_wrong_with_a_line(line, column, token, problem):
    block = parse_svmlight(b"# made up\n1 1:1\n" + line + b"\n1 2:3\n")
    assert block.bad == [(3, column, token, problem)]
    assert block.lines.tolist() == [2, 4]
    assert block.indices.tolist() == [1, 2]


def test_cut():
    assert cut(b"") == cut(b"abc") == 0
    assert cut(b"a\nbc") == 2
    assert cut(np.frombuffer(b"a\nb\n", dtype=np.uint8)) == 4
    assert cut(b"a\nbc\nd", 3) == 5
    assert cut(b"a\nbc", 2) == 0
