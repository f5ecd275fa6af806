"""ELAN `.eaf`: linked media, one tier per annotator, the steps as a controlled vocabulary."""

import mimetypes
import os
import re
import xml.etree.ElementTree as etree
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape, quoteattr

from stepcut.errors import AnnotationError
from stepcut.files.atomic import write_text
from stepcut.files.names import VIDEO_SUFFIXES, video_name
from stepcut.formats.common import (
    MILLI,
    NONE,
    PROPOSAL,
    Options,
    build_segment,
    choose_tier,
    need_seconds,
    whole_units,
    without_overlap,
)
from stepcut.formats.text import fail, read_text
from stepcut.timeline import Segment, Timeline

MORE = re.compile(r"(.+) \(\d+\)")
"""Further tiers of an annotator, for overlapping segments."""
HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="stepcut" DATE="{date}" FORMAT="2.8" VERSION="2.8"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv2.8.xsd">
<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">"""
TYPE = """<LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID="step" TIME_ALIGNABLE="true"
 CONTROLLED_VOCABULARY_REF="steps"/>
<LANGUAGE LANG_ID="und" LANG_DEF="http://cdb.iso.org/lg/CDB-00130975-001" LANG_LABEL="undetermined (und)"/>
<CONTROLLED_VOCABULARY CV_ID="steps"><DESCRIPTION LANG_REF="und">the steps of the procedure</DESCRIPTION>"""


def read(content: str, path: Path, options: Options = NONE) -> list[Timeline]:
    """Read the tier of one annotator: the option, the only person, or else the prediction."""
    root = _parse(path, content)
    tiers = _tiers(root, path)
    chosen = _choose(tiers, options, path)
    # Errors in other tiers do not matter.
    return list(_timelines(root, {chosen: tiers[chosen]}, path).values())


