"""The models of matrices among the golden files, each by name: see ``make_golden.py``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["Case", "Data", "cases", "fitted", "make_data"]

_SEED = 20_240_229


class Data(NamedTuple):
    """Rows to learn from by name, rows to predict, and targets of the first ones."""

    rows: dict[str, Any]
    tests: dict[str, Any]
    two: np.ndarray
    three: np.ndarray
    target: np.ndarray
    topics: np.ndarray  # of the rows of words


def make_data() -> Data:
    rng = np.random.default_rng(_SEED)
    n, held, d = 150, 12, 6
    X = rng.normal(size=(n + held, d)) * (rng.random((n + held, d)) < 0.7)
    X = X.round(2)
    noise = 0.3 * rng.normal(size=n + held)
    line = X[:, 0] - 0.7 * X[:, 1] + 0.5 * X[:, 2] * X[:, 3] + noise
    topics = rng.integers(0, 3, n + held)
    rates = 0.15 + 1.2 * (np.arange(12) % 3 == topics[:, None])
    words = csr_matrix(rng.poisson(rates).astype(np.float64))
    forms = {
        "dense": X,
        "csr": csr_matrix(X),
        "single": X.astype(np.float32),
        "single_csr": csr_matrix(X.astype(np.float32)),
        "words": words,
    }
    return Data(
        {name: rows[:n] for name, rows in forms.items()},
        {name: rows[n:] for name, rows in forms.items()},
        (line > 0.1).astype(int)[:n],
        np.array(["ash", "birch", "cedar"])[np.digitize(line, [-0.5, 0.5])][:n],
        (np.sin(X[:, 0]) + X[:, 1] + 0.1 * noise)[:n],
        np.array(["sea", "sky", "sun"])[topics][:n],
    )


class Case(NamedTuple):
    """An estimator to fit on rows of some form; ``tests`` are other forms to predict on, too."""

    estimator: Any
    y: np.ndarray
    form: str = "dense"
    tests: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()  # of own_terms that loading needs
    sparsify: bool = False
    weight: np.ndarray | None = None
    named: bool = False  # fitted on a data frame
    parts: int = 0  # fitted by so many calls of partial_fit


def cases(data: Data) -> dict[str, Case]:
    return {
        **_linear(data),
        **_solvers(data),
        **_kernel(data),
        **_budgeted(data),
        **_hyperplanes(data),
        **_own(data),
    }


def _linear(data: Data) -> dict[str, Case]:
    from thresher import (
        L1,
        Box,
        ElasticNet,
        Huber,
        LinearClassifier,
        LinearRegressor,
        Pinball,
        WeightedL1,
        WeightedL2,
    )
    from thresher.solvers import AveragedSGD

    def classifier(*args: Any, **params: Any) -> Any:
        return LinearClassifier(*args, random_state=0, **params)

    def regressor(*args: Any, **params: Any) -> Any:
        return LinearRegressor(*args, random_state=0, **params)

    _, _, two, three, target, _ = data
    weights = np.linspace(0.5, 2.0, 6)
    asgd = AveragedSGD(eta0=0.2, every=16)
    factors = {0: 1.0, 1: 2.5}
    return {
        # layouts, labels and parameters
        "linear_two": Case(classifier(), two, "dense", ("csr", "single")),
        "linear_three_strings": Case(classifier(), three, "dense", ("csr",)),
        "linear_csr": Case(classifier("hinge"), two, "csr", ("dense",)),
        "linear_single": Case(classifier("logistic"), two, "single", ("single_csr",)),
        "linear_single_three": Case(classifier(scale=True), three, "single"),
        "linear_float_labels": Case(classifier(), two + 1.0),
        "linear_object_labels": Case(classifier(), three.astype(object)),
        "linear_feature_names": Case(classifier("logistic"), two, named=True),
        "linear_scaled": Case(classifier("squared_hinge", scale=True), three, "dense", ("csr",)),
        "linear_no_intercept": Case(classifier("logistic", fit_intercept=False), three),
        "linear_class_weight": Case(
            classifier(class_weight=factors, alpha=np.float32(0.01), max_iter=np.int64(50)), two
        ),
        "linear_weighted_rows": Case(
            classifier("logistic", class_weight="balanced"), two, weight=1.0 + np.arange(150) % 3
        ),
        "linear_pinball": Case(classifier(Pinball(0.3)), two),
        # sparse models and other penalties
        "linear_l1_sparsified": Case(
            classifier("logistic", penalty="l1", alpha=0.02), two, "dense", ("csr",), sparsify=True
        ),
        "linear_l1_three_sparsified": Case(
            classifier("logistic", penalty=L1(0.03)), three, "csr", ("dense",), sparsify=True
        ),
        "linear_elastic_net": Case(classifier("logistic", penalty=ElasticNet(0.05, 0.3)), two),
        "linear_box": Case(classifier("logistic", penalty=Box(-0.5, math.inf)), two),
        "linear_weighted_l1": Case(
            classifier("squared_hinge", penalty=WeightedL1(weights, 0.01)), two
        ),
        "linear_weighted_l2": Case(classifier("logistic", penalty=WeightedL2(weights, 0.01)), two),
        # how fits ended and what they tell
        "linear_all_zero": Case(classifier("logistic", penalty="l1", alpha=10.0), two),
        "linear_trace": Case(classifier("logistic", solver=asgd, max_iter=3, trace=True), two),
        "linear_trace_three": Case(
            classifier("squared_hinge", solver="dcd", max_iter=4, trace=True), three
        ),
        "linear_early_stopping": Case(
            classifier("logistic", solver=asgd, early_stopping=True, patience=1, max_iter=30), two
        ),
        "linear_partial_fit": Case(classifier("logistic", solver=asgd), three, parts=3),
        # probabilities
        "linear_logistic_link": Case(classifier("logistic"), two, "dense", ("csr",)),
        "linear_logistic_link_three": Case(classifier("logistic"), three),
        "linear_modified_huber_link": Case(classifier("modified_huber"), two),
        "linear_modified_huber_link_three": Case(classifier("modified_huber"), three),
        "linear_sigmoid": Case(classifier(calibrate="sigmoid"), two),
        "linear_softmax": Case(classifier(calibrate="sigmoid"), three),
        "linear_isotonic": Case(classifier(calibrate="isotonic"), two),
        "linear_isotonic_three": Case(classifier("hinge", calibrate="isotonic"), three, "csr"),
        # regression
        "regressor_least_squares": Case(regressor(), target, "dense", ("csr", "single")),
        "regressor_huber_scaled": Case(regressor(Huber(0.5), scale=True), target),
        "regressor_epsilon_csr": Case(regressor("epsilon_insensitive"), target, "csr", ("dense",)),
        "regressor_squared_epsilon_single": Case(
            regressor("squared_epsilon_insensitive"), target, "single"
        ),
        "regressor_l1_sparsified": Case(
            regressor(penalty="l1", alpha=0.05), target, sparsify=True
        ),
    }  # fmt: skip


def _solvers(data: Data) -> dict[str, Case]:
    """Each solver by its name, so that it finds its own settings; some as objects with schedules.

    Two classes and three: some solvers learn several outputs at once.
    """
    from thresher import LinearClassifier, schedules
    from thresher.registry import SOLVERS
    from thresher.solvers import ASSET, FOBOS, RDA, SGD, Pegasos, TruncatedGradient, WeightedPegasos

    def classifier(solver: Any, loss: str = "logistic", **params: Any) -> Any:
        return LinearClassifier(loss, solver=solver, random_state=0, **{"max_iter": 8} | params)

    loss = {"least_squares": "least_squares", "smoothed_newton": "hinge"}
    loss |= dict.fromkeys(("cutting_plane", "ocas", "mcpa"), "hinge")
    named = {
        f"solver_{name}": Case(classifier(name, loss.get(name, "logistic")), data.two)
        for name in SOLVERS
    }
    objects = {
        "solver_object_sgd": SGD(schedules.InverseRoot(0.4), batch=3, average_from=None),
        "solver_object_pegasos": Pegasos(batch=2, schedule=schedules.Constant(0.05)),
        "solver_object_fobos": FOBOS(schedules.InverseTime(2.0)),
        "solver_object_truncated_gradient": TruncatedGradient(schedules.Pegasos(0.5), every=3),
        "solver_object_weighted_pegasos": WeightedPegasos(precisions=np.linspace(0.5, 2.0, 6)),
        "solver_object_rda": RDA(gamma=2.0, rho=0.1, batch=3),
        "solver_object_asset": ASSET(theta=0.1, box=3.0),
    }
    made = {
        name: Case(classifier(solver, max_iter=2), data.two) for name, solver in objects.items()
    }
    several = {
        f"solver_{name}_three": Case(classifier(name), data.three)
        for name in ("asgd", "quasi_newton")
    }
    return named | made | several


def _kernel(data: Data) -> dict[str, Case]:
    from thresher import (
        Cosine,
        Exponential,
        ForestFeatures,
        FourierFeatures,
        KernelClassifier,
        KernelRegressor,
        Linear,
        LocalNystroem,
        Nystroem,
        Polynomial,
        Sigmoid,
        TermFeatures,
    )

    def classifier(*args: Any, **params: Any) -> Any:
        return KernelClassifier(*args, random_state=0, **{"n_components": 12} | params)

    def regressor(*args: Any, **params: Any) -> Any:
        return KernelRegressor(*args, random_state=0, **{"n_components": 12} | params)

    rows, _, two, three, target, topics = data
    local = LocalNystroem(12, cells=3, random_state=0)
    return {
        # landmarks
        "nystroem": Case(classifier(), two, "dense", ("csr", "single")),
        "nystroem_three": Case(classifier("hinge", gamma=0.3), three),
        "nystroem_single": Case(classifier(), three, "single"),
        "nystroem_csr": Case(classifier(), two, "csr", ("dense",)),
        "nystroem_scaled": Case(classifier(scale=True), two),
        "nystroem_scaled_csr": Case(classifier(scale=True), three, "csr"),
        "nystroem_relevance": Case(classifier(scale="relevance"), two),
        "nystroem_polynomial": Case(classifier(kernel=Polynomial(3, 0.5, 1.0)), two, "dense",
                                    ("csr",)),
        "nystroem_exponential": Case(classifier(kernel="exponential"), three),
        "nystroem_cosine": Case(classifier(kernel=Cosine()), two, "csr"),
        "nystroem_linear": Case(classifier(kernel=Linear(), n_components=5), two),
        "nystroem_sigmoid_kernel": Case(
            classifier(map=Nystroem(12, kernel=Sigmoid(0.05, 0.5), tol=1e-4, random_state=0)), two
        ),
        "nystroem_object": Case(
            classifier(map=Nystroem(15, gamma="median", landmarks="kmeans", tol=1e-3, sample=100,
                                    random_state=1)), two
        ),
        "nystroem_given_landmarks": Case(classifier(landmarks=rows["dense"][:10].copy()), two),
        # other maps
        "local": Case(classifier(map="local", n_components=12), two),
        "local_object_three": Case(classifier(map=local), three),
        "local_csr": Case(classifier(map=local), two, "csr"),
        "fourier": Case(classifier(map="fourier"), two, "dense", ("csr",)),
        "fourier_single": Case(classifier(map="fourier"), three, "single"),
        "fourier_object": Case(
            classifier(map=FourierFeatures(15, kernel=Exponential(0.4), orthogonal=False,
                                           random_state=2)), two, "csr"
        ),
        "forest": Case(classifier(map="forest", n_components=3), two, "dense", ("single", "csr")),
        "forest_object_three": Case(
            classifier(map=ForestFeatures(5, min_leaf=3, random_state=0)), three
        ),
        "forest_csr": Case(
            classifier("logistic", map=ForestFeatures(3, min_leaf=5, random_state=0)), two, "csr"
        ),
        "terms": Case(classifier(map="terms"), topics, "words"),
        "terms_object": Case(classifier("logistic", map=TermFeatures(0.7, 0.2)), topics, "words"),
        "terms_dense_scaled": Case(classifier(map=TermFeatures(1.0, 0.0), scale=True), two),
        # solvers and probabilities
        "kernel_least_squares": Case(classifier("least_squares"), two),
        "kernel_least_squares_three": Case(classifier("least_squares", alpha=0.01), three),
        "kernel_asset": Case(classifier("hinge", solver="asset", max_iter=5), two),
        "kernel_partial_fit": Case(classifier("logistic"), two, parts=2),
        "kernel_logistic_link": Case(classifier("logistic"), three),
        "kernel_sigmoid": Case(classifier(calibrate="sigmoid"), two),
        "kernel_isotonic_three": Case(classifier(calibrate="isotonic"), three),
        # regression
        "kernel_regressor": Case(regressor(), target, "dense", ("csr",)),
        "kernel_regressor_single": Case(regressor(scale=True), target, "single"),
        "kernel_regressor_huber": Case(regressor("huber", kernel="polynomial"), target),
        "kernel_regressor_epsilon": Case(regressor("epsilon_insensitive"), target, "csr"),
        "kernel_regressor_forest": Case(
            regressor(map=ForestFeatures(4, min_leaf=4, random_state=0), scale=True), target
        ),
        "kernel_regressor_terms": Case(regressor(map="terms"), target, "words"),
    }  # fmt: skip


def _budgeted(data: Data) -> dict[str, Case]:
    from thresher import BudgetedClassifier, BudgetedRegressor, Huber, Polynomial

    def classifier(*args: Any, **params: Any) -> Any:
        return BudgetedClassifier(*args, random_state=0, **{"budget": 15} | params)

    def regressor(*args: Any, **params: Any) -> Any:
        return BudgetedRegressor(*args, random_state=0, **{"budget": 15} | params)

    _, _, two, three, target, _ = data
    return {
        "budgeted": Case(classifier(), two, "dense", ("csr", "single")),
        "budgeted_three": Case(classifier(), three),
        "budgeted_csr": Case(classifier(), two, "csr", ("dense",)),
        "budgeted_single": Case(classifier(gamma=0.2), two, "single"),
        "budgeted_scaled": Case(classifier(scale=True), three),
        "budgeted_relevance": Case(classifier(scale="relevance"), two),
        "budgeted_project": Case(classifier("exponential", maintenance="project"), two),
        "budgeted_remove": Case(classifier(Polynomial(2), maintenance="remove"), two),
        "budgeted_remove_random": Case(classifier("sigmoid", maintenance="remove_random"), two),
        "budgeted_as_published": Case(
            classifier(alpha=0.01, eta0=math.inf, average=False, fit_intercept=True), two
        ),
        "budgeted_partial_fit": Case(classifier(), three, parts=2),
        "budgeted_sigmoid": Case(classifier(calibrate="sigmoid"), two),
        "budgeted_softmax": Case(classifier(calibrate="sigmoid"), three),
        "budgeted_isotonic_three": Case(classifier(calibrate="isotonic"), three),
        "budgeted_regressor": Case(regressor(), target, "dense", ("csr",)),
        "budgeted_regressor_huber": Case(
            regressor(Huber(0.4), maintenance="remove", scale=True), target
        ),
        "budgeted_regressor_epsilon": Case(
            regressor("epsilon_insensitive", maintenance="project", fit_intercept=False), target
        ),
    }


def _hyperplanes(data: Data) -> dict[str, Case]:
    from thresher import MultiHyperplaneClassifier

    def classifier(*args: Any, **params: Any) -> Any:
        return MultiHyperplaneClassifier(*args, random_state=0, **params)

    _, _, two, three, _, _ = data
    return {
        "hyperplanes_amm": Case(classifier(), two, "dense", ("csr",)),
        "hyperplanes_amm_three": Case(classifier("amm", variant="batch"), three),
        "hyperplanes_amm_csr": Case(classifier("amm", average=False), three, "csr", ("dense",)),
        "hyperplanes_gamm": Case(classifier("gamm"), two),
        "hyperplanes_gamm_scaled": Case(classifier("gamm", scale=True), three),
        "hyperplanes_pegasos": Case(classifier("pegasos"), three),
        "hyperplanes_single": Case(classifier("amm", scale=True), two, "single"),
        "hyperplanes_partial_fit": Case(classifier(), three, parts=2),
        "hyperplanes_sigmoid": Case(classifier(calibrate="sigmoid"), two),
        "hyperplanes_isotonic_three": Case(classifier(calibrate="isotonic"), three),
    }


def _own(data: Data) -> dict[str, Case]:
    from golden.own_terms import Asymmetric, Cauchy, Slowing, SmoothHinge
    from thresher import BudgetedClassifier, KernelClassifier, LinearClassifier, Nystroem
    from thresher.solvers import SGD

    _, _, two, three, _, _ = data
    hinge, penalty, kernel = SmoothHinge(0.5), Asymmetric(0.005, 3.0), Cauchy(0.4)
    sgd = SGD(Slowing(0.2), batch=2)
    loss, small = ("SmoothHinge",), {"n_components": 12, "random_state": 0}
    return {
        "own_loss": Case(LinearClassifier(hinge, solver="newton"), two, terms=loss),
        "own_loss_three": Case(
            LinearClassifier(hinge, solver="asgd", random_state=0), three, terms=loss
        ),
        "own_penalty": Case(
            LinearClassifier("logistic", penalty=penalty, random_state=0), two,
            terms=("Asymmetric",),
        ),
        "own_schedule": Case(
            LinearClassifier("hinge", solver=sgd, max_iter=2, random_state=0), two,
            terms=("Slowing",),
        ),
        "own_kernel": Case(KernelClassifier(kernel=kernel, **small), two, terms=("Cauchy",)),
        "own_kernel_in_map": Case(
            KernelClassifier(map=Nystroem(12, kernel=kernel, random_state=0)), three, "csr",
            terms=("Cauchy",),
        ),
        "own_kernel_budgeted": Case(
            BudgetedClassifier(kernel, budget=12, maintenance="remove", random_state=0), two,
            terms=("Cauchy",),
        ),
        "own_loss_penalty_kernel": Case(
            KernelClassifier(SmoothHinge(1.5), kernel=kernel, penalty=penalty, **small), two,
            terms=("SmoothHinge", "Asymmetric", "Cauchy"),
        ),
    }  # fmt: skip


def fitted(case: Case, data: Data) -> Any:
    estimator, X = case.estimator, data.rows[case.form]
    if case.parts:
        places = np.array_split(np.arange(X.shape[0]), case.parts)
        for part in places:
            estimator.partial_fit(X[part], case.y[part], classes=np.unique(case.y))
        return estimator
    if case.named:
        import pandas as pd

        X = pd.DataFrame(X, columns=["a", "b", "c", "d", "e", "größe"])
    given = {} if case.weight is None else {"sample_weight": case.weight}
    estimator.fit(X, case.y, **given)
    return estimator.sparsify() if case.sparsify else estimator
