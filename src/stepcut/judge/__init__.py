"""Judge: scores under named protocols, tables with the rows that need no video, and the experiments of the paper."""

from __future__ import annotations

from stepcut.judge.evaluate import Evaluation, evaluate
from stepcut.judge.protocols import PROTOCOLS
from stepcut.judge.score import Score, score

__all__ = ["PROTOCOLS", "Evaluation", "Score", "evaluate", "score"]
