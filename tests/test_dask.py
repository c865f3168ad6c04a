"""Workers in real processes: the serial engine's results, whoever dies on the way."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from thresher import LinearClassifier, load_model, train
from thresher.engines import EngineError, Serial, engine_for
from thresher.engines.choice import Scheduler
from thresher.losses import Logistic

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of a foreign event loop and its sockets

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 5)).round(3)
Y = (X @ [1.0, -2.0, 0.5, 0.0, 1.0] + RNG.normal(size=4000) > 0).astype(int)
OPTIONS = {"target": "y", "passes": 3, "shards": 6,
           "params": {"loss": "logistic", "solver": "asgd"}}  # fmt: skip


def test_many_more_workers_than_cores_are_told():
    from thresher.engines.dask import doubt

    with pytest.warns(UserWarning, match="64 local workers on 2 cores"):
        doubt(64, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doubt(4, 1)


@pytest.fixture(scope="module")
def client():
    from thresher.engines.dask import local_client

    with local_client(2) as client:
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("dask") / "data.csv"
    pd.DataFrame(X, columns=list("pqrst")).assign(y=Y).to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def serial(path):
    return train(path, cluster=Serial(), **OPTIONS)


def same(one, other):
    np.testing.assert_array_equal(one.estimator.coef_, other.estimator.coef_)
    np.testing.assert_array_equal(one.estimator.intercept_, other.estimator.intercept_)
    assert one.training["held_out"] == other.training["held_out"]
    assert one.training["history"] == other.training["history"]


def pids(client):
    return list(client.run(os.getpid).values())


class Murder:
    """Kills a worker at the n-th news of a training."""

    def __init__(self, client, at):
        self.client, self.left, self.stages = client, at, []

    def __call__(self, event):
        self.left -= 1
        if self.left == 0:
            self.stages.append(event.stage)
            os.kill(random.choice(pids(self.client)), signal.SIGKILL)


def test_the_serial_engines_model(client, path, serial):
    same(train(path, cluster=client, **OPTIONS), serial)


def test_predictions_in_order(client, path, serial):
    np.testing.assert_array_equal(serial.predict(path, cluster=client), serial.predict(path))
    assert serial.evaluate(path, cluster=client) == serial.evaluate(path)
    frame = pd.DataFrame(X, columns=list("pqrst"))
    np.testing.assert_array_equal(
        serial.predict_proba(frame, cluster=client), serial.predict_proba(frame)
    )


@pytest.mark.parametrize("at", [2, 9])  # while it looks, and while it learns
def test_a_worker_is_killed(client, path, serial, at):
    murder = Murder(client, at)
    same(train(path, cluster=client, on_progress=murder, **OPTIONS), serial)
    assert murder.stages == ["reading" if at == 2 else "learning"]


@pytest.mark.slow
def test_twenty_workers_are_killed(client, path, serial):
    killed = 0
    for at in range(1, 26):
        murder = Murder(client, at)
        same(train(path, cluster=client, on_progress=murder, **OPTIONS), serial)
        killed += len(murder.stages)
    assert killed >= 20


def poison(recipe, shared):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_kills_its_workers():
    with engine_for(1) as engine, pytest.raises(EngineError, match="ended 4 workers"):
        list(engine.run(_by_value(poison), [0], None))


def _by_value(function):
    """Workers cannot import this file."""
    import cloudpickle

    module = __import__(function.__module__)
    cloudpickle.register_pickle_by_value(module)
    return function


class Vanished:
    """An answer whose holder died before it was fetched, like all other workers."""

    status = "lost"

    def add_done_callback(self, heard):
        heard(self)

    def result(self, timeout=None):
        assert timeout is not None, "it would wait for ever"
        raise TimeoutError


def test_an_answer_that_is_lost_with_all_workers(client, monkeypatch):
    from thresher.engines import dask

    engine = dask.DaskEngine(client)
    monkeypatch.setattr(dask, "_workers", lambda client: {})
    with pytest.raises(EngineError, match="all workers have gone"):
        list(engine._answers({Vanished(): 0}))


def slow_square(recipe, shared):
    time.sleep(0.3 if recipe == 0 else 0.0)
    return recipe * recipe


def test_a_straggler_is_waited_for(client):
    with engine_for(client) as engine:
        answers = list(engine.run(_by_value(slow_square), [0, 1, 2, 3], None))
    assert sorted(answers) == [(0, 0), (1, 1), (2, 4), (3, 9)]


def first_and_sum(recipe, shared):
    time.sleep(0.02)
    return os.getpid(), recipe + float(shared.sum())


def test_what_is_large_is_not_sent_with_every_task(client):
    """Dask warns of 10 MB that it is handed; and a holder may die."""
    shared, answers = np.ones(1_500_000), []
    with engine_for(client) as engine, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for k, (pid, total) in engine.run(_by_value(first_and_sum), range(20), shared):
            answers.append((k, pid, total))
            if len(answers) == 5:
                os.kill(pid, signal.SIGKILL)
    assert sorted((k, total) for k, _, total in answers) == [(k, k + 1.5e6) for k in range(20)]
    assert len({pid for _, pid, _ in answers}) >= 2


def test_one_task_with_much_is_no_news_either(client):
    with engine_for(client) as engine, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ((_, (_, total)),) = engine.run(_by_value(first_and_sum), [0], np.ones(1_500_000))
    assert total == 1.5e6


def test_a_file_that_workers_cannot_see(client, path, tmp_path):
    """Gone after the schema was read."""
    from thresher import DataError, open_data

    mine = tmp_path / "mine.csv"
    mine.write_bytes(Path(path).read_bytes())
    data = open_data(mine, target="y")
    mine.unlink()
    with pytest.raises((DataError, FileNotFoundError), match=r"mine\.csv"):
        train(data, cluster=client, shards=2)


@pytest.mark.skipif(not os.path.exists("/proc/self/cwd"), reason="a name that means many files")
def test_a_file_that_only_this_process_sees(client, path, tmp_path, monkeypatch):
    """What a worker does not find is there for the user: the message says who looked."""
    from thresher import DataError

    shutil.copy2(path, tmp_path / "mine.csv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"mine\.csv .* \(for a worker: all machines must see"):
        train("/proc/self/cwd/mine.csv", cluster=client, **{**OPTIONS, "shards": 1})


def test_a_client_that_was_closed(client, path):
    mine = distributed.Client(client.scheduler.address)
    mine.close()
    with pytest.raises(EngineError, match="client of the workers is closed"):
        train(path, cluster=mine, **OPTIONS)


def test_a_file_that_vanishes_while_workers_learn(client, path, tmp_path):
    """The training ends with its name, and goes on from the last round when it is back."""
    from thresher import DataError

    mine, model = tmp_path / "mine.csv", tmp_path / "m.thresher"
    shutil.copy2(path, mine)
    given = {**OPTIONS, "cluster": client, "model": model, "checkpoint": "1"}
    whole = train(str(mine), **{**given, "model": tmp_path / "whole.thresher"})

    def on_progress(event):
        if event.stage == "learning" and event.passes == 1:
            mine.rename(tmp_path / "away.csv")

    with pytest.raises(DataError, match=r"mine\.csv"):
        train(str(mine), on_progress=on_progress, **given)
    (tmp_path / "away.csv").rename(mine)
    same(train(str(mine), resume=True, **given), whole)


def hoard(recipe, shared):
    rows = [np.ones(1 << 24) for _ in range(8)]  # a gigabyte
    time.sleep(30)
    return len(rows)


@pytest.mark.slow
def test_a_worker_out_of_memory():
    """Dask ends a worker that is beyond its limit; after four of them the task is to blame."""
    with (
        distributed.LocalCluster(
            1, threads_per_worker=1, memory_limit="700MB", dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as mine,
        engine_for(mine) as engine,
        pytest.raises(EngineError, match="want of memory"),
    ):
        list(engine.run(_by_value(hoard), [0], None))


@pytest.mark.slow
def test_a_lost_scheduler(path, serial, tmp_path):
    """Killed in the middle of a training: an error, and a checkpoint that gives the same model."""
    port, running = "18786", []
    for words in (
        ["dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"],
        ["dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard"],
    ):
        running.append(subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:]],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ))  # fmt: skip
    given = {**OPTIONS, "model": tmp_path / "m.thresher", "checkpoint": "1"}

    def on_progress(event):
        if event.stage == "learning" and event.passes == 1:
            running[0].kill()

    try:
        with distributed.Client(f"tcp://127.0.0.1:{port}", timeout="60s") as mine:
            mine.wait_for_workers(1, timeout=60)
            with pytest.raises(EngineError):
                train(path, cluster=mine, on_progress=on_progress, **given)
    finally:
        for process in running:
            process.kill()
            process.wait()
    same(train(path, cluster=Serial(), resume=True, **given), serial)


def test_a_race_on_workers(client, path):
    seen = []
    model = train(path, target="y", budget=6, shards=2, cluster=client,
                  on_progress=lambda event: seen.append(event.stage))  # fmt: skip
    assert any(stage.startswith("racing") for stage in seen)
    assert "a sample of" in model.training["reason"]
    assert len(model.training["trials"]) >= 2
    assert model.training["held_out"]["error"] < 0.3


def test_what_a_plugin_defines_travels(client, path, thresher, tmp_path):
    plugin = tmp_path / "own_loss_for_workers.py"
    plugin.write_text(
        "from dataclasses import dataclass\n"
        "from thresher import register\n"
        "from thresher.losses import Logistic\n"
        "@dataclass(frozen=True)\n"
        "class Own(Logistic):\n"
        "    pass\n"
        'register("own", Own)\n'
    )
    model = tmp_path / "m.thresher"
    address = client.scheduler.address
    code, _, err = thresher(
        "train", path, "-t", "y", "--scheduler", address, "--shards", "3", "--plugin", plugin,
        "--loss", "own", "--solver", "asgd", "-m", model,
    )  # fmt: skip
    assert code == 0, err
    own = type("Own", (Logistic,), {})
    assert "Own" in load_model(model, terms=[own]).training["described"]


def test_the_commands(client, path, thresher, tmp_path):
    model, address = tmp_path / "m.thresher", client.scheduler.address
    common = ("-t", "y", "--shards", "4", "--loss", "logistic", "--solver", "asgd")
    assert thresher("train", path, *common, "--scheduler", address, "-m", model)[0] == 0
    assert thresher("train", path, *common, "--workers", "1", "-m", model)[0] == 0
    told = thresher("evaluate", model, path, "--scheduler", address, "--json")[1]
    assert json.loads(told)["rows"] == 4000
    out = tmp_path / "p.csv"
    assert thresher("predict", model, path, "--scheduler", address, "-o", out)[0] == 0
    assert pd.read_csv(out).shape[0] == 4000
    code, _, err = thresher("train", path, "-t", "y", "--workers", "2", "--scheduler", address)
    assert code == 5
    assert "give one" in err


@pytest.mark.parametrize(
    ("scheduler", "error", "message"),
    [
        (Scheduler("tls://127.0.0.1:1"), ValueError, "needs --tls-ca, --tls-cert, --tls-key"),
        (Scheduler("tcp://127.0.0.1:1", ca=__file__), ValueError, "at tls://"),
        (Scheduler("tls://127.0.0.1:1", ca="/no/such"), FileNotFoundError, "--tls-ca /no/such"),
    ],
)
def test_certificates_go_with_tls(path, scheduler, error, message):
    with pytest.raises(error, match=message):
        train(path, cluster=scheduler, **OPTIONS)


def test_a_scheduler_that_does_not_answer(monkeypatch):
    from thresher.engines import dask

    monkeypatch.setattr(dask, "_PATIENCE", "1s")
    with pytest.raises(EngineError, match="no scheduler answers"), engine_for("tcp://127.0.0.1:9"):
        pass


def test_workers_of_another_version(client, monkeypatch):
    from thresher.engines import dask

    monkeypatch.setattr(dask, "version", lambda name: "0.0.1")
    with pytest.raises(EngineError, match=r"here are 0\.0\.1"):
        dask.DaskEngine(client)


def test_local_workers_are_for_this_machine_alone(client):
    info = client.scheduler_info(n_workers=-1)
    assert info["address"].startswith("tcp://127.0.0.1")
    assert all(address.startswith("tcp://127.0.0.1") for address in info["workers"])
    assert set(client.run(os.environ.get, "OMP_NUM_THREADS").values()) == {"1"}


def test_this_process_keeps_its_environment():
    before = dict(os.environ)
    with engine_for(1):
        pass
    assert dict(os.environ) == before


def test_estimators_travel(client):
    """What Dask's own users do: fit somewhere else."""
    model = client.submit(LinearClassifier(random_state=0).fit, X, Y).result()
    np.testing.assert_array_equal(model.coef_, LinearClassifier(random_state=0).fit(X, Y).coef_)


