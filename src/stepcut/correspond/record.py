"""A training step on a GPU, recorded once and played back: one launch instead of some hundreds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from stepcut.correspond.sampling import Batch

Terms = dict[str, Tensor]
"""The loss and its parts, by name; `loss` is the one that is minimised."""

WARM_UP = 3
"""Steps done as they are before one is recorded, so that every library has chosen its ways and its memory."""


class Recorded:
    """Does what `work` does, a CUDA graph of it in most steps; a batch of another shape is worked on as it is.

    `work` takes a batch, makes the whole training step and gives the loss and its parts. It must not read a value
    back from the GPU. The terms that come back are overwritten by the next step.
    """

    def __init__(self, work: Callable[[Batch], Terms]) -> None:
        self.work = work
        self.stream = torch.cuda.Stream()
        self.done = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch: Batch
        self.terms: Terms

    def __call__(self, batch: Batch) -> Terms:
        """One training step."""
        if self.graph is None and self.done >= WARM_UP:
            self._record(batch)
        if self.graph is None or batch.shapes() != self.batch.shapes():
            self.done += 1
            return self._as_it_is(batch)
        for held, new in zip(self.batch.parts(), batch.parts(), strict=True):
            held.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.terms

    def _as_it_is(self, batch: Batch) -> Terms:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            terms = self.work(batch)
        torch.cuda.current_stream().wait_stream(self.stream)
        return terms

    def _record(self, batch: Batch) -> None:
        """Recording does not do the work; the step follows when the graph is played."""
        self.batch = batch.to(torch.device("cuda"))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.terms = self.work(self.batch)
        self.graph = graph
