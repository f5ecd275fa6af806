"""Experiments: the tables of the paper on any data, beside the published ones."""

from stepcut.paper.experiments.figure import draw_figure
from stepcut.paper.experiments.results import EXPERIMENTS, Results
from stepcut.paper.experiments.run import run_experiment

__all__ = ["EXPERIMENTS", "Results", "draw_figure", "run_experiment"]
