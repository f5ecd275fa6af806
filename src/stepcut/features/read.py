"""What a user hands over (a folder, files, globs, arrays) as a list of features, all of one kind."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepcut.errors import FeatureError, OptionError, VideoError
from stepcut.features.contract import Failure, Features
from stepcut.features.extract import extract
from stepcut.features.files import SUFFIXES as FEATURE_SUFFIXES
from stepcut.features.files import check_alike, check_rows, load_features
from stepcut.features.video.find import SUFFIXES, find_videos, natural
from stepcut.features.video.sample import Rate, as_rate
from stepcut.files.addresses import Address, AnyPath, as_path, files_below
from stepcut.methods.contract import Array
from stepcut.progress import Hook, silent

if TYPE_CHECKING:
    from stepcut.parallel.contract import Engine

Where = TypeVar("Where", Path, Address)
Source = AnyPath | Sequence[AnyPath] | Sequence[Array] | Mapping[str, Array]


def read_source(
    source: Source,
    rate: Rate = 1,
    backbone: Mapping[str, Any] | None = None,
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    engine: Engine | None = None,
    known: Mapping[str, VideoError] | None = None,
) -> tuple[list[Features], list[Failure]]:
    """The features of everything in `source`, and what could not be used.

    `rate` is that of features that do not say it themselves, in rows per second; `backbone` says how videos are seen:
    `name`, `fps`, `weights`, `layer`, `family`, `device`. With an `engine`, its workers see them; `known` holds
    the videos that are known to be bad, by path, with what is wrong with them.
    """
    failures: list[Failure] = []
    places = _places(source)
    if places is None:
        features = _from_arrays(source, rate)
    else:
        given = [feature_files(place) for place in places]
        if all(given) and given:
            features = load_features([file for files in given for file in files], rate)
        elif any(given):
            video = next(place for place, files in zip(places, given, strict=True) if not files)
            held = next(place for place, files in zip(places, given, strict=True) if files)
            raise OptionError(f"{held} holds features and {video} does not; give all of one kind.")
        else:
            features, failures = _from_videos(
                find_videos(places), backbone or {}, cache, strict, progress, engine, known
            )
    return features, failures


def read_like(config: Mapping[str, Any], rate: Fraction, video: Any, progress: Hook = silent) -> Features:
    """The features of one more video, seen as the procedure with this config sees."""
    if isinstance(video, Features):
        features = video
    else:
        source = [video] if isinstance(video, str | os.PathLike | Address) else {"video": video}
        found, failures = read_source(source, rate, config.get("backbone"), strict=True, progress=progress)
        if len(found) != 1:
            raise OptionError(f"{video} holds {len(found)} videos{_reasons(failures)}; give one at a time.")
        features = found[0]
    if features.rate != rate:
        raise FeatureError(f"{features.name}: {features.rate} rows per second; this procedure was learned at {rate}.")
    if list(features.rows.shape[1:]) != config["shape"]:
        seen, wanted = list(features.rows.shape[1:]), config["shape"]
        raise FeatureError(
            f"{features.name}: a row has shape {seen}; this procedure was learned from {wanted}. Use the same backbone."
        )
    return features


def _places(source: Source) -> list[AnyPath] | None:
    """The files and folders that were given; None where arrays were."""
    if isinstance(source, str | os.PathLike | Address):
        return [source]
    if isinstance(source, Mapping):
        return None
    places = [one for one in source if isinstance(one, str | os.PathLike | Address)]
    return places if len(places) == len(source) else None


def _from_arrays(source: Any, rate: Rate) -> list[Features]:
    named = source if isinstance(source, Mapping) else {str(i): one for i, one in enumerate(source)}
    per_second = as_rate(rate, "rate")
    features = []
    for name, one in named.items():
        rows = np.asarray(one)
        check_rows(rows, str(name))
        features.append(Features(rows, per_second, len(rows) / float(per_second), str(name)))
    check_alike(features)
    return features


def _from_videos(
    places: Sequence[Path | Address],
    backbone: Mapping[str, Any],
    cache: AnyPath | None,
    strict: bool,
    progress: Hook,
    engine: Engine | None,
    known: Mapping[str, VideoError] | None,
) -> tuple[list[Features], list[Failure]]:
    from stepcut.features.backbones import load_backbone

    recipe = recipe_of(backbone)
    network = load_backbone(**recipe) if engine is None else engine.backbone(recipe)
    fps = Fraction(backbone.get("fps", 2))
    features, failures = extract(places, network, fps, cache, progress, strict, engine=engine, known=known)
    if not features:
        raise VideoError(f"none of the {len(places)} videos could be used{_reasons(failures)}.")
    return features, failures


def recipe_of(seen: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `load_backbone` for videos that are to be seen as a config says."""
    if seen.get("name") == "vectors":
        raise OptionError(
            "this procedure was learned from given features, and no network is known that makes them of pictures. "
            "Give a feature file (.npy, .npz, .safetensors), or learn it from videos."
        )
    given = {key: seen[key] for key in ("weights", "layer", "family", "device") if seen.get(key) is not None}
    return {"backbone": seen.get("name", "efficientnet-lite0"), **given}


def feature_files(given: AnyPath) -> list[Path] | list[Address]:
    """The feature files that a file, a folder without videos or a glob stands for; none where it stands for videos."""
    path = as_path(given)
    if isinstance(path, Address):
        if not glob.has_magic(str(path)) and path.is_dir():
            held = list(files_below(path))
            return [] if any(file.suffix.lower() in SUFFIXES for file in held) else _only_features(held)
        return _only_features([path])
    if path.is_dir():
        files = sorted(path.iterdir(), key=natural)
        return [] if any(file.suffix.lower() in SUFFIXES for file in files) else _only_features(files)
    if glob.has_magic(str(path)) and not path.exists():
        return _only_features(sorted((Path(match) for match in glob.glob(str(path), recursive=True)), key=natural))
    return _only_features([path])


def _only_features(files: Sequence[Where]) -> list[Where]:
    return [file for file in files if file.suffix.lower() in FEATURE_SUFFIXES]


def _reasons(failures: Sequence[Failure]) -> str:
    return "".join("; " + " ".join(str(failure.error).split()).rstrip(".") for failure in failures)
