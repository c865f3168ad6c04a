"""Orders of rows and columns in which neighbours are alike: a table that can be looked at."""

from thresher.orderings.coding import Encoded, coded_bits, decode, encode
from thresher.orderings.column_ordering import ColumnOrdering
from thresher.orderings.cuts import cut_dummy, cut_longest, cut_variance
from thresher.orderings.measures import (
    anti_robinson_events,
    banded_anti_robinson,
    figure_of_merit,
    neumann_stress,
    path_length,
    random_figure_of_merit,
)
from thresher.orderings.row_ordering import OrderingEvent, RowOrdering

__all__ = [
    "ColumnOrdering", "Encoded", "OrderingEvent", "RowOrdering", "anti_robinson_events",
    "banded_anti_robinson", "coded_bits", "cut_dummy", "cut_longest", "cut_variance", "decode",
    "encode", "figure_of_merit", "neumann_stress", "path_length", "random_figure_of_merit",
]  # fmt: skip
