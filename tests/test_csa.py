"""The sampler: its rules against plain NumPy, its replay, and whether it finds minima."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from scipy.optimize import minimize
from scipy.stats import cauchy, kstest

from thresher.search import CSASampler, KeyedRandomSampler
from thresher.search.acquisition import Known
from thresher.search.csa import acceptance, balanced_temperature, controlled, variance
from thresher.search.directional import compass
from thresher.search.simplex import nelder_mead
from thresher.search.unit_interval import from_unit, reflect, to_unit


@pytest.fixture(autouse=True)
def _no_log_lines():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


# ------------------------------------------------------------ the rules


@pytest.mark.parametrize("energies", [[1.0, 2.0, 3.0], [0.1, 0.1], [5.0], [1e6, -1e6, 0.0, 3.0]])
@pytest.mark.parametrize("temperature", [1e-3, 1.0, 1e4])
def test_acceptance_is_the_formula_and_sums_to_one(energies, temperature):
    e = np.array(energies)
    got = acceptance(e, temperature)
    top = max(energies)
    terms = [math.exp((v - top) / temperature) for v in energies]
    np.testing.assert_allclose(got, [t / sum(terms) for t in terms], rtol=1e-12)
    assert got.sum() == pytest.approx(1.0)
    assert np.argmax(got) == np.argmax(e)  # the worst chain wanders most


def test_control_moves_the_temperature_towards_the_wanted_variance():
    q, energies = 5, np.array([1.0, 2.0, 4.0, 4.5, 7.0])
    even, one = np.full(q, 1 / q), np.eye(q)[0]
    assert variance(even) == pytest.approx(0.0)
    assert variance(one) == pytest.approx((q - 1) / q**2)  # the largest there is
    assert controlled(even, 2.0, 0.05) == pytest.approx(1.9)
    assert controlled(one, 2.0, 0.05) == pytest.approx(2.1)
    temperature = 100.0
    for _ in range(400):
        temperature = controlled(acceptance(energies, temperature), temperature, 0.05)
    goal = 0.99 * (q - 1) / q**2
    assert variance(acceptance(energies, temperature)) == pytest.approx(goal, rel=0.02)


def test_first_temperature_has_the_wanted_variance_in_any_unit():
    energies = np.array([1.0, 2.0, 4.0, 4.5, 7.0])
    for unit in (1e-6, 1.0, 1e8):
        temperature = balanced_temperature(unit * energies)
        got = variance(acceptance(unit * energies, temperature))
        assert got == pytest.approx(0.99 * 4 / 25, rel=1e-6)
    assert balanced_temperature(np.ones(3)) > 0.0


SIGNS = {"minimize": 1.0, "maximize": -1.0}


def study_of(energies, direction="minimize"):
    """A study of trials with these energies, generation by generation."""
    study = optuna.create_study(direction=direction)
    for energy in np.ravel(energies):
        study.add_trial(optuna.create_trial(params={"x": 0.5}, value=SIGNS[direction] * energy,
                        distributions={"x": FloatDistribution(0, 1)}))  # fmt: skip
    return study


@pytest.mark.parametrize("direction", SIGNS)
def test_chains_take_what_is_not_worse_and_the_temperature_is_controlled(direction):
    energies = np.sort(np.random.default_rng(0).normal(size=(12, 5)), axis=0)[::-1]
    energies[7] = energies[6]  # as good is good enough
    study = study_of(energies, direction)
    temperature = balanced_temperature(energies[0])
    for e in energies[:-1]:
        w = np.exp((e - e.max()) / temperature)
        chances = w / w.sum()
        low = np.mean(chances**2) - 1 / 25 < 0.99 * 4 / 25
        temperature *= 1 - 0.05 if low else 1 + 0.05
    chains = CSASampler(seed=3).replay(study, study.trials)
    assert [point.number for point in chains.points] == list(range(55, 60))
    assert chains.best.number == 55 + np.argmin(energies[-1])
    assert chains.temperature == pytest.approx(temperature)


@pytest.mark.parametrize("generations", [1, 2])
def test_a_worse_point_is_taken_as_often_as_the_rule_says(generations):
    energies, first, alpha, seeds = np.arange(1.0, 5.0), 1.5, 0.6, 1500
    study = study_of([energies] * generations + [energies + 10.0])
    temperature = first
    for _ in range(generations - 1):
        temperature = controlled(acceptance(energies, temperature), temperature, alpha)
    taken = np.zeros(4)
    for seed in range(seeds):
        sampler = CSASampler(4, seed=seed, T_ac0=first, alpha=alpha)
        chains = sampler.replay(study, study.get_trials(deepcopy=False))
        taken += [point.number >= 4 * generations for point in chains.points]
    np.testing.assert_allclose(taken / seeds, acceptance(energies, temperature), atol=0.04)
    assert taken[0] < taken[-1] - 0.2 * seeds


def test_pruned_and_failed_trials_are_never_accepted():
    study = optuna.create_study(sampler=CSASampler(2, seed=0))
    for state in (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED, TrialState.COMPLETE):
        trial = study.ask()
        trial.suggest_float("x", 0, 1)
        study.tell(trial, 1.0 if state == TrialState.COMPLETE else None, state=state)
    chains = study.sampler.replay(study, study.trials)
    assert [p.number for p in chains.points] == [0, 3]


# ------------------------------------------------------------ steps


def steps(distribution, start, width):
    """Where 2000 steps of one chain lead, as published: some parameters at once, many seeds."""
    names = [f"p{k}" for k in range(100)]
    distributions = dict.fromkeys(names, distribution)
    params = dict.fromkeys(names, start)
    ends = []
    for seed in range(20):
        sampler = CSASampler(1, seed=seed, T_gen0=width, pull=0.0, candidates=1)
        study = optuna.create_study(sampler=sampler)
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=0.0))
        ends += study.ask(distributions).params.values()
    return ends


def test_steps_are_cauchy_and_end_on_the_edges():
    ends = steps(FloatDistribution(0, 1), 0.5, 0.05)
    assert min(ends) == 0.0
    assert max(ends) == 1.0
    inside = [u for u in ends if 0.0 < u < 1.0]
    cut = cauchy.cdf([-10.0, 10.0])  # the edges, in widths

    def conditional(u):
        return (cauchy.cdf((np.asarray(u) - 0.5) / 0.05) - cut[0]) / (cut[1] - cut[0])

    assert kstest(inside, conditional).pvalue > 0.01
    assert len(inside) == pytest.approx(2000 * (cut[1] - cut[0]), abs=40)


def test_choices_change_the_more_the_wider_the_step():
    kinds = CategoricalDistribution(["a", "b", "c"])
    for width in (0.05, 0.5):
        ends = steps(kinds, "b", width)
        assert ends.count("b") / 2000 == pytest.approx(0.5 / (width + 0.5), abs=0.04)
        assert ends.count("a") / 2000 == pytest.approx(ends.count("c") / 2000, abs=0.04)
    assert steps(CategoricalDistribution(["a"]), "a", 1.0) == ["a"] * 2000


MIXED = {"x": FloatDistribution(0, 4), "kind": CategoricalDistribution(["a", "b"]),
         "tau": FloatDistribution(1e-4, 1, log=True)}  # fmt: skip


def mixed_trials():
    points = [{"x": 0.4, "kind": "a"}, {"x": 2.0, "kind": "b", "tau": 1e-2},
              {"x": 3.6, "kind": "a"}, {"x": 1.0, "kind": "b", "tau": 0.5}]  # fmt: skip
    return [
        optuna.create_trial(params=p, value=0.0, distributions={n: MIXED[n] for n in p})
        for p in points
    ]


def reference_promise(point, others, ranks):
    """The formula, one trial after the other: rank last for the second, middle for the tied."""
    distances = []
    for other in others:
        square = ((point["x"] - other["x"]) / 4) ** 2 + (point["kind"] != other["kind"])
        if "tau" in point and "tau" in other:
            square += (math.log10(point["tau"] / other["tau"]) / 4) ** 2
        distances.append(math.sqrt(square))
    weights = [d**-4.0 for d in distances]
    mean = sum(w * r for w, r in zip(weights, ranks, strict=True)) / sum(weights)
    return mean - 2.0 * min(distances)


def test_promise_is_the_formula():
    trials, rng = mixed_trials(), np.random.default_rng(0)
    energies, ranks = np.array([3.0, math.inf, 1.0, 3.0]), [0.5, 0.875, 0.125, 0.5]
    seen = set()
    for _ in range(200):
        points = [
            {"x": float(4 * rng.random()), "kind": "ab"[k % 2]}
            | ({"tau": float(10.0 ** -rng.uniform(0, 4))} if k % 2 else {})
            for k in range(40)
        ]
        wanted = [reference_promise(p, [t.params for t in trials], ranks) for p in points]
        best = int(np.argmin(wanted))
        assert Known(trials, energies).most_promising(points) == best
        seen.add(best)
    assert len(seen) > 30  # it is not always the same that wins


def test_promise_looks_at_the_order_of_energies_only():
    trials, rng = mixed_trials(), np.random.default_rng(1)
    energies = np.array([0.3, 2.0, 0.1, 0.7])
    points = [{"x": float(4 * rng.random()), "kind": "ab"[k % 2]} for k in range(10)]
    plain, other = Known(trials, energies), Known(trials, np.exp(20.0 * energies) - 1e6)
    for _ in range(5):
        assert plain.most_promising(points) == other.most_promising(points)


def test_what_is_chosen_keeps_later_steps_away():
    known = Known(mixed_trials(), np.array([1.0, 2.0, 3.0, 4.0]))
    points = [{"x": 2.8, "kind": "a"}, {"x": 3.2, "kind": "a"}]
    assert known.most_promising(points) == 0
    assert known.most_promising(points) == 1


# ------------------------------------------------------------ the cube


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(-2, 3),
        FloatDistribution(1e-6, 1e3, log=True),
        FloatDistribution(0, 1, step=0.25),
        FloatDistribution(2, 2),
        IntDistribution(1, 9),
        IntDistribution(1, 1000, log=True),
        IntDistribution(0, 10, step=5),
        CategoricalDistribution(["a", "b", None]),
    ],
)
def test_unit_cube_round_trip(distribution):
    for u in np.linspace(0, 1, 41):
        value = from_unit(distribution, u)
        optuna.create_trial(params={"x": value}, distributions={"x": distribution}, value=0.0)
        again = from_unit(distribution, to_unit(distribution, value))
        assert again == value or again == pytest.approx(value, rel=1e-12)


def test_whole_numbers_are_equally_likely():
    counts = np.bincount([from_unit(IntDistribution(0, 3), u) for u in np.linspace(0, 1, 4001)])
    assert np.all(np.abs(counts - 1000) <= 2)


def test_reflection_stays_inside():
    assert [reflect(u) for u in (-0.25, 0.5, 1.25, 2.5, -3.75)] == [0.25, 0.5, 0.75, 0.5, 0.25]


# ------------------------------------------------------------ minima


def sphere(trial):
    return sum((trial.suggest_float(f"x{i}", -5, 5) - 0.7 * i + 0.3) ** 2 for i in range(4))


def rosenbrock(trial):
    x, y = trial.suggest_float("x", -2, 2), trial.suggest_float("y", -2, 2)
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def rastrigin(trial):
    x = [trial.suggest_float(f"x{i}", -4.12, 5.12) for i in range(2)]
    return sum(10 + v * v - 10 * math.cos(2 * math.pi * v) for v in x)


def mixed(trial):
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    value = (math.log10(trial.suggest_float("alpha", 1e-6, 1e2, log=True)) + 3) ** 2
    if kind == "b":
        return value + (trial.suggest_int("m", 1, 30) - 17) ** 2 / 60
    return value + (2 if kind == "a" else 1 + trial.suggest_float("tau", 0, 1))


@pytest.mark.parametrize("function", [sphere, rosenbrock, rastrigin, mixed])
def test_better_than_random_at_equal_evaluations(function):
    def typical(make):
        found = []
        for seed in range(10):
            study = optuna.create_study(sampler=make(seed))
            study.optimize(function, n_trials=80)
            found.append(study.best_value)
        return float(np.exp(np.mean(np.log(np.array(found) + 1e-12))))

    ours = typical(lambda seed: CSASampler(seed=seed))
    assert ours < 0.8 * typical(KeyedRandomSampler)


def test_first_generation_covers_each_parameter():
    study = optuna.create_study(sampler=CSASampler(8, seed=1))
    study.optimize(sphere, n_trials=8)
    for name in ("x0", "x3"):
        cells = sorted(int(to_unit(FloatDistribution(-5, 5), t.params[name]) * 8) for t in
                       study.trials)  # fmt: skip
        assert cells == list(range(8))


# ------------------------------------------------------------ replay


def settings_of(study):
    return [t.params for t in study.trials]


def test_resumed_study_proposes_what_an_uninterrupted_one_does(tmp_path):
    whole = optuna.create_study(sampler=CSASampler(seed=5))
    whole.optimize(mixed, n_trials=33)
    url = f"sqlite:///{tmp_path}/study.db"
    for trials in (7, 11, 15):
        part = optuna.create_study(
            storage=url, study_name="s", sampler=CSASampler(seed=5), load_if_exists=True
        )
        part.optimize(mixed, n_trials=trials)
    assert settings_of(part) == settings_of(whole)


def test_a_generation_does_not_depend_on_the_order_of_its_ends():
    def run(order):
        study = optuna.create_study(sampler=CSASampler(4, seed=2))
        for _ in range(5):
            trials = [study.ask() for _ in range(4)]
            values = [mixed(t) for t in trials]
            for k in order:
                study.tell(trials[k], values[k])
        return settings_of(study)

    assert run([0, 1, 2, 3]) == run([2, 0, 3, 1])


def test_a_seed_that_was_not_given_is_kept_with_the_study():
    study = optuna.create_study(sampler=CSASampler())
    study.optimize(sphere, n_trials=6)
    kept = study.user_attrs["csa_seed"]
    again = optuna.create_study(sampler=CSASampler(seed=kept))
    again.optimize(sphere, n_trials=6)
    assert settings_of(again) == settings_of(study)


def test_a_sampler_may_serve_another_study_of_the_same_name():
    def run(sampler, sign):
        study = optuna.create_study(sampler=sampler, study_name="same")
        study.optimize(lambda trial: sign * trial.suggest_float("x", 0, 1), n_trials=10)
        return settings_of(study)

    sampler = CSASampler(seed=0)
    run(sampler, 1.0)
    assert run(sampler, -1.0) == run(CSASampler(seed=0), -1.0)


def test_bad_options():
    for wrong in ({"chains": 0}, {"T_gen0": 0.0}, {"T_ac0": -1.0}, {"alpha": 1.0}, {"pull": 2.0},
                  {"candidates": 0}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong)).split("0")[0][:1]):
            CSASampler(**wrong)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=CSASampler(seed=0))
    with pytest.raises(ValueError, match="one objective"):
        study.ask().suggest_float("x", 0, 1)


@pytest.mark.slow
def test_killed_search_goes_on_as_if_nothing_had_happened(tmp_path):
    script = textwrap.dedent(
        """
        import sys, time
        from sklearn.datasets import load_iris
        from thresher import LinearClassifier
        from thresher.search import TunedClassifier
        X, y = load_iris(return_X_y=True)
        slow = lambda event: time.sleep(0.2)
        path = sys.argv[1] if len(sys.argv) > 1 else None
        model = TunedClassifier(
            LinearClassifier(), n_trials=20, random_state=0, cv=3, callbacks=[slow], storage=path
        ).fit(X, y)
        print([t["params"] for t in model.trials_], model.best_params_)
        """
    )
    run = [sys.executable, "-c", script]
    wanted = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    path = str(tmp_path / "killed.db")
    for _ in range(2):
        child = subprocess.Popen([*run, path], stdout=subprocess.DEVNULL)
        before = _finished(path)
        deadline = time.time() + 60
        while _finished(path) < before + 4 and time.time() < deadline:
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert 8 <= _finished(path) < 20
    got = subprocess.run([*run, path], capture_output=True, text=True, check=True).stdout
    assert got == wanted


def _finished(path):
    import sqlite3

    if not os.path.exists(path):
        return 0
    try:
        with sqlite3.connect(path) as db:
            return db.execute("select count(*) from trials where state='COMPLETE'").fetchone()[0]
    except sqlite3.Error:
        return 0


# ------------------------------------------------------------ local searches


def drive(proposals, f, most=400):
    seen, best = 0, math.inf
    try:
        points = next(proposals)
        while seen < most:
            values = np.array([f(p) for p in points])
            seen, best = seen + len(points), min(best, values.min())
            points = proposals.send(values)
    except StopIteration:
        pass
    return best, seen


@pytest.mark.parametrize("method", [nelder_mead, compass])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_local_searches_find_the_minimum_of_a_quadratic(method, d):
    A = np.eye(d) + 0.5 * np.ones((d, d))
    centre = np.linspace(0.3, 0.7, d)

    def f(u):
        return float((u - centre) @ A @ (u - centre))

    start = np.full(d, 0.9)
    best, seen = drive(method(start, f(start)), f)
    scipy = minimize(f, start, method="Nelder-Mead", bounds=[(0, 1)] * d, options={"maxfev": seen})
    assert best < 1e-6
    assert best < max(10 * scipy.fun, 1e-6)


@pytest.mark.parametrize("method", [nelder_mead, compass])
def test_local_searches_stay_in_the_cube_and_survive_failures(method):
    def f(u):
        assert np.all((u >= 0) & (u <= 1))
        return math.inf if u[0] > 0.6 else float(np.sum((u - [0.55, 0.0]) ** 2))

    start = np.array([0.2, 0.9])
    best, _ = drive(method(start, f(start)), f)
    assert best < 1e-3
    assert drive(method(np.empty(0), 1.0), f) == (math.inf, 0)
