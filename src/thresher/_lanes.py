"""Vector registers as values of compiled code: several weights at a time.

A register holds ``LANES`` neighbouring numbers of an array.  Numba keeps sums of arrays in memory
between the features of a row, and each addition then waits for the one before to be written and
read back; nor does its vectoriser join neighbouring statements.  A type of our own, an LLVM vector,
stays in registers through a whole loop.  With ``NUMBA_DISABLE_JIT=1`` small arrays stand in.

Arrays are C-ordered; ``place`` is an offset into their elements, see :func:`in_row`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic, models, register_model

__all__ = [
    "LANES", "aligned", "filled", "first_own", "first_rival", "in_row", "larger_own",
    "larger_rival", "largest", "multiply_add", "plus", "read", "whole_registers", "write",
]  # fmt: skip

LANES = 16
_INT = ir.IntType(32)
_INTS = ir.VectorType(_INT, LANES)


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that start on a cache line, so that a block of lanes touches one line and not two."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def whole_registers(lanes: int) -> int:
    """So many lanes and a few more."""
    return -(-lanes // LANES) * LANES


@njit(cache=True, nogil=True, inline="always")
def in_row(table, j, at):
    """The place of ``table[j, at]``."""
    return np.int64(j) * table.shape[1] + at


# ---------------------------------------------------------------- the type


class Register(types.Type):
    """``LANES`` floats of one type."""

    def __init__(self, dtype: Any):
        self.dtype = dtype
        super().__init__(f"Register({dtype})")


@register_model(Register)
class _RegisterModel(models.PrimitiveModel):
    def __init__(self, manager: Any, register: Register):
        number = manager.lookup(register.dtype).get_value_type()
        super().__init__(manager, register, ir.VectorType(number, LANES))


def _address(context: Any, builder: Any, array: Any, value: Any, place: Any, vector: Any) -> Any:
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


def _everywhere(builder: Any, vector: Any, number: Any) -> Any:
    """The number in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)


# ---------------------------------------------------------------- operations


