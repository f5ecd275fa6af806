"""Annotations: labels, clicks and transcripts as constraints, as JSON, and in learn and teach."""

import json
from fractions import Fraction
from functools import partial

import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.annotations import Accepted, Annotation, Annotations, Origin, RecipeStep
from stepcut.errors import AnnotationError
from stepcut.methods import StepCut
from stepcut.methods.constraints import Constraint, Transcript, as_constraints
from stepcut.procedure.labels import annotate
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features

ROWS, TRUE = toy_features(videos=5, seed=0, dim=12)
VIDEOS = {timeline.video: rows for timeline, rows in zip(TRUE, ROWS, strict=True)}
TRUTH = {timeline.video: timeline for timeline in TRUE}
ONE, TWO, THREE = list(VIDEOS)[:3]
LAST = TRUTH[ONE].end
QUICK = {"restarts": 2}
STEPS = ["pour", "stir", "bake"]


def clicks(timeline):
    middles = [((one.start + one.end) / 2, one.step) for one in timeline]
    return Timeline([Segment(time, time, step) for time, step in middles], timeline.duration)


class Heard(StepCut):
    learns_from = frozenset({"labels", "clicks", "transcript"})
    heard: list[Constraint | None] | None = None

    def fit(self, features, constraints=None, **more):
        if constraints is not None:  # the fits that measure quality have none
            Heard.heard = constraints
        rows = [getattr(one, "labels", None) for one in constraints or ()]
        known = as_constraints(rows) if any(one is not None for one in rows) else None
        return super().fit(features, known, **more)


def test_labels_clicks_and_a_transcript_become_a_constraint():
    parts, script = (Segment(1.2, 3.4, "stir"), Segment(8.2, 8.2, "bake")), ("stir", "bake")
    said = Annotation(end=10.0, segments=parts, annotated=((0.0, 5.0),), transcript=script)
    made = said.constraint(rows=10, rate=1.0, steps=STEPS)
    assert made.labels.tolist() == [-1, 1, 1, -1, -1, -2, -2, -2, -2, -2]
    assert made.clicks == ((8, 2),)
    assert made.transcript == Transcript((1, 2))
    assert not made.complete  # labels may contain steps without a click
    assert Annotation(end=4.0, mistake=True).constraint(4, 1.0, STEPS) is None
    said = annotate(clicks(TRUTH[ONE]), ONE, LAST, 1.0, Origin("python"))
    assert said.annotated == ()
    made = said.constraint(len(VIDEOS[ONE]), Fraction(1), TRUTH[ONE].steps)
    assert (made.labels, made.complete, len(made.clicks)) == (None, True, len(TRUTH[ONE]))
    for row, step in made.clicks:
        assert TRUTH[ONE].labels([row + 0.5])[0] == step
    segments = Segment(0, 2, "pour"), Segment(2.1, 2.3, "stir")
    said = Annotation(end=4.0, segments=segments, annotated=((0, 4.0),))
    assert said.rows(4, 1.0, STEPS).tolist() == [0, 0, 1, -1]


@pytest.mark.parametrize(
    ("times", "rows"), [((1.1, 1.6), (1, 2)), ((3.1, 3.6), (2, 3))], ids=["a row", "the last row"]
)
def test_two_clicks_within_a_row_take_two_rows(times, rows):
    clicks = [Segment(time, time, step) for time, step in zip(times, STEPS, strict=False)]
    said = Annotation(end=4.0, segments=tuple(clicks))
    assert said.constraint(4, 1.0, STEPS).clicks == ((rows[0], 0), (rows[1], 1))
    with raises(AnnotationError, video="a"):
        Annotations(videos={"a": said}).constraints({"a": 1}, 1.0, STEPS)


