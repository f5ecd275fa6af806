"""Edits: every verb, undo and redo, at any time of a video of any length; saved at once and read again."""

import contextlib
import math
from itertools import pairwise

import numpy as np
import pytest
from errors_kit import raises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from show_kit import clicks_of, covered_of, parts_of
from store_kit import do, edit, events, revision

import stepcut as sc
from stepcut.errors import AnnotationError, OptionError
from stepcut.features.features import save_rows
from stepcut.procedure.corrections import StaleEdit, append, read_log
from stepcut.procedure.document import Document
from stepcut.procedure.edits import Edits, go_back
from stepcut.procedure.labels import PYTHON, Origin, annotate_rows
from stepcut.procedure.verbs import LEAST, apply
from stepcut.timeline import Segment, Timeline, clip_segments, time_in_video


def rename(step, name):
    return edit("rename", step=step, name=name)


def move(video, part, edge, time):
    return edit("move", video, part=part, edge=edge, time=time)


def mark(video, start, end, step):
    return edit("mark", video, start=start, end=end, step=step)


def click(time, step, video="one"):
    return edit("click", video, time=time, step=step)


def names_of(edits):
    return [step.name for step in edits.document.steps]


def files(folder):
    return {path.name: path.read_bytes() for path in revision(folder).iterdir()}


def test_every_edit_is_on_the_disk_at_once_and_what_was_learned_stays(place):
    before, edits = files(place), Edits(place)
    assert edits.do(rename(0, "cut bread")) == "rename slice bread to cut bread"
    assert Edits(place).document == edits.document
    sequence = Edits(place).document.timelines["one"].sequence()
    assert sequence == ["cut bread", "spread butter", "pour tea"]
    assert files(place) == before


def test_undo_and_redo_outlive_the_program_and_a_new_edit_ends_them(place):
    again = Edits(do(place, rename(0, "cut")).folder)
    assert (again.next_undo, again.next_redo) == ("rename slice bread to cut", None)
    again.undo()
    third = Edits(place)
    assert third.document == third.outline.corrections.learned
    assert third.next_redo == "rename slice bread to cut"
    third.redo()
    assert third.document.steps[0].name == "cut"
    with pytest.raises(OptionError, match="nothing to redo"):
        third.redo()
    third.undo()
    third.do(rename(1, "b"))
    assert third.next_redo is None
    with pytest.raises(OptionError, match="nothing to undo"):
        third.undo() and third.undo()


def test_only_what_a_verb_knows_is_written_down(place):
    edits = Edits(place)
    assert edits.do(edit("confirm", "one", names=1, note=float("inf"))) == "confirm one"
    assert (events(place)[-1]["verb"], events(place)[-1]["values"]) == ("confirm", {"video": "one"})
    before = files(place), edits.revision
    for odd in (
        edit("rename", step=[]),
        rename({}, "x"),
        edit("rename", names={"0": "x"}, step=float("inf")),
        edit("split", "one", time=1.0, everywhere=float("nan")),
        edit("severity", step=[], severity={}),
        edit("fine", "one", kind="\ud800"),
        edit("fine", "new\udcff", kind="unknown"),
    ):
        with pytest.raises(OptionError):
            edits.do(odd)
    assert (files(place), Edits(place).revision) == before


def test_another_program_that_writes_meanwhile_is_not_written_over(place):
    mine, theirs = Edits(place), Edits(place)
    theirs.do(rename(0, "theirs"))
    with raises(StaleEdit, "another window"):
        mine.do(rename(0, "mine"))
    assert mine.document.steps[0].name == "theirs"
    mine.do(rename(0, "mine"))
    assert Edits(place).document.steps[0].name == "mine"


