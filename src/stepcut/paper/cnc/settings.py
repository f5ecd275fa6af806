"""The settings of the paper's method in groups, and which of them restore the paper's own text; no
torch is needed.

On the command line: `--set loss.NAME=VALUE` for those of `Losses`, `--set train.NAME=VALUE` for the
others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from stepcut.checks import check_limits, limited
from stepcut.errors import OptionError, choose, unknown

LOSSES = ("tc3i", "tcc", "lav", "lav+tcc")


@dataclass(frozen=True)
class Network:
    """What embeds a frame."""

    dim: int = limited(128, 1, 65_536, whole=True)
    """Of an embedding."""
    context: int = limited(2, 1, whole=True)
    """Frames of context for maps, the frame itself included."""
    stride: float | None = limited(None, 0, 3600)
    """Seconds between the frames of context. None: 0.5 for maps, 2 for vectors."""
    smooth: float = limited(2.0, 0, 3600)
    """Vectors are smoothed over time with a Gaussian of so many seconds."""
    components: int = limited(64, 1, whole=True)
    """Vectors are projected on so many principal axes."""
    hidden: int | None = limited(None, 1, 65_536, whole=True)
    """Width of the hidden layers. None: 256 for maps, 128 for vectors."""
    dropout: float = limited(0.1, 0, 0.95)
    """Of the fully connected layers on maps."""
    tune_backbone: bool = False
    """Train end to end from frames, with the backbone as part of the network."""
    chunk: int = limited(64, 1, whole=True)
    """With `tune_backbone`: so many frames go through the backbone at once."""


@dataclass(frozen=True)
class Training:
    """What an iteration sees, and when training ends."""

    videos: int = limited(5, 2, whole=True)
    """Videos in an iteration; all of them when there are fewer."""
    frames: int = limited(32, 2, 65_536, whole=True)
    """Frames of each video in an iteration; all of them when there are fewer."""
    learning_rate: float | None = limited(None, 0, above=True)
    """None: 1e-4 for maps, 1e-3 for vectors."""
    weight_decay: float = limited(1e-5, 0)
    iterations: int | None = limited(None, 1, whole=True)
    """Limit on the iterations. None: 10,000 for maps; for vectors ten passes over the rows, at most
    1,000."""
    patience: int | None = limited(None, 1, whole=True)
    """None: 500 for maps, 200 for vectors."""
    tolerance: float = limited(0.01, 0)
    """Converged when the mean loss of the last `patience` iterations is not `tolerance` lower than
    of those before."""


@dataclass(frozen=True)
class Losses:
    """Of the losses."""

    weight: float | None = limited(None, 0)
    """Of C-IDM in the loss. None: 1 for tc3i, half the frames for lav and lav+tcc, with soft-DTW
    per frame."""
    temperature: float = limited(0.1, 0, above=True)
    """Of both softmaxes of TCC, on squared distances divided by the dimension."""
    variance_weight: float = limited(0.001, 0)
    """Of the logarithm of the variance in TCC."""
    window: float | None = limited(None, 0, above=True)
    """Seconds: frames nearer than this are pulled together by C-IDM, others pushed apart. None: the
    paper's 10, but not more than a fortieth of the median video, and more than one row."""
    margin: float = limited(2.0, 0, above=True)
    """Of C-IDM."""
    gamma: float = limited(0.1, 0, above=True)
    """Smoothness of soft-DTW."""
    gamma_time: str = "video"
    """What C-IDM measures time in: "video" (its length is 1) or "frames" (30 a second, as the paper
    writes it)."""


GROUPS: dict[str, type[Network] | type[Training] | type[Losses]] = {
    "network": Network,
    "training": Training,
    "losses": Losses,
}
HOME = {each.name: group for group, kind in GROUPS.items() for each in fields(kind)}
"""The group of every setting."""


def spelled(name: str) -> str:
    """How the command line spells a setting.

    >>> spelled("frames"), spelled("margin")
    ('train.frames', 'loss.margin')
    """
    return f"{'loss' if HOME[name] == 'losses' else 'train'}.{name}"


