"""Embedder: learn, from features alone, an embedding in which the same step of different videos
lies close together."""

import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stepcut.checks import SEEDS, check_limits, limited
from stepcut.errors import NotLearned, OptionError, choose
from stepcut.methods.inputs import build, check_videos, fingerprint, plain_numbers
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
from stepcut.paper.cnc.settings import (
    LOSSES,
    Losses,
    Network,
    Training,
    check_groups,
    gather,
    spread,
)
from stepcut.paper.cnc.training import Plan, Terms, train
from stepcut.paper.cnc.tune import FrameEncoder, TunableBackbone, as_pictures, load_tunable
from stepcut.progress import Hook, silent
from stepcut.rate import fraction_of

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A loss of one's own: a function of embeddings (B, T, d), times (B, T), durations (B,) and mask
(B, T)."""

PAPERS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "stride": 0.5,
    "iterations": 10_000,
    "patience": 500,
    "hidden": 256,
}
"""What a setting is when it is left at None: the paper's, for maps, and for frames with a backbone
that learns."""
FOR_VECTORS: dict[str, Any] = {"learning_rate": 1e-3, "stride": 2.0, "patience": 200, "hidden": 128}
"""The same for vectors; benchmarks/reports/embedder.md says which data chose them."""

FILMED = 30.0
"""Frames a second of the paper's videos, in which `gamma_time="frames"` counts."""


