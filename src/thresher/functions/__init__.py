"""What was learned, as values.

A *function* is a NamedTuple of arrays and terms.  It scores rows, knows its size, checks itself,
describes itself and writes itself as ONNX; whoever saves, exports, measures or shows a model asks
the function, and nobody asks of what kind it is.

================================= ==================================================================
``features``, ``outputs``         shape of what goes in and comes out
``unscaled(units)``               the same of rows in their original units
``mapped(map, features, units)``  the same of rows, of functions of what a map makes of them
``scores(X)``                     (rows, outputs), in float64; X is an array or a CSR matrix
``size``                          numbers that it takes to score a row
``describe()``                    these in words
``basis``                         what it is built on, a kernel or trees; "": the columns themselves
``columns(X)``                    rows as its weights take them, one for each column of X; else None
``is_finite()``                   whether it may be used at all
``check()``                       ValueError for what cannot be right: files are not believed
``to_onnx(graph, rows)``          scores of the rows, as a value of the graph
================================= ==================================================================

Composition folds: units go into linear weights, weights into landmarks or leaves.  Expansions and
maps, which units cannot be folded into, keep them.
"""

from thresher.functions.base import Function, require
from thresher.functions.belief import (
    BeliefFunction,
    DiagonalSpread,
    FullSpread,
    LowRankSpread,
)
from thresher.functions.calibration import (
    Isotonic,
    Link,
    Sigmoid,
    Sigmoids,
    Softmax,
    VectorSoftmax,
    normalised,
)
from thresher.functions.centres import Centres
from thresher.functions.codebook import Codebook
from thresher.functions.expansion import Expansion
from thresher.functions.flat_planes import FlatPlanes
from thresher.functions.kernel_sum import KernelSum
from thresher.functions.linear import LinearFunction
from thresher.functions.mapped import MappedFunction
from thresher.functions.own_task import OwnTask
from thresher.functions.planes import Planes
from thresher.functions.rejecting import Rejecting
from thresher.functions.semiparametric import SemiparametricFunction
from thresher.functions.support import Duels, SupportFunction
from thresher.functions.units import Units

__all__ = [
    "BeliefFunction",
    "Centres",
    "Codebook",
    "DiagonalSpread",
    "Duels",
    "Expansion",
    "FlatPlanes",
    "FullSpread",
    "Function",
    "Isotonic",
    "KernelSum",
    "LinearFunction",
    "Link",
    "LowRankSpread",
    "MappedFunction",
    "OwnTask",
    "Planes",
    "Rejecting",
    "SemiparametricFunction",
    "Sigmoid",
    "Sigmoids",
    "Softmax",
    "SupportFunction",
    "Units",
    "VectorSoftmax",
    "normalised",
    "require",
]
