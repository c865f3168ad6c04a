"""Working ahead in a thread: the same items, the same errors, no thread left behind."""

import gc
import threading
import time

import pytest

from thresher.data.background import ahead, in_order
from thresher.data.encode import Encoder
from thresher.data.errors import BadRows
from thresher.data.schema import Schema
from thresher.losses import Pinball


def readers():
    return [t for t in threading.enumerate() if t.name == "thresher-reader"]


@pytest.fixture(autouse=True)
def _no_threads_left():
    assert readers() == []
    yield
    assert readers() == []


@pytest.mark.parametrize("depth", [1, 2, 50])
def test_items_arrive_in_order(depth):
    assert list(ahead(iter(range(20)), depth)) == list(range(20))
    assert list(ahead(iter([]), depth)) == []
    assert list(ahead(iter([None, None]), depth)) == [None, None]


def test_it_stays_at_most_so_many_ahead():
    made = []
    more = threading.Event()

    def items():
        for k in range(10):
            made.append(k)
            if k == 3:
                more.set()
            yield k

    taken = ahead(items(), depth=2)
    assert next(taken) == 0
    assert not more.wait(0.2)  # 0 is in use, 1 and 2 are ready
    assert len(made) == 3
    assert next(taken) == 1
    assert more.wait(5)
    assert list(taken) == list(range(2, 10))


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_errors_are_raised_at_their_place(kind):
    def items():
        yield 1
        yield 2
        raise kind("from the thread")

    found = []
    with pytest.raises(kind, match="from the thread"):
        found.extend(ahead(items()))
    taken = ahead(items())
    assert [next(taken), next(taken)] == [1, 2]
    with pytest.raises(kind):
        next(taken)


def test_leaving_early_stops_the_thread_and_closes_the_source():
    closed = []

    def items():
        try:
            while True:
                yield 1
        finally:
            closed.append(threading.current_thread().name)

    taken = ahead(items())
    next(taken)
    assert len(readers()) == 1
    taken.close()
    assert readers() == []
    assert closed == ["thresher-reader"]


def test_an_error_of_the_consumer_stops_the_thread():
    def consume():
        for item in ahead(iter(range(1000))):
            if item == 3:
                raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        consume()


def test_an_error_while_closing_is_not_lost():
    class Items:
        def __iter__(self):
            return iter([1])

        def close(self):
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        list(ahead(Items()))


def test_nothing_starts_before_the_first_item_is_asked_for():
    taken = ahead(iter(range(3)))
    assert readers() == []
    taken.close()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(workers):
    def work(k):
        time.sleep(0.002 * (k % 3))
        return k * k

    assert list(in_order(iter(range(40)), work, workers)) == [k * k for k in range(40)]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_error_in_the_data_is_the_one_raised(workers):
    def work(k):
        time.sleep(0.02 if k == 3 else 0.0)
        if k >= 3:
            raise ValueError(f"item {k}")
        return k

    with pytest.raises(ValueError, match="item 3"):
        list(in_order(range(10), work, workers))


def test_work_stays_a_few_items_ahead():
    taken = []

    def items():
        for k in range(100):
            taken.append(k)
            yield k

    results = in_order(items(), lambda k: k, 2)
    assert next(results) == 0
    assert len(taken) <= 4
    results.close()


@pytest.mark.parametrize("shared", ["encoder", "term"])
def test_what_threads_share_is_used_without_its_dict(shared):
    """Python 3.11 may make two of them, of which one later points at freed memory."""
    if shared == "encoder":
        encoder = Encoder(Schema(matrix_features=3), BadRows("error"))
        encoder.reporting_to(BadRows("error"))
        assert not hasattr(encoder, "__dict__")
    else:
        loss = Pinball(tau=0.3)
        kept = loss._numba_type_
        assert loss._numba_type_ is kept
        assert not any(isinstance(held, dict) for held in gc.get_referents(loss))
