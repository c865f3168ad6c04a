"""Decimal text to float64, correctly rounded: the same bits as Python's ``float``, compiled.

Three roads lead from text to a number, each taken only when the one before it cannot:

- a mantissa below 2**53 and a power of ten up to 22 are both exact floats, so that one division
  or multiplication rounds once, as it should (Clinger, 1990);
- 64 bits of mantissa times 128 bits of the power of five, which settle the rounding for almost
  every other number (Eisel and Lemire, 2021).  A mantissa of more than 19 digits is cut: its
  number lies between two neighbours, and if both round alike that is the answer;
- ``HARD``: what is left, for the caller to give to Python.

Reading text is a chain of dependent steps, each number starting where the last one ended.  One
vector comparison of 32 bytes (``marks``) finds all ends in a number, and digits are turned into
integers eight at a time: the chain is short and has no branches that depend on lengths.

**Padding.**  ``scan`` reads past the byte that ends its number: the text must hold a byte that is
no part of a number, and ``PAD`` more bytes after it (``padded``).  ``parse_number`` reads the token
and nothing else.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.data._bytes import U, at, clz, ctz, marks, peek, pointer, product

__all__ = [
    "HARD",
    "NOT_A_NUMBER",
    "OK",
    "OVERFLOW",
    "eight_digits",
    "more_digits",
    "parse_number",
    "scan",
    "scan_any",
    "scan_short",
]

OK, HARD, NOT_A_NUMBER = 0, 1, 2
#: what ``scan`` says of a number that is too large: most callers treat it as no number
OVERFLOW = 3

_ZEROS = U(0x3030303030303030)  # eight characters '0'
_PAIRS = U(0x00FF00FF00FF00FF)
_FOURS = U(0x0000FFFF0000FFFF)
_EIGHT = U(0x00000000FFFFFFFF)
_TEN, _HUNDRED, _TEN4 = U(10), U(100), U(10000)
_NONE, _ONE, _B3, _B8, _B16, _B32 = U(0), U(1), U(3), U(8), U(16), U(32)
_NOT_FIRST = U(0xFFFFFFFFFFFFFFFE)
_EXACT = U(1 << 53)

_TENS = 10.0 ** np.arange(23)
_WHOLE_TENS = np.array([10**k for k in range(20)], dtype=np.uint64)
_SIGNS = np.array([1.0, -1.0])

# ---------------------------------------------------------------- digits, eight at a time


@njit(cache=True, nogil=True, forceinline=True)
def _digits(text, p, n):
    """The ``n`` digits at ``p``, 1 <= n <= 8, one per byte of a word, the last in the top byte."""
    return (peek(text, p) ^ _ZEROS) << U(64 - 8 * n)  # zeros in front, what follows shifted out


@njit(cache=True, nogil=True, forceinline=True)
def _spelled(word):
    """The number that eight digits in the bytes of a word spell. No step overflows."""
    word = (word * _TEN + (word >> _B8)) & _PAIRS
    word = (word * _HUNDRED + (word >> _B16)) & _FOURS
    return (word * _TEN4 + (word >> _B32)) & _EIGHT


@njit(cache=True, nogil=True, forceinline=True)
def eight_digits(text, p, n):
    """The number that the ``n`` digits at ``p`` spell, 1 <= n <= 8."""
    return _spelled(_digits(text, p, n))


@njit(cache=True, nogil=True, forceinline=True)
def more_digits(text, p, n):
    """The same for up to 24 digits, if they spell less than 2**64."""
    total = U(0)
    while n > 8:
        total = total * _WHOLE_TENS[8] + eight_digits(text, p, 8)
        p += 8
        n -= 8
    if n > 0:
        total = total * _WHOLE_TENS[U(n)] + eight_digits(text, p, n)
    return total


# ---------------------------------------------------------------- rounding


def _powers_of_five() -> np.ndarray:
    """The first 128 bits of 5**q, q = -342 .. 308, as two words; reciprocals that are used for
    exact quotients (q >= -27) are rounded up, the others down."""
    rows = []
    for q in range(-342, 309):
        power = 5 ** abs(q)
        bits = power.bit_length()
        if q < 0:
            top = (1 << (bits + 127)) // power + (q >= -27)
        else:
            top = power << 128 >> bits
        rows.append((top >> 64, top & 0xFFFFFFFFFFFFFFFF))
    return np.array(rows, dtype=np.uint64)


_FIVES = _powers_of_five()
_FAR = 2**62  # no end of the text: something ends the number before
_ALL_ONES = U(0xFFFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True)
def _round(mantissa, exponent):
    """``mantissa * 10**exponent`` to the nearest float64 (ties to even), and whether it is sure.

    The product's top 54 bits (a float and one bit to round by) are right unless all bits below
    them are ones, when the part of the power that was left out might carry into them.  The power's
    second word is always used: when it matters is a coin toss on numbers that were float32 once.
    """
    if mantissa == _NONE or exponent < -342:
        return 0.0, True
    if exponent > 308:
        return np.inf, True
    shift = clz(mantissa)
    mantissa = mantissa << U(shift)
    carry = product(mantissa, _FIVES[U(exponent + 342), 1], _NONE)[0]
    high, low = product(mantissa, _FIVES[U(exponent + 342), 0], carry)
    if low == _ALL_ONES and (exponent < -27 or exponent > 55):
        return 0.0, False
    top = np.int64(high >> U(63))
    bits = high >> U(top + 9)
    power = (217706 * exponent >> 16) + 1086 + top - shift  # log2(10) = 217706 / 65536
    if power <= 0:  # subnormal: fewer bits are kept
        if power < -62:
            return 0.0, True
        bits = bits >> U(1 - power)
        bits = (bits + (bits & _ONE)) >> _ONE
        return np.uint64(bits).view(np.float64), True
    below = low <= _ONE and exponent >= -4 and exponent <= 23 and bits & _B3 == _ONE
    if below and bits << U(top + 9) == high:  # exactly half way, and the even number is below
        bits -= _ONE
    bits = (bits + (bits & _ONE)) >> _ONE
    if bits == _EXACT:
        power += 1
        bits = bits >> _ONE
    if power >= 2047:
        return np.inf, True
    bits = (bits ^ U(1 << 52)) | (U(power) << U(52))
    return np.uint64(bits).view(np.float64), True


@njit(cache=True, nogil=True, error_model="numpy")
def _compose(mantissa, exponent):
    """``mantissa * 10**exponent`` and whether it is sure, by one exact operation if possible."""
    if mantissa < _EXACT and exponent >= -22 and exponent <= 22:
        exact = np.float64(np.int64(mantissa))
        if exponent < 0:
            return exact / _TENS[U(-exponent)], True
        return exact * _TENS[U(exponent)], True
    return _round(mantissa, exponent)


# ---------------------------------------------------------------- numbers


@njit(cache=True, nogil=True, forceinline=True)
def _code(value, sure):
    if not sure:
        return HARD
    return OK if value < np.inf else OVERFLOW


@njit(cache=True, nogil=True)
def scan_any(text, start, stop):
    """The longest number at ``start``, byte by byte: any length, nothing read from ``stop`` on.

    Returns (value, position after it, code); after ``NOT_A_NUMBER`` the position means nothing.
    """
    p = start
    negative = 0
    if p < stop and (at(text, p) == 43 or at(text, p) == 45):
        negative = 1 if at(text, p) == 45 else 0
        p += 1
    mantissa, kept, exponent, digits, cut, point = U(0), 0, 0, 0, False, False
    while p < stop:
        c = at(text, p)
        if c >= 48 and c <= 57:
            digits += 1
            if kept < 19:
                mantissa = mantissa * _TEN + U(c - 48)
                kept += 1 if mantissa != _NONE else 0
                exponent -= 1 if point else 0
            else:
                cut = cut or c != 48
                exponent += 0 if point else 1
        elif c == 46 and not point:
            point = True
        else:
            break
        p += 1
    if digits == 0:
        return 0.0, p, NOT_A_NUMBER
    if p < stop and at(text, p) | 32 == 101:
        p += 1
        down = False
        if p < stop and (at(text, p) == 43 or at(text, p) == 45):
            down = at(text, p) == 45
            p += 1
        if p >= stop or at(text, p) < 48 or at(text, p) > 57:
            return 0.0, p, NOT_A_NUMBER
        given = 0
        while p < stop and at(text, p) >= 48 and at(text, p) <= 57:
            if given < 1 << 50:  # beyond any exponent that digits could make up for
                given = given * 10 + at(text, p) - 48
            p += 1
        exponent += -given if down else given
    value, sure = _compose(mantissa, exponent)
    if sure and cut:
        above, sure = _round(mantissa + _ONE, exponent)
        value = _round(mantissa, exponent)[0]
        sure = sure and above == value
    return _SIGNS[U(negative)] * value, p, _code(value, sure)


@njit(cache=True, nogil=True)
def parse_number(data, start, stop):
    """The number that all of ``data[start:stop]`` spells: (value, code)."""
    value, end, code = scan_any(pointer(data), start, stop)
    if code == NOT_A_NUMBER or end != stop:
        return np.nan, NOT_A_NUMBER
    return value, OK if code == OVERFLOW else code


@njit(cache=True, nogil=True, forceinline=True)
def _sides(text, start, seen):
    """(Minus?, digits before the point, digits after it, the end) of what looks like a number."""
    negative = np.int64(at(text, start) == 45)
    seen = seen & _NOT_FIRST
    size = ctz(seen)
    before, after = size - negative, np.int64(0)
    if at(text, start + size) == 46:
        seen = seen & (seen - _ONE)
        after = ctz(seen) - size - 1
        size += 1 + after
    return negative, before, after, start + size


@njit(cache=True, nogil=True)
def _scan_long(text, start, before, after, end):
    """``scan`` for more: up to 19 digits and an exponent here, anything in ``scan_any``.

    ``before`` and ``after`` are the digits on each side of the point, up to ``end``.
    """
    if before >= 0 and before <= 19 and after <= 19 and before + after > 0:
        negative = np.int64(at(text, start) == 45)
        mantissa = more_digits(text, start + negative, before)
        if mantissa < _WHOLE_TENS[U(19 - after)]:
            mantissa = mantissa * _WHOLE_TENS[U(after)] + more_digits(text, end - after, after)
            if at(text, end) | 32 != 101:
                value, sure = _compose(mantissa, -after)
                return _SIGNS[U(negative)] * value, end, _code(value, sure)
            end += 1
            sign = 1
            if (at(text, end) - 43) & -3 == 0:  # + or -, in one test: which is a coin toss
                sign = 44 - at(text, end)
                end += 1
            n = ctz(marks(text, end))
            if n >= 1 and n <= 8:
                given = sign * np.int64(eight_digits(text, end, n))
                value, sure = _compose(mantissa, given - after)
                return _SIGNS[U(negative)] * value, end + n, _code(value, sure)
    return scan_any(text, start, _FAR)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def scan(text, start, seen):
    """The longest number at ``start``: (value, position after it, code). Needs the padding.

    ``seen`` are ``marks(text, start)``, or those of fewer bytes, but 21 at least.  The ends of
    the number's parts all come from there: the next number can be started long before the value
    of this one is known.  What is in sight here, in the caller's loop, are the numbers of most
    files: up to 8 digits before the point and up to 7 after it, no exponent.
    """
    first = at(text, start)
    negative, before, after, end = _sides(text, start, seen)
    c = at(text, end)
    if first - 48 + 64 * negative < 0 or first > 57 or (c >= 48 and c <= 57):
        before = np.int64(-1)  # starts with no digit, or does not end in sight
    if before < 1 or before > 8 or after > 7 or c | 32 == 101:
        return _scan_long(text, start, before, after, end)
    whole = eight_digits(text, start + negative, before)
    if after == 0:
        return _SIGNS[U(negative)] * np.float64(np.int64(whole)), end, OK
    whole = whole * _WHOLE_TENS[U(after)] + eight_digits(text, end - after, after)
    return _SIGNS[U(negative)] * (np.float64(np.int64(whole)) / _TENS[U(after)]), end, OK


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def scan_short(text, start, seen):
    """The digits at ``start`` with their sign and point: (value, position after them).

    Up to 8 digits before the point and 7 after it; more, or none, make the position -1.  What may
    follow, an exponent for one, is for the caller to notice.  ``seen`` is that of ``scan``.
    """
    negative, before, after, end = _sides(text, start, seen)
    if np.int64(seen & _ONE) != negative or before < 1 or before > 8 or after > 7:
        return 0.0, np.int64(-1)
    word = _digits(text, start + negative, before)
    if after == 0:
        return _SIGNS[U(negative)] * np.float64(np.int64(_spelled(word))), end
    fraction = _digits(text, end - after, after)
    if before + after <= 8:  # both sides of the point in one word
        whole = _spelled((word >> U(8 * after)) | fraction)
    else:
        whole = _spelled(word) * _WHOLE_TENS[U(after)] + _spelled(fraction)
    return _SIGNS[U(negative)] * (np.float64(np.int64(whole)) / _TENS[U(after)]), end
