"""One file per claim; each runs Thresher and its peers in one process on the same data.

Linear algebra runs on one thread, so that CPU seconds mean work and not waiting threads; this must
be said before NumPy is loaded.
"""

import os

for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")
