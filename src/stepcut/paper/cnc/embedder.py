"""Embedder: learn, from features alone, an embedding in which the same step of different videos lies close together."""

import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stepcut.checks import SEEDS, check_limits, limited
from stepcut.errors import NotLearned, OptionError, choose
from stepcut.methods.inputs import check_videos, fingerprint
from stepcut.paper.cnc.losses import alignment, cidm, tcc, unit
from stepcut.paper.cnc.network import (
    Encoder,
    MapEncoder,
    VectorEncoder,
    find_device,
    half_precision,
    put_together,
)
from stepcut.paper.cnc.sampling import Batch, context_rows, draw
from stepcut.paper.cnc.training import Plan, Terms, train
from stepcut.paper.cnc.tune import FrameEncoder, TunableBackbone
from stepcut.progress import Hook, silent
from stepcut.rate import fraction_of

LOSSES = ("tc3i", "tcc", "lav", "lav+tcc")

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A loss of one's own: a function of embeddings (B, T, d), times (B, T), durations (B,) and mask (B, T)."""

PAPERS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "stride": 0.5,
    "iterations": 10_000,
    "patience": 500,
}
"""What a setting is when it is left at None: the paper's, for maps, and for frames with a backbone that learns."""
FOR_VECTORS: dict[str, Any] = {"learning_rate": 1e-3, "stride": 2.0, "patience": 200}
"""The same for vectors; docs/cnc.md says which data chose them."""

NOT_KEPT = ("device", "backbone")
"""Settings that belong to a machine or are objects: they are not written down with the others."""
FILMED = 30.0
"""Frames a second of the paper's videos, in which `gamma_time="frames"` counts."""