def test_time_without_a_label_is_open_around_a_click():
    mixed = Timeline(
        [Segment(0, 3, "pour"), Segment(2, 2, "pour"), Segment(5, 8, "stir"), Segment(9, 9, "bake")]
    )
    said = annotate(mixed, "a", 12.0, 1.0, Origin("python"))
    assert said.annotated == ((0, 8),)  # from 3 to 5 is background
    assert said.clicks == [Segment(2, 2, "pour"), Segment(9, 9, "bake")]
    later = Annotation(end=12.0, segments=(Segment(4, 4, "bake"),)).over(said)
    assert later.annotated == ((0, 3), (5, 8))
    assert len(later.clicks) == 3


@pytest.mark.parametrize(("order", "fits"), [
    (["pour", "stir"], True),
    (["stir", "pour"], False),
    (["pour", "bake", "stir"], False),
    (["pour"], False),
    (["pour; optional", "stir"], True),
    (["pour", "stir; any time"], True),
])  # fmt: skip
def test_labels_of_a_whole_video_must_fit_the_recipe(order, fits):
    labels = {ONE: Timeline([Segment(2, 9, "pour"), Segment(9, LAST, "stir")])}
    learn = partial(sc.learn, VIDEOS, labels=labels, recipe=order, method=Heard(steps=6, **QUICK))
    if fits:
        assert ONE in learn().annotations.labels
    else:
        with raises(AnnotationError, video=ONE):
            learn()


def test_a_recipe_is_for_all_videos_and_new_annotations_stand_over_old():
    recipe = (
        RecipeStep("pour"), RecipeStep("bake", optional=True), RecipeStep("stir", any_time=True),
    )  # fmt: skip
    said = Annotations(videos={"a": Annotation(end=9.0, transcript=("stir",))}, recipe=recipe)
    own, general = said.constraints({"a": 9, "b": 9}, 1.0, STEPS)
    assert own.transcript == Transcript((1,))
    assert general.transcript == Transcript((0, 2), frozenset({1}), frozenset({1}))
    pieces = Segment(0, 6, "pour"), Segment(6, 10, "bake")
    of = {"annotated": ((0.0, 10.0),), "origins": (Origin("old.csv"),)}
    old = Annotation(end=10.0, segments=pieces, **of)
    of = {"annotated": ((4.0, 7.0),), "origins": (Origin("viewer"),)}
    both = Annotation(end=10.0, segments=(Segment(4, 7, "stir"),), **of).over(old)
    assert both.segments == (Segment(0, 4, "pour"), Segment(4, 7, "stir"), Segment(7, 10, "bake"))
    assert both.annotated == ((0.0, 10.0),)
    assert [one.source for one in both.origins] == ["old.csv", "viewer"]


def test_json_and_back():
    said = Annotations(
        videos={
            "a\udce9": Annotation(
                end=9.5,
                segments=(Segment(1, 2.5, "pour"), Segment(9, 9, "stir")),
                annotated=((0.0, 3.0),),
                complete=False,
                transcript=("pour", "stir"),
                mistake=True,
                origins=(Origin("a.eaf", "ann"), Origin("viewer")),
            )
        },
        names=("pour",),
        severities={"pour": ("critical", "free")},
        recipe=(RecipeStep("pour", 40.0, any_time=True),),
        accepted=(Accepted("missed", "pour"),),
    )
    assert Annotations.from_json(json.loads(json.dumps(said.to_json()))) == said


@pytest.mark.parametrize("video", [
    {"end": "x"},
    {"end": 1e400},
    {"end": 9, "segments": [{"start": 5, "end": 2, "step": "a"}]},
    {"end": 9, "segments": [{"start": 5, "end": 12, "step": "a"}]},
    {"end": 9, "annotated": [[4, 6], [1, 2]]},
    {"end": 9, "annotated": [[4]]},
])  # fmt: skip
def test_json_that_makes_no_sense(video):
    with pytest.raises(ValueError, match="annotations"):
        Annotations.from_json({"videos": {"a": video}})


@pytest.fixture(scope="module")
def heard():
    return sc.learn(VIDEOS, steps=6, method=Heard(steps=6, **QUICK))


