"""Text to float64: the same bits as Python's ``float``, on random and on adversarial tokens."""

import decimal
import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from conftest import JIT_DISABLED
from thresher.data._bytes import PAD, as_bytes, count, marks, pointer
from thresher.data._numbers import HARD, NOT_A_NUMBER, OK, OVERFLOW, parse_number, scan

MANY = 2_000 if JIT_DISABLED else 60_000


@njit
def parse_all(data, starts, sizes, values, codes):
    for i in range(starts.size):
        values[i], codes[i] = parse_number(data, starts[i], starts[i] + sizes[i])


@njit
def scan_all(data, starts, values, codes, ends):
    text = pointer(data)
    for i in range(starts.size):
        values[i], ends[i], codes[i] = scan(text, starts[i], marks(text, starts[i]))


def check(tokens):
    """Both ways of reading agree with Python; returns the share of hard tokens."""
    sizes = np.array([len(token) for token in tokens])
    starts = np.cumsum([0, *sizes[:-1] + 1])
    data = as_bytes(b",".join(tokens) + b"," + bytes(PAD))
    want = np.array([float(token) for token in tokens])
    values, scanned = np.empty(len(tokens)), np.empty(len(tokens))
    codes, found, ends = (np.empty(len(tokens), dtype=np.int64) for _ in range(3))
    parse_all(data, starts, sizes, values, codes)
    scan_all(data, starts, scanned, found, ends)
    np.testing.assert_array_equal(ends, starts + sizes)
    np.testing.assert_array_equal(found == OVERFLOW, np.isinf(want) & (codes == OK))
    np.testing.assert_array_equal(np.where(found == OVERFLOW, OK, found), codes)
    assert set(codes) <= {OK, HARD}
    easy = codes == OK
    for got in (values, scanned):
        wrong = np.flatnonzero(easy & (got.view(np.int64) != want.view(np.int64)))
        assert wrong.size == 0, [(tokens[i], got[i], want[i]) for i in wrong[:5]]
    return 1.0 - easy.mean()


def any_float(rng):
    while True:
        (x,) = struct.unpack("d", rng.randbytes(8))
        if x - x == 0.0:
            return x


def half_way(rng):
    """Exactly between two neighbours, or a digit beside it."""
    with decimal.localcontext(prec=1200):
        tie = (2 * rng.randrange(2**52, 2**53) + 1) * decimal.Decimal(2) ** rng.randrange(-1080, 60)
        text = f"{tie:f}" if rng.random() < 0.3 else str(tie)
    if "E" in text:
        digits, exponent = text.split("E")
        return f"{digits}{rng.choice(['', '0', '1'])}E{exponent}"
    return text + ("" if "." not in text else rng.choice(["", "0", "01"]))


