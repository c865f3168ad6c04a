"""First imports load no more than what is used, and whoever asks gets the real modules."""

import os
import subprocess
import sys

import numpy as np
import pytest

LEARNING = [
    "LinearClassifier", "KernelClassifier", "StochasticKMeans", "ConfidenceClassifier",
    "KernelSpectralClustering", "MultipleKernelClassifier", "RowOrdering", "train",
]  # fmt: skip


def _python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_learners_import_neither_pandas_nor_scipy_stats_nor_a_study():
    loaded = _python(
        "import sys, thresher\n"
        "from thresher import _lean; _lean.install()\n"
        f"for name in {LEARNING}: getattr(thresher, name)\n"
        "from thresher import LinearClassifier\n"
        "LinearClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])\n"
        "print([m for m in ('pandas', 'scipy.stats', 'optuna', 'bokeh') if m in sys.modules])"
    )
    assert loaded.strip() == "[]"


def test_scikit_learn_gets_the_real_modules_as_soon_as_it_asks():
    _python(
        "import sys\n"
        "from thresher import _lean\n"
        "_lean.install()\n"
        "from thresher import LinearClassifier\n"
        "from sklearn.utils import fixes\n"
        "assert fixes._mode([1, 2, 2]).mode == 2\n"
        "import scipy.stats, pandas\n"
        "assert fixes.scipy.stats is scipy.stats is sys.modules['scipy.stats']\n"
        "assert scipy.stats.__spec__.origin and pandas.__file__\n"
        "assert fixes.pd.DataFrame is pandas.DataFrame\n"
        "frame = pandas.DataFrame({'a': [0.0, 1.0, 2.0, 3.0]})\n"
        "model = LinearClassifier().fit(frame, [0, 0, 1, 1])\n"
        "assert list(model.feature_names_in_) == ['a']"
    )


def test_who_has_imported_scikit_learn_first_keeps_what_there_is():
    _python(
        "import sys, sklearn.base, scipy.stats, pandas\n"
        "before = scipy.stats, pandas, list(sys.meta_path)\n"
        "from thresher import _lean\n"
        "_lean.install()\n"
        "assert before == (sys.modules['scipy.stats'], sys.modules['pandas'], sys.meta_path)"
    )


def test_a_library_leaves_imports_as_they_are():
    _python(
        "import sys\n"
        "before = list(sys.meta_path)\n"
        "from thresher import LinearClassifier\n"
        "assert before == sys.meta_path\n"
        "assert 'scipy.stats' in sys.modules"
    )


def test_a_stand_in_is_nobodys_module_after_a_failed_import():
    _python(
        "import sys\n"
        "from thresher import _lean\n"
        "try:\n"
        "    with _lean._stand_ins():\n"
        "        assert type(sys.modules['pandas']) is _lean._StandIn\n"
        "        from pandas import DataFrame\n"
        "        1 / 0\n"
        "except ZeroDivisionError: pass\n"
        "assert 'scipy.stats' not in sys.modules\n"
        "import pandas\n"
        "assert pandas.DataFrame is DataFrame and type(pandas) is not _lean._StandIn"
    )


def test_a_command_imports_no_pandas(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    lines = [f"{a},{b},{'yes' if a > 0 else 'no'}" for a, b in rows.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines]))
    loaded = _python(
        "import sys\n"
        "from thresher.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print([m for m in ('pandas', 'scipy.stats', 'optuna') if m in sys.modules])",
        "train", str(tmp_path / "rows.csv"), "--target", "y", "--quiet",
    )  # fmt: skip
    assert loaded.strip() == "[]"


def test_pyarrow_still_knows_data_frames_where_it_was_told_to_do_without_pandas():
    pytest.importorskip("pandas")
    _python(
        "import sys\n"
        "from thresher import _lean\n"
        "_lean.install()\n"
        "from thresher import train\n"
        "_lean.arrow_alone()\n"
        "import pyarrow as pa\n"
        "pa.array(['a'])\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas as pd\n"
        "frame = pd.DataFrame({'a': [0.0, 1.0, None, 3.0] * 9, 'y': ['u', 'u', 'v', 'v'] * 9})\n"
        "model = train(frame, target='y', holdout=0)\n"
        "assert model.schema.features[0].name == 'a'\n"
        "assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1"
    )
