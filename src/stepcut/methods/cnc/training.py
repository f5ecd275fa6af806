"""The training loop: draw frames, embed them, take the loss and its gradient, until the smoothed loss stops falling."""

from __future__ import annotations

import csv
import io
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepcut.errors import TrainingError
from stepcut.files.atomic import write_text
from stepcut.methods.cnc.checkpoint import resume, write_checkpoint
from stepcut.methods.cnc.ddp import agree
from stepcut.methods.cnc.record import Recorded, Terms
from stepcut.methods.cnc.sampling import Batch
from stepcut.parallel.ranks import is_first_process
from stepcut.progress import Hook, Stage


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


@dataclass
class Curve:
    """The loss and its parts after every iteration."""

    names: tuple[str, ...] = ()
    values: list[list[float]] = field(default_factory=list)

    def csv(self) -> str:
        """A row per iteration: its number, then the loss and its parts."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["iteration", *self.names])
        writer.writerows([number, *row] for number, row in enumerate(self.values, start=1))
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the curve as CSV, whole or not at all."""
        write_text(path, self.csv())

    def converged(self, plan: Plan) -> bool:
        """Whether the smoothed loss has stopped falling; see `Plan.tolerance`."""
        done, span = len(self.values), plan.patience
        if done < 2 * span or done % span:
            return False
        losses = [row[0] for row in self.values[-2 * span :]]
        before, now = np.mean(losses[:span]), np.mean(losses[span:])
        return bool(before - now <= plan.tolerance * abs(before))


def train(
    network: nn.Module,
    draw: Callable[[np.random.Generator, int], list[Batch]],
    measure: Callable[[Batch], Terms],
    plan: Plan,
    seed: int,
    run: str,
    progress: Hook,
    checkpoint: str | os.PathLike[str] | None,
) -> Curve:
    """Train `network` in place and return the loss curve.

    `draw(random, count)` gives so many batches, `measure` embeds one and gives the loss and its parts; `plan` says how
    long, `seed` what is drawn. `run` names the run: a `checkpoint` of another is refused. `progress` sees every
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
        return draw(random, stretch)

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
            finished = len(curve.values) >= plan.iterations or curve.converged(plan)
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
