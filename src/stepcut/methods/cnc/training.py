"""The training loop: draw frames, embed them, take the loss and its gradient, until the smoothed loss stops falling.

A checkpoint holds weights, optimiser and random state in one safetensors file, written whole or not at all. On a GPU an
iteration is recorded once and played back: one launch instead of some hundreds.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepcut.errors import OptionError, TrainingError
from stepcut.files.atomic import whole_file
from stepcut.methods.cnc.ddp import agree
from stepcut.methods.cnc.sampling import Batch
from stepcut.methods.contract import Curve, part
from stepcut.parallel.ranks import is_first_process
from stepcut.progress import Hook, Stage

Terms = dict[str, Tensor]
"""The loss and its parts, by name; `loss` is the one that is minimised."""
WARM_UP = 3
"""Iterations done as they are before one is recorded, so that every library has chosen its ways and its memory."""


@dataclass(frozen=True)
class Plan:
    """How to train: settings that the loop itself needs."""

    learning_rate: float
    weight_decay: float
    iterations: int
    """The hard limit."""
    patience: int
    tolerance: float
    """Converged when the mean loss of the last `patience` iterations is not lower than that of the `patience` before by
    more than this share of it. Looked at every `patience` iterations."""
    read_every: int
    """Losses are read from the device every so many iterations: each reading makes a GPU wait."""
    save_every: float = 30.0
    """Seconds between checkpoints."""
    record: bool = False
    """On a GPU: record one iteration and play it back."""


def converged(curve: Curve, plan: Plan) -> bool:
    """Whether the smoothed loss of a `curve` has stopped falling; see `Plan.tolerance`."""
    done, span = len(curve.values), plan.patience
    if done < 2 * span or done % span:
        return False
    losses = [row[0] for row in curve.values[-2 * span :]]
    before, now = np.mean(losses[:span]), np.mean(losses[span:])
    return bool(before - now <= plan.tolerance * abs(before))


def train(
    network: nn.Module,
    draw: Callable[..., list[Batch]],
    measure: Callable[[Batch], Terms],
    plan: Plan,
    seed: int,
    run: str,
    progress: Hook,
    checkpoint: str | os.PathLike[str] | None,
) -> Curve:
    """Train `network` in place and return the loss curve.

    `draw(random, count=...)` gives so many batches, `measure` embeds one and gives the loss and its parts; `plan` says
    how long, `seed` what is drawn. `run` names the run: a `checkpoint` of another is refused. `progress` sees every
    iteration.
    """
    optimiser = torch.optim.Adam(
        network.parameters(),
        lr=plan.learning_rate,
        weight_decay=plan.weight_decay,
        fused=True,
        capturable=plan.record,
    )

    def advance(batch: Batch) -> Terms:
        terms = measure(batch)
        optimiser.zero_grad(set_to_none=True)
        terms["loss"].backward()
        optimiser.step()
        return {name: value.detach() for name, value in terms.items()}

    def one_by_one(batches: Sequence[Batch]) -> tuple[tuple[str, ...], Tensor]:
        done = [advance(batch) for batch in batches]
        return tuple(done[-1]), torch.stack([torch.stack(list(terms.values())) for terms in done])

    work = Recorded(advance, plan.read_every) if plan.record else one_by_one
    random = np.random.default_rng(seed)
    curve, finished = Curve(), False
    kept = None if checkpoint is None else resume(checkpoint, run, network, optimiser, random)
    if kept is not None:
        curve, finished = Curve(tuple(kept[1]["names"]), kept[0]), kept[1]["finished"]

    def keep(drawn: Mapping[str, Any], done: bool) -> None:
        if checkpoint is not None and is_first_process():
            record = {"run": run, "drawn": drawn, "names": curve.names, "finished": done}
            write_checkpoint(checkpoint, network, optimiser, curve.values, record)

    def draw_ahead(done: int) -> list[Batch]:
        """The batches up to the next reading."""
        stretch = min(plan.read_every, plan.patience - done % plan.patience, plan.iterations - done)
        return draw(random, count=stretch)

    network.train()
    saved = time.monotonic()
    with Stage(progress, "train", total=plan.iterations, unit="iterations") as stage:
        stage.done = len(curve.values)
        batches = draw_ahead(stage.done)
        while not finished:
            before = len(curve.values)
            curve.names, values = work(batches)
            drawn = random.bit_generator.state  # a run that goes on from here draws the next batches again
            batches = draw_ahead(before + len(batches))  # while a GPU is still at work
            rows = agree(values).tolist()
            _check(rows, before, plan)
            curve.values += rows
            finished = len(curve.values) >= plan.iterations or converged(curve, plan)
            if finished or time.monotonic() - saved > plan.save_every:
                keep(drawn, finished)
                saved = time.monotonic()
            try:
                for row in rows:
                    stage.advance(1, **dict(zip(curve.names, row, strict=True)))
            except BaseException:  # the hook wants to stop: nothing done so far is lost
                keep(drawn, finished)
                raise
    network.eval()
    return curve


def _check(rows: list[list[float]], before: int, plan: Plan) -> None:
    """Stop on a loss that is not a number, saying where and what to change."""
    for place, row in enumerate(rows):
        if not math.isfinite(row[0]):
            raise TrainingError(
                f"iteration {before + place + 1} of training: the loss is {row[0]}, not a finite number. The learning "
                f"rate is {plan.learning_rate:g}; try learning_rate={plan.learning_rate / 10:g}."
            )


def write_checkpoint(
    path: str | os.PathLike[str],
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    values: list[list[float]],
    record: Mapping[str, Any],
) -> None:
    """Keep all that a run needs to go on as if it had never stopped.

    values  the loss and its parts after every iteration
    record  JSON beside it: `run`, which names settings and data, and `drawn`, the state of the generator of frames
    """
    from safetensors.torch import save_file

    moments = optimiser.state_dict()["state"].items()
    tensors = {f"weights/{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"optimiser/{number}/{name}": value for number, state in moments for name, value in state.items()}
    tensors["random/torch"] = torch.get_rng_state()
    if _on_cuda(network):
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    tensors["curve"] = torch.tensor(values, dtype=torch.float64)
    with whole_file(path) as temporary:
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(plain, temporary, metadata={"stepcut": json.dumps(record)})


def resume(
    path: str | os.PathLike[str],
    run: str,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    random: np.random.Generator,
) -> tuple[list[list[float]], dict[str, Any]] | None:
    """Put everything into the state of the checkpoint of `run`, and give its values and record.

    None when there is none yet; one of another run is an `OptionError`.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            record: dict[str, Any] = json.loads((file.metadata() or {})["stepcut"])
            names = file.keys()  # a file cannot be gone through itself
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, KeyError, ValueError) as error:
        raise OptionError(f"checkpoint={str(path)!r} is not a checkpoint of stepcut ({error}). Delete it.") from error
    if record["run"] != run:
        raise OptionError(
            f"checkpoint={str(path)!r} belongs to a run with other settings or other features. "
            f"Choose another file, or delete this one to start afresh."
        )
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in part(tensors, "optimiser/").items():
        number, _, quantity = name.partition("/")
        moments.setdefault(int(number), {})[quantity] = value
    network.load_state_dict(part(tensors, "weights/"))
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
    torch.set_rng_state(tensors["random/torch"])
    if "random/cuda" in tensors and _on_cuda(network):
        torch.cuda.set_rng_state(tensors["random/cuda"])
    random.bit_generator.state = record["drawn"]
    return tensors["curve"].tolist(), record


def _on_cuda(network: nn.Module) -> bool:
    return next(network.parameters()).device.type == "cuda"


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
