"""One file per algorithm family; compiled loops only, no scikit-learn and no input or output."""

from thresher.solvers.asgd import AveragedSGD
from thresher.solvers.asset import ASSET
from thresher.solvers.base import Chunk, Problem, Result, Solver, Status
from thresher.solvers.cutting_planes import MCPA, OCAS, CuttingPlane
from thresher.solvers.dcd import DualDescent
from thresher.solvers.dropout import DropoutPegasos
from thresher.solvers.least_squares import DirectLeastSquares
from thresher.solvers.lps import LPS
from thresher.solvers.newton import Newton
from thresher.solvers.pegasos import SGD, Pegasos, WeightedPegasos
from thresher.solvers.proximal import FOBOS, TruncatedGradient
from thresher.solvers.proximal_newton import ProximalNewton
from thresher.solvers.quasi_newton import QuasiNewton
from thresher.solvers.rda import RDA, AdaptiveRDA
from thresher.solvers.rda_plus import RDAPlus
from thresher.solvers.reweighted import ReweightedL1, ReweightedL2
from thresher.solvers.smoothing import SmoothedNewton
from thresher.solvers.summed_newton import SummedNewton

__all__ = [
    "ASSET",
    "FOBOS",
    "LPS",
    "MCPA",
    "OCAS",
    "RDA",
    "SGD",
    "AdaptiveRDA",
    "AveragedSGD",
    "Chunk",
    "CuttingPlane",
    "DirectLeastSquares",
    "DropoutPegasos",
    "DualDescent",
    "Newton",
    "Pegasos",
    "Problem",
    "ProximalNewton",
    "QuasiNewton",
    "RDAPlus",
    "Result",
    "ReweightedL1",
    "ReweightedL2",
    "SmoothedNewton",
    "Solver",
    "Status",
    "SummedNewton",
    "TruncatedGradient",
    "WeightedPegasos",
]