def _filled(typing_context, array, number):
    register = Register(array.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _everywhere(builder, context.get_value_type(register), args[1])

    return register(array, array.dtype), emit


def _read(typing_context, array, place):
    register = Register(array.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(register)
        value = builder.load(_address(context, builder, array, args[0], args[1], vector))
        value.align = array.dtype.bitwidth // 8
        return value

    return register(array, types.int64), emit


def _write(typing_context, register, array, place):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(register)
        target = _address(context, builder, array, args[1], args[2], vector)
        builder.store(args[0], target).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(register, array, types.int64), emit


def _plus(typing_context, a, b):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(*args)

    return a(a, a), emit


def _multiply_add(typing_context, total, x, register):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        spread = _everywhere(builder, args[2].type, args[1])
        product = builder.fmul(spread, args[2], flags=("contract",))
        return builder.fadd(args[0], product, flags=("contract",))

    return total(total, total.dtype, total), emit


def _larger_where(chosen: Any) -> Any:
    """The larger of two registers in the lanes that ``chosen`` (builder, owners, label) names."""

    def choose(typing_context, best, register, owner, at, label):
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            owners = _owners(context, builder, owner, *args[2:4])
            lanes = chosen(builder, owners, _everywhere(builder, _INTS, args[4]))
            return builder.select(lanes, _larger(builder, args[0], args[1]), args[0])

        return register(register, register, owner, types.int64, types.int32), emit

    return choose


def _first_where(chosen: Any) -> Any:
    """The first lane that holds a number, of those that ``chosen`` names; LANES if none does."""

    def find(typing_context, register, number, owner, at, label):
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            owners = _owners(context, builder, owner, *args[2:4])
            lanes = chosen(builder, owners, _everywhere(builder, _INTS, args[4]))
            sought = _everywhere(builder, args[0].type, args[1])
            found = builder.and_(lanes, builder.fcmp_ordered("==", args[0], sought))
            word = ir.IntType(64)
            bits = builder.zext(builder.bitcast(found, ir.IntType(LANES)), word)
            marked = builder.or_(bits, ir.Constant(word, 1 << LANES))
            return builder.cttz(marked, ir.Constant(ir.IntType(1), 1))

        return types.int64(register, register.dtype, owner, types.int64, types.int32), emit

    return find


def _owners(context: Any, builder: Any, owner: Any, value: Any, place: Any) -> Any:
    owners = builder.load(_address(context, builder, owner, value, place, _INTS))
    owners.align = 4
    return owners


def _is_own(builder: Any, owners: Any, label: Any) -> Any:
    return builder.icmp_signed("==", owners, label)


def _is_rival(builder: Any, owners: Any, label: Any) -> Any:
    owned = builder.icmp_signed(">=", owners, ir.Constant(_INTS, [0] * LANES))
    return builder.and_(owned, builder.icmp_signed("!=", owners, label))


def _largest(typing_context, register):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (value,) = args
        undefined = ir.Constant(value.type, ir.Undefined)
        half = LANES // 2
        while half:  # fold one half onto the other
            turned = ir.Constant(_INTS, [(lane + half) % LANES for lane in range(LANES)])
            value = _larger(builder, value, builder.shuffle_vector(value, undefined, turned))
            half //= 2
        return builder.extract_element(value, ir.Constant(_INT, 0))

    return register.dtype(register), emit


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def filled(array, number):
        return np.full(LANES, number, dtype=array.dtype)

    def read(array, place):
        return array.reshape(-1)[place : place + LANES].copy()

    def write(register, array, place):
        array.reshape(-1)[place : place + LANES] = register

    def plus(a, b):
        return a + b

    def multiply_add(total, x, register):
        return total + x * register

    def larger_own(best, register, owner, at, label):
        own = owner[at : at + LANES] == label
        return np.where(own & (register > best), register, best)

    def larger_rival(best, register, owner, at, label):
        owners = owner[at : at + LANES]
        return np.where((owners >= 0) & (owners != label) & (register > best), register, best)

    def first_own(register, number, owner, at, label):
        return _first((register == number) & (owner[at : at + LANES] == label))

    def first_rival(register, number, owner, at, label):
        owners = owner[at : at + LANES]
        return _first((register == number) & (owners >= 0) & (owners != label))

    def _first(found):
        return int(np.argmax(found)) if found.any() else LANES

    def largest(register):
        return register.max()

else:
    #: ``filled(array, number)``: the number in all lanes of a register of the array's type
    filled = intrinsic(_filled)  # type: ignore[assignment]
    #: ``read(array, place)``: the elements from there on
    read = intrinsic(_read)  # type: ignore[assignment]
    #: ``write(register, array, place)``: put them there
    write = intrinsic(_write)  # type: ignore[assignment]
    plus = intrinsic(_plus)  # type: ignore[assignment]
    #: ``multiply_add(total, x, register)``: total + x * register, for a number x
    multiply_add = intrinsic(_multiply_add)  # type: ignore[assignment]
    #: ``larger_own(best, register, owner, at, label)``: the larger of the two in the lanes whose
    #: ``owner[at + lane]`` is ``label``, else ``best``
    larger_own = intrinsic(_larger_where(_is_own))  # type: ignore[assignment]
    #: the same in the lanes of all other owners
    larger_rival = intrinsic(_larger_where(_is_rival))  # type: ignore[assignment]
    #: ``first_own(register, number, owner, at, label)``: the first of these lanes that holds the
    #: number; ``LANES`` if none does
    first_own = intrinsic(_first_where(_is_own))  # type: ignore[assignment]
    first_rival = intrinsic(_first_where(_is_rival))  # type: ignore[assignment]
    #: the largest number of all lanes
    largest = intrinsic(_largest)  # type: ignore[assignment]
