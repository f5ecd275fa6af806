"""ELAN `.eaf`: media linked, one tier per annotator (a second where segments overlap), the steps as a vocabulary."""

from __future__ import annotations

import mimetypes
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from stepcut.errors import AnnotationError
from stepcut.files.atomic import write_text
from stepcut.formats.capabilities import UNIT, Keeps, check_writable, kept_name, whole_units
from stepcut.formats.names import VIDEO_SUFFIXES, video_name
from stepcut.formats.options import NONE, Options
from stepcut.formats.tables import build_segment
from stepcut.formats.text import fail, read_text, seconds
from stepcut.timeline import Segment, Timeline

KEEPS = Keeps(times="milli", names="line", instants=False, confidence=False)
PROPOSAL = "stepcut"
"""The annotator of what stepcut itself proposes; a person's tier goes before it when a file has both."""
VOCABULARY, TYPE, LANGUAGE = "steps", "step", "und"


def read_elan(path: Path, options: Options = NONE) -> list[Timeline]:
    """Read the tier of one annotator: the one that is named, or the only person's, or else the proposal."""
    tiers = read_tiers(path)
    if options.annotator is not None:
        if options.annotator not in tiers:
            fail(path, f"no tier of {options.annotator!r}; it has {', '.join(map(repr, tiers))}", "Name one of these")
        return [tiers[options.annotator]]
    people = [name for name, timeline in tiers.items() if name != PROPOSAL and timeline.segments]
    people = people or [name for name in tiers if name == PROPOSAL] or list(tiers)
    if len(people) > 1:
        fail(path, f"has tiers of several annotators: {', '.join(map(repr, people))}", "Say which: annotator=NAME")
    return [tiers[people[0]]]


