"""Compare the lengths of features, videos and labels, to notice a wrong feature rate."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from stepcut.errors import AnnotationError, DataError, FeatureError, VideoError
from stepcut.features.contract import Features
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.names import VIDEO_SUFFIXES, match_videos
from stepcut.formats.common import read_text, seconds
from stepcut.timeline import Timeline

TOLERANCE = 0.1
"""Share by which two lengths of one video may differ; more than this is refused."""
SLACK = 1.0
"""Seconds by which lengths may always differ: the last row, frame or label is rounded."""


@dataclass(frozen=True)
class Mismatch:
    """A video whose length differs between the features, or a prediction, and something else."""

    video: str
    seconds: float
    """By the features or the prediction."""
    other: float
    """By the labels, `durations.csv` or the video file."""

    @property
    def share(self) -> float:
        """By which share of the longer one they differ."""
        return abs(self.seconds - self.other) / max(self.seconds, self.other)


def differ(video: str, seconds: float, other: float) -> Mismatch | None:
    """The mismatch of two lengths of a video, or None where they agree within the rounding."""
    return Mismatch(video, seconds, other) if abs(seconds - other) > SLACK else None


def fitting_rate(rate: Fraction, mismatches: Iterable[Mismatch]) -> float:
    """The rate at which features last as long as they should, rounded as people give rates.

    >>> fitting_rate(Fraction(1), [Mismatch("a", 244, 122.3), Mismatch("b", 120, 60)])
    2.0
    """
    exact = float(rate) * float(np.median([one.seconds / one.other for one in mismatches]))
    whole = round(exact)
    return float(whole if whole and abs(exact / whole - 1) < 0.03 else f"{exact:.3g}")


def check_features(features: Sequence[Features], places: Sequence[AnyPath] | None) -> None:
    """Refuse features whose length contradicts `durations.csv` or the videos beside them.

    Features of a video that this program decoded are always right; only given ones are compared.
    Looked at are `durations.csv` and videos of the same name in the folder of the features, the
    folder above it and `videos/` beside it.
    """
    if places is None or any(one.path is not None for one in features):
        return
    known = known_lengths([one.name for one in features], places)
    rate = features[0].rate
    lengths = {one.name: len(one.rows) / float(rate) for one in features}
    compared = [
        differ(name, lengths[name], other) for name, (other, _) in known.items() if other > 0
    ]
    wrong = [one for one in compared if one is not None and one.share > TOLERANCE]
    if wrong:
        first, fit = wrong[0], fitting_rate(rate, wrong)
        raise FeatureError(
            f"{first.video}: its features last {first.seconds:.1f} s at {float(rate):g} rows a second, "
            f"but {known[first.video][1]} lasts {first.other:.1f} s ({len(wrong)} of {len(compared)} "
            f"videos differ by more than 10 %). Give the rate that fits: --rate {fit:g}",
            setting="rate",
            value=rate,
            allowed=fit,
            video=first.video,
        )


def known_lengths(names: Sequence[str], places: Sequence[AnyPath]) -> dict[str, tuple[float, str]]:
    """Seconds of the videos of these `names`, and where that is said, as far as files beside
    `places` say it."""
    local = [path for path in map(as_path, places) if isinstance(path, Path)]
    folders = [path if path.is_dir() else path.parent for path in local]
    near = dict.fromkeys(
        place for one in folders for place in (one, one.parent, one.parent / "videos")
    )
    found: dict[str, tuple[float, str]] = {}
    for folder in near:
        if not folder.is_dir():
            continue
        table = folder / "durations.csv"
        if table.is_file():
            listed = read_durations(folder)
            for name, written in match_videos(names, listed, DataError).items():
                found.setdefault(name, (listed[written], f"{table}"))
        films = {str(path): path for path in _videos_in(folder)}
        for name, film in match_videos(
            [name for name in names if name not in found], films, VideoError
        ).items():
            if (length := video_duration(films[film])) is not None:
                found[name] = (length, film)
    return found


def _videos_in(folder: Path) -> list[Path]:
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in files if path.suffix.lower() in VIDEO_SUFFIXES]


def check_labels(
    found: Mapping[str, Timeline],
    true: Mapping[str, Timeline],
    rate: Fraction | None = None,
    ignore: bool = False,
) -> list[str]:
    """Compare labels with the videos they are about; gives a warning for each small mismatch.

    Labels that end more than 10 % after their video, or that say another length of the video than
    it has, are refused. So are labels of features (`rate`: the rows a second they were said to
    have) that all end early by the same factor: a wrong rate looks like this.

    Parameters
    ----------
    found
        The predicted timelines, by video; their length is that of the video.
    true
        The labels of the same videos.
    rate
        Rows a second, where a person gave it; None where the program read the video itself.
    ignore
        Warn only.

    Raises
    ------
    AnnotationError
        A mismatch above 10 %; with the `rate`, the message has the one that would fit.
    """
    notes = []
    wrong: list[tuple[Mismatch, str]] = []
    shares = []
    for video, timeline in true.items():
        end = found[video].duration
        last = max((segment.end for segment in timeline), default=0.0)
        if not end or last <= 0:  # without a length there is nothing to compare
            continue
        if not timeline.duration:
            shares.append(Mismatch(video, end, last))
        beyond = last > end and differ(video, end, last)
        stated = timeline.duration and differ(video, end, timeline.duration)
        if not (mismatch := beyond or stated or None):
            continue
        what = (
            f"{video}: its labels end at {last:.1f} s, but the video ends at {end:.1f} s"
            if beyond
            else f"{video}: it lasts {mismatch.other:.1f} s in the labels and {end:.1f} s in the prediction"
        )
        if mismatch.share > TOLERANCE:
            wrong.append((mismatch, what))
        notes.append(f"{what}; labels beyond the end count as missed." if beyond else f"{what}.")
    if rate is not None and not wrong and _all_short(shares):
        what = "{0.video}: its labels end at {0.other:.1f} s, but the prediction lasts {0.seconds:.1f} s"
        wrong = [(one, what.format(one)) for one in shares]
        notes.append(f"{wrong[0][1]}; all {len(shares)} videos are like this.")
    if not wrong or ignore:
        return notes
    first, what = wrong[0]
    fit = None if rate is None else fitting_rate(rate, [one for one, _ in wrong])
    advice = (
        "Check that the labels are of this video and in seconds"
        if fit is None
        else f"The features were read at {float(rate or 0):g} rows a second; {fit:g} would fit. "
        f"Learn again with --rate {fit:g}"
    )
    raise AnnotationError(
        f"{what} ({len(wrong)} of {len(true)} videos differ by more than 10 %). {advice}, "
        "or give --ignore-lengths to score them as they are.",
        setting=None if fit is None else "rate",
        value=rate,
        allowed=fit,
        video=first.video,
    )


def _all_short(shares: Sequence[Mismatch]) -> bool:
    """Whether the labels of all videos end early, by about the same factor."""
    ratios = [one.other / one.seconds for one in shares]
    return len(ratios) > 1 and max(ratios) < 1 - TOLERANCE and max(ratios) < 1.25 * min(ratios)


def read_durations(root: Path) -> dict[str, float]:
    """Video name -> seconds, from `durations.csv` or the column `seconds` of `index.csv` in `root`.

    Raises
    ------
    DataError
        A line that is not a name and a length (`path`, `line`).
    """
    path = next(
        (file for file in (root / "durations.csv", root / "index.csv") if file.exists()), None
    )
    try:
        rows = [] if path is None else list(csv.reader(read_text(path).splitlines()))
    except csv.Error as error:
        raise DataError(
            f"{path}: it is not a table ({error}). Correct or remove it.", path=path
        ) from error
    named = bool(rows) and "seconds" in rows[0]
    if path is None or (path.name == "index.csv" and not named):  # it is about something else
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
                    f"{path}, line {line}: {cells[column]!r} is not a length in seconds. Correct it.",
                    path=path,
                    line=line,
                    value=cells[column],
                )
    return lengths


def video_duration(path: Path) -> float | None:
    """The length of a video by its header, without decoding; None where it does not say."""
    from stepcut.features.video.container import open_video, stated_duration

    try:
        with open_video(path, threads=1) as (container, stream):
            length, _ = stated_duration(container, stream)
    except VideoError:
        return None
    return None if length is None else float(length)
