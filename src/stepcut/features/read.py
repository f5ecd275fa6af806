"""What a user hands over (a folder, files, globs, arrays) as a list of features, all of one kind."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from stepcut.errors import FeatureError, OptionError, VideoError
from stepcut.features.backbones.contract import Backbone
from stepcut.features.contract import Failure, Features, check_alike, check_rows
from stepcut.features.extract import extract
from stepcut.features.files import load_features
from stepcut.features.find import feature_files, find_videos
from stepcut.features.spec import DEFAULT, FeatureSpec, need_spec
from stepcut.files.addresses import Address, AnyPath
from stepcut.parallel.contract import Engine
from stepcut.progress import Hook, silent
from stepcut.rate import Rate, as_rate

Array = NDArray[Any]
Source = AnyPath | Sequence[AnyPath] | Sequence[Array] | Mapping[str, Array]


def read_source(
    source: Source,
    rate: Rate = 1,
    spec: FeatureSpec | None = DEFAULT,
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    engine: Engine | None = None,
    device: str = "auto",
    backbone: Backbone | None = None,
) -> tuple[list[Features], list[Failure]]:
    """The features of everything in `source`, and what could not be used.

    source    a folder, files, globs or addresses of videos, or of feature files; or arrays, as a list or by name
    rate      rows per second of features that do not say it themselves
    spec      how features are made of videos; None: they cannot be, the procedure was learned from given features
    cache     where features of videos are kept
    strict    stop at the first video that cannot be used
    progress  hears how far the work is
    engine    whose workers compute; left out, this process does
    device    auto, cpu or cuda
    backbone  the network itself, where it is at hand
    """
    failures: list[Failure] = []
    places = find_places(source)
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
            videos = find_videos(places)
            spec = need_spec(spec)
            features, failures = extract(videos, backbone or spec, spec.fps, cache, progress, strict, device, engine)
            if not features:
                raise VideoError(f"none of the {len(videos)} videos could be used{_reasons(failures)}.")
    return features, failures


def read_like(
    video: Any,
    rate: Fraction,
    shape: Sequence[int],
    spec: FeatureSpec | None,
    device: str = "auto",
    progress: Hook = silent,
) -> Features:
    """The features of one more video, made as those that a procedure was learned from.

    video     a video, a feature file, an array, or features
    rate      rows per second that the procedure was learned at
    shape     the shape of a row that it was learned from
    spec      how its features were made; None where they were given
    device    auto, cpu or cuda
    progress  hears how far the work is
    """
    if isinstance(video, Features):
        features = video
    else:
        source = [video] if isinstance(video, str | os.PathLike | Address) else {"video": video}
        found, failures = read_source(source, rate, spec, strict=True, progress=progress, device=device)
        if len(found) != 1:
            raise OptionError(f"{video} holds {len(found)} videos{_reasons(failures)}; give one at a time.")
        features = found[0]
    if features.rate != rate:
        raise FeatureError(f"{features.name}: {features.rate} rows per second; this procedure was learned at {rate}.")
    if list(features.rows.shape[1:]) != list(shape):
        raise FeatureError(
            f"{features.name}: a row has shape {list(features.rows.shape[1:])}; this procedure was learned from "
            f"{list(shape)}. Use the same backbone."
        )
    return features


def find_places(source: Source) -> list[AnyPath] | None:
    """The files and folders that a `source` names; None where it is arrays."""
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
        rows = check_rows(one, str(name))
        features.append(Features(rows, per_second, len(rows) / float(per_second), str(name)))
    check_alike(features)
    return features


def _reasons(failures: Sequence[Failure]) -> str:
    return "".join("; " + " ".join(str(failure.error).split()).rstrip(".") for failure in failures)
