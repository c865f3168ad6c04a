"""Writes the golden files: models of version 0.1.0.dev0 that every later version must read.

Run once with version 0.1.0.dev0; kept so that one sees what the files hold.  New formats get new
files (in a folder of their own), old ones are never rewritten: the script refuses to do so.  It was
run in tests/ as

    PYTHONPATH=OLD_VERSION/src:. python -m golden.make_golden

The models are listed in ``cases.py`` and in ``tables`` below, all learned from a few hundred
made-up numbers.  Beside the files NAME.thresher there are

expected.npz
    test rows (``rows/FORM``), what the models gave for them (``NAME/FORM/scores``, ``predict`` and
    ``proba``), and what the processor made of a few products and exponentials (``probe/...``)
facts.json
    what else must be found in the files: classes, passes, how the fit ended, ...
table.csv
    rows for the models that were trained on files

Data, fits and files are the same in every run, but for the seconds that trainings record and for
the race, whose winner is a matter of time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from golden.cases import Data, cases, fitted, make_data
from golden.outputs import HERE, TABLE, facts_of, outputs, packed, probe

# ---------------------------------------------------------------- models of files


def write_people(path: Path, rows: int, seed: int, strange: bool = False) -> None:
    """A table with words, gaps, truth values, days and weights; ``strange``: also words that were
    not there to learn from."""
    rng = np.random.default_rng(seed)
    cities = ["Oslo", "Paris", "Rome", *(["Ulm", '"Bad, Ischl"'] if strange else [])]
    lines = ["age,hours,city,member,since,job,n,income,rent"]
    for _ in range(rows):
        age, hours = int(rng.integers(18, 80)), round(float(rng.normal(38, 6)), 1)
        city, member = cities[rng.integers(len(cities))], bool(rng.random() < 0.5)
        day = np.datetime64("2001-03-05") + int(rng.integers(0, 6000))
        job = f"job {rng.integers(40 if strange else 30)}"
        worth = 0.05 * (age - 45) + 0.1 * (hours - 38) + 1.5 * member - (city == "Rome")
        income = "high" if worth + 0.5 * rng.normal() > 0.3 else "low"
        rent = round(500 + 80 * worth + 300 * (city == "Paris") + 20 * rng.normal(), 2)
        gaps = rng.random(3) < 0.1
        cells = [
            age, "" if gaps[0] else hours, "?" if gaps[1] else city,
            "NA" if gaps[2] else ("yes" if member else "no"), day, job, 1 + rng.integers(3),
            income, rent,
        ]  # fmt: skip
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def tables(folder: Path) -> Iterator[tuple[str, Any]]:
    """Models of the table, which know what to make of its columns."""
    from thresher import open_data, train

    people, small = "people.csv", 1 << 12  # bytes of memory that force a stream
    income: dict[str, Any] = {"target": "income", "ignore": ["rent"]}
    no_job = income | {"ignore": ["rent", "job"]}
    rent: dict[str, Any] = {"target": "rent", "ignore": ["income"]}
    types, logistic = {"since": "date", "job": "hashed:4"}, {"loss": "logistic"}
    isotonic, budgeted = {"calibrate": "isotonic"}, {"budget": 12, "calibrate": "sigmoid"}
    with working_in(folder):  # the file's name is kept with a model
        write_people(Path(people), 240, seed=1)
        made = {
            "linear": lambda: train(people, types=types, weight="n", params=logistic, **income),
            "most_frequent": lambda: train(people, missing="most_frequent", **income),
            "calibrated": lambda: train(people, max_categories=2, params=isotonic, **income),
            "regression": lambda: train(people, types=types, **rent),
            "budgeted": lambda: train(people, learner="budgeted", params=budgeted, **no_job),
            "tuned": lambda: train(people, tune=3, cv=3, **no_job),
            "raced": lambda: train(people, budget=3, **no_job),
        }
        streams = {
            "linear": (income, {"params": logistic}),
            "regression": (rent, {}),
            "kernel": (no_job, {"learner": "kernel", "params": {"n_components": 12}}),
            "budgeted": (no_job, {"learner": "budgeted", "params": budgeted}),
            "hyperplanes": (no_job, {"learner": "hyperplanes"}),
        }
        for name, make in made.items():
            yield f"table_{name}", make()
        for name, (what, how) in streams.items():
            data = open_data(people, types={"since": "date"}, **what)
            model = train(data, memory=small, passes=3, **how)
            assert not model.training["in_memory"]
            yield f"table_{name}_streamed", model


def texts(data: Data, folder: Path) -> Iterator[tuple[str, Any]]:
    """A model of a file of sparse rows."""
    from sklearn.datasets import dump_svmlight_file

    from thresher import train

    with working_in(folder):
        codes = 10 * np.unique(data.topics, return_inverse=True)[1]
        dump_svmlight_file(data.rows["words"], codes, "words.svm", zero_based=False)
        yield "svmlight_words", train("words.svm", n_features=12, params={"loss": "logistic"})


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# ---------------------------------------------------------------- writing


class Golden:
    """Saves models one by one and collects what they give."""

    def __init__(self, data: Data):
        import golden.own_terms

        self.own, self.data = golden.own_terms, data
        self.expected: dict[str, np.ndarray] = {}
        self.facts: dict[str, Any] = {}
        for name, rows in data.tests.items():
            self.expected |= packed(rows, name)
        self.expected |= {f"probe/{name}": np.array(bits) for name, bits in probe().items()}

    def add(self, name: str, made: Any, forms: list[str], terms: tuple[str, ...] = ()) -> None:
        """Save an estimator or a model; what is read back must give what the original does."""
        from thresher import Model, load_model, save_model

        path = HERE / f"{name}.thresher"
        if path.exists():
            raise FileExistsError(f"{path}: golden files are never rewritten")
        save_model(made, path)
        again = load_model(path, terms=[getattr(self.own, term) for term in terms])
        model = made if isinstance(made, Model) else Model(made, again.schema)
        for form in forms:
            rows = TABLE if form == "table" else self.data.tests[form]
            found, reread = outputs(model, rows), outputs(again, rows)
            assert found.keys() == reread.keys()
            for key, values in found.items():
                np.testing.assert_array_equal(values, reread[key], err_msg=f"{name} {form} {key}")
                plain = values.astype(str) if values.dtype == object else values
                self.expected[f"{name}/{form}/{key}"] = plain
        told = facts_of(model)
        assert told == facts_of(again), name
        self.facts[name] = {"rows": forms, "terms": list(terms)} | told
        if "table" in forms:
            self.facts[name]["evaluated"] = model.evaluate(TABLE)
        print(f"{path.stat().st_size:7,} {name}: {told['status']}", flush=True)

    def write(self) -> None:
        lines = [
            f"{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False)}"
            for name, facts in self.facts.items()
        ]
        text = "{\n" + ",\n".join(lines) + "\n}\n"  # a line for each file
        (HERE / "facts.json").write_text(text, encoding="utf-8")
        np.savez_compressed(HERE / "expected.npz", **self.expected)


def main() -> None:
    from thresher import __file__, __version__

    print(f"written by Thresher {__version__}, {__file__}")
    for name in ("expected.npz", "facts.json", "table.csv"):
        if (HERE / name).exists():
            sys.exit(f"{HERE / name} exists: golden files are never rewritten")
    write_people(TABLE, 20, seed=2, strange=True)
    data = make_data()
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")  # some fits are meant to end too early
        files = Golden(data)
        for name, case in cases(data).items():
            estimator = fitted(case, data)
            files.add(name, estimator, [case.form, *case.tests], case.terms)
        for name, model in tables(Path(folder)):
            files.add(name, model, ["table"])
        for name, model in texts(data, Path(folder)):
            files.add(name, model, ["words"])
        files.write()


if __name__ == "__main__":
    main()
