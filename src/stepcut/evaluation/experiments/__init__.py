"""Experiments: the tables of the paper on any data, ours beside the published ones, kept in one file."""

from stepcut.evaluation.experiments.cells import EXPERIMENTS
from stepcut.evaluation.experiments.results import Results
from stepcut.evaluation.experiments.run import run_experiment

__all__ = ["EXPERIMENTS", "Results", "run_experiment"]
