"""Iterations on a GPU, recorded once and played back: one launch instead of some hundreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from stepcut.methods.cnc.sampling import Batch

Terms = dict[str, Tensor]
"""The loss and its parts, by name; `loss` is the one that is minimised."""

WARM_UP = 3
"""Iterations done as they are before one is recorded, so that every library has chosen its ways and its memory."""


class Recorded:
    """Does what `work` does, by a CUDA graph in most iterations; a batch of another shape is worked on as it is.

    `work` takes a batch, does the whole iteration and gives the loss and its parts. It must not read a value
    back from the GPU. Up to `room` batches are brought to the GPU together, and the graph itself goes from one to the
    next: while it plays, the CPU is free to draw frames.
    """

    def __init__(self, work: Callable[[Batch], Terms], room: int) -> None:
        self.work, self.room = work, room
        self.stream = torch.cuda.Stream()
        self.done = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batches: Sequence[Batch]) -> tuple[tuple[str, ...], Tensor]:
        """The names of the loss and its parts, and their values after each iteration: (iterations, names)."""
        rows: list[Tensor] = []
        waiting: list[Batch] = []
        for batch in batches:
            if self.graph is None and self.done >= WARM_UP:
                self._record(batch)
            if self.graph is not None and batch.shapes() == self.shapes:
                waiting.append(batch)
                continue
            rows += self._play(waiting)
            waiting = []
            rows.append(self._as_it_is(batch))
        return self.names, torch.stack(rows + self._play(waiting))

    def _as_it_is(self, batch: Batch) -> Tensor:
        self.done += 1
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            terms = self.work(batch)
            row = torch.stack(list(terms.values()))
        torch.cuda.current_stream().wait_stream(self.stream)
        self.names = tuple(terms)
        return row

    def _record(self, batch: Batch) -> None:
        """Recording does not do the work; that follows when the graph is played."""
        self.shapes = batch.shapes()
        self.held = [torch.zeros(self.room, *part.shape, dtype=part.dtype, device="cuda") for part in batch.parts()]
        self.place = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.rows = torch.zeros(self.room, len(self.names), device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            context, times, durations, mask = (held.index_select(0, self.place).squeeze(0) for held in self.held)
            terms = self.work(Batch(context, times, durations, mask, batch.padded))
            self.rows.index_copy_(0, self.place, torch.stack(list(terms.values()))[None])
            self.place += 1
        self.graph = graph

    def _play(self, batches: list[Batch]) -> list[Tensor]:
        if self.graph is None or not batches:
            return []
        for held, *parts in zip(self.held, *(batch.parts() for batch in batches), strict=True):
            held[: len(batches)].copy_(torch.stack(parts), non_blocking=True)
        self.place.zero_()
        for _ in batches:
            self.graph.replay()
        return list(self.rows[: len(batches)].clone())
