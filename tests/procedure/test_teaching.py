"""Teaching: label names become steps, numbers stay, corrections are used, wrong labels are refused."""

import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises
from show_kit import parts_of
from store_kit import change_config, do, edit

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import AnnotationError, OptionError, ProcedureError
from stepcut.formats import read_folder, write_folder
from stepcut.procedure.edits import Edits
from stepcut.procedure.labels import find_labelled
from stepcut.procedure.learning import changes, teach_folder
from stepcut.progress import warn_once
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features

QUICK = {"restarts": 2}
ROWS, TRUE = toy_features(videos=5, seed=0, dim=12)
VIDEOS = {timeline.video: rows for timeline, rows in zip(TRUE, ROWS, strict=True)}
TRUTH = {timeline.video: timeline for timeline in TRUE}
ONE, TWO, THREE = list(VIDEOS)[:3]
LAST = TRUTH[ONE].end
NAMES = {segment.step for timeline in TRUE[:2] for segment in timeline}


@pytest.fixture(scope="module")
def learned(learned_once):
    return sc.load(learned_once)


@pytest.fixture(scope="module")
def taught(learned):
    return learned.teach({ONE: TRUTH[ONE], TWO: TRUTH[TWO]})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    for name, rows in VIDEOS.items():
        np.save(folder / f"{name}.npy", rows)
    return folder


@pytest.fixture(scope="module")
def learned_once(files, tmp_path_factory):
    place = tmp_path_factory.mktemp("learned") / "a.proc"
    sc.learn(files, steps=6, output=place, **QUICK)
    return place


@pytest.fixture
def place(learned_once, tmp_path):
    return Path(shutil.copytree(learned_once, tmp_path / "a.proc"))


def labelled_rows(place):
    procedure = sc.load(place)
    said = procedure.annotations.videos[ONE]
    return said.rows(procedure.samples[ONE], procedure.rate, procedure.steps)


def numbers(name):
    return TRUTH[name].labels(np.arange(len(VIDEOS[name])) + 0.5)


def timeline(*parts, duration=None):
    return Timeline([Segment(*part) for part in parts], duration)


def exact(timeline):
    return [(segment.start, segment.end, segment.step) for segment in timeline]


def test_labels_find_their_video_and_name_the_steps(taught):
    assert find_labelled(["/Films/A.MOV", "b"], {"a": 4, "B": 4}) == {"/Films/A.MOV": "a", "b": "B"}
    with pytest.raises(AnnotationError, match="video='c' is unknown"):
        find_labelled(["a", "c"], {"a": 4, "B": 4})
    cameras = dict.fromkeys(("cam1/a", "cam2/a", "b"), 4)
    found = find_labelled(["/films/cam2/a.mp4", "b.mp4"], cameras)
    assert [*found.values()] == ["cam2/a", "b"]
    with raises(AnnotationError, "'a.mp4'", "'cam1/a' or 'cam2/a'"):
        find_labelled(["a.mp4"], cameras)
    assert set(taught.steps) == NAMES
    assert taught.timelines[ONE].sequence() == TRUTH[ONE].sequence()
    starts = [(s.step, s.start / t.end) for t in TRUE[:2] for s in t]
    first = {name: np.mean([at for step, at in starts if step == name]) for name in NAMES}
    assert first[taught.steps[0]] < first[taught.steps[-1]]
    assert set(taught.annotations.annotated) == {ONE, TWO}


