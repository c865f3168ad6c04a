"""Several weights at a time: a multiply-add of whole vector registers.

Numba leaves this loop scalar (its vectoriser does not join neighbouring statements), so the
instruction is emitted directly; with ``NUMBA_DISABLE_JIT=1`` plain Python stands in for it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

__all__ = ["LANES", "add_four"]

LANES = 16  # whole vector registers


def _add_four(typing_context, margins, at, sums, j0, j1, j2, j3, x0, x1, x2, x3):
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(margins.dtype), LANES)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        undefined = ir.Constant(vector, ir.Undefined)
        table = context.make_array(sums)(context, builder, args[2])
        lanes = builder.extract_value(table.shape, 1)

        def lane_block(array: Any, offset: Any) -> Any:
            return builder.bitcast(builder.gep(array.data, [offset]), vector.as_pointer())

        def read(address: Any) -> Any:
            value = builder.load(address)
            value.align = margins.dtype.bitwidth // 8
            return value

        target = lane_block(context.make_array(margins)(context, builder, args[0]), args[1])
        totals = [read(target), ir.Constant(vector, [0.0] * LANES)]
        for q in range(4):
            row = builder.add(builder.mul(args[3 + q], lanes), args[1])
            first = builder.insert_element(undefined, args[7 + q], ir.Constant(ir.IntType(32), 0))
            x = builder.shuffle_vector(first, undefined, zeros)
            product = builder.fmul(x, read(lane_block(table, row)), flags=("contract",))
            totals[q % 2] = builder.fadd(totals[q % 2], product, flags=("contract",))
        stored = builder.store(builder.fadd(*totals), target)
        stored.align = margins.dtype.bitwidth // 8
        return context.get_dummy_value()

    places = (types.int64,) * 4
    return types.void(margins, types.int64, sums, *places, *(margins.dtype,) * 4), emit


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def add_four(margins, at, sums, j0, j1, j2, j3, x0, x1, x2, x3):
        for s in range(at, at + LANES):
            margins[s] += (
                x0 * sums[j0, s] + x2 * sums[j2, s] + (x1 * sums[j1, s] + x3 * sums[j3, s])
            )

else:
    #: ``margins[at : at + LANES] += x0 * sums[j0] + ... + x3 * sums[j3]`` on the same lanes
    add_four = intrinsic(_add_four)  # type: ignore[assignment]
