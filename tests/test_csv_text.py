"""Plain delimited text: against Python's csv module and ``float``, and the lines left alone."""

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from conftest import JIT_DISABLED
from thresher.data._bytes import after_lines, survey
from thresher.data._csv_text import (
    END,
    FULL,
    HASH,
    NUMBER,
    ODD,
    SKIP,
    WORD,
    line_plan,
    murmur3,
    parse_lines,
    safe_cut,
)

FUZZ = settings(max_examples=60 if JIT_DISABLED else 300)
WORDS = [b"red", b"green", b"light blue", b"a rather long word of 35 characters", b"", b"NA", b"x"]
KINDS = [NUMBER, WORD, SKIP, HASH, NUMBER, WORD, NUMBER]
PLACES = [-1, 0, 0, 1, 2, 3, -2]
NULLS = [b"", b"NA", b"?"]


def plan(delimiter=b",", nulls=NULLS):
    words = [WORDS if kind == WORD else None for kind in KINDS]
    words[5] = words[5] and words[5][::-1]
    return line_plan(KINDS, PLACES, words, 12, nulls, ord(delimiter))


def room(rows=50, width=4):
    return np.full((rows, width), -7.0), np.full(rows, -7.0), np.full(rows, -7.0)


def expected(fields, nulls=NULLS):
    """The seven fields of a line as (features, target, weight)."""
    out = []
    for column, field in enumerate(fields):
        token = field.strip(" \t").encode()
        words = WORDS[::-1] if column == 5 else WORDS
        if token in nulls:
            out.append(math.nan)
        elif KINDS[column] == WORD:
            out.append(float(words.index(token)) if token in words else -1.0)
        elif KINDS[column] == HASH:
            out.append(float(murmurhash3_32(token, positive=True) % 2**12))
        else:
            out.append(float(token) if KINDS[column] == NUMBER else 0.0)
    return [out[1], out[3], out[4], out[5]], out[0], out[6]


def parse(text, start=0, rows=50, **options):
    features, target, weight = room(rows)
    n, position, why = parse_lines(plan(**options), text, start, features, target, weight, 0)
    assert (features[n + 2 :] == -7.0).all()  # an odd line and its pair may be written half
    return (features[:n], target[:n], weight[:n]), position, why


def same(arrays, rows):
    for ours, theirs in zip(arrays, zip(*rows, strict=True), strict=True):
        wanted = np.array(theirs)
        np.testing.assert_array_equal(ours, wanted)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(wanted))


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e3, 1e3).map(lambda x: f"{x:.6g}"),
    st.floats(-1e3, 1e3).map(lambda x: f"{x:.18e}"),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", "NA", "?", "0", "-0.0", ".5", "5.", "+3", "1e5"]),
)
TEXTS = st.one_of(
    st.sampled_from([word.decode() for word in WORDS] + ["?", "gree", "greenish", "12", "ré"]),
    st.text("abc -.é!\x01", max_size=20),
)
BLANKS = st.sampled_from(["", "", "", " ", "  ", "\t"])


def field_of(kind):
    text = NUMBERS if kind == NUMBER else TEXTS
    return st.tuples(BLANKS, text, BLANKS).map("".join)


LINES = st.lists(st.tuples(*map(field_of, KINDS)), min_size=1, max_size=12)


