"""Training: draw frames and their context, embed them, minimize the loss until it converges.

A checkpoint stores weights, optimizer and random state in one safetensors file.
"""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from stepcut.errors import OptionError, TrainingError
from stepcut.files import whole_file
from stepcut.methods.inputs import part
from stepcut.methods.method import Curve
from stepcut.progress import Hook, Stage

Rows = NDArray[np.int64]
Terms = dict[str, Tensor]  # The loss and its terms by name; `loss` is minimized
WARM_UP = 3  # Iterations before recording, so that all libraries have allocated their memory
SAVE_EVERY = 30.0  # Seconds between checkpoints; the first ones follow after 1, 2, 4 ... seconds


class Batch(NamedTuple):
    """Frames of B videos, T each; shorter videos are padded (`mask` false)."""

    context: Tensor  # (B, T, c): row numbers over all videos concatenated
    times: Tensor  # (B, T): time of the frame divided by the length of its video
    durations: Tensor  # (B,): seconds
    mask: Tensor  # (B, T): true on real frames
    padded: bool  # Whether there is padding; if not, a loss can skip the mask

    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self[:4]

    def shapes(self) -> tuple[bool, list[torch.Size]]:
        """What must be equal for two batches to share one CUDA graph."""
        return self.padded, [part.shape for part in self.parts()]


def context_rows(
    rows: Rows, lengths: int | Rows, offsets: Sequence[float], rate: float | Fraction
) -> Rows:
    """Rows at `offsets` seconds from each of `rows`, clipped to the video: (..., c)."""
    moved = rows[..., None] + np.array([round(offset * rate) for offset in offsets], dtype=np.int64)
    return np.asarray(np.minimum(np.maximum(moved, 0), lengths - 1))


def draw(
    random: np.random.Generator,
    lengths: Sequence[int],
    videos: int,
    frames: int,
    offsets: Sequence[float],
    rate: float | Fraction,
    count: int = 1,
) -> list[Batch]:
    """Batches of `videos` random videos with `frames` random frames in time order."""
    together = min(videos, len(lengths))
    chosen = np.empty((count, together), np.int64)
    rows = np.zeros((count, together, frames), np.int64)
    for batch in range(count):
        chosen[batch] = random.choice(len(lengths), size=together, replace=False)
        for place, video in enumerate(chosen[batch].tolist()):
            taken = random.choice(lengths[video], size=min(frames, lengths[video]), replace=False)
            taken.sort()
            rows[batch, place, : len(taken)] = taken
    starts = np.cumsum([0, *lengths])[chosen][..., None]
    lasting = np.array(lengths)[chosen][..., None]
    parts = (
        context_rows(rows, lasting[..., None], offsets, rate) + starts[..., None],
        (rows / lasting).astype(np.float32),
        (lasting[..., 0] / float(rate)).astype(np.float32),
        np.arange(frames) < lasting,
    )
    # Drop positions that no video of a batch fills.
    most, least = np.minimum(lasting.max((1, 2)), frames), lasting.min((1, 2))
    tensors = (torch.from_numpy(part).unbind() for part in parts)
    return [
        Batch(context[:, :end], times[:, :end], durations, mask[:, :end], padded)
        for context, times, durations, mask, end, padded in zip(
            *tensors, most, (least < most).tolist(), strict=True
        )
    ]


# ---------- the loop


@dataclass(frozen=True)
class Plan:
    learning_rate: float
    weight_decay: float
    iterations: int  # Maximum number of iterations
    patience: int
    # Of the mean loss of `patience` iterations: converged when less than this share below the last
    tolerance: float
    read_every: int  # Iterations between reads of the losses; each read makes a GPU wait
    accumulate: int = 1  # Batches per iteration, whose gradients are averaged
    record: bool = False  # On a GPU: record one iteration and replay it