def write(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    (timeline,) = timelines
    write_tiers(path, {options.annotator or PROPOSAL: timeline})


def read_tiers(path: Path) -> dict[str, Timeline]:
    """Return the timelines of all independent tiers of the file at `path`, by annotator.

    The steps are the vocabulary of the tier's type. The annotator is the attribute of the tier, or
    its name if the attribute is empty. The name is also used for copies of the prediction, and if
    an annotator has several tiers.
    """
    root = _parse(path, read_text(path))
    return _timelines(root, _tiers(root, path), path)


def _tiers(root: etree.Element, path: Path) -> dict[str, list[etree.Element]]:
    """Return the independent tiers by annotator; "ann (2)" belongs to "ann"."""
    tiers = root.iter("TIER")
    free = {each.attrib["TIER_ID"]: each for each in tiers if each.get("PARENT_REF") is None}
    if not free:
        fail(path, "has no tier", "Add one in ELAN and annotate in it")
    found: dict[str, list[etree.Element]] = {}
    whose: dict[str, str] = {}
    for name, tier in free.items():
        more, who = MORE.fullmatch(name), tier.get("ANNOTATOR")
        goes_on = more and more[1] in free and free[more[1]].get("ANNOTATOR") == who
        base = more[1] if more and goes_on else name
        copied = who == PROPOSAL and PROPOSAL not in (name, more and more[1])
        found.setdefault(base, []).append(tier)
        whose[base] = base if copied or not who else who
    count = Counter([*whose.values(), *(name for name in found if name != whose[name])])
    return {whose[name] if count[whose[name]] == 1 else name: each for name, each in found.items()}


def _choose(tiers: Mapping[str, list[etree.Element]], options: Options, path: Path) -> str:
    """Choose the tier by name or annotator, or with `choose_tier`."""
    written = {
        name: [a for tier in each for a in tier.iter("ALIGNABLE_ANNOTATION")]
        for name, each in tiers.items()
    }
    wanted = options.annotator
    if wanted is None or wanted in tiers:
        return choose_tier(written, options, path)
    mine = [
        name
        for name, each in tiers.items()
        if wanted in (each[0].get("ANNOTATOR"), each[0].get("TIER_ID"))
    ]
    mine = [name for name in mine if written[name]] or mine[:1]
    if len(mine) > 1:
        what = f"has several tiers of {wanted!r}: {', '.join(map(repr, mine))}"
        fail(path, what, "Choose one: annotator=NAME")
    return mine[0] if mine else choose_tier(written, options, path)


def _timelines(
    root: etree.Element, tiers: Mapping[str, list[etree.Element]], path: Path
) -> dict[str, Timeline]:
    properties = {each.attrib["NAME"]: each.text or "" for each in root.iter("PROPERTY")}
    slots = {each.attrib["TIME_SLOT_ID"]: each.get("TIME_VALUE") for each in root.iter("TIME_SLOT")}
    media = [each.attrib for each in root.iter("MEDIA_DESCRIPTOR")] or [{"MEDIA_URL": path.stem}]
    videos = (each for each in media if each.get("MIME_TYPE", "").startswith("video"))
    linked = next(videos, media[0])
    origin = int(linked.get("TIME_ORIGIN", 0))  # the time in the video at ELAN's time 0
    words = {
        each.get("CV_ID"): [
            entry.text
            for tag in ("CV_ENTRY", "CVE_VALUE")
            for entry in each.iter(tag)
            if entry.text
        ]
        for each in root.iter("CONTROLLED_VOCABULARY")
    }
    allowed = {
        each.get("LINGUISTIC_TYPE_ID"): words.get(each.get("CONTROLLED_VOCABULARY_REF"), [])
        for each in root.iter("LINGUISTIC_TYPE")
    }
    length = properties.get("stepcut:duration")
    duration = need_seconds(length, path) if length else None
    video = properties.get("stepcut:video", video_name(unquote(linked["MEDIA_URL"])))
    found = {}
    for name, each in tiers.items():
        steps = dict.fromkeys(
            step for tier in each for step in allowed.get(tier.get("LINGUISTIC_TYPE_REF"), [])
        )
        written = (a for tier in each for a in tier.iter("ALIGNABLE_ANNOTATION"))
        segments = [_segment(a, slots, origin, path) for a in written]
        found[name] = Timeline(segments, duration, list(steps), video)
    return found


def write_tiers(path: Path, tiers: Mapping[str, Timeline]) -> None:
    """Write `tiers`, the timelines of several annotators of one video, to `path`."""
    videos = {timeline.video for timeline in tiers.values()}
    if len(videos) != 1:
        raise AnnotationError(
            f"{path}: an .eaf file stores one video, not {sorted(videos)}. Write one file each.",
            path=path,
        )
    rows = [
        (name if place == 0 else f"{name} ({place + 1})", name, row)
        for name, timeline in tiers.items()
        for place, row in enumerate(without_overlap(_lasting(timeline)))
    ]
    times = [[round(MILLI * t) for t in (s.start, s.end)] for _, _, row in rows for s in row]
    ends = sorted((times[i][side], 1 - side, i) for i in range(len(times)) for side in (0, 1))
    slots = {(i, 1 - starts): place for place, (_, starts, i) in enumerate(ends, start=1)}
    steps = dict.fromkeys(step for timeline in tiers.values() for step in timeline.steps)
    lines = [HEAD.format(date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00"))]
    lines += _header(path, next(iter(tiers.values())), len(times))
    lines.append("</HEADER>\n<TIME_ORDER>")
    lines += [
        f'<TIME_SLOT TIME_SLOT_ID="ts{i}" TIME_VALUE="{time}"/>'
        for i, (time, _, _) in enumerate(ends, start=1)
    ]
    lines.append("</TIME_ORDER>")
    number = 0
    for tier, annotator, row in rows:
        who = f"ANNOTATOR={quoteattr(annotator)} TIER_ID={quoteattr(tier)}"
        lines.append(f'<TIER {who} LINGUISTIC_TYPE_REF="step">')
        for segment in row:
            place = f'TIME_SLOT_REF1="ts{slots[number, 0]}" TIME_SLOT_REF2="ts{slots[number, 1]}"'
            value = escape(segment.step)
            number += 1
            lines.append(
                f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a{number}" {place}>'
                f"<ANNOTATION_VALUE>{value}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>"
            )
        lines.append("</TIER>")
    lines.append(TYPE)
    for i, step in enumerate(steps):
        value = f'<CVE_VALUE LANG_REF="und">{escape(step)}</CVE_VALUE>'
        lines.append(f'<CV_ENTRY_ML CVE_ID="step_{i}">{value}</CV_ENTRY_ML>')
    lines.append("</CONTROLLED_VOCABULARY>\n</ANNOTATION_DOCUMENT>\n")
    write_text(path, "\n".join(lines))


def _lasting(timeline: Timeline) -> list[Segment]:
    """Return the segments in whole milliseconds; ELAN needs a length, so a click lasts one."""
    found = []
    for segment in timeline:
        first, last = whole_units(segment, MILLI)
        found.append(Segment(first / MILLI, max(last, first + 1) / MILLI, segment.step))
    return found


def _header(path: Path, timeline: Timeline, annotations: int) -> Iterator[str]:
    """The linked video, and the properties of stepcut."""
    media = _media(path, timeline.video)
    if media is not None:
        kind = mimetypes.guess_type(media.name)[0] or "video/mp4"
        relative = quote(media.name)  # ELAN also looks beside the .eaf
        with suppress(ValueError):  # another drive on Windows
            near = quote(os.path.relpath(media, path.resolve().parent).replace(os.sep, "/"))
            relative = relative if near.startswith("../..") else near
        beside = relative if relative.startswith("..") else f"./{relative}"
        where = media.as_uri() if media.exists() else beside
        links = f"MEDIA_URL={quoteattr(where)} RELATIVE_MEDIA_URL={quoteattr(beside)}"
        yield f'<MEDIA_DESCRIPTOR {links} MIME_TYPE="{kind}"/>'
    video = Path(timeline.video)
    name = "/".join(video.parts[-2:]) if video.is_absolute() else timeline.video
    yield f'<PROPERTY NAME="stepcut:video">{escape(name)}</PROPERTY>'
    if timeline.duration is not None:
        yield f'<PROPERTY NAME="stepcut:duration">{float(timeline.duration)!r}</PROPERTY>'
    yield f'<PROPERTY NAME="lastUsedAnnotationId">{annotations}</PROPERTY>'


def _media(path: Path, video: str) -> Path | None:
    """Find the video file by its name or beside the `.eaf`; otherwise return its likely path."""
    if not video:
        return None
    here = path.resolve().parent
    if Path(video).suffix.lower() in VIDEO_SUFFIXES:
        return Path(video).resolve() if Path(video).exists() else (here / video).resolve()
    beside = [here / f"{video}{suffix}" for suffix in sorted(VIDEO_SUFFIXES)]
    return next((file for file in beside if file.exists()), here / f"{video}.mp4")


def _parse(path: Path, text: str) -> etree.Element:
    """Parse an ELAN file; refuse entity definitions."""
    declared = re.search(r"<!\s*(DOCTYPE|ENTITY)", text, flags=re.IGNORECASE)
    if declared:
        line = text.count("\n", 0, declared.start()) + 1
        what = f"contains <!{declared[1]}, which can include other files and is not allowed"
        fail(path, what, "Remove it", line)
    try:
        root = etree.fromstring(text)
    except etree.ParseError as error:
        fail(path, f"is not an ELAN file ({error})", "Open and save it in ELAN")
    if root.tag != "ANNOTATION_DOCUMENT":
        what = f"is XML, but not an ELAN file (<{root.tag[:40]}>)"
        fail(path, what, "Open and save it in ELAN")
    return root


def _segment(
    annotation: etree.Element, slots: Mapping[str, str | None], origin: int, path: Path
) -> Segment:
    where = f"{path}, annotation {annotation.get('ANNOTATION_ID')}"
    start, end = (slots.get(annotation.attrib[f"TIME_SLOT_REF{side}"]) for side in (1, 2))
    if start is None or end is None:
        fail(where, "has no times", "Align it in ELAN")
    text = " ".join((annotation.findtext("ANNOTATION_VALUE") or "").split())
    first, last = ((int(time) + origin) / MILLI for time in (start, end))
    return build_segment(first, last, text, where)
