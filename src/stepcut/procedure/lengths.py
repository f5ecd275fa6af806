"""Compare the lengths of features, videos and labels, to notice a wrong feature rate."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from stepcut.errors import AnnotationError, DataError, FeatureError, VideoError
from stepcut.features.features import Features
from stepcut.files import AnyPath, as_path
from stepcut.files.names import VIDEO_SUFFIXES, match_videos
from stepcut.formats.common import read_text, seconds
from stepcut.timeline import Timeline

TOLERANCE = 0.1
"""The largest accepted relative difference between two lengths of one video."""
SLACK = 1.0
"""Seconds by which lengths may always differ, because of rounding."""


@dataclass(frozen=True)
class Mismatch:
    video: str
    seconds: float
    """Of the features or the prediction."""
    other: float
    """In the labels, `durations.csv` or the video file."""

    @property
    def share(self) -> float:
        return abs(self.seconds - self.other) / max(self.seconds, self.other)


def differ(video: str, seconds: float, other: float) -> Mismatch | None:
    return Mismatch(video, seconds, other) if abs(seconds - other) > SLACK else None


def fitting_rate(rate: Fraction, mismatches: Iterable[Mismatch]) -> float:
    """Return the rate that corrects the `mismatches`, rounded to a common value."""
    exact = float(rate) * float(np.median([one.seconds / one.other for one in mismatches]))
    whole = round(exact)
    return float(whole if whole and abs(exact / whole - 1) < 0.03 else f"{exact:.3g}")


def check_features(features: Sequence[Features], places: Sequence[AnyPath] | None) -> None:
    if places is None or any(one.path is not None for one in features):
        return
    stated = _known_lengths([one.name for one in features], places)
    rate = features[0].rate
    lengths = {one.name: len(one.rows) / float(rate) for one in features}
    compared = {name: other for name, (other, _) in stated.items() if other > 0}
    pairs = [differ(name, lengths[name], other) for name, other in compared.items()]
    wrong = [one for one in pairs if one is not None and one.share > TOLERANCE]
    if wrong:
        first, fit = wrong[0], fitting_rate(rate, wrong)
        raise FeatureError(
            f"{first.video}: the features last {first.seconds:.1f} s at {float(rate):g} rows per "
            f"second, but {stated[first.video][1]} lasts {first.other:.1f} s ({len(wrong)} of "
            f"{len(compared)} videos differ by more than 10 %). Set the rate: --rate {fit:g}",
            setting="rate",
            value=rate,
            allowed=fit,
            video=first.video,
        )


def _known_lengths(names: Sequence[str], places: Sequence[AnyPath]) -> dict[str, tuple[float, str]]:
    local = [path for path in map(as_path, places) if isinstance(path, Path)]
    folders = [path if path.is_dir() else path.parent for path in local]
    near = dict.fromkeys(
        place for one in folders for place in (one, one.parent, one.parent / "videos")
    )
    found: dict[str, tuple[float, str]] = {}
    for folder in near:
        files: list[Path] = []
        with suppress(OSError):
            files = sorted(folder.iterdir())
        if (table := folder / "durations.csv").is_file():
            listed = read_durations(folder)
            for name, written in match_videos(names, listed, DataError).items():
                found.setdefault(name, (listed[written], f"{table}"))
        videos = [str(path) for path in files if path.suffix.lower() in VIDEO_SUFFIXES]
        missing = [name for name in names if name not in found]
        for name, video in match_videos(missing, videos, VideoError).items():
            if (length := video_duration(Path(video))) is not None:
                found[name] = (length, video)
    return found


def check_lengths(
    found: Mapping[str, Timeline],
    true: Mapping[str, Timeline],
    rate: Fraction | None = None,
    ignore: bool = False,
) -> list[str]:
    """Return warnings; refuse labels over 10 % too long, or all too short by one factor."""
    notes: list[str] = []
    wrong: list[tuple[Mismatch, str]] = []
    shares = []
    for video, timeline in true.items():
        end, stated = found[video].duration, timeline.duration
        last = max((segment.end for segment in timeline), default=0.0)
        if not end or last <= 0:  # without a length there is nothing to compare
            continue
        if not stated:
            shares.append(Mismatch(video, end, last))
        if last > end and (mismatch := differ(video, end, last)):
            what = f"{video}: the labels end at {last:.1f} s, but the video ends at {end:.1f} s"
            notes.append(f"{what}; labels beyond the end count as missed.")
        elif stated and (mismatch := differ(video, end, stated)):
            what = (
                f"{video}: the length is {stated:.1f} s in the labels, but {end:.1f} s in the "
                "prediction"
            )
            notes.append(f"{what}.")
        else:
            continue
        if mismatch.share > TOLERANCE:
            wrong.append((mismatch, what))
    if rate is not None and not wrong and _all_short(shares):
        what = (
            f"{shares[0].video}: the labels end at {shares[0].other:.1f} s, but the prediction at "
            f"{shares[0].seconds:.1f} s"
        )
        wrong = [(one, what) for one in shares]
        notes.append(f"{what}; all {len(shares)} videos differ in this way.")
    elif not wrong and (short := far_too_short(shares)):
        notes.append(short)
    if not wrong or ignore:
        return notes
    fit = None if rate is None else fitting_rate(rate, [one for one, _ in wrong])
    advice = (
        "Check that the labels belong to this video and are in seconds"
        if fit is None
        else f"The features were read at {float(rate or 0):g} rows per second, but {fit:g} fits. "
        f"Learn again with --rate {fit:g}"
    )
    raise AnnotationError(
        f"{wrong[0][1]} ({len(wrong)} of {len(true)} videos differ by more than 10 %). {advice}, "
        "or use --ignore-lengths to score them anyway.",
        setting=None if fit is None else "rate",
        value=rate,
        allowed=fit,
        video=wrong[0][0].video,
    )


def far_too_short(shares: Sequence[Mismatch]) -> str:
    """Labels that end a little earlier are usual: hands rest at the end."""
    if not shares or any(one.other > one.seconds * 2 / 3 for one in shares):
        return ""
    first = shares[0]
    if not _all_short(shares) and first.other > first.seconds / 10:
        return ""
    many = f"of all {len(shares)} videos end" if len(shares) > 1 else f"of {first.video} end"
    return (
        f"the labels {many} early, those of {first.video} at {first.other:.1f} of "
        f"{first.seconds:.1f} s. They may be in minutes, or count frames of another rate; "
        "if so, correct their times or --rate."
    )


def _all_short(shares: Sequence[Mismatch]) -> bool:
    ratios = [one.other / one.seconds for one in shares]
    if len(ratios) < 2 or max(ratios) >= 1 - TOLERANCE:
        return False
    # Hands that rest at the end do so for different times, a wrong rate has one factor.
    return max(ratios) < (1.25 if max(ratios) <= 2 / 3 else 1.03) * min(ratios)


def read_durations(root: Path) -> dict[str, float]:
    files = [file for file in (root / "durations.csv", root / "index.csv") if file.exists()]
    if not files:
        return {}
    path = files[0]
    try:
        rows = list(csv.reader(read_text(path).splitlines()))
    except csv.Error as error:
        raise DataError(
            f"{path}: this is not a table ({error}). Correct or remove it.", path=path
        ) from error
    named = bool(rows) and "seconds" in rows[0]
    if path.name == "index.csv" and not named:
        return {}
    lengths = {}
    column = rows[0].index("seconds") if named else 1
    for line, cells in enumerate(rows, start=1):
        if len(cells) > column:
            length = seconds(cells[column])
            if length is not None and length > 0:
                lengths[cells[0].strip()] = length
            elif line > 1 or length is not None:  # the first line may be a header
                raise DataError(
                    f"{path}, line {line}: {cells[column]!r} is not a length in seconds; fix it.",
                    path=path,
                    line=line,
                    value=cells[column],
                )
    return lengths


def video_duration(path: Path) -> float | None:
    from stepcut.features.video.container import probe

    try:
        return probe(path).duration
    except VideoError:
        return None