@dataclass
class Embedder:
    """Trains on features of the videos of one task, `fit`, and embeds the same or other videos,
    `transform`.

    No label is read. Same seed, same numbers on one machine.

    >>> features = [np.random.default_rng(i).normal(size=(40, 8)) for i in range(3)]
    >>> embedder = Embedder(network=Network(dim=4), training=Training(iterations=5))
    >>> embedder.fit(features).transform(features)[0].shape
    (40, 4)
    """

    loss: str | Loss = "tc3i"
    """tc3i, tcc, lav, lav+tcc, or a function of your own."""
    rate: float | Fraction = limited(1.0, 0, above=True)
    """Rows of the features per second."""
    seed: int = limited(0, 0, SEEDS, whole=True)
    network: Network = field(default_factory=Network)
    training: Training = field(default_factory=Training)
    losses: Losses = field(default_factory=Losses)
    backbone: nn.Module | Mapping[str, Any] | None = None
    """With `network.tune_backbone`: from frames `(n, H, W, 3)` to maps `(n, C, h, w)`; a module,
    such as `tune.TunableBackbone`, or the settings of one of stepcut's networks, {"backbone":
    "resnet50", "weights": FILE}."""
    device: str | None = None
    """`cpu` or `cuda`; None takes the GPU if there is one."""

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """An embedder from plain settings, each put into its group.

        >>> Embedder.of(loss="tcc", dim=8, frames=16).training.frames
        16
        """
        return build(cls, gather(plain_numbers(settings)))

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
        tuned = self.network.tune_backbone
        self.kind_ = "frames" if tuned else "maps" if features[0].ndim == 4 else "vectors"
        self._known: dict[Any, NDArray[np.float32]] = {}
        self.shape_: dict[str, int] = {"row": features[0].shape[1]}
        if isinstance(self.backbone, Mapping):
            self.backbone_: nn.Module | None = load_tunable(self.backbone)
        else:
            self.backbone_ = self.backbone
        if self.backbone_ is not None and tuned:
            with torch.inference_mode():
                first = torch.from_numpy(as_pictures(features[0][:1]))
                self.shape_["channels"] = self.backbone_(first).shape[1]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            network = self._build()
            if isinstance(network, VectorEncoder):
                network.learn_axes(features)
            network.to(device)
            rows = put_together([network.store(video, device) for video in features], device)
            lengths = [len(video) for video in features]
            embed = partial(self._embed, network, rows, device)
            # In a video of one minute ten seconds hold more than one step, and C-IDM would join
            # them.
            rate = float(self.rate)
            window = self.losses.window or max(
                min(10.0, float(np.median(lengths)) / rate / 40), 1.5 / rate
            )
            run = "" if checkpoint is None else self._run(features)
            sample = partial(
                draw,
                lengths=lengths,
                videos=self.training.videos,
                frames=self.training.frames,
                offsets=network.offsets,
                rate=self.rate,
            )
            measure = partial(self._terms, embed=embed, window=window)
            plan = self._plan(device, lengths)
            self.curve_ = train(
                network, sample, measure, plan, self.seed, run, progress, checkpoint
            )
        self.network_ = network
        if (
            self.kind_ == "frames"
        ):  # learning asks for them several times, and a backbone takes long
            self._known = {fingerprint(video): self._embed_video(video) for video in features}
        return self

    def transform(self, features: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Embed every row of every video: a list of `(T, dim)`."""
        self._learned()
        kinds = (2 if self.kind_ == "vectors" else 4,)
        videos = check_videos(features, self.shape_["row"], kinds)
        names = [fingerprint(video) if self._known else None for video in videos]
        return [
            self._known[name] if name in self._known else self._embed_video(video)
            for name, video in zip(names, videos, strict=True)
        ]

    def _embed_video(self, video: NDArray[Any]) -> NDArray[np.float32]:
        network = self._learned()
        device = next(network.parameters()).device
        rows = network.store(video, device).to(device)
        places = torch.from_numpy(
            context_rows(np.arange(len(video)), len(video), network.offsets, self.rate)
        )
        with torch.inference_mode(), half_precision(device, self.kind_):
            parts = [network.embed(rows, part, device) for part in torch.split(places, 512)]
        embedded: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return embedded

    def settings(self) -> dict[str, Any]:
        """All settings, and what shape of features was learned, ready for JSON."""
        self._learned()
        given: dict[str, Any] = {"loss": self.loss, "seed": self.seed, **spread(self._groups())}
        given["rate"] = str(Fraction(self.rate).limit_denominator(10**6))
        if isinstance(self.backbone_, TunableBackbone):
            given["backbone"] = self.backbone_.settings()  # its weights are in the state
        own = [] if isinstance(self.loss, str) else [f"loss={self.loss!r}"]
        own += (
            [] if self.backbone_ is None or "backbone" in given else [f"backbone={self.backbone!r}"]
        )
        if own:
            raise OptionError(
                f"{own[0]} is of your own, which cannot be written down. To save the embedder, "
                "choose a loss from "
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
        kind, shape, about = given.pop("kind"), given.pop("shape"), given.pop("backbone", None)
        backbone = None if about is None else TunableBackbone.restore(about)
        self = cls.of(**{**given, "rate": fraction_of(str(given["rate"])), "backbone": backbone})
        self.kind_, self.shape_, self.backbone_ = kind, shape, backbone
        network = self._build()
        network.load_state_dict(
            {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
        )
        self.network_, self._known = network.to(find_device(self.device)).eval(), {}
        return self

    def _groups(self) -> tuple[Network, Training, Losses]:
        return self.network, self.training, self.losses

    def _setting(self, name: str) -> Any:
        """A setting as it is used: as given, or the default of its kind of features."""
        given = spread(self._groups())[name]
        return (
            (FOR_VECTORS if self.kind_ == "vectors" else PAPERS)[name] if given is None else given
        )

    def _build(self) -> Encoder:
        """The network, not trained."""
        chosen, row, stride = self.network, self.shape_["row"], self._setting("stride")
        if self.kind_ == "vectors":
            sizes = (row, min(chosen.components, row), chosen.dim, self._setting("hidden"))
            return VectorEncoder(*sizes, rate=self.rate, stride=stride, smooth=chosen.smooth)
        embedder = MapEncoder(
            self.shape_.get("channels", row),
            chosen.dim,
            self._setting("hidden"),
            dropout=chosen.dropout,
            context=chosen.context,
            stride=stride,
        )
        if self.backbone_ is None or self.kind_ == "maps":
            return embedder
        return FrameEncoder(copy.deepcopy(self.backbone_), embedder, chosen.chunk)

    def _plan(self, device: torch.device, lengths: Sequence[int]) -> Plan:
        chosen, iterations = self.training, self.training.iterations
        if iterations is None and self.kind_ == "vectors":
            # A network that sees a row too often learns its time by heart: the clock, not the step.
            iterations = min(1_000, math.ceil(10 * sum(lengths) / (chosen.videos * chosen.frames)))
        return Plan(
            learning_rate=self._setting("learning_rate"),
            weight_decay=chosen.weight_decay,
            iterations=iterations or self._setting("iterations"),
            patience=self._setting("patience"),
            tolerance=chosen.tolerance,
            read_every=1 if device.type == "cpu" else 25,
            # A loss of one's own may read values back, and frames are too much to hold still for a
            # recording.
            record=device.type == "cuda" and isinstance(self.loss, str) and self.kind_ != "frames",
        )

    def _embed(self, network: Encoder, rows: Tensor, device: torch.device, batch: Batch) -> Tensor:
        """The embeddings of a batch: (B, T, dim)."""
        count, frames, context = batch.context.shape
        with half_precision(device, self.kind_):
            embedded = network.embed(rows, batch.context.reshape(-1, context), device)
        return embedded.float().view(count, frames, embedded.shape[-1])

    def _terms(self, batch: Batch, embed: Callable[[Batch], Tensor], window: float) -> Terms:
        """The loss of a batch and its parts, soft-DTW per frame, as TCC is.

        The weight of C-IDM, where it is None: 1 for tc3i; for lav and lav+tcc the paper's sums, 0.5
        on T^2 pairs beside a path of T frames, so half the frames (with 0.5 on means the embeddings
        collapse)."""
        u = embed(batch)
        times, durations, real = (
            part.to(u.device, non_blocking=True) for part in batch.parts()[1:]
        )
        if not isinstance(self.loss, str):
            return {"loss": self.loss(u, times, durations, real)}
        mask, count, chosen = real if batch.padded else None, times.shape[1], self.losses
        parts: Terms = {}
        if self.loss != "lav":
            parts["tcc"] = tcc(u, times, mask, chosen.temperature, chosen.variance_weight)
        if self.loss in ("lav", "lav+tcc"):
            u = unit(u)
            parts["soft_dtw"] = alignment(u, times, mask, chosen.gamma) / count
        total = torch.stack(list(parts.values())).sum()
        if self.loss != "tcc":
            frames = FILMED * durations if chosen.gamma_time == "frames" else None
            usual = 1.0 if self.loss == "tc3i" else 0.5 * count
            parts["cidm"] = cidm(u, times, durations, mask, window, chosen.margin, frames)
            total = total + (usual if chosen.weight is None else chosen.weight) * parts["cidm"]
        return {"loss": total, **parts}

    def _learned(self) -> Encoder:
        network: Encoder | None = getattr(self, "network_", None)
        if network is None:
            raise NotLearned("this Embedder has not been fitted. Call fit(features) first.")
        return network

    def _run(self, features: Sequence[NDArray[Any]]) -> str:
        """A fingerprint of the settings and the features: two runs with the same give the same
        weights."""
        seen = {
            each.name: str(getattr(self, each.name))
            for each in fields(self)
            if each.name != "device"
        }
        digest = hashlib.sha256(json.dumps(seen, sort_keys=True).encode())
        for video in features:
            digest.update(f"{video.shape} {video.dtype}".encode() + fingerprint(video)[1])
        return digest.hexdigest()

    def _check(self, features: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Say what is wrong with a setting or with the features; the features as arrays."""
        if not callable(self.loss):
            choose("loss", str(self.loss), dict.fromkeys(LOSSES))
        check_limits(self)
        check_groups(self._groups())
        if self.network.tune_backbone and not isinstance(self.backbone, nn.Module | Mapping):
            raise OptionError(
                f"tune_backbone=true needs a backbone, from frames to maps, and {self.backbone!r} "
                "was given. Add "
                "--backbone resnet50 --weights FILE; in Python backbone=TunableBackbone(graph)."
            )
        checked = check_videos(features, kinds=(2, 4))
        if len(checked) < 2:
            what = "1 video was given; at least 2 are needed, to see what they have in common"
            raise OptionError(f"{what}. Add another video of the same task.")
        return checked