def converged(curve: Curve, plan: Plan) -> bool:
    """Whether the smoothed loss has stopped falling; see `Plan.tolerance`."""
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
    """Train in place; return the loss curve. A `checkpoint` of another `run` is refused."""
    chosen: dict[str, Any] = {"lr": plan.learning_rate, "weight_decay": plan.weight_decay}
    weights = network.parameters()
    optimiser = torch.optim.Adam(weights, fused=True, capturable=plan.record, **chosen)

    def advance(*batches: Batch) -> Terms:
        optimiser.zero_grad(set_to_none=True)
        sums: Terms = {}
        for batch in batches:
            terms = {name: value / len(batches) for name, value in measure(batch).items()}
            terms["loss"].backward()
            sums = {name: sums.get(name, 0) + value.detach() for name, value in terms.items()}
        optimiser.step()
        return sums

    def one_by_one(batches: Sequence[Batch]) -> tuple[tuple[str, ...], Tensor]:
        firsts = range(0, len(batches), plan.accumulate)
        done = [advance(*batches[first : first + plan.accumulate]) for first in firsts]
        return tuple(done[-1]), torch.stack([torch.stack(list(terms.values())) for terms in done])

    work = Recorded(advance, plan.read_every) if plan.record else one_by_one
    random = np.random.default_rng(seed)
    state_file = Checkpoint(checkpoint, run, network, optimiser, random)
    curve, finished = state_file.load()

    def draw_ahead(done: int) -> list[Batch]:
        stretch = min(plan.read_every, plan.patience - done % plan.patience, plan.iterations - done)
        return draw(random, count=stretch * plan.accumulate)

    network.train()
    saved, pause = time.monotonic(), 1.0
    with Stage(progress, "train", total=plan.iterations, unit="iterations") as stage:
        stage.done = len(curve.values)
        batches = draw_ahead(stage.done)
        while not finished:
            before = len(curve.values)
            curve.names, values = work(batches)
            drawn = random.bit_generator.state  # a resumed run draws the next batches again
            batches = draw_ahead(before + len(values))  # while the GPU works
            rows = values.tolist()
            for number, row in enumerate(rows, start=before + 1):
                if not math.isfinite(row[0]):
                    step = plan.learning_rate
                    fix = f"The learning rate is {step:g}; try learning_rate={step / 10:g}."
                    what = f"iteration {number} of training: the loss is {row[0]}. {fix}"
                    raise TrainingError(what, setting="learning_rate", value=step)
            curve.values += rows
            finished = len(curve.values) >= plan.iterations or converged(curve, plan)
            if finished or time.monotonic() - saved > pause:
                state_file.save(curve, finished, drawn)
                saved, pause = time.monotonic(), min(2 * pause, SAVE_EVERY)
            try:
                for row in rows:
                    stage.advance(1, **dict(zip(curve.names, row, strict=True)))
            except BaseException:  # the hook stops the run: save first
                state_file.save(curve, finished, drawn)
                raise
    network.eval()
    return curve


@dataclass(frozen=True)
class Checkpoint:
    """The state of a `run` (settings and data) in a file, if any; `random` draws frames."""

    path: str | os.PathLike[str] | None
    run: str
    network: nn.Module
    optimiser: torch.optim.Optimizer
    random: np.random.Generator

    def save(self, curve: Curve, finished: bool, drawn: Mapping[str, Any]) -> None:
        """The `curve`, whether it is `finished`, and the random state `drawn`."""
        if self.path is None:
            return
        moments = self.optimiser.state_dict()["state"].items()
        tensors = {f"weights/{name}": value for name, value in self.network.state_dict().items()}
        for number, state in moments:
            tensors |= {f"optimiser/{number}/{name}": value for name, value in state.items()}
        for name, device in self._devices().items():
            tensors[f"random/{name}"] = device.get_rng_state()
        tensors["curve"] = torch.tensor(curve.values, dtype=torch.float64)
        record = {"run": self.run, "drawn": drawn, "names": curve.names, "finished": finished}
        with whole_file(self.path) as temporary:
            plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
            save_file(plain, temporary, metadata={"stepcut": json.dumps(record)})

    def load(self) -> tuple[Curve, bool]:
        """Restore the saved state, if any; return the curve, and whether the run has finished."""
        if self.path is None or not Path(self.path).exists():
            return Curve(), False
        setting = f"checkpoint={str(self.path)!r}"
        try:
            with safe_open(self.path, framework="pt") as file:
                record: dict[str, Any] = json.loads((file.metadata() or {})["stepcut"])
                names = file.keys()
                tensors = {name: file.get_tensor(name) for name in names}
        except (SafetensorError, KeyError, ValueError) as error:
            why = f"{setting} is not a checkpoint of stepcut ({error}). Delete it."
            raise OptionError(why, setting="checkpoint", path=self.path) from error
        if record["run"] != self.run:
            why = (
                f"{setting} belongs to a run with other settings or features. Choose another file, "
                "or delete this one to start again."
            )
            raise OptionError(why, setting="checkpoint", path=self.path)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in part(tensors, "optimiser/").items():
            number, _, quantity = name.partition("/")
            moments.setdefault(int(number), {})[quantity] = value
        self.network.load_state_dict(part(tensors, "weights/"))
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        for name, device in self._devices().items():
            if f"random/{name}" in tensors:
                device.set_rng_state(tensors[f"random/{name}"])
        self.random.bit_generator.state = record["drawn"]
        return Curve(tuple(record["names"]), tensors["curve"].tolist()), record["finished"]

    def _devices(self) -> dict[str, Any]:
        on_cuda = next(self.network.parameters()).device.type == "cuda"
        return {"torch": torch, **({"cuda": torch.cuda} if on_cuda else {})}


class Recorded:
    """Run `work`, an iteration that reads nothing back, by replaying a CUDA graph.

    Up to `room` batches are copied together, and the graph advances through them: the CPU is free
    to draw frames. Batches of another shape run without it.
    """

    def __init__(self, work: Callable[[Batch], Terms], room: int) -> None:
        self.work, self.room = work, room
        self.stream = torch.cuda.Stream()
        self.done = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batches: Sequence[Batch]) -> tuple[tuple[str, ...], Tensor]:
        """The names of the terms, and their values: (iterations, names)."""
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
        """Recording does not execute the work."""
        self.shapes = batch.shapes()
        zeros = partial(torch.zeros, device="cuda")
        self.held = [zeros(self.room, *x.shape, dtype=x.dtype) for x in batch.parts()]
        self.place = zeros(1, dtype=torch.int64)
        self.rows = zeros(self.room, len(self.names))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            context, times, durations, mask = (
                held.index_select(0, self.place).squeeze(0) for held in self.held
            )
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
