"""Every reader returns timelines or raises an AnnotationError for any content."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepcut.errors import AnnotationError
from stepcut.formats import FORMATS, read_folder
from stepcut.timeline import Timeline

# Fragments that get random text past the first check of a reader.
PIECES = st.sampled_from(
    ["WEBVTT", "-->", "00:00:01.000 --> 00:00:02.000", "0,1,a", "0\t1\tb", "1 a", "start,end,label", '"', "\n", "\n\n",
     "\r", ",", ";", "\t", "²", "1e999", "-1", "nan", "0:0:0", "9" * 30, "\\", "#", "&amp;", "<b>", "background"]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES | st.text(max_size=5), max_size=12)
    .map("".join)
    .map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=60),
)
KEYS = st.sampled_from(
    ["format", "version", "segments", "timelines", "start", "end", "step", "steps", "database", "results", "segment",
     "annotations", "label",
     "labels", "duration", "taxonomy", "nodeName", "data", "predictions", "result", "type", "value",
     "ranges", "timelinelabels", "fps", "rate", "name", "video", "samples", "filepath", "_cls", "detections", "support",
     "timestamps", "classes", "metadata", "frame_rate", "completed_by", "score", "confidence"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["stepcut timeline", "stepcut timelines", "timelinelabels", "labels", "TemporalDetections", "a"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | WORDS | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
# Templates of the JSON formats with random content.
RECORDS = st.one_of(
    VALUES,
    st.builds(
        lambda v: {"format": "stepcut timeline", "segments": [{"start": 0, "end": v, "step": "a"}]},
        VALUES,
    ),
    st.builds(
        lambda v, w: {"format": "stepcut timelines", "timelines": v, "version": w}, VALUES, VALUES
    ),
    st.builds(lambda v, w: {"database": {"v": {"annotations": v, "duration": w}}}, VALUES, VALUES),
    st.builds(
        lambda v, w: {"results": {"v": [{"label": v, "segment": w}]}, "taxonomy": v}, VALUES, VALUES
    ),
    st.builds(
        lambda v, w: {"labels": {"v": [{"label": v, "support": w}]}, "classes": v}, VALUES, VALUES
    ),
    st.builds(lambda v, w: {"samples": [{"filepath": "v", "x": v, "metadata": w}]}, VALUES, VALUES),
    st.builds(
        lambda v, w: [{"data": {"fps": v, "steps": w}, "predictions": [{"result": v}]}],
        VALUES,
        VALUES,
    ),
    st.builds(
        lambda v, w: [{"data": {"fps": 9}, "annotations": [{"completed_by": v, "result": [w]}]}],
        VALUES,
        VALUES,
    ),
    st.builds(
        lambda v, w: [
            {
                "data": {"fps": 9},
                "predictions": [{"result": [{"type": "timelinelabels", "value": v, "score": w}]}],
            }
        ],
        VALUES,
        VALUES,
    ),
)


def survives(name, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{FORMATS[name].suffix}"
        path.write_bytes(data)
        for chosen in (name, None):
            try:
                found = read_folder(path, chosen, rate=5).values()
                assert all(isinstance(each, Timeline) for each in found)
            except AnnotationError as error:
                told = str(error)
            else:
                told = str(path)
            assert str(path) in told


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.read is not None])
@given(data=TEXTS)
@settings(max_examples=20, deadline=None)
def test_any_bytes(name, data):
    survives(name, data)


@pytest.mark.parametrize("name", ["json", "label-studio", "activitynet"])
@given(record=RECORDS)
@settings(max_examples=40, deadline=None)
def test_any_json(name, record):
    survives(name, json.dumps(record).encode())


@pytest.mark.parametrize(
    ("name", "record"),
    [
        (
            "label-studio",
            [
                {
                    "data": {"fps": 9},
                    "predictions": [
                        {
                            "result": [
                                {
                                    "type": "timelinelabels",
                                    "value": {
                                        "ranges": [{"start": 1, "end": 10**400}],
                                        "timelinelabels": ["a"],
                                    },
                                }
                            ]
                        }
                    ],
                }
            ],
        ),
    ],
)
def test_a_frame_number_beyond_any_float_is_told(name, record):
    survives(name, json.dumps(record).encode())
