"""Evaluation: scores under named protocols, tables with the rows that need no video, the
experiments of the paper."""

from stepcut.evaluation.evaluate import Evaluation, evaluate
from stepcut.evaluation.protocols import PROTOCOLS, Protocol
from stepcut.evaluation.score import Score, score

__all__ = ["PROTOCOLS", "Evaluation", "Protocol", "Score", "evaluate", "score"]