def test_a_method_that_takes_constraints_gets_clicks_and_transcripts(heard):
    said = {ONE: list(TRUTH[ONE].sequence()), f"films/{TWO}.mp4": TRUTH[TWO].sequence()}
    taught = heard.teach({THREE: clicks(TRUTH[THREE])}, transcripts=said)
    found = dict(zip(VIDEOS, Heard.heard, strict=True))
    assert [one is None for one in found.values()] == [False, False, False, True, True]
    first, third = found[ONE], found[THREE]
    assert [taught.steps[k] for k in first.transcript.steps] == TRUTH[ONE].sequence()
    assert len(third.clicks) == len(TRUTH[THREE])
    assert taught.annotations.transcripts.keys() == {ONE, TWO}
    assert taught.annotations.clicks.keys() == {THREE}
    again = taught.teach({TWO: TRUTH[TWO]})
    assert again.annotations.transcripts.keys() == {ONE, TWO}  # earlier annotations are kept


def test_clicks_teach_the_default_method_and_origins_are_kept(tmp_path):
    said = {name: clicks(timeline) for name, timeline in TRUTH.items()}
    taught = sc.learn(VIDEOS, labels=said, **QUICK)
    for name, timeline in said.items():
        shown = [taught.steps[taught.labels[name][int(one.start)]] for one in timeline]
        assert shown == timeline.sequence()
    taught.save(tmp_path / "a.proc")
    assert sc.load(tmp_path / "a.proc").annotations == taught.annotations
    file = tmp_path / f"{ONE}.csv"
    sc.write(file, TRUTH[ONE])
    taught = sc.learn(VIDEOS, labels=file, **QUICK)
    assert taught.annotations.videos[ONE].origins == (Origin(str(file)),)
    again = taught.teach({TWO: TRUTH[TWO]})
    assert again.annotations.videos[TWO].origins == (Origin("python"),)
    assert again.annotations.videos[ONE].origins == taught.annotations.videos[ONE].origins


@pytest.mark.parametrize(("labels", "transcripts", "words"), [
    ({ONE: [(4, "pour"), (9, "stir")]}, {ONE: ["stir", "pour"]}, "'stir' at 9 s"),
    ({ONE: [(4, "pour"), (4, "stir")]}, None, "'pour' and 'stir'"),
    ({ONE: [(4, "pour"), (LAST + 30, "stir")]}, None, "after the end"),
    ({ONE: [(4, "pour"), (9, "stir")]}, {TWO: ["pour", "stirr"]}, "'stir'?"),
    (None, {"nobody": ["pour"]}, "'nobody'"),
    (None, {ONE: []}, "transcript is empty"),
    (None, {ONE: ["pour"] * 10_000}, "10000 steps"),
    (None, {ONE: ["Add jam", "add  jam"]}, "differ"),
])  # fmt: skip
def test_annotations_that_make_no_sense(heard, labels, transcripts, words):
    given = labels and {
        name: Timeline([Segment(time, time, step) for time, step in mine])
        for name, mine in labels.items()
    }
    before = heard.annotations
    with raises(AnnotationError, words) as told:
        heard.teach(given, transcripts=transcripts)
    assert told.value.video in (ONE, TWO, "nobody") or "differ" in words
    with raises(AnnotationError, words):
        sc.learn(VIDEOS, labels=given, transcripts=transcripts, method=Heard(steps=6, **QUICK))
    assert heard.annotations == before


def test_a_transcript_names_the_steps_of_a_procedure(heard):
    named = heard.teach(transcripts={ONE: TRUTH[ONE].sequence()})
    assert set(named.steps) == set(TRUTH[ONE].steps)
    with raises(AnnotationError, "'fly'", video=TWO):
        named.teach(transcripts={TWO: ["fly"]})
    loud = [step.upper() for step in TRUTH[ONE].steps]
    again = named.teach(transcripts={TWO: loud})
    assert again.annotations.transcripts[TWO] == TRUTH[ONE].steps
