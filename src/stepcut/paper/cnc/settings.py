"""Settings of the paper's method, in groups, and the values of the published text.

On the command line: `--set loss.NAME=VALUE` for `Losses`, `--set train.NAME=VALUE` for the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from stepcut.errors import OptionError, unknown
from stepcut.plugins import find, is_own
from stepcut.settings import setting

LOSSES = ("tc3i", "tcc", "lav", "lav+tcc", "opel", "rgwot")


@dataclass(frozen=True)
class Network:
    """Settings of the network that embeds a frame.

    Examples
    --------
    >>> Network(dim=64).context
    2
    """

    dim: int = setting(128, "Size of an embedding.", 1, 65_536)
    context: int = setting(2, "Context frames for maps, including the frame itself.", 1)
    stride: float | None = setting(
        None, "Seconds between context frames. None: 0.5 for maps, 2 for vectors.", 0, 3600
    )
    ahead: float | None = setting(
        None,
        "Maps: in training, context frames lie ahead of the frame, so many seconds apart.",
        0,
        3600,
    )
    stride_in_use: float | None = setting(
        None,
        "Maps: seconds between context frames after training, if they differ from `stride`.",
        0,
        3600,
    )
    mix_channels: bool = setting(
        False, "Maps: mix channels and times of the context, as the authors' code does."
    )
    video_norm: bool = setting(
        False, "Divide all embeddings of a video by one norm, that of the whole matrix."
    )
    smooth: float = setting(
        2.0, "Standard deviation of the temporal smoothing of vectors, in seconds.", 0, 3600
    )
    components: int = setting(64, "Number of principal axes that vectors are projected onto.", 1)
    hidden: int | None = setting(
        None, "Width of the hidden layers. None: 256 for maps, 128 for vectors.", 1, 65_536
    )
    dropout: float = setting(0.1, "Dropout of the fully connected layers on maps.", 0, 0.95)
    tune_backbone: bool = setting(False, "Train end to end from frames, including the backbone.")
    chunk: int = setting(64, "With `tune_backbone`: frames per pass through the backbone.", 1)


@dataclass(frozen=True)
class Training:
    """Settings of training: frames per iteration and stopping.

    Examples
    --------
    >>> Training(iterations=500).frames
    32
    """

    videos: int = setting(5, "Videos per iteration; all of them if there are fewer.", 2)
    frames: int = setting(
        32, "Frames of each video per iteration; all of them if there are fewer.", 2, 65_536
    )
    accumulate: int = setting(1, "Batches per iteration, whose gradients are averaged.", 1, 1000)
    learning_rate: float | None = setting(
        None, "None: 1e-4 for maps, 1e-3 for vectors.", 0, above=True
    )
    weight_decay: float = setting(1e-5, "Weight decay of the optimiser.", 0)
    iterations: int | None = setting(
        None, "Maximum iterations. None: 10,000 for maps; for vectors ten passes, at most 1,000.", 1
    )
    patience: int | None = setting(
        None, "Iterations over which the loss is averaged. None: 500 for maps, 200 for vectors.", 1
    )
    tolerance: float = setting(
        0.01, "Stop when the mean loss of `patience` iterations falls by less than this share.", 0
    )


@dataclass(frozen=True)
class Losses:
    """Settings of the losses.

    Examples
    --------
    >>> Losses(window=10).margin
    2.0
    """

    weight: float | None = setting(
        None, "Weight of C-IDM. None: 1; the number of frames for lav and lav+tcc.", 0
    )
    cidm_gradient: bool = setting(
        True, "Whether C-IDM has a gradient; in the authors' code it has none."
    )
    column_norms: bool = setting(
        False, "In the distances of TCC, use |u_j|^2 instead of |u_i|^2, as the authors' code does."
    )
    temperature: float = setting(
        0.1,
        "Temperature of both softmaxes of TCC, on squared distances over the dimension.",
        0,
        above=True,
    )
    variance_weight: float = setting(0.001, "Weight of the log variance in TCC.", 0)
    window: float | None = setting(
        None,
        "C-IDM pulls frames within this many seconds together and pushes others apart. "
        "None: 10, at most a fortieth of the median video, and more than one row.",
        0,
        above=True,
    )
    margin: float = setting(2.0, "Margin of C-IDM.", 0, above=True)
    gamma: float = setting(0.1, "Smoothness of soft-DTW.", 0, above=True)
    gamma_time: Literal["video", "frames"] = setting(
        "video",
        'Time unit of C-IDM: "video" (its length is 1) or "frames" (30 per second, as published).',
    )


GROUPS: dict[str, type[Network] | type[Training] | type[Losses]] = {
    "network": Network,
    "training": Training,
    "losses": Losses,
}
# The group of every setting
HOME = {each.name: group for group, kind in GROUPS.items() for each in fields(kind)}
EXTRA = ("device",)  # Further settings of the embedder that a command line may set


def find_loss(loss: Any) -> Any:
    """A name of `LOSSES`, the function itself, or `package.module:function`."""
    if callable(loss):
        return loss
    if str(loss) in LOSSES:
        return str(loss)
    if is_own(str(loss)):
        return find("loss", loss, {})
    hint = "Or give a custom loss as package.module:function."
    raise unknown("loss", str(loss), LOSSES, hint=hint)


def spelled(name: str) -> str:
    """Spell a setting as on the command line: `train.frames`, `loss.margin`."""
    return f"{'loss' if HOME[name] == 'losses' else 'train'}.{name}"


def gather(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`{"dim": 8}` -> `{"network": Network(dim=8), ...}`."""
    rest = {name: value for name, value in settings.items() if name not in HOME}
    made = {
        group: kind(**{name: settings[name] for name in settings if HOME.get(name) == group})
        for group, kind in GROUPS.items()
    }
    return {**rest, **made}


