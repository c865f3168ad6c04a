"""Several weights at a time: a multiply-add of whole vector registers.

Numba leaves this loop scalar (its vectoriser does not join neighbouring statements), so the
instruction is emitted directly; with ``NUMBA_DISABLE_JIT=1`` plain Python stands in for it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

__all__ = ["LANES", "add_four", "add_multiple"]

LANES = 16  # whole vector registers


class _Blocks:
    """Reads and writes ``LANES`` neighbours of arrays at once; alignment is not assumed."""

    def __init__(self, context: Any, builder: Any, dtype: Any):
        self.context, self.builder, self.align = context, builder, dtype.bitwidth // 8
        self.vector = ir.VectorType(context.get_data_type(dtype), LANES)

    def array(self, array_type: Any, value: Any) -> Any:
        return self.context.make_array(array_type)(self.context, self.builder, value)

    def place(self, array: Any, offset: Any) -> Any:
        address = self.builder.gep(array.data, [offset])
        return self.builder.bitcast(address, self.vector.as_pointer())

    def in_row(self, table: Any, row: Any, at: Any) -> Any:
        lanes = self.builder.extract_value(table.shape, 1)
        return self.place(table, self.builder.add(self.builder.mul(row, lanes), at))

    def read(self, place: Any) -> Any:
        value = self.builder.load(place)
        value.align = self.align
        return value

    def write(self, value: Any, place: Any) -> None:
        self.builder.store(value, place).align = self.align

    def multiply_add(self, total: Any, x: Any, values: Any) -> Any:
        """total + x * values, for a number x."""
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
        spread = self.builder.shuffle_vector(first, undefined, zeros)
        product = self.builder.fmul(spread, values, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))


def _add_four(typing_context, margins, at, sums, j0, j1, j2, j3, x0, x1, x2, x3):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        blocks = _Blocks(context, builder, margins.dtype)
        table = blocks.array(sums, args[2])
        target = blocks.place(blocks.array(margins, args[0]), args[1])
        totals = [blocks.read(target), ir.Constant(blocks.vector, [0.0] * LANES)]
        for q in range(4):
            values = blocks.read(blocks.in_row(table, args[3 + q], args[1]))
            totals[q % 2] = blocks.multiply_add(totals[q % 2], args[7 + q], values)
        blocks.write(builder.fadd(*totals), target)
        return context.get_dummy_value()

    places = (types.int64,) * 4
    return types.void(margins, types.int64, sums, *places, *(margins.dtype,) * 4), emit


def _add_multiple(typing_context, sums, j, at, x, factors):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        blocks = _Blocks(context, builder, sums.dtype)
        target = blocks.in_row(blocks.array(sums, args[0]), args[1], args[2])
        values = blocks.read(blocks.place(blocks.array(factors, args[4]), args[2]))
        blocks.write(blocks.multiply_add(blocks.read(target), args[3], values), target)
        return context.get_dummy_value()

    return types.void(sums, types.int64, types.int64, sums.dtype, factors), emit


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def add_four(margins, at, sums, j0, j1, j2, j3, x0, x1, x2, x3):
        for s in range(at, at + LANES):
            margins[s] += (
                x0 * sums[j0, s] + x2 * sums[j2, s] + (x1 * sums[j1, s] + x3 * sums[j3, s])
            )

    def add_multiple(sums, j, at, x, factors):
        for s in range(at, at + LANES):
            sums[j, s] += x * factors[s]

else:
    #: ``margins[at : at + LANES] += x0 * sums[j0] + ... + x3 * sums[j3]`` on the same lanes
    add_four = intrinsic(_add_four)  # type: ignore[assignment]
    #: ``sums[j, at : at + LANES] += x * factors[at : at + LANES]``
    add_multiple = intrinsic(_add_multiple)  # type: ignore[assignment]
