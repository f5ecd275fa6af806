"""ELAN `.eaf`: linked media, one tier per annotator, the steps as a controlled vocabulary."""

import mimetypes
import os
import re
import xml.etree.ElementTree as etree
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape, quoteattr

from stepcut.files.atomic import write_text
from stepcut.files.names import VIDEO_SUFFIXES, video_name
from stepcut.formats.common import (
    MILLI,
    PROPOSAL,
    Options,
    build_segment,
    choose_tier,
    fail,
    need_seconds,
    whole_units,
    without_overlap,
)
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
Tiers = Mapping[str, list[etree.Element]]


def read(content: str, path: Path, options: Options) -> list[Timeline]:
    """Read the tier of one annotator: the option, the only person, or else the prediction.

    The annotator is the attribute of the tier, or its name if the attribute is empty. The name is
    also used for copies of the prediction, and if an annotator has several tiers.
    """
    root = _parse(path, content)
    tiers = _tiers(root, path)
    chosen = tiers[_choose(tiers, options, path)]
    properties = {each.attrib["NAME"]: each.text or "" for each in root.iter("PROPERTY")}
    slots = {each.attrib["TIME_SLOT_ID"]: each.get("TIME_VALUE") for each in root.iter("TIME_SLOT")}
    media = [each.attrib for each in root.iter("MEDIA_DESCRIPTOR")] or [{"MEDIA_URL": path.stem}]
    videos = (each for each in media if each.get("MIME_TYPE", "").startswith("video"))
    linked = next(videos, media[0])
    origin = int(linked.get("TIME_ORIGIN", 0))  # the time in the video at ELAN's time 0
    length = properties.get("stepcut:duration")
    return [
        Timeline(
            [_segment(each, slots, origin, path) for each in _annotations(chosen)],
            need_seconds(length, path) if length else None,
            list(_vocabulary(root, {tier.get("LINGUISTIC_TYPE_REF") for tier in chosen})),
            properties.get("stepcut:video", video_name(unquote(linked["MEDIA_URL"]))),
        )
    ]


def _tiers(root: etree.Element, path: Path) -> Tiers:
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


def _choose(tiers: Tiers, options: Options, path: Path) -> str:
    """Choose the tier by name or annotator, or with `choose_tier`."""
    written = {name: _annotations(each) for name, each in tiers.items()}
    wanted = options.annotator
    mine = [
        name
        for name, (first, *_) in tiers.items()
        if wanted is not None and wanted in (first.get("ANNOTATOR"), first.get("TIER_ID"))
    ]
    if wanted in tiers or not mine:
        return choose_tier(written, options, path)
    mine = [name for name in mine if written[name]] or mine[:1]
    if len(mine) > 1:
        what = f"has several tiers of {wanted!r}: {', '.join(map(repr, mine))}"
        fail(path, what, "Choose one: annotator=NAME")
    return mine[0]


def _annotations(tiers: Sequence[etree.Element]) -> list[etree.Element]:
    return list(chain.from_iterable(tier.iter("ALIGNABLE_ANNOTATION") for tier in tiers))


def _vocabulary(root: etree.Element, types: set[str | None]) -> Iterator[str]:
    """Yield the words that the `types` of the chosen tiers allow."""
    kinds = [
        each for each in root.iter("LINGUISTIC_TYPE") if each.get("LINGUISTIC_TYPE_ID") in types
    ]
    names = {kind.get("CONTROLLED_VOCABULARY_REF") for kind in kinds}
    for vocabulary in root.iter("CONTROLLED_VOCABULARY"):
        if vocabulary.get("CV_ID") in names:
            for tag in ("CV_ENTRY", "CVE_VALUE"):
                yield from (entry.text for entry in vocabulary.iter(tag) if entry.text)


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


def write(path: Path, timelines: Sequence[Timeline], options: Options) -> None:
    """Write a tier without overlaps, and further ones for what overlaps."""
    (timeline,) = timelines
    name = options.annotator or PROPOSAL
    rows = without_overlap([_lasting(segment) for segment in timeline])
    times = [(round(MILLI * s.start), round(MILLI * s.end)) for row in rows for s in row]
    # Slots are sorted by time; at one time, ends precede starts.
    order = sorted(
        (time, 1 - side, n) for n, ends in enumerate(times) for side, time in enumerate(ends)
    )
    slots = {(n, 1 - starts): place for place, (_, starts, n) in enumerate(order, start=1)}
    lines = [HEAD.format(date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00"))]
    lines += [*_header(path, timeline, len(times)), "</HEADER>\n<TIME_ORDER>"]
    lines += [
        f'<TIME_SLOT TIME_SLOT_ID="ts{place}" TIME_VALUE="{time}"/>'
        for place, (time, _, _) in enumerate(order, start=1)
    ]
    lines.append("</TIME_ORDER>")
    number = 0
    for place, row in enumerate(rows, start=1):
        tier = quoteattr(name if place == 1 else f"{name} ({place})")
        lines.append(
            f'<TIER ANNOTATOR={quoteattr(name)} TIER_ID={tier} LINGUISTIC_TYPE_REF="step">'
        )
        for segment in row:
            refs = f'TIME_SLOT_REF1="ts{slots[number, 0]}" TIME_SLOT_REF2="ts{slots[number, 1]}"'
            number += 1
            lines.append(
                f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a{number}" {refs}>'
                f"<ANNOTATION_VALUE>{escape(segment.step)}</ANNOTATION_VALUE>"
                "</ALIGNABLE_ANNOTATION></ANNOTATION>"
            )
        lines.append("</TIER>")
    lines.append(TYPE)
    for place, step in enumerate(timeline.steps):
        value = f'<CVE_VALUE LANG_REF="und">{escape(step)}</CVE_VALUE>'
        lines.append(f'<CV_ENTRY_ML CVE_ID="step_{place}">{value}</CV_ENTRY_ML>')
    lines.append("</CONTROLLED_VOCABULARY>\n</ANNOTATION_DOCUMENT>\n")
    write_text(path, "\n".join(lines))


def _lasting(segment: Segment) -> Segment:
    """Return the segment in whole milliseconds; ELAN needs a length, so a click lasts one."""
    first, last = whole_units(segment, MILLI)
    return replace(segment, start=first / MILLI, end=max(last, first + 1) / MILLI)


def _header(path: Path, timeline: Timeline, annotations: int) -> Iterator[str]:
    """Yield the linked video, and the properties of stepcut."""
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
