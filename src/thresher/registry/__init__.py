"""Names for people in a hurry: ``loss="logistic"`` instead of ``loss=Logistic()``.

Classes are written down by where they live and imported when they are first asked for: reading a
table costs nothing, and every layer may.  The command line, the wizard, the docs and the tests
enumerate these tables, so a new term, map or solver needs its class and one line here (or one call
of :func:`register`).

``names.py`` has terms, maps and solvers, ``tasks.py`` what targets mean, ``learners.py`` what
``--learner`` names.
"""

from thresher.registry.learners import LEARNERS, Contestant, LearnerEntry, Learners
from thresher.registry.names import (
    BASIS,
    KERNELS,
    LOSSES,
    MAPS,
    PENALTIES,
    SOLVERS,
    Names,
    register,
    resolve,
)
from thresher.registry.tasks import TASKS, Task, metrics_of

__all__ = [
    "BASIS", "KERNELS", "LEARNERS", "LOSSES", "MAPS", "PENALTIES", "SOLVERS", "TASKS", "Contestant",
    "LearnerEntry", "Learners", "Names", "Task", "metrics_of", "register", "resolve",
]  # fmt: skip
