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

from stepcut.files.names import VIDEO_SUFFIXES, video_name
from stepcut.formats.common import (
    MILLI,
    PROPOSAL,
    Options,
    build_segment,
    choose_tier,
    flaw,
    need_seconds,
    whole_units,
    without_overlap,
)
from stepcut.timeline import Segment, Timeline

MORE = re.compile(r"(.+) \(\d+\)")  # further tiers of an annotator, for overlapping segments
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


def read(text: str, options: Options) -> Timeline:
    """Read the tier of one annotator: the option, the only person, or else the prediction.

    The annotator is the attribute of the tier, or its name if the attribute is empty, for copies
    of the prediction, and if an annotator has several tiers.
    """
    root = _parse(text)
    tiers = _tiers(root)
    chosen = tiers[_choose(tiers, options)]
    properties = {each.attrib["NAME"]: each.text or "" for each in root.iter("PROPERTY")}
    slots = {each.attrib["TIME_SLOT_ID"]: each.get("TIME_VALUE") for each in root.iter("TIME_SLOT")}
    media = [each.attrib for each in root.iter("MEDIA_DESCRIPTOR")]
    videos = (each for each in media if each.get("MIME_TYPE", "").startswith("video"))
    linked = next(videos, media[0] if media else {"MEDIA_URL": options.path.stem})
    origin = int(linked.get("TIME_ORIGIN", 0))  # the time in the video at ELAN's time 0
    length = properties.get("stepcut:duration")
    return Timeline(
        [_segment(each, slots, origin) for each in _annotations(chosen)],
        need_seconds(length) if length else None,
        list(_vocabulary(root, {tier.get("LINGUISTIC_TYPE_REF") for tier in chosen})),
        properties.get("stepcut:video", video_name(unquote(linked["MEDIA_URL"]))),
    )


def _tiers(root: etree.Element) -> Tiers:
    """Return the independent tiers by annotator; "ann (2)" belongs to "ann"."""
    tiers = root.iter("TIER")
    free = {each.attrib["TIER_ID"]: each for each in tiers if each.get("PARENT_REF") is None}
    if not free:
        raise flaw("has no tier", "Add one in ELAN and annotate in it")
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


def _choose(tiers: Tiers, options: Options) -> str:
    written = {name: _annotations(each) for name, each in tiers.items()}
    wanted = options.annotator
    ids = {name: (tier[0].get("ANNOTATOR"), tier[0].get("TIER_ID")) for name, tier in tiers.items()}
    mine = [name for name in tiers if wanted is not None and wanted in ids[name]]
    if wanted in tiers or not mine:
        return choose_tier(written, options)
    mine = [name for name in mine if written[name]] or mine[:1]
    if len(mine) > 1:
        what = f"has several tiers of {wanted!r}: {', '.join(map(repr, mine))}"
        raise flaw(what, "Choose one: annotator=NAME")
    return mine[0]


def _annotations(tiers: Sequence[etree.Element]) -> list[etree.Element]:
    return [each for tier in tiers for each in tier.iter("ALIGNABLE_ANNOTATION")]


def _vocabulary(root: etree.Element, types: set[str | None]) -> Iterator[str]:
    names = {
        kind.get("CONTROLLED_VOCABULARY_REF")
        for kind in root.iter("LINGUISTIC_TYPE")
        if kind.get("LINGUISTIC_TYPE_ID") in types
    }
    for vocabulary in root.iter("CONTROLLED_VOCABULARY"):
        if vocabulary.get("CV_ID") in names:
            for tag in ("CV_ENTRY", "CVE_VALUE"):
                yield from (entry.text for entry in vocabulary.iter(tag) if entry.text)


def _segment(annotation: etree.Element, slots: Mapping[str, str | None], origin: int) -> Segment:
    where = f"annotation {annotation.get('ANNOTATION_ID')}"
    start, end = (slots.get(annotation.attrib[f"TIME_SLOT_REF{side}"]) for side in (1, 2))
    if start is None or end is None:
        raise flaw(f"{where} has no times", "Align it in ELAN")
    text = " ".join((annotation.findtext("ANNOTATION_VALUE") or "").split())
    first, last = ((int(time) + origin) / MILLI for time in (start, end))
    if not text:
        raise flaw(f"{where}: the label is empty", "Name the step, or delete the label")
    return build_segment(first, last, text)