@FUZZ
@given(LINES, st.sampled_from([",", ";", "|"]), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_plain_lines(lines, delimiter, newline, end):
    text = newline.join(map(delimiter.join, lines)) + newline * end
    read = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    arrays, position, why = parse(text.encode(), delimiter=delimiter.encode())
    assert (position, why) == (len(text.encode()), END)
    same(arrays, [expected(fields) for fields in read])


@given(LINES, st.integers(0, 200))
def test_pieces_and_capacity_do_not_matter(lines, at):
    text = "".join(",".join(line) + "\n" for line in lines).encode()
    whole, _, _ = parse(text)
    features, target, weight = room(len(lines))
    end = safe_cut(text[:at])
    n, position, why = parse_lines(plan(), text[:end], 0, features, target, weight, 0)
    assert (position, why) == (end, END)
    m, position, why = parse_lines(plan(), text, end, features, target, weight, n)
    assert (n + m, position, why) == (len(lines), len(text), END)
    for ours, theirs in zip((features, target, weight), whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_full_arrays_are_emptied_and_filled_again(rows):
    text = b"".join(b"%d,red,-,k,%d.5,x,1\r\n" % (k, k) for k in range(20)) + b"20,red,-,k,20.5,x,1"
    position, found = 0, []
    while True:
        (features, target, _), position, why = parse(text, position, rows)
        found += target.tolist()
        assert (features[:, 2] == target + 0.5).all()
        if why == END:
            break
        assert (why, target.size) == (FULL, rows)
    assert found == list(range(21))
    assert position == len(text)


GOOD = b"1,red,-,k,2.5,x,1"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"\t \t",
        b"1",
        b"1,red,-,k,2.5,x",
        b"1,red,-,k,2.5,x,1,",
        b"1,red,-,k,2.5,x,1,2",
        b'1,"red",-,k,2.5,x,1',
        b'1,red,"-",k,2.5,x,1',
        b'1,red,-,k",2.5,x,1',
        b'1,red,-,k,2.5,x,1"',
        b'"1",red,-,k,2.5,x,1',
        b"1,re\rd,-,k,2.5,x,1",
        b"1,red,-\r,k,2.5,x,1",
        b"1,red,-,k,2.5,x,1\r\r",
        b"1,red,-,k,2.5,x\r,1",
        b"\r1,red,-,k,2.5,x,1",
        b"1,red\0,-,k,2.5,x,1",
        b"1,red,-\0,k,2.5,x,1",
        b"1\0,red,-,k,2.5,x,1",
        b"abc,red,-,k,2.5,x,1",
        b"1,red,-,k,2.5.1,x,1",
        b"1,red,-,k,2 5,x,1",
        b"1,red,-,k,nan,x,1",
        b"1,red,-,k,inf,x,1",
        b"1,red,-,k,1e999,x,1",
        b"1,red,-,k,-1e999,x,1",
        b"1,red,-,k,0x10,x,1",
        b"1,red,-,k,1_0,x,1",
        b"1,red,-,k,9007199254740993.00000000000000000001,x,1",
    ],
)
@pytest.mark.parametrize("before", [0, 1, 5])
def test_odd_lines_are_left_alone(line, before):
    text = (GOOD + b"\n") * before + line + b"\n" + (GOOD + b"\n") * 9
    arrays, position, why = parse(text)
    assert (position, why) == (before * (len(GOOD) + 1), ODD)
    same(arrays, [expected(GOOD.decode().split(","))] * before) if before else None
    arrays, position, why = parse(text, position + len(line) + 1)
    assert (arrays[1].size, position, why) == (9, len(text), END)
    if line.strip(b"\r"):  # the same as the last line of a block, without a newline
        assert parse(GOOD + b"\n" + line)[1:] == (len(GOOD) + 1, ODD)


def test_an_empty_block():
    assert parse(b"")[1:] == (0, END)
    assert parse(GOOD, len(GOOD))[1:] == (len(GOOD), END)


def test_blanks_that_separate():
    (features, target, _), _, why = parse(b"1\tred\t\tk\t 2.5 \tx\t1\n", delimiter=b"\t")
    assert (target[0], features[0, 2], why) == (1.0, 2.5, END)
    (features, target, _), _, why = parse(b"1 red  k \t2.5 x 1\n", delimiter=b" ")
    assert (target[0], features[0, 0], features[0, 2], why) == (1.0, 0.0, 2.5, END)


def test_numbers_that_mean_missing():
    (features, target, _), _, _ = parse(
        b"-999,red,,k,-99,x,1\n-999.0,x,,k,-9,x,1\n", nulls=[b"-999"]
    )
    np.testing.assert_array_equal(target, [np.nan, -999.0])
    assert features[:, 2].tolist() == [-99.0, -9.0]


@pytest.mark.parametrize("delimiter", '0.eE+-"\n\r\0')
def test_delimiters_that_cannot_be(delimiter):
    with pytest.raises(ValueError, match="cannot separate"):
        plan(delimiter=delimiter.encode())


def test_large_vocabularies():
    words = [b"w%d" % k for k in range(300 if JIT_DISABLED else 20_000)]
    other = [b"v" * (k % 40) + b"%d" % k for k in range(len(words))]
    columns = line_plan([WORD, WORD], [0, 1], [words, other], 0, [], 44)
    text = b"".join(b"%s,%s\n" % pair for pair in zip(words, other, strict=True)) + b"v,w1\n"
    features, target, weight = room(len(words) + 1, 2)
    assert parse_lines(columns, text, 0, features, target, weight, 0)[2] == END
    np.testing.assert_array_equal(features[:-1, 0], np.arange(len(words)))
    np.testing.assert_array_equal(features[:-1, 1], np.arange(len(words)))
    assert features[-1].tolist() == [-1.0, -1.0]


