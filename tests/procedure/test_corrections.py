"""Edits: every verb, undo and redo, saved at once, without changing the learned files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from errors_kit import raises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from show_kit import clicks_of, covered_of, parts_of
from store_kit import events, revision

from stepcut.errors import OptionError
from stepcut.procedure.corrections import StaleEdit, append, read_log
from stepcut.procedure.document import LEAST, Document, apply
from stepcut.procedure.edits import Edits
from stepcut.procedure.history import go_back
from stepcut.timeline import Segment, Timeline


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in revision(folder).iterdir()}


def test_every_edit_is_on_the_disk_at_once_and_what_was_learned_stays(place: Path) -> None:
    before = files(place)
    edits = Edits(place)
    assert (
        edits.do({"do": "rename", "step": 0, "name": "cut bread"})
        == "rename slice bread to cut bread"
    )
    assert Edits(place).document == edits.document
    assert Edits(place).document.timelines["one"].sequence() == [
        "cut bread",
        "spread butter",
        "pour tea",
    ]
    assert files(place) == before


def test_undo_and_redo_outlive_the_program(place: Path) -> None:
    Edits(place).do({"do": "rename", "step": 0, "name": "cut"})
    again = Edits(place)
    assert (again.next_undo, again.next_redo) == ("rename slice bread to cut", None)
    again.undo()
    third = Edits(place)
    assert third.document == third.outline.corrections.learned
    assert third.next_redo == "rename slice bread to cut"
    third.redo()
    assert third.document.steps[0].name == "cut"
    with pytest.raises(OptionError, match="nothing to redo"):
        third.redo()


def test_only_what_a_verb_knows_is_written_down(place: Path) -> None:
    edits = Edits(place)
    assert (
        edits.do({"do": "confirm", "video": "one", "names": 1, "note": float("inf")})
        == "confirm one"
    )
    assert (events(place)[-1]["verb"], events(place)[-1]["values"]) == ("confirm", {"video": "one"})
    before = files(place), edits.revision
    odd: list[dict[str, Any]] = [
        {"do": "rename", "step": []},
        {"do": "rename", "step": {}, "name": "x"},
        {"do": "rename", "names": {"0": "x"}, "step": float("inf")},
        {"do": "split", "video": "one", "time": 1.0, "everywhere": float("nan")},
        {"do": "severity", "step": [], "severity": {}},
        {"do": "fine", "kind": "\ud800", "video": "one"},
        {"do": "fine", "kind": "unknown", "video": "new\udcff"},
    ]
    for edit in odd:
        with pytest.raises(OptionError):
            edits.do(edit)
    assert (files(place), Edits(place).revision) == before


def test_a_new_edit_forgets_what_was_undone(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "rename", "step": 0, "name": "a"})
    edits.undo()
    edits.do({"do": "rename", "step": 1, "name": "b"})
    assert edits.next_redo is None
    with pytest.raises(OptionError, match="nothing to undo"):
        edits.undo() and edits.undo()


def test_a_boundary_moves_with_the_neighbour_it_touches(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "move", "video": "one", "part": 0, "edge": "end", "time": 1.2341})
    assert parts_of(edits)[:2] == [(0.0, 1.234, 0), (1.234, 4.0, 1)]
    edits.do({"do": "move", "video": "one", "part": 1, "edge": "start", "time": 3.0})
    assert parts_of(edits)[:2] == [(0.0, 3.0, 0), (3.0, 4.0, 1)]


def test_a_boundary_next_to_background_moves_alone_and_stops_at_the_neighbour(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "move", "video": "one", "part": 1, "edge": "end", "time": 5.9})
    assert parts_of(edits)[1:] == [(2.0, 4.5, 1), (4.5, 6.0, 2)]
    edits.do({"do": "move", "video": "one", "part": 0, "edge": "end", "time": -5})
    assert parts_of(edits)[0] == (0.0, LEAST, 0)
    edits.do({"do": "move", "video": "two", "part": 0, "edge": "start", "time": 0})
    edits.do({"do": "move", "video": "two", "part": 1, "edge": "end", "time": 99})
    assert parts_of(edits, "two") == [(0.0, 3.0, 0), (3.0, 6.0, 2)]


def test_an_instant_inside_a_segment_is_no_neighbour() -> None:
    timeline = Timeline(
        [Segment(4, 14, "pour"), Segment(5.5, 5.5, "ring"), Segment(14, 20, "stir")], 30
    )
    learned = Document.of(["pour", "ring", "stir"], {"v": timeline})
    ended = apply(learned, {"do": "move", "video": "v", "part": 0, "edge": "end", "time": 12.5})
    assert ended.segments["v"] == (
        Segment(4, 12.5, "pour"), Segment(5.5, 5.5, "ring"), Segment(12.5, 20, "stir"),
    )  # fmt: skip
    begun = apply(learned, {"do": "move", "video": "v", "part": 2, "edge": "start", "time": 12.5})
    assert begun.segments == ended.segments


def test_marking_cuts_what_is_there_and_joins_what_becomes_one(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "mark", "video": "one", "start": 1, "end": 3, "step": None})
    assert parts_of(edits) == [(0.0, 1.0, 0), (3.0, 4.0, 1), (4.5, 6.0, 2)]
    edits.do({"do": "mark", "video": "one", "start": 4, "end": 4.5, "step": 2})
    assert parts_of(edits) == [(0.0, 1.0, 0), (3.0, 4.0, 1), (4.0, 6.0, 2)]
    assert edits.document.segments["one"][2].confidence is None
    edits.do({"do": "mark", "video": "one", "start": 0.25, "end": 0.75, "step": 1})
    assert parts_of(edits)[:3] == [(0.0, 0.25, 0), (0.25, 0.75, 1), (0.75, 1.0, 0)]


def test_merging_two_steps_and_a_step_into_background(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "merge", "step": 1, "into": 0})
    assert parts_of(edits) == [(0.0, 4.0, 0), (4.5, 6.0, 2)]
    assert edits.document.segments["one"][0].confidence == pytest.approx(0.8)
    edits.do({"do": "merge", "step": 0, "into": None})
    assert parts_of(edits) == [(4.5, 6.0, 2)]
    assert [step.name for step in edits.document.steps] == ["pour tea"]


def test_both_halves_of_a_cut_keep_the_step_until_they_become_one_again(place: Path) -> None:
    edits = Edits(place)
    assert edits.do({"do": "cut", "video": "one", "time": 1.0}) == "split a segment in one"
    edits.do({"do": "cut", "video": "one", "time": 3.0})
    assert parts_of(edits)[:4] == [(0.0, 1.0, 0), (1.0, 2.0, 0), (2.0, 3.0, 1), (3.0, 4.0, 1)]
    edits.do({"do": "mark", "video": "one", "start": 2.0, "end": 3.0, "step": 0})
    # The other boundary stays.
    assert parts_of(edits)[:3] == [(0.0, 1.0, 0), (1.0, 3.0, 0), (3.0, 4.0, 1)]
    with pytest.raises(OptionError, match="is background"):
        edits.do({"do": "cut", "video": "one", "time": 4.2})


def test_splitting_here_and_in_all_videos(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "split", "video": "one", "time": 0.5})
    assert parts_of(edits)[:2] == [(0.0, 0.5, 0), (0.5, 2.0, 3)]
    assert edits.document.steps[3].name == "slice bread (2)"
    edits.undo()
    edits.do({"do": "split", "video": "one", "time": 0.5, "everywhere": True})
    assert parts_of(edits, "two")[:2] == [(0.5, 1.125, 0), (1.125, 3.0, 3)]
    edits.do({"do": "split", "video": "one", "time": 0.25})
    assert edits.document.steps[4].name == "slice bread (3)"


def test_what_a_person_touched_or_confirmed_is_known(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "rename", "step": 0, "name": "cut"})
    assert not covered_of(edits)
    edits.do({"do": "move", "video": "one", "part": 0, "edge": "end", "time": 1.0})
    assert covered_of(edits)["one"] == ((0.0, 4.0),)
    edits.do({"do": "mark", "video": "two", "start": 5, "end": 5.5, "step": None})
    assert covered_of(edits)["two"] == ((5.0, 5.5),)
    edits.do({"do": "confirm", "video": "two"})
    assert covered_of(edits)["two"] == ((0.0, 6.0),)
    edits.undo()
    assert covered_of(edits)["two"] == ((5.0, 5.5),)


def test_two_normal_videos_must_be_left() -> None:
    timeline = Timeline([Segment(0, 2, "pour"), Segment(2, 9, "stir")], duration=9)
    document = Document.of(["pour", "stir"], dict.fromkeys("abc", timeline))
    document = apply(document, {"do": "mistake", "video": "b"})
    with raises(OptionError, "2 videos"):
        apply(document, {"do": "mistake", "video": "a"})
    assert apply(document, {"do": "mistake", "video": "b"}) == document


def test_a_merge_says_nothing_of_videos_without_the_step(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "merge", "step": 1, "into": 0})
    assert covered_of(edits) == {"one": ((2.0, 4.0),)}  # the second video has no such step


@pytest.mark.parametrize("name", ["می\u200cپزد", "👩\u200d🍳 cooks", "קמח\u200f 2"])
def test_names_may_hold_what_joins_letters_and_emoji(place: Path, name: str) -> None:
    edits = Edits(place)
    edits.do({"do": "rename", "step": 0, "name": name})
    assert Edits(place).document.steps[0].name == name
    for hidden in ("\u202eevil", "a\x07", "\u200d"):
        with pytest.raises(OptionError, match="printable"):
            edits.do({"do": "rename", "step": 0, "name": hidden})


def test_names_can_be_exchanged_at_once(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "rename", "names": {"0": "pour tea", "2": "slice bread"}})
    assert [step.name for step in edits.document.steps] == [
        "pour tea",
        "spread butter",
        "slice bread",
    ]
    with pytest.raises(OptionError, match="already a step"):
        edits.do({"do": "rename", "names": {"0": "x", "1": "x"}})


def test_capitals_and_spaces_make_no_other_step(place: Path) -> None:
    edits = Edits(place)
    for edit in (
        {"do": "add", "name": "Pour  tea"},
        {"do": "rename", "step": 1, "name": "pour Tea"},
    ):
        with raises(OptionError, "'pour tea'"):
            edits.do(edit)
    edits.do({"do": "rename", "step": 2, "name": "Pour tea"})  # changing only the case is allowed
    log = read_log(place)  # older versions accepted this
    event = log.next(edits.outline.revision, ("add", {"name": "POUR TEA"}))
    append(place, log, [event])
    kept = Edits(place)
    assert [step.name for step in kept.document.steps][2:] == ["Pour tea", "POUR TEA"]
    kept.do({"do": "rename", "step": 0, "name": "cut"})
    kept.do({"do": "colour", "step": 2, "colour": "#123456"})


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"do": "renam"}, "'rename'?"),
        ([], "object"),
        ({"do": "rename", "step": 9, "name": "x"}, "step=9"),
        ({"do": "rename", "step": True, "name": "x"}, "step=True"),
        ({"do": "rename", "step": 0, "name": "  "}, "1 to 200"),
        ({"do": "rename", "step": 0, "name": "a\u202eb"}, "printable"),
        ({"do": "rename", "step": 0, "name": "x" * 201}, "1 to 200"),
        ({"do": "rename", "step": 0, "name": "pour tea"}, "Merge"),
        ({"do": "add", "name": "pour tea"}, "already"),
        ({"do": "colour", "step": 0, "colour": "red"}, "#rrggbb"),
        ({"do": "merge", "step": 0, "into": 0}, "into itself"),
        ({"do": "split", "video": "one", "time": 4.2}, "is background"),
        ({"do": "split", "video": "one", "time": 1.99}, "at the boundary"),
        ({"do": "move", "video": "one", "part": 3, "edge": "end", "time": 1}, "it has 3"),
        ({"do": "move", "video": "one", "part": 0, "edge": "ende", "time": 1}, "'end'?"),
        ({"do": "mark", "video": "one", "start": 1, "end": 1, "step": 0}, "too short"),
        ({"do": "mark", "video": "on", "start": 1, "end": 2, "step": 0}, "'one'?"),
        ({"do": "mark", "video": "one", "start": float("nan"), "end": 2, "step": 0}, "nan"),
        ({"do": "mark", "video": "one", "start": "1", "end": 2, "step": 0}, "is not a time"),
        ({"do": "mistake", "video": "on"}, "'one'?"),
        ({"do": "mistake", "video": "one", "holds": "no"}, "true or false"),
    ],
)
def test_a_wrong_edit_changes_nothing(place: Path, edit: Any, says: str) -> None:
    edits = Edits(place)
    with raises(OptionError, says):
        edits.do(edit)
    assert edits.document == edits.outline.corrections.learned
    assert len(events(place)) == 1


def test_another_program_that_writes_meanwhile_is_not_written_over(place: Path) -> None:
    mine, theirs = Edits(place), Edits(place)
    theirs.do({"do": "rename", "step": 0, "name": "theirs"})
    with raises(StaleEdit, "another window"):
        mine.do({"do": "rename", "step": 0, "name": "mine"})
    assert mine.document.steps[0].name == "theirs"
    mine.do({"do": "rename", "step": 0, "name": "mine"})
    assert Edits(place).document.steps[0].name == "mine"


times = st.floats(-1, 7).map(lambda time: round(time, 2))
videos = st.sampled_from(["one", "two"])
numbers = st.integers(0, 5)


def any_of(verb: str, **values: Any) -> Any:
    return st.fixed_dictionaries({"do": st.just(verb), **values})


edges = st.sampled_from(["start", "end"])
any_edit = st.one_of(
    any_of("rename", step=numbers, name=st.text(max_size=4)),
    any_of("add", name=st.text("abc", min_size=1, max_size=2)),
    any_of("merge", step=numbers, into=st.none() | numbers),
    any_of("cut", video=videos, time=times),
    any_of("split", video=videos, time=times, everywhere=st.booleans()),
    any_of("move", video=videos, part=st.integers(0, 4), edge=edges, time=times),
    any_of("mark", video=videos, start=times, end=times, step=st.none() | numbers),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(any_edit, max_size=12))
def test_any_edits_keep_timelines_whole_and_undo_to_the_start(
    place: Path, changes: list[dict[str, Any]]
) -> None:
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
            assert {part.step for part in parts} <= {step.name for step in edits.document.steps}
            assert all(part.end - part.start > 0 for part in parts)
            assert all(one.end <= other.start for one, other in pairwise(parts))
            assert not parts or (
                parts[0].start >= 0 and parts[-1].end <= edits.document.said.videos[name].end
            )
        names = [step.name for step in edits.document.steps]
        assert len(set(names)) == len(names)
    assert Edits(place).document == seen[-1]
    for before in reversed(seen[:-1]):
        edits.undo()
        assert edits.document == before
    for after in seen[1:]:
        edits.redo()
        assert edits.document == after
    if len(seen) > 1:
        assert len(Edits(place).corrections.done) == len(seen) - 1


def test_clicks_are_put_moved_removed_and_undone(place: Path) -> None:
    edits = Edits(place)
    for time, step in ((4.8, 2), (1.0, 0), (3.0, 1)):
        edits.do({"do": "click", "video": "one", "time": time, "step": step})
    assert clicks_of(Edits(place)) == [(1.0, 0), (3.0, 1), (4.8, 2)]
    edits.do({"do": "move_click", "video": "one", "click": 0, "time": 5.5})
    assert clicks_of(Edits(place)) == [(3.0, 1), (4.8, 2), (5.5, 0)]
    edits.do({"do": "clicks_complete", "video": "one"})
    assert Edits(place).document.said.videos["one"].complete
    for _ in range(3):
        edits.do({"do": "remove_click", "video": "one", "click": 0})
    assert not Edits(place).document.said.clicks
    edits.undo()
    assert clicks_of(Edits(place)) == [(5.5, 0)]
    assert edits.document.segments == edits.outline.corrections.learned.segments


def test_clicks_follow_a_merge(place: Path) -> None:
    edits = Edits(place)
    for time, step in ((1.0, 0), (3.0, 1)):
        edits.do({"do": "click", "video": "one", "time": time, "step": step})
    edits.do({"do": "merge", "step": 0, "into": 1})
    assert clicks_of(edits) == [(1.0, 1), (3.0, 1)]
    edits.do({"do": "merge", "step": 1, "into": None})
    assert clicks_of(edits) == []


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"do": "click", "video": "one", "time": 1.0, "step": 1}, "another step"),
        ({"do": "click", "video": "one", "time": 1.0, "step": 9}, "step=9"),
        ({"do": "click", "video": "one", "time": "now", "step": 0}, "time"),
        ({"do": "click", "video": "none", "time": 1.0, "step": 0}, "video"),
        ({"do": "move_click", "video": "one", "click": 1, "time": 2.0}, "click=1"),
        ({"do": "remove_click", "video": "two", "click": 0}, "click=0"),
        ({"do": "clicks_complete", "video": "two"}, "no clicks"),
        ({"do": "fine", "kind": "missed", "step": 9, "video": "new"}, "step=9"),
        ({"do": "fine", "kind": None, "step": 0, "video": "new"}, "kind"),
    ],
)
def test_clicks_that_make_no_sense(place: Path, edit: dict[str, Any], said: str) -> None:
    edits = Edits(place)
    edits.do({"do": "click", "video": "one", "time": 1.0, "step": 0})
    with raises(OptionError, said):
        edits.do(edit)
    assert clicks_of(Edits(place)) == [(1.0, 0)]


def test_a_click_beyond_the_end_is_at_the_end(place: Path) -> None:
    edits = Edits(place)
    edits.do({"do": "click", "video": "one", "time": 99.0, "step": 0})
    assert clicks_of(edits) == [(6.0, 0)]
