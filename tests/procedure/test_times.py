"""Times: whatever a person edits, at any time of a video of any length, can be saved and read."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_kit import do, edit

import stepcut as sc
from stepcut.errors import AnnotationError, OptionError
from stepcut.features.features import save_rows
from stepcut.procedure.edits import Edits
from stepcut.procedure.labels import PYTHON, Origin, annotate_rows
from stepcut.timeline import Segment, Timeline, clip_segments, time_in_video

QUICK = {"restarts": 1}


def learn_video(folder, durations):
    rng = np.random.default_rng(0)
    features = [folder.with_name(f"v{number}.safetensors") for number in range(len(durations))]
    for number, duration in enumerate(durations):
        rows = np.eye(3, 4)[np.arange(math.ceil(duration)) * 3 // math.ceil(duration)]
        noise = 0.1 * rng.normal(size=rows.shape)
        about = {"rate": "1", "duration": repr(duration)}
        save_rows(features[number], (rows + noise).astype(np.float32), about)
    return sc.learn(features, steps=3, output=folder, **QUICK), features


seconds = st.floats(-2, 70) | st.sampled_from([0.0, 1e9, 58.3, 58.2999417])


def any_of(verb, **values):
    return st.builds(edit, st.just(verb), st.just("v0"), **values)


edits = st.one_of(
    any_of("mark", start=seconds, end=seconds, step=st.none() | st.just(0)),
    any_of("move", part=st.integers(0, 2), edge=st.sampled_from(["start", "end"]), time=seconds),
    any_of("click", time=seconds, step=st.integers(0, 2)),
    any_of("onset", time=seconds, step=st.none() | st.integers(0, 2)),
    any_of("cut", time=seconds),
    any_of("split", time=seconds, everywhere=st.booleans()),
    any_of("confirm"),
)


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(
    durations=st.lists(
        st.floats(5, 60, width=32) | st.sampled_from([58.2999417, 12.00049]), min_size=2, max_size=2
    ),
    made=st.lists(edits, min_size=1, max_size=6),
)
def test_any_edit_at_any_time_on_any_duration_is_read_again(tmp_path_factory, durations, made):
    place = tmp_path_factory.mktemp("times") / "a.proc"
    _, features = learn_video(place, durations)
    corrections = Edits(place)
    for change in made:
        with contextlib.suppress(OptionError):
            corrections.do(change)
    procedure = sc.load(place)
    assert procedure.timelines == corrections.document.timelines
    procedure.save(place)
    assert sc.load(place) == procedure
    if not procedure.annotations.annotated:
        return
    try:
        taught = procedure.teach(source=features)
    except AnnotationError:  # a click in a label of another step
        return
    taught.save(place.with_name("b.proc"))
    again = sc.load(place.with_name("b.proc"))
    assert again.timelines == taught.timelines
    assert again.annotations == taught.annotations
    assert all(not timeline.clicks for timeline in again.timelines.values())


@given(time=st.floats(-1e9, 1e9), end=st.floats(0, 1e6))
def test_a_time_is_inside_the_video_and_does_not_change_again(time, end):
    inside = time_in_video(time, end)
    assert 0 <= inside <= end
    assert time_in_video(inside, end) == inside
    assert abs(inside - min(max(time, 0), end)) <= 0.00051


@given(
    labels=st.lists(st.integers(-2, 1), min_size=2, max_size=20),
    cut=st.floats(0, 1, exclude_max=True),
)
def test_labels_of_rows_end_with_a_video_that_ends_within_the_last_row(labels, cut):
    end = len(labels) - cut
    made = annotate_rows(np.array(labels), 1, ["pour", "stir"], end, Origin(PYTHON))
    assert all(0 <= one.start <= one.end <= end for one in made.segments)
    assert all(
        one.end <= end
        for one in Timeline.from_labels(np.maximum(labels, -1), 1, ["pour", "stir"], end)
    )


def test_segments_are_clipped_by_a_millisecond_and_refused_beyond():
    assert clip_segments([Segment(1, 58.3, "a")], 58.2999417)[0].end == 58.2999417
    with pytest.raises(ValueError, match=r"v0: 1 to 58\.4 s of 58\.29"):
        clip_segments([Segment(1, 58.4, "a")], 58.2999417, "v0")
    assert clip_segments([Segment(58.2999, 58.3, "a")], 58.2999) == ()


def test_a_tap_inside_a_label_of_its_step_stays_a_click(tmp_path):
    place = tmp_path / "a.proc"
    _, features = learn_video(place, [30.0, 30.0])
    do(place, edit("mark", "v0", start=2, end=8, step=0), edit("click", "v0", time=5.0, step=0))
    before = sc.load(place)
    name = before.steps[0]
    for procedure in (before, before.teach(source=features)):
        procedure.save(tmp_path / "b.proc")
        again = sc.load(tmp_path / "b.proc")
        assert again.annotations.clicks == {"v0": [Segment(5, 5, name)]}
        assert not again.timelines["v0"].clicks
        assert Segment(2, 8, name) in again.annotations.videos["v0"].labelled
