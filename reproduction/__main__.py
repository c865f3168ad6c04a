"""Run the experiments and write ``docs/reproduction.md``.

With ``--only`` the sections of the other experiments stay as they are in the file; with ``--only``
and no name all of them do, and the head and the lists of missing rows are written anew.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")  # times are of one thread; to be said before NumPy is loaded

import numba  # noqa: E402
import numpy as np  # noqa: E402

import thresher  # noqa: E402
from reproduction import (  # noqa: E402
    annealing,
    asset,
    clustering,
    confidence,
    cuts,
    few_labels,
    fixed_size,
    hyperplanes,
    manifold,
    matchings,
    noise,
    novelty,
    orderings,
    recovery,
    reweighted,
    salsa,
    semiparametric,
    universum,
    weighted,
)
from reproduction.page import compose, sections  # noqa: E402
from reproduction.protocol import Settings  # noqa: E402
from reproduction.report import Absent  # noqa: E402


class Experiment(NamedTuple):
    title: str
    run: Callable[[Settings], str]
    absent: Sequence[Absent]  # published rows that it does not show


EXPERIMENTS = {
    "reweighted": Experiment(
        "Reweighted dual averaging: error and sparsity", reweighted.run, reweighted.ABSENT
    ),
    "recovery": Experiment("Support recovery", recovery.run, recovery.ABSENT),
    "weighted": Experiment("Weighted coordinate-wise Pegasos", weighted.run, weighted.ABSENT),
    "noise": Experiment("Label noise: hinge and pinball", noise.run, noise.ABSENT),
    "fixed_size": Experiment(
        "Fixed-size machines: hinge and pinball", fixed_size.run, fixed_size.ABSENT
    ),
    "novelty": Experiment("Supervised novelty detection", novelty.run, novelty.ABSENT),
    "salsa": Experiment("SALSA's benchmark: Covertype", salsa.run, salsa.ABSENT),
    "matchings": Experiment("Matching objects of two sets", matchings.run, matchings.ABSENT),
    "hyperplanes": Experiment("Multi-hyperplane machines", hyperplanes.run, hyperplanes.ABSENT),
    "confidence": Experiment(
        "Confidence-weighted learning in shards", confidence.run, confidence.ABSENT
    ),
    "asset": Experiment("ASSET: stochastic steps on a kernel machine", asset.run, asset.ABSENT),
    "cuts": Experiment("Cutting planes: iterations", cuts.run, cuts.ABSENT),
    "semiparametric": Experiment(
        "Semiparametric regression", semiparametric.run, semiparametric.ABSENT
    ),
    "universum": Experiment("Irrelevant and unlabelled rows", universum.run, universum.ABSENT),
    "manifold": Experiment(
        "RDA+: manifolds identified while learning", manifold.run, manifold.ABSENT
    ),
    "clustering": Experiment(
        "Stochastic k-means with sparse centres", clustering.run, clustering.ABSENT
    ),
    "few_labels": Experiment("Few labels", few_labels.run, few_labels.ABSENT),
    "orderings": Experiment("Orders of rows", orderings.run, orderings.ABSENT),
    "annealing": Experiment(
        "Coupled annealing: as published, ours, and TPE", annealing.run, annealing.ABSENT
    ),
}
HEAD = """\
# Reproduction of published results

Our results beside those printed in three PhD theses: V. Jumutc's (KU Leuven, 2016), chapters 2 to
5; N. Djuric's (Temple University, 2014), chapters 2 to 6; S. Lee's (University of
Wisconsin-Madison), chapters 2 to 5; and in the tutorial "Machine Learning: Kernel, Sparsity,
Online, and Future Perspectives" of H. Yang, I. King and M. Lyu (2012). This file is written by
`make reproduce` (`python -m reproduction`); `--runs 50` repeats the published number of splits
where a section does not set a limit of its own, `--only NAME` renews some sections and keeps the
others. Every section ends with
the options, the versions and the day of its run (sections without a day are older than that
custom), and with the published rows that it lacks.

What is common to the first: features z-scored by the training rows; first class (or the one named)
against the rest; T updates on rows drawn with replacement; the last iterate, no averaging. As in
the thesis, hyper-parameters are tuned by coupled simulated annealing from five starts, in chapter 3
(weighted Pegasos, label noise, fixed-size machines) with a simplex after it, in chapter 4 without;
both are the package's own (the last section compares them with annealing as published). Ranges and
the number of evaluations were not printed; here they are: λ (and λ/ε of l1-re) 1e-4 to 1, γ 0.1 to
100, ρ 1e-4 to 1 (l1-ada: 0.01 to 100), ε 0.01 to 10 (l2-re: 0.1 to 1000, truncation 1e-4 to 1), λ
of Pegasos 1e-5 to 100, searched by their logarithms; they were set, and that of Pegasos widened,
after trials on a few splits of the same sets. "Ours" are means over runs, **bold**, with the
standard deviation of single runs in brackets. Differences are ours minus published: negative means
a lower error than published. A published std of a mean over 50 runs is read as that of single runs.
Cells that are what they are by the method, whatever is learned, are not counted in summaries."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("--runs", type=int, default=Settings().runs, help="random splits")
    parser.add_argument("--budget", type=int, default=Settings().budget, help="points tried")
    parser.add_argument("--folds", type=int, default=Settings().folds, help="of cross-validation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--output", type=Path, default=Path("docs/reproduction.md"))
    options = parser.parse_args()
    settings = Settings(options.runs, options.budget, options.folds, options.seed)
    for name in options.only:
        title, experiment, _ = EXPERIMENTS[name]
        start = _cpu_seconds()
        text = experiment(settings)
        seconds = _cpu_seconds() - start
        print(f"{title}: {seconds:.0f} s", flush=True)
        text += f"\n\n*{seconds:.0f} CPU seconds; {_told(settings)}*"
        _write(options.output, {title: text})
    if not options.only:
        _write(options.output, {})


def _write(path: Path, renewed: dict[str, str]) -> None:
    """The page with the renewed sections; the others as they are in the file."""
    kept = sections(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    absent = {one.title: one.absent for one in EXPERIMENTS.values()}
    path.write_text(compose(HEAD, kept | renewed, absent))


def _cpu_seconds() -> float:
    """Of this process and of those it waited for; the wall clock of a shared machine says less."""
    return sum(os.times()[:4])


def _told(settings: Settings) -> str:
    return (
        f"--runs {settings.runs} --budget {settings.budget} --folds {settings.folds} "
        f"--seed {settings.seed}; thresher {thresher.__version__}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}; "
        f"{datetime.date.today()}."
    )


if __name__ == "__main__":
    main()