ONE = [(0.0, 2.0, 0), (2.0, 4.0, 1), (4.5, 6.0, 2)]
CUTS = [edit("cut", "one", time=1.0), edit("cut", "one", time=3.0)]
MERGED = edit("merge", step=1, into=0)
CHANGES = [
    # A boundary moves with the neighbour that it touches; the start of a segment, too.
    ([move("one", 0, "end", 1.2341)], [(0.0, 1.234, 0), (1.234, 4.0, 1), ONE[2]]),
    ([move("one", 1, "start", 3.0)], [(0.0, 3.0, 0), (3.0, 4.0, 1), ONE[2]]),
    # Next to background it moves alone, up to the neighbour.
    (
        [move("one", 1, "end", 5.9), move("one", 0, "end", -5)],
        [(0.0, LEAST, 0), (LEAST, 4.5, 1), (4.5, 6.0, 2)],
    ),
    # Marking cuts what is there, and joins what becomes one.
    ([mark("one", 1, 3, None)], [(0.0, 1.0, 0), (3.0, 4.0, 1), ONE[2]]),
    (
        [mark("one", 4, 4.5, 2), mark("one", 0.25, 0.75, 1)],
        [(0, 0.25, 0), (0.25, 0.75, 1), (0.75, 2, 0), ONE[1], (4.0, 6.0, 2)],
    ),
    # A step is merged, and then into background.
    ([MERGED], [(0.0, 4.0, 0), ONE[2]]),
    ([MERGED, edit("merge", step=0, into=None)], [ONE[2]]),
    # Both halves of a cut keep the step, until they become one again; the other boundary stays.
    (CUTS, [(0.0, 1.0, 0), (1.0, 2.0, 0), (2.0, 3.0, 1), (3.0, 4.0, 1), ONE[2]]),
    ([*CUTS, mark("one", 2.0, 3.0, 0)], [(0.0, 1.0, 0), (1.0, 3.0, 0), (3.0, 4.0, 1), ONE[2]]),
    ([edit("split", "one", time=0.5)], [(0.0, 0.5, 0), (0.5, 2.0, 3), *ONE[1:]]),
]


@pytest.mark.parametrize(("changes", "expected"), CHANGES)
def test_segments_after_edits(place, changes, expected):
    assert parts_of(do(place, *changes)) == expected


def test_boundaries_at_the_ends_of_a_video(place):
    edits = do(place, move("two", 0, "start", 0), move("two", 1, "end", 99))
    assert parts_of(edits, "two") == [(0.0, 3.0, 0), (3.0, 6.0, 2)]


def test_instants_are_no_neighbours_and_two_normal_videos_must_be_left():
    timeline = Timeline(
        [Segment(4, 14, "pour"), Segment(5.5, 5.5, "ring"), Segment(14, 20, "stir")], 30
    )
    learned = Document.of(["pour", "ring", "stir"], {"v": timeline})
    ended = apply(learned, move("v", 0, "end", 12.5))
    assert ended.segments["v"] == (
        Segment(4, 12.5, "pour"), Segment(5.5, 5.5, "ring"), Segment(12.5, 20, "stir"),
    )  # fmt: skip
    assert apply(learned, move("v", 2, "start", 12.5)).segments == ended.segments
    timeline = Timeline([Segment(0, 2, "pour"), Segment(2, 9, "stir")], duration=9)
    document = Document.of(["pour", "stir"], dict.fromkeys("abc", timeline))
    document = apply(document, edit("mistake", "b"))
    with raises(OptionError, "2 videos"):
        apply(document, edit("mistake", "a"))
    assert apply(document, edit("mistake", "b")) == document


def test_the_confidence_of_merged_and_marked_segments(place):
    edits = do(place, edit("merge", step=1, into=0))
    assert edits.document.segments["one"][0].confidence == pytest.approx(0.8)
    edits = do(place, mark("one", 4, 4.5, 2))
    assert edits.document.segments["one"][1].confidence is None


def test_splitting_in_all_videos_and_again(place):
    edits = do(place, edit("split", "one", time=0.5, everywhere=True))
    assert parts_of(edits, "two")[:2] == [(0.5, 1.125, 0), (1.125, 3.0, 3)]
    edits.do(edit("split", "one", time=0.25))
    assert names_of(edits)[3:] == ["slice bread (2)", "slice bread (3)"]


def test_what_a_person_touched_or_confirmed_is_known(place):
    edits = do(place, rename(0, "cut"))
    assert not covered_of(edits)
    edits.do(move("one", 0, "end", 1.0))
    assert covered_of(edits)["one"] == ((0.0, 4.0),)
    edits.do(mark("two", 5, 5.5, None))
    assert covered_of(edits)["two"] == ((5.0, 5.5),)
    edits.do(edit("confirm", "two"))
    assert covered_of(edits)["two"] == ((0.0, 6.0),)
    edits.undo()
    assert covered_of(edits)["two"] == ((5.0, 5.5),)
    go_back(place, 1)
    # A merge says nothing of videos without the step.
    assert covered_of(do(place, edit("merge", step=1, into=0))) == {"one": ((2.0, 4.0),)}


@pytest.mark.parametrize("name", ["می\u200cپزد", "👩\u200d🍳 cooks", "קמח\u200f 2"])
def test_names_may_hold_what_joins_letters_and_emoji(place, name):
    assert names_of(Edits(do(place, rename(0, name)).folder))[0] == name
    for hidden in ("\u202eevil", "a\x07", "\u200d"):
        with pytest.raises(OptionError, match="printable"):
            Edits(place).do(rename(0, hidden))


