"""The embedder: learn an embedding in which the same step of different videos is close."""

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

from stepcut.errors import NotLearned, OptionError
from stepcut.methods.inputs import check_videos, fingerprint, plain_numbers
from stepcut.paper.cnc.losses import loss_terms
from stepcut.paper.cnc.network import (
    Encoder,
    MapEncoder,
    VectorEncoder,
    find_device,
    half_precision,
    put_together,
)
from stepcut.paper.cnc.settings import LOSSES, Losses, Network, Training, find_loss, gather, spread
from stepcut.paper.cnc.training import Batch, Plan, Terms, context_rows, draw, train
from stepcut.paper.cnc.tune import FrameEncoder, TunableBackbone, as_pictures, load_tunable
from stepcut.progress import Hook, silent
from stepcut.settings import SEEDS, build, check_fields, fraction_of, setting

# A custom loss: a function of embeddings (B, T, d), times (B, T), durations (B,), mask (B, T)
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

PAPERS: dict[str, Any] = {"learning_rate": 1e-4, "stride": 0.5, "patience": 500, "hidden": 256}
PAPERS["iterations"] = 10_000
# Defaults of settings left at None, for maps and frames (those of the paper), and for vectors
FOR_VECTORS: dict[str, Any] = {"learning_rate": 1e-3, "stride": 2.0, "patience": 200, "hidden": 128}