def write_elan(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    """Write one annotator's tier."""
    (timeline,) = timelines
    write_tiers(path, {options.annotator or PROPOSAL: timeline})


def read_tiers(path: Path) -> dict[str, Timeline]:
    """Annotator -> timeline, for all independent tiers; tiers that depend on another are passed over.

    The annotator is the tier's own attribute or, where that is empty, the tier's name.
    """
    eaf = _parse(path)
    properties = dict(eaf.properties)
    steps = [name for _, entries, _ in eaf.controlled_vocabularies.values() for name in _entry_names(entries)]
    if "stepcut:video" in properties:
        video = properties["stepcut:video"] or ""
    else:
        media = eaf.media_descriptors[0].get("MEDIA_URL", "") if eaf.media_descriptors else path.stem
        video = video_name(unquote(media))
    found: dict[str, list[Segment]] = {}
    for name, (aligned, _, attributes, _) in eaf.tiers.items():
        if attributes.get("PARENT_REF"):
            continue
        segments = found.setdefault(attributes.get("ANNOTATOR") or name, [])
        for annotation, (first, last, text, _) in aligned.items():
            segments.append(_segment(eaf.timeslots, first, last, text, f"{path}, annotation {annotation}"))
    if not found:
        fail(path, "has no tier", "Add one in ELAN and annotate in it")
    length = None
    if properties.get("stepcut:duration"):
        length = seconds(properties["stepcut:duration"])
        if length is None:
            fail(path, f"the length {properties['stepcut:duration']!r} is no time", "Open and save it in ELAN")
    return {name: Timeline(each, length, tuple(dict.fromkeys(steps)), video) for name, each in found.items()}


def write_tiers(path: Path, tiers: Mapping[str, Timeline]) -> None:
    """Write the timelines of several annotators of one video, a tier for each."""
    check_writable(list(tiers.values()), KEEPS, "elan")
    videos = {timeline.video for timeline in tiers.values()}
    if len(videos) != 1:
        raise AnnotationError(f"{path}: an .eaf file is of one video; got {sorted(videos)}. Write a file for each.")
    from pympi.Elan import Eaf, to_string

    eaf = Eaf(author=PROPOSAL)
    _head(eaf, path, next(iter(tiers.values())))
    _vocabulary(eaf, tiers)
    eaf.remove_tier("default", clean=False)
    placed: list[tuple[str, Segment]] = []
    for name, timeline in tiers.items():
        for place, row in enumerate(_rows(timeline)):
            tier = name if place == 0 else f"{name} ({place + 1})"
            eaf.add_tier(tier, ling=TYPE, ann=name)
            placed += [(tier, segment) for segment in row]
    slots = _time_slots(eaf, [segment for _, segment in placed])
    for (tier, segment), (first, last) in zip(placed, slots, strict=True):
        annotation = eaf.generate_annotation_id()
        eaf.annotations[annotation] = tier
        eaf.tiers[tier][0][annotation] = (first, last, kept_name(segment.step, KEEPS), None)
    eaf.properties.append(("lastUsedAnnotationId", str(eaf.maxaid)))
    write_text(path, '<?xml version="1.0" encoding="UTF-8"?>\n' + to_string(eaf) + "\n")


def _head(eaf: Any, path: Path, timeline: Timeline) -> None:
    eaf.adocument["DATE"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
    eaf.header = {"MEDIA_FILE": "", "TIME_UNITS": "milliseconds"}
    eaf.properties = [("stepcut:video", timeline.video)]
    if timeline.duration is not None:
        eaf.properties.append(("stepcut:duration", repr(float(timeline.duration))))
    media = _media(path, timeline.video)
    if media is not None:
        kind = mimetypes.guess_type(media.name)[0] or "video/mp4"
        relative = quote(os.path.relpath(media, path.resolve().parent).replace(os.sep, "/"))
        beside = relative if relative.startswith("..") else f"./{relative}"
        eaf.add_linked_file(media.as_uri(), relpath=beside, mimetype=kind)


def _media(path: Path, video: str) -> Path | None:
    """The video file: as it is named, or of that name beside the `.eaf`; where it is not found, where it should be."""
    if not video:
        return None
    here = path.resolve().parent
    if Path(video).suffix[1:].lower() in VIDEO_SUFFIXES:
        return Path(video).resolve() if Path(video).exists() else (here / video).resolve()
    beside = [here / f"{video}.{suffix}" for suffix in sorted(VIDEO_SUFFIXES)]
    return next((file for file in beside if file.exists()), here / f"{video}.mp4")


def _vocabulary(eaf: Any, tiers: Mapping[str, Timeline]) -> None:
    eaf.add_language(LANGUAGE, "http://cdb.iso.org/lg/CDB-00130975-001", "undetermined (und)")
    eaf.add_controlled_vocabulary(VOCABULARY)
    eaf.add_cv_description(VOCABULARY, LANGUAGE, "the steps of the procedure")
    steps = dict.fromkeys(kept_name(step, KEEPS) for timeline in tiers.values() for step in timeline.steps)
    for place, step in enumerate(steps):
        eaf.add_cv_entry(VOCABULARY, f"step_{place}", [(step, LANGUAGE, None)])
    kind = {"LINGUISTIC_TYPE_ID": TYPE, "TIME_ALIGNABLE": "true", "GRAPHIC_REFERENCES": "false"}
    eaf.linguistic_types = {TYPE: {**kind, "CONTROLLED_VOCABULARY_REF": VOCABULARY}}


def _rows(timeline: Timeline) -> list[list[Segment]]:
    """The segments in as few rows as do not overlap: annotations of one ELAN tier must not."""
    rows: list[list[Segment]] = [[]]
    for segment in timeline:
        start, _ = whole_units(segment, UNIT["milli"], KEEPS.instants)
        for row in rows:
            if not row or whole_units(row[-1], UNIT["milli"], KEEPS.instants)[1] <= start:
                row.append(segment)
                break
        else:
            rows.append([segment])
    return rows


def _time_slots(eaf: Any, segments: Sequence[Segment]) -> list[tuple[str, str]]:
    """Two time slots of its own for each segment, created in the order of time, as ELAN does it."""
    times = [whole_units(segment, UNIT["milli"], KEEPS.instants) for segment in segments]
    ends = sorted((times[i][side], 1 - side, i) for i in range(len(times)) for side in (0, 1))
    slots = {(i, 1 - starts): eaf.generate_ts_id(time) for time, starts, i in ends}
    return [(slots[i, 0], slots[i, 1]) for i in range(len(times))]


def _parse(path: Path) -> Any:
    """Parse a file that is text, is XML, and defines no entities."""
    text = read_text(path)
    declared = re.search(r"<!\s*(DOCTYPE|ENTITY)", text, flags=re.IGNORECASE)
    if declared:
        line = text.count("\n", 0, declared.start()) + 1
        fail(
            path, f"holds <!{declared[1]}; entities are refused, since they can pull in other files", "Remove it", line
        )
    from pympi.Elan import Eaf

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown version of the schema: what is needed here has not changed
            return Eaf(path)
    except Exception as error:  # pympi raises plain Exception, KeyError, IndexError and ValueError for damaged files
        fail(path, f"is not an ELAN file ({error!r})", "Open and save it in ELAN")


def _segment(slots: Mapping[str, int | None], first: str, last: str, text: str, where: str) -> Segment:
    start, end = slots.get(first), slots.get(last)
    if start is None or end is None:
        fail(where, "it is not aligned with time", "Align it in ELAN")
    if not text.strip():
        fail(where, "it has no text", "Choose its step in ELAN, or delete it")
    return build_segment(start / UNIT["milli"], end / UNIT["milli"], " ".join(text.split()), Path(where), None)


def _entry_names(entries: Mapping[str, Any]) -> list[str]:
    return [values[0][0] for values, _ in entries.values() if values and values[0][0]]