def test_labels_are_taken_for_the_steps_that_their_words_stand_for(taught, tmp_path):
    loud = TRUTH[THREE].rename({name: f" {name.upper()}" for name in TRUTH[THREE].steps})
    steps = taught.teach({THREE: loud}).steps
    assert set(taught.steps) <= set(steps)
    upper = [{name.upper() for name in names} for names in (taught.steps, TRUTH[THREE].sequence())]
    assert len(steps) == len(upper[0] | upper[1])
    write_folder(tmp_path, {THREE: TRUTH[THREE]}, "mstcn", rate=30)
    written = read_folder(tmp_path, rate=30)
    assert any("_" in name for name in written[THREE].steps)
    again = taught.teach(written).steps
    assert not any("_" in name for name in again if name in taught.steps)
    assert len({name.replace("_", " ") for name in again}) == len(again)
    truths = (written, {THREE: TRUTH[THREE]})
    frames, seconds = (sc.evaluate(taught, truth, protocol="named").score for truth in truths)
    assert frames.matching == seconds.matching


def test_accents_may_be_written_in_two_ways():
    one, two = (unicodedata.normalize(form, "éplucher") for form in ("NFC", "NFD"))
    videos = {f"{one}-{name}": rows for name, rows in VIDEOS.items()}
    named = sc.learn(videos, steps=6, **QUICK).rename({0: one})
    said = TRUTH[ONE].rename({TRUTH[ONE].steps[0]: two})
    taught = named.teach({f"{two}-{ONE}": said})
    assert one in taught.steps
    assert two not in taught.steps
    assert sc.evaluate(named, {f"{two}-{ONE}": said}).score.matching


def test_quality_and_scores_of_labelled_videos(taught, learned):
    assert taught.quality.kind == "labels"
    assert "cross-validated on 2 labelled videos" in str(taught.quality)
    alone = sc.learn(VIDEOS, labels={ONE: numbers(ONE)}, rate=1.0, **QUICK).quality
    assert (alone.kind, alone.right) == ("unknown", None)
    assert not any("person" in note for note in sc.evaluate(learned, TRUTH).notes)
    notes = sc.evaluate(learned.teach({ONE: TRUTH[ONE]}), TRUTH).notes
    assert [ONE in note for note in notes if f"1 of the {len(TRUTH)} videos" in note] == [True]


