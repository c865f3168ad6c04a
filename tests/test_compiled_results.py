"""Compiled functions hand plain tuples to Python.

Boxing a NamedTuple calls its class; if Ctrl-C came while the function ran, Python raises
KeyboardInterrupt in that call, Numba does not look for it, and the process dies.
"""

import ast
import importlib
import inspect
import os
import pkgutil
import signal
import subprocess
import sys
import textwrap

import pytest
from numba.core import types
from numba.core.dispatcher import Dispatcher

import thresher
from conftest import JIT_DISABLED, READY, chunk_of, make_data
from thresher.losses import LeastSquares, Logistic
from thresher.penalties import L1, L2
from thresher.solvers import Problem

#: modules whose compiled functions still return NamedTuples to Python
NOT_YET: set[str] = set()
#: functions that only compiled functions call
WITHIN = {"thresher.data._csv_text._table"}

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(thresher.__path__, "thresher.")
    if not module.name.endswith("__main__") and module.name not in NOT_YET
)


def is_compiled(node):
    return any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)


def is_named_tuple(value):
    return inspect.isclass(value) and issubclass(value, tuple) and hasattr(value, "_fields")


def returned(node):
    """Names of what a function's own return statements call."""
    for part in ast.walk(node):
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Call):
            yield ast.unparse(part.value.func)


def compiled_names(code):
    """Global names and attributes in a function and those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from compiled_names(constant)


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("name", MODULES)
def test_what_may_round_differently_is_part_of_its_callers(name):
    """Compiled apart and again within a caller, a sum that may be reordered is two sums: the first
    run, which compiles, would differ from all others, which read the cache."""
    for caller in vars(importlib.import_module(name)).values():
        if not isinstance(caller, Dispatcher):
            continue
        known = caller.py_func.__globals__
        spaces = [known, *(vars(m) for m in known.values() if inspect.ismodule(m))]
        for called in set(compiled_names(caller.py_func.__code__)):
            for space in spaces:
                options = getattr(space.get(called), "targetoptions", {})
                assert options.get("forceinline") or not options.get("fastmath"), called


FIRST_RUN = """
import numpy as np
from thresher import ConfidenceClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 12))
y = np.digitize(X @ rng.normal(size=12), [-1, 1])
print(ConfidenceClassifier(covariance="full", max_iter=1, random_state=0)
      .fit(X, y).coef_.tobytes().hex())
"""


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
@pytest.mark.slow
def test_the_first_run_is_like_all_others(tmp_path):
    """It compiles; a worker that starts a moment later reads the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_RUN]
    first, second = (
        subprocess.run(command, env=environment, check=True, capture_output=True).stdout
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", MODULES)
def test_no_compiled_function_returns_a_named_tuple(name):
    module = importlib.import_module(name)
    for node in ast.parse(inspect.getsource(module)).body:
        where = f"{name}.{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef) and is_compiled(node) and where not in WITHIN:
            for called in returned(node):
                assert not is_named_tuple(vars(module).get(called)), f"{where}: {called}"


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled with NUMBA_DISABLE_JIT=1")
@pytest.mark.parametrize("name", READY)
def test_signatures_of_what_the_solvers_compiled(name):
    """What Numba found: also a NamedTuple that is returned by way of a variable."""
    X, y = make_data()
    solver, loss = READY[name], LeastSquares() if name == "least_squares" else Logistic()
    if "smoothed" in solver.loss_needs:
        pytest.skip("runs the compiled functions of Newton")
    penalty = L2(0.1) if solver.default_penalty == "l2" else L1(0.01)
    problem, chunk = Problem(loss, penalty, 12), chunk_of(X, y)
    solver, problem = solver.prepare(problem, chunk)
    solver.update(problem, solver.init(problem, chunk), chunk)
    module = importlib.import_module(type(solver).__module__)
    for function in vars(module).values():
        for signature in getattr(function, "nopython_signatures", ()):
            assert not isinstance(signature.return_type, types.BaseNamedTuple), function


INTERRUPTED = """
    import os, signal, sys, threading, time
    sys.path.insert(0, "tests")
    from conftest import READY, chunk_of, make_data
    from thresher.losses import Logistic
    from thresher.penalties import L1, L2
    from thresher.solvers import Problem

    X, y = make_data(3000)
    chunk, name = chunk_of(X, y), sys.argv[1]
    solver = READY[name]
    problem = Problem(Logistic(), L2(0.1) if solver.default_penalty == "l2" else L1(0.01), 12)
    state = solver.update(problem, solver.init(problem), chunk)
    print("ready", flush=True)

    def interrupt():
        for _ in range(20):
            time.sleep(0.003)
            os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Thread(target=interrupt)
    timer.start()
    while timer.is_alive():
        try:
            state = solver.update(problem, state, chunk)
        except KeyboardInterrupt:
            pass
"""


@pytest.mark.skipif(JIT_DISABLED or sys.platform == "win32", reason="about compiled functions")
@pytest.mark.parametrize("name", ["asgd", "pegasos", "rda"])
def test_interrupts_while_a_solver_runs_do_not_kill_the_process(name):
    program = textwrap.dedent(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-c", program, name], capture_output=True, text=True, timeout=120
    )
    assert "ready" in done.stdout
    # An interrupt outside of the update ends the program in the usual way.
    assert done.returncode in (0, 1, -signal.SIGINT), done.stderr[-500:]
