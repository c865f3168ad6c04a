"""``make bench``: run every claim, or those named as arguments, and write RESULTS.md."""

from __future__ import annotations

import importlib
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CLAIMS = {
    "linear_accuracy": "Time to LIBLINEAR's test error",
    "linear_optimum": "Time to the optimum",
    "peer_table": "All peers",
    "online_epoch": "One online epoch",
    "sparse_models": "Sparse models",
    "groups": "Groups of features",
    "tasks": "Many tasks at once",
    "task_files": "Files by task",
    "manifold": "RDA+: identify, then finish",
    "defaults": "Untuned defaults",
    "startup": "First fit and memory",
    "reading": "Reading files and learning from them",
    "workers": "Two workers",
    "workers_peers": "Two workers beside dask-ml and Vowpal Wabbit",
    "fixed_size": "Fixed-size kernel machines",
    "exact": "Exact kernel machines",
    "multiple_kernels": "Machines of many kernels",
    "budgeted": "Kernel machines on a budget",
    "hyperplanes": "Multi-hyperplane machines",
    "confidence": "Confidence-weighted learning",
    "novelty": "Novelty detection",
    "matchings": "Matching objects of two sets",
    "local_landmarks": "Kernel machines in cells: covtype",
    "forests": "Forests as feature maps",
    "terms": "Weighted terms",
    "semiparametric": "Semiparametric regression",
    "universum": "Irrelevant and unlabelled rows",
    "few_labels": "Few labels",
    "growth": "Cost and memory against rows",
    "cuts": "Cutting planes",
    "clustering": "Clustering",
    "spectral": "Kernel spectral clustering",
    "orderings": "Orders of rows",
    "explorer": "The explorer",
    "tuning": "Tuning",
    "budget": "The best model in 60 seconds",
    "unseen": "The race on data nobody tuned for",
    "unseen_numbers": "Numbers on data nobody tuned for",
}
RESULTS = Path(__file__).parent / "RESULTS.md"


def main(chosen: list[str]) -> None:
    unknown = sorted(set(chosen) - set(CLAIMS))
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(CLAIMS)}")
    sections = _previous() if chosen else {}
    for name in chosen or CLAIMS:
        print(f"== {CLAIMS[name]}", flush=True)
        sections[name] = importlib.import_module(f"benchmarks.{name}").run()
        _write(sections)  # after each, so that a long run cut short is not lost
    print(f"wrote {RESULTS.name}")


def _write(sections: dict[str, str]) -> None:
    parts = [f"# Benchmark results\n\n{_machine()}"]
    parts += [f"## {CLAIMS[n]}\n<!-- {n} -->\n\n{sections[n]}" for n in CLAIMS if n in sections]
    RESULTS.write_text("\n\n".join(parts) + "\n")


def _previous() -> dict[str, str]:
    """The sections of the last run, so that one claim can be measured again alone."""
    if not RESULTS.exists():
        return {}
    pieces = re.split(r"## .*\n<!-- (\w+) -->\n\n", RESULTS.read_text())
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.*)", info.read_text())
        cpu = found.group(1) if found else cpu
    packages = ("thresher", "numpy", "scipy", "numba", "scikit-learn", "liblinear-official",
                "vowpalwabbit", "skglm", "celer", "group-lasso", "pyarrow", "optuna")  # fmt: skip
    return f"{cpu}, Python {platform.python_version()}, " + ", ".join(
        f"{name} {_version(name)}" for name in packages
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    main(sys.argv[1:])