def test_bits_of_each_column():
    columns = line_plan([HASH, HASH], [0, 1], [None, None], [3, 32], [], 44)
    features, target, weight = room(1, 2)
    parse_lines(columns, b"word,word", 0, features, target, weight, 0)
    assert features[0].tolist() == [murmur3(b"word") % 8, murmur3(b"word")]


@given(st.binary(max_size=40))
def test_murmur3(token):
    assert murmur3(token) == murmurhash3_32(token, positive=True)


def slow_cut(text, start, in_quotes):
    found = 0
    for p in range(start, len(text)):
        in_quotes ^= text[p] == 34
        found = p + 1 if text[p] == 10 and not in_quotes else found
    return found


@given(st.text('ab"\n', max_size=40), st.integers(0, 10), st.booleans())
def test_safe_cut(text, start, in_quotes):
    data = text.encode()
    start = min(start, len(data))
    assert safe_cut(data, start, in_quotes) == slow_cut(data, start, in_quotes)
    assert safe_cut(memoryview(data)) == slow_cut(data, 0, False)


@FUZZ
@given(st.binary(max_size=150) | st.text('19.,\r\n" xe-\0', max_size=150).map(str.encode))
def test_random_bytes_give_rows_that_python_gives_too(text):
    kinds = [NUMBER, WORD, HASH]
    three = line_plan(kinds, [0, 1, 2], [None, [b"x"], None], 20, [], 44)
    features, target, weight = room(200, 3)
    position = row = 0
    while position < len(text):
        n, stop, why = parse_lines(three, text, position, features, target, weight, row)
        lines = text[position:stop].split(b"\n")
        for line in lines[: n + 1]:
            if line or line is not lines[-1]:
                number, word, hashed = line.removesuffix(b"\r").split(b",")
                number, hashed = number.strip(b" \t"), hashed.strip(b" \t")
                want = [
                    float(number or b"nan"),
                    {b"": math.nan, b"x": 0.0}.get(word.strip(b" \t"), -1.0),
                    float(murmurhash3_32(hashed, positive=True) % 2**20) if hashed else math.nan,
                ]
                np.testing.assert_array_equal(features[row], want)
                row += 1
        assert why in (END, ODD)
        position = stop if why == END else text.find(b"\n", stop) + 1 or len(text)


SHORT = st.one_of(
    st.floats(-200.0, 200.0).map(lambda x: f"{x:.6f}"),
    st.integers(-(10**8), 10**8).map(str),
    st.sampled_from(["-0.000000", "5.", "12345678.1234567", "123456789", "1.12345678"]),
)
ODD_ONES = st.sampled_from(["", "NA", "1e-3", " 7", ".5", "x", '"1"', "-", "1.2.3", "1,2", "1\n"])


@FUZZ
@given(st.lists(st.lists(SHORT, min_size=3, max_size=3), min_size=1, max_size=40), st.data())
def test_lines_read_in_pairs_are_read_as_alone(lines, data):
    for _ in range(data.draw(st.integers(0, 3))):
        line = data.draw(st.sampled_from(lines))
        line[data.draw(st.integers(0, 2))] = data.draw(ODD_ONES)
    numbers = line_plan([NUMBER] * 3, [0, -1, 1], [None] * 3, 0, NULLS, ord(","))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = "".join(",".join(line) + newline for line in lines).encode()

    def read(text, start, rows):
        arrays = room(rows, 2)
        n, position, why = parse_lines(numbers, text, start, *arrays, 0)
        return [array[:n].tolist() for array in arrays[:2]], position, why

    (features, target), position, why = read(text, 0, text.count(b"\n"))
    end, alone = 0, ([], [])
    while end < len(text):
        (x, y), end, stopped = read(text, end, 1)  # no room for a second line
        if stopped == ODD:
            break
        alone[0].extend(x)
        alone[1].extend(y)
    assert (position, why) == (end, ODD if end < len(text) else END)
    np.testing.assert_array_equal(features, np.reshape(alone[0], (-1, 2)).tolist())
    np.testing.assert_array_equal(target, alone[1])


@given(
    st.binary(max_size=100), st.integers(0, 5), st.sampled_from([b"", b'"', b"\x80", b"\n" * 40])
)
def test_survey_and_lines_against_bytes(data, lines, more):
    data = bytes(c & 127 for c in data).replace(b'"', b"\n") + more
    array = np.frombuffer(data, np.uint8)
    special = b'"' in data or not data.isascii()
    assert survey(array) == (data.count(b"\n"), special)
    pieces = data.split(b"\n")
    if 0 < lines < len(pieces):
        assert after_lines(array, lines) == (len(b"\n".join(pieces[:lines])) + 1, lines)
    elif lines:
        assert after_lines(array, lines) == (len(data), len(pieces) - 1)