def test_numbers_and_partial_labels_stay_what_they_are(learned):
    labels = {ONE: numbers(ONE), TWO: numbers(TWO)}
    procedure = sc.learn(VIDEOS, rate=1.0, steps=np.int64(6), labels=labels, seed=0, **QUICK)
    for name, given in labels.items():
        assert procedure.labels[name].tolist() == given.tolist()
    order = {ONE: [2, 0, 1, 3, 4, 5]}
    named = sc.learn(VIDEOS, steps=6, transcripts=order, names=list("abcdef"), **QUICK)
    assert named.annotations.transcripts == {ONE: tuple("cabdef")}
    assert named.timelines[ONE].sequence() == list("cabdef")
    taught = learned.teach(transcripts=order)
    assert taught.timelines[ONE].sequence() == [learned.steps[number] for number in order[ONE]]
    part = numbers(ONE)
    part[len(part) // 2 :] = -2
    taught = learned.teach({ONE: part})
    assert taught.labels[ONE][: len(part) // 2].tolist() == part[: len(part) // 2].tolist()
    assert len(taught.steps) == 6
    some = Timeline([s for s in TRUTH[ONE] if s.step != TRUTH[ONE].steps[2]], TRUTH[ONE].duration)
    assert learned.teach({ONE: some}, steps=6).steps[5] == "step 6 (no name yet)"
    with raises(OptionError, setting="steps", value=6.7):
        learned.teach({ONE: some}, steps=6.7)
    assert learned.teach({ONE: some}).steps == list(dict.fromkeys(some.sequence()))


def test_labels_from_files_on_the_command_line(files, place, tmp_path, run):
    write_folder(tmp_path / "labels", {ONE: TRUTH[ONE], TWO: TRUTH[TWO]}, "csv")
    labels, new = str(tmp_path / "labels"), str(tmp_path / "l.proc")
    words = ["learn", str(files), "--labels", labels, "-o", new, "--quiet"]
    run(*words, "--set", "restarts=2")
    assert set(sc.load(new).steps) == NAMES
    do(place, edit("rename", step=5, name="a word of mine"))
    out = run("teach", place, labels, "-o", tmp_path / "p2.proc").out
    assert "2 annotated videos and 3 others" in out
    assert "do not name: a word of mine\n" in out
    assert set(sc.load(tmp_path / "p2.proc").steps) == NAMES
    assert sc.load(place).steps[0] == "step 1"


def test_corrections_teach_and_can_be_taken_back(place, capsys):
    number = TRUTH[ONE].steps.index
    do(
        place,
        *(edit("mark", ONE, start=s.start, end=s.end, step=number(s.step)) for s in TRUTH[ONE]),
        edit("rename", step=0, name="the first thing"),
        edit("colour", step=0, colour="#123456"),
    )
    known = labelled_rows(place)
    assert main(["teach", str(place), "--quiet"]) == 0
    taught = sc.load(place)
    assert (taught.labels[ONE] == known)[known != -2].all()
    assert taught.steps[0] == "the first thing"
    assert taught.document.steps[0].colour == "#123456"
    assert set(taught.annotations.annotated) == {ONE}
    out = capsys.readouterr().out
    assert "--back" in out
    assert out.count("label next:") == 3
    do(place, edit("confirm", TWO))  # teaching again starts from all labels
    before, again = teach_folder(place)
    assert set(again.annotations.annotated) == {ONE, TWO}
    assert changes(before, again)[TWO] == 0
    assert main(["teach", str(place), "--back"]) == 0
    assert sc.load(place).corrections.done[-1]["do"] == "confirm"
    Edits(place).undo()


def test_what_was_corrected_stays_as_it_is_however_often_it_is_taught(place):
    parts = parts_of(Edits(place), ONE)
    step = next(k for k in range(6) if all(part[2] != k or part[0] > 9 for part in parts))
    third = Edits(place).document.segments[THREE][1]
    do(place, edit("mark", ONE, start=3.3, end=8.6, step=step), edit("cut", ONE, time=5.05))
    do(place, edit("mark", ONE, start=12.2, end=13.7, step=None))
    edits = do(place, edit("cut", THREE, time=round((third.start + third.end) / 2 + 0.1, 3)))

    def inside(timeline, start, end):
        return [one for one in exact(timeline) if start <= one[0] and one[1] <= end]

    shown = edits.document.timelines
    mine, halves = inside(shown[ONE], 3.3, 8.6), inside(shown[THREE], third.start, third.end)
    assert (len(mine), len(halves)) == (2, 2)
    for video in (TWO, THREE):
        taught = teach_folder(place)[1].timelines
        assert inside(taught[ONE], 3.3, 8.6) == mine
        assert not [one for one in taught[ONE] if one.start < 13.7 and one.end > 12.2]
        assert set(halves) <= set(exact(taught[THREE]))
        assert taught[ONE] == sc.load(place).timelines[ONE]
        do(place, edit("confirm", video))


def test_what_is_found_reaches_up_to_what_was_said(place):
    edits = Edits(place)
    start = round(edits.document.segments[ONE][1].start + 0.3, 3)
    step = (parts_of(edits, ONE)[1][2] + 1) % 6
    edits.do(edit("mark", ONE, start=start, end=start + 3.4, step=step))
    found = teach_folder(place)[1].timelines[ONE]
    place_of = next(k for k, one in enumerate(found) if one.start == pytest.approx(start))
    left = found.segments[place_of - 1]
    assert left.end == pytest.approx(start)
    assert left.confidence is not None


@pytest.mark.parametrize(("labels", "words"), [
    (np.array([0, *[1] * (len(VIDEOS[ONE]) - 1)]), "'step 1' is annotated only for 1 s"),
    (Timeline([*TRUTH[ONE], Segment(1, 1, "ring")]), "'ring' is annotated only by one click"),
    (Timeline([*TRUTH[ONE], Segment(LAST - 0.3, LAST, "end")]), "'end' is annotated only for"),
])  # fmt: skip
def test_a_step_that_is_annotated_once_is_little_evidence(labels, words, caplog):
    warn_once.cache_clear()
    steps = sc.learn(VIDEOS, labels={ONE: labels}, **QUICK).steps
    assert len(steps) in (2, len(TRUTH[ONE].steps) + 1)
    assert words in caplog.text


def test_a_video_that_holds_a_mistake_is_no_normal_one(place, run):
    before = sc.load(place)
    odd = before.expectations.most_unusual[0]
    told = run("teach", place, "--mistakes", f"films/{odd}.mp4").out
    after = sc.load(place)
    assert after.expectations.forecast in told
    marked = before.learned.expectations.with_marks([odd])
    assert after.expectations == marked != before.expectations
    assert odd not in after.expectations.most_unusual
    assert "nobody" in run("teach", place, "--mistakes", "nobody", code=2).err
    for other in (["--back"], ["-o", str(place / "new.proc")], ["-k", "7"]):
        assert "alone" in run("teach", place, *other, "--mistakes", odd, code=2).err
    assert sc.load(place) == after
    after.mark_mistakes(odd, holds=False).save(place)
    assert sc.load(place).expectations == before.expectations


def test_a_mistake_is_kept_by_teaching_until_it_is_taken_back(place):
    odd = sc.load(place).expectations.most_unusual[0]
    edits = Edits(place)
    assert edits.do(edit("mistake", odd)) == f"{odd} contains a mistake"
    assert edits.do(edit("mistake", odd, holds=False)) == f"{odd} is normal"
    assert not edits.document.said.mistakes | edits.document.said.normal
    edits.undo()
    _, after = teach_folder(place, {ONE: TRUTH[ONE], TWO: TRUTH[TWO]})
    assert not after.corrections.done
    assert after.document.said.mistakes == sc.load(place).document.said.mistakes == {odd}
    assert odd in sc.load(place).expectations.mistakes
    do(place, edit("mistake", odd, holds=False))
    assert odd in sc.load(place).expectations.videos


@pytest.mark.slow
def test_named_steps_stay_beside_labels_that_use_their_names(place):
    do(place, edit("rename", names={str(k): f"name {k}" for k in range(6)}))
    record = sc.load(place)
    ends = {name: one.end for name, one in record.timelines.items()}
    labels = {v: timeline((0, 9, "name 1"), (9, end, "name_0")) for v, end in ends.items()}
    one = {ONE: labels[ONE]}
    first = ["name 1", "name 0"]
    steps = record.teach(one).steps  # a name stays with the rows that had it, whatever their number
    assert (steps[:2], sorted(steps[2:])) == (first, [f"name {k}" for k in range(2, 6)])
    assert record.teach(one, steps=3).steps == [*first, "name 2"]
    assert record.teach(labels).steps == first  # everything is labelled
    other = {ONE: labels[ONE].rename({"name 1": "cut", "name_0": "eat"})}
    assert record.teach(other).steps == ["cut", "eat"]


@pytest.mark.parametrize(
    "edits",
    [
        [edit("merge", step=4, into=3)],
        [edit("split", ONE, time=5.0)],
        [edit("add", name="wipe"), edit("mark", ONE, start=2.0, end=6.0, step=6)],
        [edit("add", name="nowhere"), edit("confirm", ONE)],
        [edit("move", ONE, part=0, edge="end", time=1e6)],
    ],
    ids=["merged", "parted", "added", "added but not marked", "moved as far as can be"],
)
def test_steps_that_nobody_touched_stay_where_they_are(place, edits):
    do(place, *(edit("rename", step=k, name=f"name {k}") for k in range(6)), *edits)
    shown, taught = teach_folder(place)
    assert taught.steps == shown.steps
    same = [np.mean(taught.labels[name] == numbers) for name, numbers in shown.labels.items()]
    assert np.mean(same) > 0.85
    assert min(same) > 0.75


def test_labels_of_a_video_without_steps_and_videos_to_label_next(taught, learned):
    again = taught.teach({THREE: Timeline([], duration=TRUTH[THREE].end)})
    assert (again.labels[THREE] == -1).all()
    assert again.steps == taught.steps
    assert len(learned.suggest(2)) == 2
    assert set(learned.suggest(9)) == set(VIDEOS)
    assert set(taught.suggest(9)) == set(VIDEOS) - {ONE, TWO}
    assert all(reason for _, reason in taught.suggest_why(1))


@pytest.mark.parametrize(("labels", "words"), [
    ({"nobody": TRUTH[ONE]}, "'nobody'"),
    ({"a": TRUTH[ONE], "b": TRUTH[TWO]}, "another task"),
    ({ONE: timeline((0, 9, "Add jam"), (9, 20, "add  jam"))}, f"({ONE})"),
    ({ONE: timeline((0, LAST + 60, "a"))}, "after the end"),
    ({ONE: timeline((-1, -1, "a"), (5, 9, "b"))}, "before the start"),
    ({ONE: timeline((0, 9, "a"), (5, 5, "b"))}, "'b' at 5 s"),
    ({ONE: numbers(ONE)[:-1]}, f"({len(VIDEOS[ONE]) - 1},)"),
    ({ONE: numbers(ONE) - 5}, "-6"),
    ({ONE: np.full(len(VIDEOS[ONE]), -2)}, "-2 (open)"),
    ({ONE: np.where(np.arange(len(VIDEOS[ONE])) < 9, 2**31 - 1, 0)}, "2147483647"),
    ({}, "labels="),
    ({ONE: Timeline([], LAST)}, "no step"),
    ({ONE: timeline((0, 9, "a\ud800"))}, "half a character"),
])  # fmt: skip
def test_labels_that_make_no_sense(learned, labels, words):
    with raises((AnnotationError, OptionError), words):
        learned.teach(labels)
    with raises((AnnotationError, OptionError), words):
        sc.learn(VIDEOS, labels=labels, **QUICK)


def test_wrong_numbers_of_steps_and_methods_that_take_no_labels(learned, taught):
    one = {ONE: TRUTH[ONE]}
    with raises(OptionError, "6 steps", "steps=3"):
        learned.teach(one, steps=3)
    with pytest.raises(OptionError, match="steps=3; give steps=6"):
        sc.learn(VIDEOS, steps=3, labels=one, **QUICK)
    with raises(OptionError, setting="steps", value=10**9):
        learned.teach(one, steps=10**9)
    with raises(OptionError, "steps=1000000000", "frames"):
        sc.learn(VIDEOS, labels=one, steps=10**9, **QUICK)
    with pytest.raises(AnnotationError, match="another task"):
        taught.teach({THREE: timeline((0, 20, "change wheel"), (20, 40, "pump tyre"))})
    with pytest.raises(OptionError, match="labels"):
        sc.learn(VIDEOS, steps=6, method="cnc", labels={ONE: numbers(ONE)})


def test_labels_are_clipped_and_of_overlaps_the_later_start_counts(place, learned, caplog):
    parts = [(-0.2, 5, "a"), (5, LAST, "b"), (LAST + 0.2, LAST + 0.4, "a")]
    teach_folder(place, {ONE: timeline(*parts)})
    assert exact(sc.load(place).annotations.labels[ONE]) == [(0, 5, "a"), (5, LAST, "b")]
    warn_once.cache_clear()
    parts = [(0, 20, "a"), (5, 9, "b"), (15, LAST, "c"), (7, 7, "b")]
    made = learned.teach({ONE: timeline(*parts), TWO: TRUTH[TWO]})
    shown = exact(made.annotations.videos[ONE].labelled)
    assert shown == [(0, 5, "a"), (5, 9, "b"), (9, 15, "a"), (15, LAST, "c")]
    assert made.annotations.clicks == {ONE: [Segment(7, 7, "b")]}
    assert f"overlap in 1 of 2 videos, such as 'a' and 'b' at 5 s in {ONE}" in caplog.text


def test_the_same_recording_under_two_names_counts_once(caplog):
    warn_once.cache_clear()
    both = sc.learn({**VIDEOS, "copy": VIDEOS[TWO]}, steps=6, **QUICK)
    assert both.expectations.normal == len(VIDEOS)
    assert "copy" in both.timelines
    assert f"copy of {TWO}" in caplog.text


def test_without_corrections_there_is_nothing_to_learn_from(learned, place, tmp_path):
    with raises(OptionError, "nothing to learn"):
        learned.teach()
    do(place, edit("rename", step=0, name="only a name"))
    assert main(["teach", str(place)]) == 2
    assert sc.load(place).steps[0] == "only a name"
    with raises(ProcedureError, "not a procedure"):
        teach_folder(tmp_path)


def test_features_that_are_gone(place, files, tmp_path):
    do(place, edit("confirm", ONE))
    moved = shutil.copytree(files, tmp_path / "moved")
    change_config(place, source=[str(moved)])
    procedure = sc.load(place)
    (moved / f"{TWO}.npy").unlink()
    with raises(OptionError, TWO, "missing"):
        procedure.teach()
    assert set(procedure.teach(source=files).annotations.annotated) == {ONE}
    shutil.rmtree(moved)
    with raises(OptionError, "no such file", "--source"):
        procedure.teach()
    with raises(AnnotationError, "is unknown"):  # before features are computed
        procedure.teach({"another": TRUTH[ONE]})


def test_clicks_of_the_viewer_are_annotations_and_are_taught(place):
    times = (4.0, 12.5, 20.0)
    do(place, *(edit("click", ONE, time=time, step=step) for step, time in enumerate(times)))
    before = sc.load(place)
    said = before.annotations.videos[ONE]
    assert said.clicks == [Segment(t, t, f"step {k}") for k, t in enumerate(times, 1)]
    assert not said.complete
    assert [one.source for one in said.origins] == ["viewer"]
    taught = before.teach()
    assert [taught.labels[ONE][row] for row in (4, 12, 20)] == [0, 1, 2]
    assert taught.annotations.videos[ONE].clicks == said.clicks


def test_transcripts_on_the_command_line(place, tmp_path, run):
    lines = [f"{name}.mp4: {', '.join(TRUTH[name].sequence())}" for name in (ONE, TWO)]
    (tmp_path / "steps.txt").write_text("\n".join(lines))
    (tmp_path / "odd.txt").write_text("nobody: a, b")
    words = ["teach", str(place), "--quiet", "--transcripts"]
    assert "nobody" in run(*words, tmp_path / "odd.txt", code=2).err
    assert "quality: " in run(*words, tmp_path / "steps.txt").out
    assert set(sc.load(place).annotations.transcripts) == {ONE, TWO}


def test_a_new_video_joins_the_procedure_is_confirmed_and_taught(place, tmp_path):
    do(place, edit("rename", step=0, name="boil"))
    np.save(file := tmp_path / "new.npy", VIDEOS[ONE] + np.float32(0.01))
    proc = sc.load(place)
    proc.add(file).save(place)
    grown = sc.load(place)
    assert (list(grown.timelines)[-1], grown.steps[0]) == ("new", "boil")
    assert list(grown.timelines["new"]) == list(proc.segment(file))
    with raises(OptionError, "nothing to add"):
        grown.add(file)
    do(place, edit("confirm", videos=["new", TWO]))
    _, taught = teach_folder(place, keep=[THREE])
    assert taught.annotations.annotated == [TWO, "new"]
    assert taught.timelines[THREE] == grown.timelines[THREE]