RECIPES = {
    "any float": lambda rng: repr(any_float(rng)),
    "17 digits": lambda rng: f"{any_float(rng):.17g}",
    "many digits": lambda rng: f"{any_float(rng):.{rng.randrange(18, 40)}e}",
    "fixed point": lambda rng: f"{rng.uniform(-1e4, 1e4):.{rng.randrange(25)}f}",
    "short": lambda rng: f"{rng.gauss(0, 1) * 10 ** rng.randrange(-6, 7):.6g}",
    "integers": lambda rng: str(rng.randrange(-(10 ** rng.randrange(1, 30)), 10**25)),
    "16 digits": lambda rng: f"{rng.randrange(2**52, 2**55)}e{rng.randrange(-25, 25)}",
    "19 digits": lambda rng: f"{rng.randrange(10**18, 10**19)}e{rng.randrange(-345, 300)}",
    "subnormal": lambda rng: f"{rng.randrange(1, 10**18)}E{rng.randrange(-345, -305)}",
    "at infinity": lambda rng: f"1.7976931348623{rng.randrange(10**9)}e+308",
    "far away": lambda rng: f"{rng.randrange(10**20)}e{rng.choice('+-')}{rng.randrange(10**12)}",
    "padded": lambda rng: f"{'0' * rng.randrange(40)}{rng.random()}{'0' * rng.randrange(40)}",
    "half way": half_way,
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_bits_are_those_of_python(recipe):
    rng = random.Random(recipe)
    n = MANY // 10 if recipe == "half way" else MANY // 2
    tokens = [RECIPES[recipe](rng).encode() for _ in range(n)]
    tokens += [b"+" + token for token in tokens[:100] if token[0] not in b"+-"]
    assert check(tokens) < (1.0 if recipe == "half way" else 0.01)


SPECIAL = b"""
0 -0 -0.0 +0. .5 -.5 5. 1e0 1E+0 1e-0 8.5 1e22 1e23 0.00000000 4503599627370497.5
9007199254740993 9007199254740992.99999999999999 18446744073709551615 18446744073709551616
4.9e-324 2.4703282292062327e-324 2.4703282292062328e-324 2.2250738585072014e-308
2.2250738585072011e-308 1.7976931348623157e308 1.7976931348623159e308 1e309 -1e400 1e-400
0e99999999999999999999 1e-99999999999999999999 9999999999999999999 99999999.9999999
12345678.12345678 123456789.123456789 100000000000000000000000000000000000000000e-41
0.000000000000000000000000000000000000000000000000000001e54 12345678901234567890123456789012.5
"""


def test_special_numbers():
    long = [b"0." + b"0" * 400 + b"1e400", b"1" + b"0" * 400 + b"e-400", b"1" + b"0" * 400]
    check([*SPECIAL.split(), *long])


NUMBERS = r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?"


@given(st.from_regex(NUMBERS, fullmatch=True))
def test_whatever_is_a_number(token):
    check([token.encode()])


NOT_NUMBERS = """
- + . -. e5 1e 1e+ 1e- .e1 1.2.3 1-2 --1 +-1 -+1 0x10 1_000 nan inf -inf infinity NaN 1,5 1e5.5
1e1e1 1d5 ١ 1\0 \0 12345678901234567890x 1.5f 12:3 1/2 1) 1e/5 1e)5
"""


@pytest.mark.parametrize("token", NOT_NUMBERS.split())
def test_not_a_number(token):
    text = token.encode()
    value, code = parse_number(as_bytes(text), 0, len(text))
    assert code == NOT_A_NUMBER
    assert np.isnan(value)


def test_empty_and_blank_tokens_are_no_numbers():
    data = as_bytes(b" 1 ")
    assert parse_number(data, 1, 1)[1] == NOT_A_NUMBER
    assert parse_number(data, 0, 2)[1] == NOT_A_NUMBER
    assert parse_number(data, 1, 3)[1] == NOT_A_NUMBER
    assert parse_number(data, 1, 2) == (1.0, OK)


def test_nothing_past_the_token_is_read():
    data = as_bytes(b"12345678")
    for start in range(8):
        for stop in range(start + 1, 9):
            assert parse_number(data, start, stop) == (float(b"12345678"[start:stop]), OK)


@given(st.text("0123456789+-.eE,", max_size=30))
def test_scan_stops_where_the_number_does(text):
    """The longest prefix in the grammar; or no number, where Python knows none either."""
    token = text.partition(",")[0].encode()
    data = as_bytes(text.encode() + b"," + bytes(PAD))
    values, codes, ends = np.empty(1), np.empty(1, np.int64), np.empty(1, np.int64)
    scan_all(data, np.zeros(1, np.int64), values, codes, ends)
    if codes[0] != NOT_A_NUMBER:
        assert ends[0] <= len(token)
        want = float(token[: ends[0]])
        assert codes[0] == HARD or values.tobytes() == struct.pack("d", want)
    else:
        with pytest.raises(ValueError, match="could not convert"):
            float(token)


@given(st.binary(max_size=600), st.integers(0, 255), st.sampled_from([1, 200]))
def test_count(text, byte, times):
    text *= 1 if JIT_DISABLED else times
    assert count(as_bytes(text), byte) == text.count(byte)