def spread(groups: Iterable[Any]) -> dict[str, Any]:
    """The inverse of `gather`."""
    return {each.name: getattr(group, each.name) for group in groups for each in fields(group)}


def choose_preset(as_published: bool, as_released: bool) -> str:
    if as_published and as_released:
        what = "as_published and as_released are both set; choose one."
        raise OptionError(what, setting="as_released")
    return "published" if as_published else "released" if as_released else ""


def preset_settings(
    name: str, loss: object, settings: Mapping[str, Any], rate: float, steps: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of embedder and segmenters; docs/paper.md explains each.

    `settings` of the embedder decide the sizes. `rate` is in rows per second, `steps` is K.
    """
    frames = int(settings.get("frames", Training.frames))
    train: dict[str, Any]
    if name == "released":
        iterations = int(settings.get("iterations") or RELEASED_ITERATIONS)
        train = {"videos": 2, "accumulate": 4, "iterations": iterations, "patience": iterations}
        train |= {"window": 10.0, "column_norms": True, "video_norm": True}
        train |= {"ahead": 0.5, "stride_in_use": 15 / rate, "mix_channels": True}
        if loss == "tc3i":  # a sum over T^2 pairs, with the weight of their example
            train |= {"weight": 0.1 * frames**2, "cidm_gradient": False}
        elif loss in ("lav", "lav+tcc"):  # the code of LAV; theirs has none
            train["weight"] = float(frames)
        # 5 |k - l| / K beside 0.2 (1 - u) is 25 |k - l| / K beside 1 - u.
        cut = {"m": 2.0, "restarts": 1, "normalise": False, "states": steps, "solver": "expansion"}
        return train, cut | {"change": "numbers", "smoothness": 25 / rate, "join_videos": True}
    dim = int(settings.get("dim", Network.dim))
    # Plain distances, without dimension or temperature. 0.001 log sigma is 0.0005 log var.
    train = {"temperature": 1 / dim, "variance_weight": 0.0005, "window": 10.0}
    if loss in ("tc3i", "lav", "lav+tcc"):  # sums over T^2 pairs, beside sums over T frames
        unit = "frames" if loss == "tc3i" else "video"
        train |= {"weight": float(frames), "gamma_time": unit}
    # Fuzzy c-means with the usual exponent, unscaled embeddings, links as in the paper's figure
    # (from node 1 to node 5), and alpha-expansion.
    return train, {"m": 2.0, "normalise": False, "solver": "expansion", "window": 4 / rate}


RELEASED_ITERATIONS = 2_500  # 10,000 batches of the authors' code, four per step of the optimiser
_BACKBONE = (
    "training of the backbone: --set train.tune_backbone=true --backbone resnet50 --weights FILE"
)
# What `--as-published` and `--as-released` do not change; docs/paper.md has the whole table
PRESETS = {
    "published": (
        "frames at the rate of the video: use --fps; features are extracted at 2 per second",
        _BACKBONE,
        "pairs of videos: all ordered pairs of 5 videos; --set train.videos=2 uses one pair",
        "batch norm, hidden layers of 256, dropout 0.1: from the authors' code, not in the paper",
        "end of training: not in the paper; --set train.iterations=N sets the limit",
        "states of subset selection: not in the paper; --set cut.states=N",
        "context of a frame: previous frames, in training and in use",
    ),
    "released": (
        "training on frames at the rate of the video: use --fps; their code embeds 2 per second",
        _BACKBONE,
        "frames of 168 x 168, scaled to -1 to 1: here 224 x 224, normalised as for ImageNet",
        "the whole third stage of ResNet-50: use --layer conv4f",
        "places of dropout: also before the convolutions in their code",
        "k-means in mini-batches, and fuzzy c-means without a seed",
    ),
}


def group_settings(
    settings: Mapping[str, Any], cuts: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split settings into those of the embedder (`loss.`, `train.` or none) and of `cuts`."""
    known = [*(f"cut.{name}" for name in sorted(cuts)), *map(spelled, HOME)]
    known += [f"train.{name}" for name in EXTRA]
    train: dict[str, Any] = {}
    cut: dict[str, Any] = {}
    for key, value in settings.items():
        group, dot, name = key.rpartition(".")
        if (key not in known) if dot else (name not in (*HOME, *EXTRA)):
            raise unknown("setting", key, known if dot else [*HOME, *known])
        (cut if group == "cut" else train)[name] = value
    return train, cut