@dataclass
class Embedder:
    """Trains on features of the videos of one task, `fit`, and embeds the same or other videos, `transform`.

    No label is read. Same seed, same numbers on one machine.

    >>> features = [np.random.default_rng(i).normal(size=(40, 8)) for i in range(3)]
    >>> Embedder(dim=4, seed=0, iterations=5).fit(features).transform(features)[0].shape
    (40, 4)
    """

    loss: str | Loss = "tc3i"
    dim: int = limited(128, 1, 65_536, whole=True)
    rate: float | Fraction = limited(1.0, 0, above=True)
    """Rows of the features per second."""
    seed: int = limited(0, 0, SEEDS, whole=True)
    videos: int = limited(5, 2, whole=True)
    """Videos in an iteration; all of them when there are fewer."""
    frames: int = limited(32, 2, 65_536, whole=True)
    """Frames of each video in an iteration; all of them when there are fewer."""
    weight: float | None = limited(None, 0)
    """Of C-IDM in the loss. None: 1 for tc3i, half the frames for lav and lav+tcc, with soft-DTW per frame."""
    temperature: float = limited(0.1, 0, above=True)
    variance_weight: float = limited(0.001, 0)
    window: float | None = limited(None, 0, above=True)
    """Seconds: frames nearer than this are pulled together by C-IDM, others pushed apart. None: the paper's 10, but not
    more than a fortieth of the median video, and more than one row."""
    margin: float = limited(2.0, 0, above=True)
    gamma: float = limited(0.1, 0, above=True)
    """Smoothness of soft-DTW."""
    gamma_time: str = "video"
    """What C-IDM measures time in: "video" (its length is 1) or "frames" (30 a second, as the paper writes it)."""
    learning_rate: float | None = limited(None, 0, above=True)
    weight_decay: float = limited(1e-5, 0)
    iterations: int | None = limited(None, 1, whole=True)
    """Limit on the iterations. None: 10,000 for maps; for vectors ten passes over the rows, at most 1,000."""
    patience: int | None = limited(None, 1, whole=True)
    tolerance: float = limited(0.01, 0)
    """Converged when the mean loss of the last `patience` iterations is not `tolerance` lower than of those before."""
    context: int = limited(2, 1, whole=True)
    """Frames of context for maps, the frame itself included."""
    stride: float | None = limited(None, 0, 3600)
    """Seconds between the frames of context."""
    smooth: float = limited(2.0, 0, 3600)
    """Vectors are smoothed over time with a Gaussian of so many seconds."""
    components: int = limited(64, 1, whole=True)
    """Vectors are projected on so many principal axes."""
    hidden: int | None = limited(None, 1, 65_536, whole=True)
    tune_backbone: bool = False
    """Train end to end from frames `(T, H, W, 3)`, with `backbone` as part of the network."""
    backbone: nn.Module | None = None
    """With `tune_backbone`: from frames `(n, H, W, 3)` to maps `(n, C, h, w)`, `tune.TunableBackbone` for example."""
    chunk: int = limited(64, 1, whole=True)
    """With `tune_backbone`: so many frames go through the backbone at once."""
    device: str | None = None
    """`cpu` or `cuda`; None takes the GPU if there is one."""

    def fit(
        self,
        features: Sequence[NDArray[Any]],
        progress: Hook = silent,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from a list of `(T, d)` vectors or `(T, C, h, w)` maps, one per video.

        With `checkpoint`, an interrupted run goes on where it stopped when called again.
        """
        features = self._check(features)
        device = find_device(self.device)
        self.kind_ = (
            "frames" if self.tune_backbone else "maps" if features[0].ndim == 4 else "vectors"
        )
        self.shape_: dict[str, int] = {"row": features[0].shape[1]}
        if self.backbone is not None and self.tune_backbone:
            with torch.inference_mode():
                self.shape_["channels"] = self.backbone(
                    torch.from_numpy(np.array(features[0][:1]))
                ).shape[1]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            network = self._build()
            if isinstance(network, VectorEncoder):
                network.learn_axes(features)
            network.to(device)
            rows = put_together([network.store(video, device) for video in features], device)
            lengths = [len(video) for video in features]
            embed = partial(self._embed, network, rows, device)
            # In a video of one minute ten seconds hold more than one step, and C-IDM would join them.
            rate = float(self.rate)
            window = self.window or max(
                min(10.0, float(np.median(lengths)) / rate / 40), 1.5 / rate
            )
            run = "" if checkpoint is None else self._run(features)
            sample = partial(
                draw,
                lengths=lengths,
                videos=self.videos,
                frames=self.frames,
                offsets=network.offsets,
                rate=self.rate,
            )
            measure = partial(self._terms, embed=embed, window=window)
            plan = self._plan(device, lengths)
            self.curve_ = train(
                network, sample, measure, plan, self.seed, run, progress, checkpoint
            )
        self.network_ = network
        return self

    def transform(self, features: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Embed every row of every video: a list of `(T, dim)`."""
        network = self._learned()
        device = next(network.parameters()).device
        out = []
        for video in check_videos(
            features, self.shape_["row"], (2 if self.kind_ == "vectors" else 4,)
        ):
            rows = network.store(video, device).to(device)
            places = torch.from_numpy(
                context_rows(np.arange(len(video)), len(video), network.offsets, self.rate)
            )
            with torch.inference_mode(), half_precision(device, self.kind_):
                parts = [
                    network(network.gather(rows, part))
                    for part in torch.split(places.to(device), 512)
                ]
            out.append(torch.cat(parts).float().cpu().numpy())
        return out

    def settings(self) -> dict[str, Any]:
        """All settings, and what shape of features was learned, ready for JSON."""
        self._learned()
        given = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in NOT_KEPT
        }
        given["rate"] = str(Fraction(self.rate).limit_denominator(10**6))
        if isinstance(self.backbone, TunableBackbone):
            given["backbone"] = self.backbone.settings()  # its weights are in the state
        own = [] if isinstance(self.loss, str) else [f"loss={self.loss!r}"]
        own += (
            [] if self.backbone is None or "backbone" in given else [f"backbone={self.backbone!r}"]
        )
        if own:
            raise OptionError(
                f"{own[0]} is of your own, which cannot be written down. To save the embedder, choose a loss from "
                f"{', '.join(LOSSES)}, and tune stepcut.paper.cnc.tune.TunableBackbone(graph)."
            )
        return {**given, "kind": self.kind_, "shape": self.shape_}

    def state(self) -> dict[str, NDArray[Any]]:
        """The learned arrays by name."""
        return {name: value.cpu().numpy() for name, value in self._learned().state_dict().items()}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> Self:
        """The embedder that gave these `settings()` and this `state()`."""
        given = dict(settings)
        if "steps" in given:  # its name in version 0.1.0
            given["iterations"] = given.pop("steps")
        kind, shape, about = given.pop("kind"), given.pop("shape"), given.pop("backbone", None)
        backbone = None if about is None else TunableBackbone.restore(about)
        self = cls(**{**given, "rate": fraction_of(str(given["rate"])), "backbone": backbone})
        self.kind_, self.shape_ = kind, shape
        network = self._build()
        network.load_state_dict(
            {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
        )
        self.network_ = network.to(find_device(self.device)).eval()
        return self

    def _setting(self, name: str) -> Any:
        """A setting as it is used: as given, or the default of its kind of features."""
        given = getattr(self, name)
        return (
            (FOR_VECTORS if self.kind_ == "vectors" else PAPERS)[name] if given is None else given
        )

    def _build(self) -> Encoder:
        """The network, not trained."""
        row, stride = self.shape_["row"], self._setting("stride")
        if self.kind_ == "vectors":
            sizes = (row, min(self.components, row), self.dim, self.hidden or 128)
            return VectorEncoder(*sizes, rate=self.rate, stride=stride, smooth=self.smooth)
        channels = self.shape_.get("channels", row)
        embedder = MapEncoder(
            channels, self.dim, self.hidden or 256, context=self.context, stride=stride
        )
        if self.backbone is None or self.kind_ == "maps":
            return embedder
        return FrameEncoder(copy.deepcopy(self.backbone), embedder, self.chunk)

    def _plan(self, device: torch.device, lengths: Sequence[int]) -> Plan:
        iterations = self.iterations
        if iterations is None and self.kind_ == "vectors":
            # A network that sees a row too often learns its time by heart: the clock, not the step.
            iterations = min(1_000, math.ceil(10 * sum(lengths) / (self.videos * self.frames)))
        return Plan(
            learning_rate=self._setting("learning_rate"),
            weight_decay=self.weight_decay,
            iterations=iterations or self._setting("iterations"),
            patience=self._setting("patience"),
            tolerance=self.tolerance,
            read_every=1 if device.type == "cpu" else 25,
            # A loss of one's own may read values back, and frames are too much to hold still for a recording.
            record=device.type == "cuda" and isinstance(self.loss, str) and self.kind_ != "frames",
        )

    def _embed(self, network: Encoder, rows: Tensor, device: torch.device, batch: Batch) -> Tensor:
        """The embeddings of a batch: (B, T, dim)."""
        count, frames, context = batch.context.shape
        places = batch.context.reshape(-1, context).to(rows.device, non_blocking=True)
        with half_precision(device, self.kind_):
            embedded: Tensor = network(network.gather(rows, places).to(device, non_blocking=True))
        return embedded.float().view(count, frames, embedded.shape[-1])

    def _terms(self, batch: Batch, embed: Callable[[Batch], Tensor], window: float) -> Terms:
        """The loss of a batch and its parts, soft-DTW per frame, as TCC is.

        The weight of C-IDM, where it is None: 1 for tc3i; for lav and lav+tcc the paper's sums, 0.5 on T^2 pairs beside
        a path of T frames, so half the frames (with 0.5 on means the embeddings collapse).
        """
        u = embed(batch)
        times, durations, real = (
            part.to(u.device, non_blocking=True) for part in batch.parts()[1:]
        )
        if not isinstance(self.loss, str):
            return {"loss": self.loss(u, times, durations, real)}
        mask, count = real if batch.padded else None, times.shape[1]
        parts: Terms = {}
        if self.loss != "lav":
            parts["tcc"] = tcc(u, times, mask, self.temperature, self.variance_weight)
        if self.loss in ("lav", "lav+tcc"):
            u = unit(u)
            parts["soft_dtw"] = alignment(u, times, mask, self.gamma) / count
        total = torch.stack(list(parts.values())).sum()
        if self.loss != "tcc":
            frames = FILMED * durations if self.gamma_time == "frames" else None
            usual = 1.0 if self.loss == "tc3i" else 0.5 * count
            parts["cidm"] = cidm(u, times, durations, mask, window, self.margin, frames)
            total = total + (usual if self.weight is None else self.weight) * parts["cidm"]
        return {"loss": total, **parts}

    def _learned(self) -> Encoder:
        network: Encoder | None = getattr(self, "network_", None)
        if network is None:
            raise NotLearned("this Embedder has not been fitted. Call fit(features) first.")
        return network

    def _run(self, features: Sequence[NDArray[Any]]) -> str:
        """A fingerprint of the settings and the features: two runs with the same give the same weights."""
        seen = {
            each.name: str(getattr(self, each.name))
            for each in fields(self)
            if each.name not in NOT_KEPT
        }
        digest = hashlib.sha256(json.dumps(seen, sort_keys=True).encode())
        for video in features:
            digest.update(f"{video.shape} {video.dtype}".encode() + fingerprint(video)[1])
        return digest.hexdigest()

    def _check(self, features: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Say what is wrong with a setting or with the features; the features as arrays."""
        if not callable(self.loss):
            choose("loss", str(self.loss), dict.fromkeys(LOSSES))
        choose("gamma_time", str(self.gamma_time), dict.fromkeys(("video", "frames")))
        if self.tune_backbone and not isinstance(self.backbone, nn.Module):
            raise OptionError(
                f"tune_backbone=True needs backbone=, a torch module from frames to maps, and {self.backbone!r} was "
                "given. Give stepcut.paper.cnc.tune.TunableBackbone(graph), or leave tune_backbone out."
            )
        check_limits(self)
        checked = check_videos(features, kinds=(2, 4))
        if len(checked) < 2:
            what = "1 video was given; at least 2 are needed, since steps are found by what videos have in common"
            raise OptionError(f"{what}. Add another video of the same task.")
        return checked
