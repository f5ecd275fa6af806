"""Evaluation: scores under named protocols, in tables with baselines that ignore the video."""

from stepcut.evaluation.evaluate import Evaluation, evaluate
from stepcut.evaluation.protocols import PROTOCOLS, Protocol
from stepcut.evaluation.score import Score, score

__all__ = ["PROTOCOLS", "Evaluation", "Protocol", "Score", "evaluate", "score"]
