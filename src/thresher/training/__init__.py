"""Training on data of any size: held-out rows, streams, checkpoints, models with their schema."""

from thresher.training.model import Model, load_model, save_model
from thresher.training.session import Progress, Training, run, train

__all__ = ["Model", "Progress", "Training", "load_model", "run", "save_model", "train"]