def test_names_can_be_exchanged_at_once(place):
    edits = do(place, edit("rename", names={"0": "pour tea", "2": "slice bread"}))
    assert names_of(edits) == ["pour tea", "spread butter", "slice bread"]
    with pytest.raises(OptionError, match="already a step"):
        edits.do(edit("rename", names={"0": "x", "1": "x"}))


def test_capitals_and_spaces_make_no_other_step(place):
    edits = Edits(place)
    for change in (edit("add", name="Pour  tea"), rename(1, "pour Tea")):
        with raises(OptionError, "'pour tea'"):
            edits.do(change)
    edits.do(rename(2, "Pour tea"))  # changing only the case is allowed
    log = read_log(place)  # older versions accepted this
    append(place, log, [log.next(edits.outline.revision, ("add", {"name": "POUR TEA"}))])
    kept = Edits(place)
    assert names_of(kept)[2:] == ["Pour tea", "POUR TEA"]
    kept.do(rename(0, "cut"))
    kept.do(edit("colour", step=2, colour="#123456"))


def test_clicks_are_put_moved_removed_and_undone(place):
    edits = do(place, click(4.8, 2), click(1.0, 0), click(3.0, 1))
    assert clicks_of(Edits(place)) == [(1.0, 0), (3.0, 1), (4.8, 2)]
    edits.do(edit("move_click", "one", click=0, time=5.5))
    assert clicks_of(Edits(place)) == [(3.0, 1), (4.8, 2), (5.5, 0)]
    edits.do(edit("clicks_complete", "one"))
    assert Edits(place).document.said.videos["one"].complete
    for _ in range(3):
        edits.do(edit("remove_click", "one", click=0))
    assert not Edits(place).document.said.clicks
    edits.undo()
    assert clicks_of(Edits(place)) == [(5.5, 0)]
    assert edits.document.segments == edits.outline.corrections.learned.segments
    edits.do(click(99.0, 0))
    assert clicks_of(edits)[-1] == (6.0, 0)  # the end of the video


def test_clicks_follow_a_merge(place):
    edits = do(place, click(1.0, 0), click(3.0, 1), edit("merge", step=0, into=1))
    assert clicks_of(edits) == [(1.0, 1), (3.0, 1)]
    edits.do(edit("merge", step=1, into=None))
    assert clicks_of(edits) == []


def test_a_tap_of_background_is_no_step(place):
    edits = do(place, click(4.2, None))
    said = Edits(place).document.said.videos["one"]
    assert [(one.start, one.step) for one in said.clicks] == [(4.2, "")]
    assert said.steps == []
    assert said.constraint(6, 1, names_of(edits)).clicks == ((4, -1),)


def onset(time, step, **more):
    return edit("onset", "one", time=time, step=step, **more)


def test_an_onset_ends_the_step_before_and_shows_up_to_the_next_one(place):
    edits = do(place, onset(1.5, 1), onset(5.5, None), onset(4.0, 2, speed=2))
    assert parts_of(Edits(place)) == [(0.0, 1.0, 0), (1.0, 3.0, 1), (3.0, 5.0, 2)]
    edits.do(edit("move_onset", "one", onset=1, time=2.5))
    assert parts_of(edits)[1:] == [(1.0, 2.5, 1), (2.5, 5.0, 2)]
    edits.do(edit("remove_onset", "one", onset=1))
    assert parts_of(edits)[1:] == [(1.0, 5.0, 1)]
    edits.do(edit("merge", step=1, into=None))
    assert {one.step for one in edits.document.said.videos["one"].onsets} == {""}


def test_an_onset_leaves_what_a_person_annotated(place):
    edits = do(place, mark("one", 2, 3, 1), onset(1.5, 2))
    assert parts_of(edits)[1:] == [(1.0, 2.0, 2), (2.0, 3.0, 1), (3.0, 6.0, 2)]


def test_what_onsets_say_is_open_near_the_keys_and_after_the_last(place):
    said = do(place, onset(1.5, 0), onset(4.5, 2)).document.annotations.with_onsets()
    assert said.videos["one"].annotated == ((1.5, 3.5),)
    assert said.videos["one"].labelled == [Segment(1.5, 3.5, "slice bread")]


def test_the_reaction_time_follows_corrected_boundaries(place):
    keys = [onset(time, step) for time, step in ((1.2, 1), (3.3, 2), (5.2, 1))]
    edits = do(place, *keys)
    assert edits.document.reaction == 0.5
    whole = [mark("one", 0, 1, 0), mark("one", 1, 3, 1), mark("one", 3, 5, 2), mark("one", 5, 6, 1)]
    edits = do(place, *whole)
    assert edits.document.reaction == pytest.approx(0.4)


