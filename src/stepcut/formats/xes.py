"""XES event logs (IEEE 1849) for process mining: one trace per video, two events per segment."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import quoteattr

from stepcut.files.atomic import write_text
from stepcut.files.names import video_name
from stepcut.formats.common import NONE, Options
from stepcut.timeline import Timeline

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The date of the first frame, because a video has none."""
EXTENSIONS = {"Concept": "concept", "Time": "time", "Lifecycle": "lifecycle"}


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a log: a start and a complete event per segment, only the latter for a click."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<log xes.version="1.0" xmlns="http://www.xes-standard.org/">',
    ]
    for name, prefix in EXTENSIONS.items():
        uri = f"http://www.xes-standard.org/{prefix}.xesext"
        lines.append(f'<extension name="{name}" prefix="{prefix}" uri="{uri}"/>')
    lines.append('<classifier name="Activity" keys="concept:name"/>')
    for place, timeline in enumerate(timelines, start=1):
        lines += [
            "<trace>",
            _value("string", "concept:name", video_name(timeline.video) or f"video{place}"),
        ]
        events = [
            (time, n, side)
            for n, s in enumerate(timeline)
            for side, time in enumerate((s.start, s.end))
            if side or not s.is_click
        ]
        events.sort(key=lambda e: (e[0], e[1] if e[2] == 0 else -1, e[2]))
        for time, number, side in events:
            segment = timeline.segments[number]
            lines += [
                "<event>",
                _value("string", "concept:name", segment.step),
                _value("string", "lifecycle:transition", "complete" if side else "start"),
                _value("date", "time:timestamp", (EPOCH + timedelta(seconds=time)).isoformat()),
                _value("string", "concept:instance", str(number)),
            ]
            if segment.confidence is not None:
                lines.append(_value("float", "confidence", repr(segment.confidence)))
            lines.append("</event>")
        lines.append("</trace>")
    write_text(path, "\n".join([*lines, "</log>\n"]))


def _value(kind: str, key: str, value: str) -> str:
    return f"<{kind} key={quoteattr(key)} value={quoteattr(value)}/>"