@dataclass
class Embedder:
    """Learn an embedding from the features of several videos of one task, without labels.

    The same seed gives the same numbers on one machine. `Embedder.of` takes all settings as
    keywords.

    Examples
    --------
    >>> features = [np.random.default_rng(i).normal(size=(40, 8)) for i in range(3)]
    >>> embedder = Embedder(network=Network(dim=4), training=Training(iterations=5))
    >>> embedder.fit(features).transform(features)[0].shape
    (40, 4)
    """

    loss: str | Loss = setting(
        "tc3i",
        "`tc3i`, `tcc`, `lav`, `lav+tcc`, `opel`, `rgwot`, or a custom function, also as `package.module:function`.",
    )
    rate: float | Fraction = setting(1.0, "Feature rows per second.", 0, above=True)
    seed: int = setting(0, "Seed of the initial weights and of the sampled frames.", 0, SEEDS)
    network: Network = field(default_factory=Network)
    training: Training = field(default_factory=Training)
    losses: Losses = field(default_factory=Losses)
    backbone: nn.Module | Mapping[str, Any] | None = setting(
        None,
        "With `tune_backbone`: a module from frames `(n, H, W, 3)` to maps `(n, C, h, w)`, or the "
        'settings of a network: `{"backbone": "resnet50", "weights": FILE}`.',
    )
    device: str | None = setting(None, "`cpu` or `cuda`. None uses the GPU if there is one.")

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Make an embedder from arguments of `Embedder` and fields of its groups as keywords."""
        return build(cls, gather(plain_numbers(settings)))

    def fit(
        self,
        features: Sequence[NDArray[Any]],
        progress: Hook = silent,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on vectors `(T, d)` or maps `(T, C, h, w)` of at least two videos of one task; the
        file `checkpoint` stores the state of training, and the same call resumes."""
        features = self._check(features)
        device = find_device(self.device)
        tuned = self.network.tune_backbone
        self.kind_ = "frames" if tuned else "maps" if features[0].ndim == 4 else "vectors"
        self._embedded: dict[Any, NDArray[np.float32]] = {}
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
            # Ten seconds of a one-minute video span several steps, which C-IDM would join.
            rate = float(self.rate)
            part = min(10.0, float(np.median(lengths)) / rate / 40)
            window = self.losses.window or max(part, 1.5 / rate)
            run = "" if checkpoint is None else self._run(features)
            sample = partial(
                draw,
                lengths=lengths,
                videos=self.training.videos,
                frames=self.training.frames,
                offsets=network.trained_on,
                rate=self.rate,
            )
            measure = partial(self._terms, embed=embed, window=window)
            plan = self._plan(device, lengths)
            self.curve_ = train(
                network, sample, measure, plan, self.seed, run, progress, checkpoint
            )
        self.network_ = network
        if self.kind_ == "frames":  # running the backbone again takes long
            self._embedded = {fingerprint(video): self._embed_video(video) for video in features}
        return self

    def transform(self, features: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Embed vectors `(T, d)` or maps `(T, C, h, w)` of videos: `(T, dim)` for each."""
        self._learned()
        kinds = (2 if self.kind_ == "vectors" else 4,)
        videos = check_videos(features, self.shape_["row"], kinds)
        names = [fingerprint(video) if self._embedded else None for video in videos]
        return [
            self._embedded[name] if name in self._embedded else self._embed_video(video)
            for name, video in zip(names, videos, strict=True)
        ]

    def _embed_video(self, video: NDArray[Any]) -> NDArray[np.float32]:
        network = self._learned()
        device = next(network.parameters()).device
        rows, count = network.store(video, device).to(device), len(video)
        context = context_rows(np.arange(count), count, network.offsets, self.rate)
        places = torch.from_numpy(context)
        with torch.inference_mode(), half_precision(device, self.kind_):
            parts = [network.embed(rows, part, device) for part in torch.split(places, 512)]
        embedded: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        norm = float(np.linalg.norm(embedded)) if self.network.video_norm else 1.0
        return embedded / np.float32(norm or 1.0)

    def settings(self) -> dict[str, Any]:
        """All settings and the shape of the features, ready for JSON and `restore`."""
        self._learned()
        saved: dict[str, Any] = {"loss": self.loss, "seed": self.seed, **spread(self._groups())}
        saved["rate"] = str(Fraction(self.rate).limit_denominator(10**6))
        if isinstance(self.backbone_, TunableBackbone):
            saved["backbone"] = self.backbone_.settings()  # the weights are in state()
        custom = [] if isinstance(self.loss, str) else [f"loss={self.loss!r}"]
        if self.backbone_ is not None and "backbone" not in saved:
            custom.append(f"backbone={self.backbone!r}")
        if custom:
            raise OptionError(
                f"{custom[0]} is custom code, which cannot be saved. Choose a loss from "
                f"{', '.join(LOSSES)}; tune a stepcut.paper.cnc.tune.TunableBackbone(graph).",
                setting=custom[0].partition("=")[0],
            )
        return {**saved, "kind": self.kind_, "shape": self.shape_}

    def state(self) -> dict[str, NDArray[Any]]:
        return {name: value.cpu().numpy() for name, value in self._learned().state_dict().items()}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> Self:
        saved = dict(settings)
        kind, shape, about = saved.pop("kind"), saved.pop("shape"), saved.pop("backbone", None)
        backbone = None if about is None else TunableBackbone.restore(about)
        self = cls.of(**{**saved, "rate": fraction_of(str(saved["rate"])), "backbone": backbone})
        self.kind_, self.shape_, self.backbone_ = kind, shape, backbone
        network = self._build()
        arrays = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
        network.load_state_dict(arrays)
        self.network_, self._embedded = network.to(find_device(self.device)).eval(), {}
        return self

    def _groups(self) -> tuple[Network, Training, Losses]:
        return self.network, self.training, self.losses

    def _setting(self, name: str) -> Any:
        """A setting, or its default for this kind of features."""
        value = spread(self._groups())[name]
        defaults = FOR_VECTORS if self.kind_ == "vectors" else PAPERS
        return defaults[name] if value is None else value

    def _build(self) -> Encoder:
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
            stride=stride if chosen.stride_in_use is None else chosen.stride_in_use,
            trained_stride=stride if chosen.ahead is None else -chosen.ahead,
            mixed=chosen.mix_channels,
        )
        if self.backbone_ is None or self.kind_ == "maps":
            return embedder
        return FrameEncoder(copy.deepcopy(self.backbone_), embedder, chosen.chunk)

    def _plan(self, device: torch.device, lengths: Sequence[int]) -> Plan:
        chosen, iterations = self.training, self.training.iterations
        if iterations is None and self.kind_ == "vectors":
            # A network that sees a row too often memorizes its time instead of the step.
            iterations = min(1_000, math.ceil(10 * sum(lengths) / (chosen.videos * chosen.frames)))
        return Plan(
            learning_rate=self._setting("learning_rate"),
            weight_decay=chosen.weight_decay,
            iterations=iterations or self._setting("iterations"),
            patience=self._setting("patience"),
            tolerance=chosen.tolerance,
            read_every=1 if device.type == "cpu" else 25,
            accumulate=chosen.accumulate,
            # A custom loss may read values back; frames do not fit in a CUDA graph.
            record=device.type == "cuda"
            and isinstance(self.loss_, str)
            and self.kind_ != "frames"
            and chosen.accumulate == 1,
        )

    def _embed(self, network: Encoder, rows: Tensor, device: torch.device, batch: Batch) -> Tensor:
        count, frames, context = batch.context.shape
        with half_precision(device, self.kind_):
            embedded = network.embed(rows, batch.context.reshape(-1, context), device)
        return embedded.float().view(count, frames, embedded.shape[-1])

    def _terms(self, batch: Batch, embed: Callable[[Batch], Tensor], window: float) -> Terms:
        u = embed(batch)
        here = (part.to(u.device, non_blocking=True) for part in batch.parts()[1:])
        times, durations, real = here
        if not isinstance(self.loss_, str):
            return {"loss": self.loss_(u, times, durations, real)}
        mask = real if batch.padded else None
        return loss_terms(self.loss_, u, times, durations, mask, self.losses, window)

    def _learned(self) -> Encoder:
        network: Encoder | None = getattr(self, "network_", None)
        if network is None:
            raise NotLearned("this Embedder has not been fitted. Call fit(features) first.")
        return network

    def _run(self, features: Sequence[NDArray[Any]]) -> str:
        """Fingerprint of settings and features: equal fingerprints give equal weights."""
        names = [each.name for each in fields(self) if each.name != "device"]
        seen = {name: str(getattr(self, name)) for name in names}
        digest = hashlib.sha256(json.dumps(seen, sort_keys=True).encode())
        for video in features:
            digest.update(f"{video.shape} {video.dtype}".encode() + fingerprint(video)[1])
        return digest.hexdigest()

    def _check(self, features: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        self.loss_ = find_loss(self.loss)
        check_fields(self)
        for group in self._groups():
            check_fields(group)
        if self.network.tune_backbone and not isinstance(self.backbone, nn.Module | Mapping):
            why = (
                f"tune_backbone=true needs a backbone; backbone={self.backbone!r}. Add "
                "--backbone resnet50 --weights FILE; in Python backbone=TunableBackbone(graph)."
            )
            raise OptionError(why, setting="backbone", value=self.backbone)
        checked = check_videos(features, kinds=(2, 4))
        if len(checked) < 2:
            why = "training needs at least 2 videos, not 1. Add another video of the same task."
            raise OptionError(why, setting="features", value=1, allowed=2)
        return checked