def _parse(text: str) -> etree.Element:
    if declared := re.search(r"<!\s*(DOCTYPE|ENTITY)", text, flags=re.IGNORECASE):
        line = text.count("\n", 0, declared.start()) + 1
        what = f"contains <!{declared[1]}, which can include other files and is not allowed"
        raise flaw(what, "Remove it", line)
    try:
        root = etree.fromstring(text)
    except etree.ParseError as error:
        raise flaw(f"is not an ELAN file ({error})", "Open and save it in ELAN") from error
    if root.tag != "ANNOTATION_DOCUMENT":
        what = f"is XML, but not an ELAN file (<{root.tag[:40]}>)"
        raise flaw(what, "Open and save it in ELAN")
    return root


def write(timeline: Timeline, options: Options) -> str:
    name = options.annotator or PROPOSAL
    timed = []  # in milliseconds; ELAN needs a length, so a click lasts one
    for segment in timeline:
        first, last = whole_units(segment, MILLI)
        timed.append(Segment(first, max(last, first + 1), segment.step))
    rows = without_overlap(timed)
    times = [(s.start, s.end) for row in rows for s in row]
    # Slots are sorted by time; at one time, ends precede starts.
    order = sorted(
        (time, 1 - side, n) for n, ends in enumerate(times) for side, time in enumerate(ends)
    )
    slots = {(n, 1 - starts): place for place, (_, starts, n) in enumerate(order, start=1)}
    lines = [HEAD.format(date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00"))]
    lines += [*_header(options.path, timeline, len(times)), "</HEADER>\n<TIME_ORDER>"]
    lines += [
        f'<TIME_SLOT TIME_SLOT_ID="ts{place}" TIME_VALUE="{time}"/>'
        for place, (time, _, _) in enumerate(order, start=1)
    ]
    lines.append("</TIME_ORDER>")
    number = 0
    for place, row in enumerate(rows, start=1):
        tier = quoteattr(name if place == 1 else f"{name} ({place})")
        about = f'ANNOTATOR={quoteattr(name)} TIER_ID={tier} LINGUISTIC_TYPE_REF="step"'
        lines.append(f"<TIER {about}>")
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
    return "\n".join([*lines, "</CONTROLLED_VOCABULARY>\n</ANNOTATION_DOCUMENT>\n"])


def _header(path: Path, timeline: Timeline, annotations: int) -> Iterator[str]:
    video = timeline.video
    here = path.resolve().parent
    if video:  # found by its name or beside the `.eaf`; otherwise its likely path
        media = here / f"{video}.mp4"
        if Path(video).suffix.lower() in VIDEO_SUFFIXES:
            media = (Path(video) if Path(video).exists() else here / video).resolve()
        else:
            beside = [here / f"{video}{suffix}" for suffix in sorted(VIDEO_SUFFIXES)]
            media = next((file for file in beside if file.exists()), media)
        relative = f"./{quote(media.name)}"  # ELAN also looks beside the .eaf
        with suppress(ValueError):  # another drive on Windows
            near = quote(os.path.relpath(media, here).replace(os.sep, "/"))
            if not near.startswith("../.."):
                relative = near if near.startswith("..") else f"./{near}"
        where = media.as_uri() if media.exists() else relative
        links = f"MEDIA_URL={quoteattr(where)} RELATIVE_MEDIA_URL={quoteattr(relative)}"
        kind = mimetypes.guess_type(media.name)[0] or "video/mp4"
        yield f'<MEDIA_DESCRIPTOR {links} MIME_TYPE="{kind}"/>'
    name = "/".join(Path(video).parts[-2:]) if Path(video).is_absolute() else video
    yield f'<PROPERTY NAME="stepcut:video">{escape(name)}</PROPERTY>'
    if timeline.duration is not None:
        yield f'<PROPERTY NAME="stepcut:duration">{float(timeline.duration)!r}</PROPERTY>'
    yield f'<PROPERTY NAME="lastUsedAnnotationId">{annotations}</PROPERTY>'