def gather(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain settings in their groups, as `Embedder` takes them: `{"dim": 8}` -> `{"network":
    Network(dim=8), ...}`.

    Settings that belong to no group stay beside them.
    """
    rest = {name: value for name, value in settings.items() if name not in HOME}
    made = {
        group: kind(**{name: settings[name] for name in settings if HOME.get(name) == group})
        for group, kind in GROUPS.items()
    }
    return {**rest, **made}


def spread(groups: Iterable[Any]) -> dict[str, Any]:
    """The settings of groups, by name."""
    return {each.name: getattr(group, each.name) for group in groups for each in fields(group)}


def check_groups(groups: Iterable[Any]) -> None:
    """Refuse a setting outside its limits."""
    for group in groups:
        check_limits(group)
    choose("gamma_time", str(spread(groups).get("gamma_time")), {"video": 0, "frames": 0})


def as_published(loss: str, settings: Mapping[str, Any], rate: float) -> tuple[dict[str, Any], ...]:
    """The embedder's and the cut's settings that restore the published text, for a `loss`, given
    other `settings` of the embedder and `rate` rows of features a second.

    TC3I (Bansal et al. 2022) is written as sums: over T frames in TCC and over T^2 pairs in C-IDM,
    so that C-IDM weighs T times its weight on means, with T the frames sampled; its times count
    frames. LAV (Haresh et al. 2021) adds 0.5 C-IDM over T^2 pairs to soft-DTW, and divides times by
    the length of the video."""
    frames = int(settings.get("frames", Training.frames))
    dim = int(settings.get("dim", Network.dim))
    # Distances as they are: neither divided by the dimension nor by a temperature. 0.001 log sigma
    # is 0.0005 log var.
    train: dict[str, Any] = {"temperature": 1 / dim, "variance_weight": 0.0005, "window": 10.0}
    if loss in ("lav", "lav+tcc"):
        train |= {"weight": 0.5 * frames, "gamma_time": "video"}
    elif loss == "tc3i":
        train |= {"weight": float(frames), "gamma_time": "frames"}
    # Fuzzy c-means with its usual exponent, on embeddings as they are, links as far as in the
    # paper's figure (from node 1 to node 5), and alpha-expansion in place of the exact cut.
    cut = {"m": 2.0, "normalise": False, "solver": "expansion", "window": 4 / rate}
    return train, cut


NOT_SET = (
    "frames of the videos at their own rate: use --fps, features are made at 2 a second",
    "a backbone that learns: --set train.tune_backbone=true --backbone resnet50 --weights FILE",
    "pairs of videos: every ordered pair of 5 videos counts; --set train.videos=2 takes one pair",
    "batch norm, hidden layers of 256, dropout 0.1: from the authors' code, not in the paper",
    "when training ends: the paper does not say; --set train.iterations=N sets the limit",
    "states of subset selection: the paper does not give them; --set cut.states=N",
    "context of a frame: it looks back, in training and in use alike",
)
"""What `--as-published` leaves as it is; docs/paper.md has the whole table."""


def group_settings(
    settings: Mapping[str, Any], cuts: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the embedder, and those of the segmenter, from `{"group.name": value}`.

    `cut.` are settings of the segmenters, of which there are `cuts`; `loss.` and `train.` of the
    embedder, also without a group. An unknown one is answered with the nearest name."""
    known = [*(f"cut.{name}" for name in sorted(cuts)), *map(spelled, HOME)]
    train: dict[str, Any] = {}
    cut: dict[str, Any] = {}
    for key, value in settings.items():
        group, dot, name = key.rpartition(".")
        if name == "steps" and group in ("", "train"):
            raise OptionError(
                f"{key}={value!r}: training has iterations; write train.iterations={value!r}."
            )
        if (key not in known) if dot else (name not in HOME):
            raise unknown("setting", key, known if dot else [*HOME, *known])
        (cut if group == "cut" else train)[name] = value
    return train, cut
