"""Run the experiments and write ``docs/reproduction.md``."""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")  # times are of one thread; to be said before NumPy is loaded

import numba  # noqa: E402
import numpy as np  # noqa: E402

import thresher  # noqa: E402
from reproduction import hyperplanes, noise, recovery, reweighted, salsa, weighted  # noqa: E402
from reproduction.protocol import Settings  # noqa: E402

EXPERIMENTS: dict[str, tuple[str, Callable[[Settings], str]]] = {
    "reweighted": ("Reweighted dual averaging: error and sparsity", reweighted.run),
    "recovery": ("Support recovery", recovery.run),
    "weighted": ("Weighted coordinate-wise Pegasos", weighted.run),
    "noise": ("Label noise: hinge and pinball", noise.run),
    "salsa": ("SALSA's benchmark: Covertype", salsa.run),
    "hyperplanes": ("Multi-hyperplane machines", hyperplanes.run),
}
HEAD = """\
# Reproduction of published results

Our results beside those printed in V. Jumutc's PhD thesis (KU Leuven, 2016), the linear methods of
its chapters 3 to 5, and in N. Djuric's (Temple University, 2014), chapter 4. This file is written
by `make reproduce` (`python -m reproduction`); `--runs 50` repeats the published number of splits.

What is common to the former: features z-scored by the training rows; first class (or the one named)
against the rest; T updates on rows drawn with replacement; the last iterate, no averaging. The
thesis tunes by coupled simulated annealing from five starts, without ranges or the number of
evaluations; here stands a seeded random search over log-uniform ranges, its second half drawn
around the best point so far. Ranges: λ (and λ/ε of l1-re) 1e-4 to 1, γ 0.1 to 100, ρ 1e-4 to 1
(l1-ada: 0.01 to 100), ε 0.01 to 10 (l2-re: 0.1 to 1000, truncation 1e-4 to 1), λ of Pegasos 1e-5
to 100; they were set, and that of Pegasos widened, after trials on a few splits of the same sets.
"Ours" are means over runs, **bold**, with the standard deviation of single runs in
brackets. Differences are ours minus published: negative means a lower error than published. A
published std of a mean over 50 runs is read as that of single runs."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("--runs", type=int, default=Settings().runs, help="random splits")
    parser.add_argument("--budget", type=int, default=Settings().budget, help="points tried")
    parser.add_argument("--folds", type=int, default=Settings().folds, help="of cross-validation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--output", type=Path, default=Path("docs/reproduction.md"))
    options = parser.parse_args()
    settings = Settings(options.runs, options.budget, options.folds, options.seed)
    parts, begin = [HEAD], time.perf_counter()
    for name in options.only:
        title, experiment = EXPERIMENTS[name]
        start = time.perf_counter()
        text = experiment(settings)
        seconds = time.perf_counter() - start
        print(f"{title}: {seconds:.0f} s", flush=True)
        parts.append(f"## {title}\n\n{text}\n\n*{seconds:.0f} seconds.*")
    parts.insert(1, _environment(options, time.perf_counter() - begin))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("\n\n".join(parts) + "\n")


def _environment(options: argparse.Namespace, seconds: float) -> str:
    return (
        f"This run: {options.runs} runs, {options.budget} points per search, at most "
        f"{options.folds} folds, seed {options.seed}; {seconds / 60:.1f} minutes on one core, "
        f"thresher {thresher.__version__}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, Numba {numba.__version__}."
    )


if __name__ == "__main__":
    main()
