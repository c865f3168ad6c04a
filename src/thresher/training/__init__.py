"""Training on data of any size: held-out rows, streams, checkpoints, models with their schema."""

from thresher.training.asked import Progress, Training
from thresher.training.model import Model, load_model, save_model
from thresher.training.session import run, train

__all__ = ["Model", "Progress", "Training", "load_model", "run", "save_model", "train"]
