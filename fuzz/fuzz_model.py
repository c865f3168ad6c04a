"""Atheris on the model loader: ``python fuzz/fuzz_model.py -max_total_time=60 [CORPUS]``.

The first byte chooses what the rest replaces: the whole file, its document, or one of its arrays,
the latter two in a zip whose checksums are right, so that the checks behind it are reached.
"""

import io
import os
import sys
import tempfile
import zipfile
from pathlib import Path

import atheris
import numpy as np

from thresher import LinearClassifier


def seed_model() -> LinearClassifier:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    return LinearClassifier(solver="asgd", calibrate="isotonic").fit(X, y)


# Fitted first: what Numba compiles must be imported before imports are instrumented.
MODEL = seed_model()

with atheris.instrument_imports(
    include=["thresher.artifacts", "thresher.estimators.saving", "thresher.data.schema", "json"]
):
    from thresher import load_model, save_model
    from thresher.artifacts.container import BadFile
    from thresher.artifacts.encoding import UnknownTerm

FOLDER = tempfile.TemporaryDirectory()
PATH = os.path.join(FOLDER.name, "m.thresher")


def saved() -> tuple[bytes, dict[str, bytes]]:
    """The file of the model, whole and by members."""
    save_model(MODEL, PATH)
    data = Path(PATH).read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return data, {name: archive.read(name) for name in archive.namelist()}


DATA, MEMBERS = saved()
NAMES = sorted(MEMBERS)


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def test_one(data: bytes) -> None:
    which, rest = (data[0] if data else 0), data[1:]
    if which % 4 == 0:
        content = rest
    elif which % 4 == 3:
        name = NAMES[which // 4 % len(NAMES)]
        content = packed({**MEMBERS, name: rest})
    else:
        content = packed({**MEMBERS, "document.json": rest})
    with open(PATH, "wb") as file:
        file.write(content)
    try:
        model = load_model(PATH)
    except (BadFile, UnknownTerm):
        return
    d = model.schema.n_features
    if d <= 10_000 and not model.schema.is_table:
        assert model.predict(np.zeros((2, d))).shape == (2,)


def main() -> None:
    folders = [word for word in sys.argv[1:] if not word.startswith("-")]
    if folders:  # a corpus to start from
        seeds = {"whole": b"\0" + DATA, "document": b"\1" + MEMBERS["document.json"]}
        seeds |= {
            f"array{k}": bytes([4 * k + 3]) + MEMBERS[name]
            for k, name in enumerate(NAMES)
            if name.startswith("arrays/")
        }
        for name, seed in seeds.items():
            Path(folders[0], name).write_bytes(seed)
            test_one(seed)
    atheris.Setup(sys.argv, test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
