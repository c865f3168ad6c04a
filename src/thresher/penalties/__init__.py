r"""Penalties :math:`\psi(w) = \sum_j \psi_j(w_j)` over the coordinates, or over groups of them.

``value(w, j)`` is one coordinate's term and ``prox(w, step, j)`` its proximal map,
:math:`\arg\min_u \psi_j(u) + (u - w)^2 / (2\,\mathrm{step})`.  Solvers go further with what a
penalty can also promise:

``subgrad(w, j)``
    an element of the subdifferential, for plain subgradient descent;
trait ``quadratic``
    it is :math:`\tfrac12 \sum_j \lambda_j w_j^2` with ``precision(j)`` = lambda_j, and ``uniform``
    if all lambda_j are the same;
trait ``lazy``
    ``rest`` is the proximal map of all but a uniform quadratic part of strength ``ridge``, and its
    steps add up, rest(rest(w, a), b) = rest(w, a + b).  A solver may then leave a coordinate alone
    until a row needs it: the cost of a step is that of the row's non-zeros.  Where ``ridge`` is
    not zero, ``rest`` must also be positively homogeneous: rest(s w, s a) = s rest(w, a).

A penalty over groups (:class:`GroupPenalty`, trait ``grouped``) is a sum over groups of
coordinates, :math:`\psi(w) = \sum_g \psi_g(w_g)`.  In place of ``value`` and ``prox`` it has
``value_block(w, group)`` and ``prox_block(v, step, group, out)`` for all coordinates of one group.
Groups may share features (``blocks.py``).

``pattern(w, j)``, of groups ``pattern_block(w, group)``, numbers the smooth piece of the penalty
that a weight, or the weights of a group, lie on (and ``pattern_within(w, group)`` those of single
weights within a group, where there are any).  All of them together are the manifold that w lies
on: within it the penalty is smooth (:func:`pattern_of`).
"""

from thresher.penalties.base import Penalty, strengthened
from thresher.penalties.blocks import GroupPenalty
from thresher.penalties.builders import dummies, edge_groups, powers
from thresher.penalties.coordinates import L1, L2, Box, ElasticNet, WeightedL1, WeightedL2
from thresher.penalties.groups import GroupL2, SparseGroupL2, lp_value
from thresher.penalties.membership import Features
from thresher.penalties.vectors import evaluate, pattern_of

__all__ = [
    "L1",
    "L2",
    "Box",
    "ElasticNet",
    "Features",
    "GroupL2",
    "GroupPenalty",
    "Penalty",
    "SparseGroupL2",
    "WeightedL1",
    "WeightedL2",
    "dummies",
    "edge_groups",
    "evaluate",
    "lp_value",
    "pattern_of",
    "powers",
    "strengthened",
]