WRONG = [
    (edit("renam"), "'rename'?"),
    ([], "object"),
    (rename(9, "x"), "step=9"),
    (rename(True, "x"), "step=True"),
    (rename(0, "  "), "1 to 200"),
    (rename(0, "a\u202eb"), "printable"),
    (rename(0, "x" * 201), "1 to 200"),
    (rename(0, "pour tea"), "Merge"),
    (edit("add", name="pour tea"), "already"),
    (edit("colour", step=0, colour="red"), "#rrggbb"),
    (edit("merge", step=0, into=0), "into itself"),
    (edit("split", "one", time=4.2), "is background"),
    (edit("cut", "one", time=4.2), "is background"),
    (edit("split", "one", time=1.99), "at the boundary"),
    (move("one", 3, "end", 1), "it has 3"),
    (move("one", 0, "ende", 1), "'end'?"),
    (mark("one", 1, 1, 0), "too short"),
    (mark("on", 1, 2, 0), "'one'?"),
    (mark("one", float("nan"), 2, 0), "nan"),
    (mark("one", "1", 2, 0), "is not a time"),
    (edit("mistake", "on"), "'one'?"),
    (edit("mistake", "one", holds="no"), "true or false"),
    (click(1.0, 1), "another step"),
    (click(1.0, 9), "step=9"),
    (click("now", 0), "time"),
    (click(1.0, 0, "none"), "video"),
    (edit("move_click", "one", click=1, time=2.0), "click=1"),
    (edit("remove_click", "two", click=0), "click=0"),
    (edit("clicks_complete", "two"), "no clicks"),
    (edit("onset", "one", time=1.0, step=9), "step=9"),
    (edit("onset", "one", time=1.0, step=0, speed=0), "speed"),
    (edit("move_onset", "one", onset=0, time=2.0), "onset=0"),
    (edit("confirm", videos=["one", "none"]), "video"),
    (edit("fine", "new", kind="missed", step=9), "step=9"),
    (edit("fine", "new", kind=None, step=0), "kind"),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_a_wrong_edit_changes_nothing(place, change, says):
    edits = do(place, click(1.0, 0))
    before = edits.document
    with raises(OptionError, says):
        edits.do(change)
    assert edits.document == before == Edits(place).document
    assert len(events(place)) == 2


times = st.floats(-1, 7).map(lambda time: round(time, 2))
videos = st.sampled_from(["one", "two"])
numbers = st.integers(0, 5)
edges = st.sampled_from(["start", "end"])
any_edit = st.one_of(
    st.builds(rename, numbers, st.text(max_size=4)),
    st.builds(edit, st.just("add"), name=st.text("abc", min_size=1, max_size=2)),
    st.builds(edit, st.just("merge"), step=numbers, into=st.none() | numbers),
    st.builds(edit, st.just("cut"), videos, time=times),
    st.builds(edit, st.just("split"), videos, time=times, everywhere=st.booleans()),
    st.builds(move, videos, st.integers(0, 4), edges, times),
    st.builds(mark, videos, times, times, st.none() | numbers),
)
PER_EXAMPLE = [HealthCheck.function_scoped_fixture]


@settings(max_examples=15, suppress_health_check=PER_EXAMPLE)
@given(st.lists(any_edit, max_size=12))
def test_any_edits_keep_timelines_whole_and_undo_to_the_start(place, changes):
    go_back(place, 1)
    edits = Edits(place)
    seen = [edits.document]
    for change in changes:
        try:
            edits.do(change)
        except OptionError:
            continue
        seen.append(edits.document)
        for name, parts in edits.document.segments.items():
            assert {part.step for part in parts} <= {*names_of(edits)}
            assert all(part.end - part.start > 0 for part in parts)
            assert all(one.end <= other.start for one, other in pairwise(parts))
            end = edits.document.said.videos[name].end
            assert not parts or (parts[0].start >= 0 and parts[-1].end <= end)
        assert len({*names_of(edits)}) == len(names_of(edits))
    assert Edits(place).document == seen[-1]
    for before in reversed(seen[:-1]):
        edits.undo()
        assert edits.document == before
    for after in seen[1:]:
        edits.redo()
        assert edits.document == after
    if len(seen) > 1:
        assert len(Edits(place).corrections.done) == len(seen) - 1


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
    timeline = Timeline.from_labels(np.maximum(labels, -1), 1, ["pour", "stir"], end)
    assert all(one.end <= end for one in timeline)


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
