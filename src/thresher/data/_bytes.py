"""Bytes of text as the machine reads them: many at a time, past Numba's arrays.

Text is a chain of dependent steps; what shortens the chain is looking at many bytes together.  The
few instructions for it are emitted directly; with ``NUMBA_DISABLE_JIT=1`` plain Python stands in
for them and checks every read against the end of the buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "PAD",
    "U",
    "after_line",
    "after_lines",
    "after_newline",
    "as_bytes",
    "at",
    "clz",
    "count",
    "ctz",
    "marks",
    "padded",
    "peek",
    "pointer",
    "product",
    "survey",
]

U = np.uint64
_SEEN = 32  # bytes looked at together
_UNSEEN = 0xFFFFFFFF00000000
_ALL_SEEN = U(0x00000000FFFFFFFF)
#: bytes that must be readable after the byte that ends a number
PAD = _SEEN + 8

# ---------------------------------------------------------------- the machine's instructions


def _pointer(typing_context: Any, data: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(data.dtype)(data), emit


def _peek(typing_context: Any, text: Any, p: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64).as_pointer()
        return builder.load(builder.bitcast(builder.gep(args[0], [args[1]]), word), align=1)

    return types.uint64(text, types.int64), emit


def _at(typing_context: Any, text: Any, p: Any) -> Any:
    is_byte = text.dtype == types.uint8

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        item = builder.load(builder.gep(args[0], [args[1]]))
        return builder.zext(item, ir.IntType(64)) if is_byte else item

    return (types.int64 if is_byte else text.dtype)(text, types.int64), emit


def _flags(test: Callable[[Any, Any, Any], Any]) -> Any:
    """Bit k tells what ``test(builder, vector type, bytes)`` says of byte p + k; others are set."""

    def flags(typing_context: Any, text: Any, p: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector, word = ir.VectorType(ir.IntType(8), _SEEN), ir.IntType(64)
            place = builder.bitcast(builder.gep(args[0], [args[1]]), vector.as_pointer())
            found = test(builder, vector, builder.load(place, align=1))
            bits = builder.zext(builder.bitcast(found, ir.IntType(_SEEN)), word)
            return builder.or_(bits, word(_UNSEEN))

        return types.uint64(text, types.int64), emit

    return flags


def _no_digit(builder: Any, vector: Any, seen: Any) -> Any:
    digits = builder.sub(seen, vector([48] * _SEEN))
    return builder.icmp_unsigned(">", digits, vector([9] * _SEEN))


def _newline(builder: Any, vector: Any, seen: Any) -> Any:
    return builder.icmp_unsigned("==", seen, vector([10] * _SEEN))


def _special(builder: Any, vector: Any, seen: Any) -> Any:
    quotes = builder.icmp_unsigned("==", seen, vector([34] * _SEEN))
    return builder.or_(quotes, builder.icmp_signed("<", seen, vector([0] * _SEEN)))


def _ones(typing_context: Any, x: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), emit


def _zeros_counter(name: str) -> Any:
    def count_zeros(typing_context: Any, x: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, bit = ir.IntType(64), ir.IntType(1)
            declared = ir.FunctionType(word, [word, bit])
            function = cgutils.get_or_insert_function(builder.module, declared, name)
            return builder.call(function, [args[0], bit(0)])

        return types.int64(types.uint64), emit

    return count_zeros


def _product(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        first, second, third = (builder.zext(arg, wide) for arg in args)
        whole = builder.add(builder.mul(first, second), third)
        high = builder.trunc(builder.lshr(whole, wide(64)), word)
        return context.make_tuple(
            builder, signature.return_type, [high, builder.trunc(whole, word)]
        )

    word = types.uint64
    return types.UniTuple(word, 2)(word, word, word), emit


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def pointer(data: np.ndarray) -> np.ndarray:
        return data

    def peek(text: np.ndarray, p: Any) -> Any:
        word = text[p : p + 8]
        if p < 0 or word.size < 8:
            raise IndexError(f"8 bytes at {p} of {text.size}")
        return U(int.from_bytes(word.tobytes(), "little"))

    def at(text: np.ndarray, p: Any) -> Any:
        if p < 0:
            raise IndexError(p)
        return text[p].item()

    def _seen(text: np.ndarray, p: Any) -> list[int]:
        seen = text[p : p + _SEEN].tolist()
        if p < 0 or len(seen) < _SEEN:
            raise IndexError(f"{_SEEN} bytes at {p} of {text.size}")
        return seen

    def marks(text: np.ndarray, p: Any) -> Any:
        flags = (1 << k for k, c in enumerate(_seen(text, p)) if not 48 <= c <= 57)
        return U(sum(flags) | _UNSEEN)

    def newlines(text: np.ndarray, p: Any) -> Any:
        return U(sum(1 << k for k, c in enumerate(_seen(text, p)) if c == 10) | _UNSEEN)

    def specials(text: np.ndarray, p: Any) -> Any:
        flags = (1 << k for k, c in enumerate(_seen(text, p)) if c == 34 or c >= 128)
        return U(sum(flags) | _UNSEEN)

    def ones(x: Any) -> Any:
        return int(x).bit_count()

    def ctz(x: Any) -> Any:
        return (int(x) & -int(x)).bit_length() - 1 if x else 64

    def clz(x: Any) -> int:
        return 64 - int(x).bit_length()

    def product(a: Any, b: Any, c: Any) -> Any:
        whole = int(a) * int(b) + int(c)
        return U(whole >> 64), U(whole & 0xFFFFFFFFFFFFFFFF)

else:
    #: ``pointer(data)``: where the bytes of an array are.  Handing on the array itself would count
    #: references to it, which costs more than reading a number.
    pointer = intrinsic(_pointer)  # type: ignore[assignment]
    #: ``peek(text, p)``: the eight bytes from p as one number, the first in the lowest bits
    peek = intrinsic(_peek)  # type: ignore[assignment]
    #: ``at(text, p)``: the byte at p, as an integer; or the element, for other arrays
    at = intrinsic(_at)  # type: ignore[assignment]
    #: ``marks(text, p)``: bit k is set if byte p + k is not a digit, k < 32; all others are
    marks = intrinsic(_flags(_no_digit))  # type: ignore[assignment]
    #: ``newlines(text, p)``: the same, if byte p + k is a newline
    newlines = intrinsic(_flags(_newline))  # type: ignore[assignment]
    #: ``specials(text, p)``: the same, if byte p + k is a quote or beyond ASCII
    specials = intrinsic(_flags(_special))  # type: ignore[assignment]
    #: how many bits are set
    ones = intrinsic(_ones)  # type: ignore[assignment]
    #: zero bits below the lowest one, above the highest one; 64 if there is none
    ctz = intrinsic(_zeros_counter("llvm.cttz.i64"))  # type: ignore[assignment]
    clz = intrinsic(_zeros_counter("llvm.ctlz.i64"))  # type: ignore[assignment]
    #: ``product(a, b, c)``: all 128 bits of a * b + c, high half first
    product = intrinsic(_product)  # type: ignore[assignment]


def as_bytes(block: Any) -> np.ndarray:
    """Text in any buffer as a read-only array of bytes, not copied: one type for the kernels."""
    data = np.frombuffer(block, dtype=np.uint8) if len(block) else np.empty(0, np.uint8)
    if data.flags.writeable:
        data = data[:]
        data.flags.writeable = False
    return data


@njit(cache=True, nogil=True)
def survey(data):
    """The number of newlines, and whether there is any quote or byte beyond ASCII: one pass."""
    text, found, special = pointer(data), np.int64(0), U(0)
    whole = data.size - data.size % _SEEN
    for p in range(0, whole, _SEEN):
        found += ones(newlines(text, p)) - _SEEN  # less the bits that stand for no byte
        special |= specials(text, p)
    special &= _ALL_SEEN
    for p in range(whole, data.size):
        c = at(text, p)
        found += c == 10
        special |= U(c == 34 or c > 127)
    return found, special != U(0)


@njit(cache=True, nogil=True)
def after_line(text, p):
    """The position after the next newline from ``p`` on. Needs the padding."""
    while True:
        k = ctz(newlines(text, p))
        if k < _SEEN:
            return p + k + 1
        p += _SEEN


@njit(cache=True, nogil=True)
def after_lines(data, lines):
    """The position after so many newlines (or the end), and how many there are up to it."""
    found = 0
    for p in range(data.size):
        found += data[p] == 10
        if found == lines:
            return p + 1, found
    return data.size, found


@njit(cache=True, nogil=True)
def after_newline(data, start, stop):
    """The position after the last newline in ``data[start:stop]``, 0 if there is none."""
    for p in range(stop - 1, start - 1, -1):
        if data[U(p)] == 10:
            return p + 1
    return 0


def padded(data: np.ndarray, start: int) -> list[tuple[np.ndarray, int, int, int]]:
    """The lines from ``start`` on, as pieces (text, start, stop, origin) that kernels may read.

    Every line of a piece ends in a newline that is followed by the padding: the first piece is
    the text itself, the second a copy of its last few lines.  ``origin`` is where text[0] is.
    """
    end = max(after_newline(data, start, data.size - PAD), start)
    pieces = [(data, start, end, 0)] if end > start else []
    if end < data.size:
        last = data[end:].tobytes()
        last += b"" if last.endswith(b"\n") else b"\n"
        pieces.append((as_bytes(last + bytes(PAD)), 0, len(last), end))
    return pieces


@njit(cache=True, nogil=True)
def count(data, byte):
    """How often a byte occurs; runs are counted in 16 bits, so that more fit into a vector."""
    total = np.int64(0)
    wanted = np.uint8(byte)
    for start in range(0, data.size, 32768):
        some = np.uint16(0)
        for b in data[start : start + 32768]:
            some = np.uint16(some + np.uint16(b == wanted))
        total += np.int64(some)
    return total