# ---------------------------------------------------------------- collections


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(X, columns=list("pqrst")).assign(y=Y)


def in_partitions(frame, rows=(1000, 0, 1500, 500, 1000)):
    """A data frame of Dask, one of whose partitions is empty."""
    dd, delayed = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask").delayed
    bounds = np.cumsum([0, *rows])
    parts = [frame.iloc[a:b] for a, b in pairwise(bounds)]
    return dd.from_delayed([delayed(part) for part in parts], meta=frame.iloc[:0])


def test_a_dask_frame_is_learned_from_where_it_is(client, frame, monkeypatch):
    """Partitions are the shards, passes leave them where they are, and a worker may die."""
    from thresher.data import dask

    fetched, here = [], dask._here
    monkeypatch.setattr(dask, "_here", lambda value: fetched.append(value) or here(value))
    collection, options = in_partitions(frame), {**OPTIONS, "shards": None}
    model = train(collection, cluster=client, **options)
    assert len(fetched) == 2 * 5  # the first window, for the schema and to begin with; no pass
    same(train(collection, cluster=Serial(), **options), model)
    same(train(collection, cluster=client, on_progress=Murder(client, 7), **options), model)
    alone = train(frame, **{**OPTIONS, "shards": None})
    assert alone.training["held_out_rows"] == model.training["held_out_rows"]
    assert model.training["held_out"]["error"] < 0.2
    np.testing.assert_array_equal(model.predict(collection, cluster=client), model.predict(frame))
    # Sums over partitions round as they are cut; all that is counted is the same.
    found, expected = model.evaluate(collection, cluster=client), model.evaluate(frame)
    assert found.pop("log_loss") == pytest.approx(expected.pop("log_loss"), rel=1e-12)
    assert found == expected


