"""Checks for terms and solvers of your own: call them in a test, they raise AssertionError.

>>> from thresher.losses import Logistic
>>> from thresher.testing import check_loss
>>> check_loss(Logistic())

Each check compares an object with the definition it claims to implement (a derivative with
differences of the value, a proximal map with a numerical minimisation, sparse rows with dense
ones, ...), so a wrong formula fails even if models trained with it look reasonable.
"""

from thresher.testing._kernels import check_kernel
from thresher.testing._losses import check_loss
from thresher.testing._penalties import check_penalty, check_schedule
from thresher.testing._solvers import check_solver

__all__ = ["check_kernel", "check_loss", "check_penalty", "check_schedule", "check_solver"]