def test_a_dask_frame_in_one_process(frame):
    same(train(in_partitions(frame), memory=1, **{**OPTIONS, "shards": None}),
         train(frame, memory=1, **{**OPTIONS, "shards": None}))  # fmt: skip


def test_dask_arrays(client):
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(1500, 2))
    options = {"passes": 2, "params": {"loss": "logistic", "solver": "asgd"}}
    model = train(rows, da.from_array(Y, chunks=700), cluster=client, **options)
    same(train(rows, Y, cluster=Serial(), **options), model)
    alone = train(X, Y, memory=1, **options)
    assert model.training["held_out_rows"] == alone.training["held_out_rows"]
    np.testing.assert_array_equal(model.predict(rows, cluster=client), model.predict(X))


def test_dask_collections_that_do_not_fit_together(frame):
    from thresher import DataError, open_data

    da, bag = pytest.importorskip("dask.array"), pytest.importorskip("dask.bag")
    rows = da.from_array(X, chunks=(1500, 5))
    with pytest.raises(DataError, match="4000 rows, but 3999"):
        open_data(rows, Y[1:])
    with pytest.raises(ValueError, match="named columns"):
        open_data(in_partitions(frame), Y)
    with pytest.raises(TypeError, match="not Bag"):
        open_data(bag.from_sequence([1, 2]))
    broken = frame.assign(p=frame["p"].astype(object))
    broken.loc[3000, "p"] = "word"
    with pytest.raises(DataError, match="partition 4, row 1,"):
        train(in_partitions(broken), memory=1, types={"p": "number"}, **{**OPTIONS, "shards": None})
