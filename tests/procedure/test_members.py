"""Videos join a procedure, leave it and are replaced; what people said is kept in the log."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises
from store_kit import do, edit, events

import stepcut as sc
from stepcut.errors import OutputError
from stepcut.procedure.edits import Edits, history
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features

ROWS, TRUE = toy_features(videos=8, seed=0, dim=12)
NAMES = [timeline.video for timeline in TRUE]
ONE, TWO, THREE, *_, NEW, OTHER = NAMES
LEARNED = NAMES[:6]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Six learned videos with a name, a label, a severity and a rule; two more files."""
    root = tmp_path_factory.mktemp("members")
    for folder, some in (("old", NAMES[:6]), ("more", NAMES[6:])):
        (root / folder).mkdir()
        for name in some:
            np.save(root / folder / f"{name}.npy", ROWS[NAMES.index(name)])
    place = root / "a.proc"
    sc.learn(root / "old", steps=6, restarts=2, output=place)
    edits = Edits(place)
    edits.do(edit("rename", step=0, name="boil"))
    edits.do(edit("confirm", videos=[ONE, TWO]))
    edits.do(edit("mark", TWO, start=0.0, end=3.0, step=0))
    edits.do(edit("severity", step=1, severity="critical"))
    edits.set_rule("boil once")
    return root


@pytest.fixture
def place(made, tmp_path):
    return Path(shutil.copytree(made / "a.proc", tmp_path / "a.proc"))


def same_knowledge(before, after):
    assert after.steps == before.steps
    assert after.expectations.severity == before.expectations.severity
    assert [str(rule) for rule in after.expectations.rules] == ["boil once"]
    for name in {ONE, TWO} & after.samples.keys():
        mine, old = (one.annotations.videos[name] for one in (after, before))
        assert (mine.segments, mine.annotated) == (old.segments, old.annotated)


def test_new_videos_are_segmented_by_the_present_model(place, made, run):
    before = sc.load(place)
    said = "".join(run("add", place, made / "more", made / "old", "--quiet"))  # without the old
    after = sc.load(place)
    assert f"added: {NEW}" in said
    assert "teach" in said
    assert list(after.samples) == NAMES
    same_knowledge(before, after)
    assert list(after.timelines[NEW]) == list(before.segment(made / "more" / f"{NEW}.npy"))
    assert after.expectations.videos == before.expectations.videos
    assert f"added {NEW}, {OTHER}" in " ".join(one.what for one in history(place))
    assert set(after.teach().samples) == set(NAMES)  # from all files
    run("teach", place, "--back", "--quiet")
    assert sc.load(place).samples == before.samples


def test_learning_again_with_new_videos_keeps_what_people_said(place, made, run):
    before = sc.load(place)
    run("add", place, made / "more", "--learn", "--quiet")
    after = sc.load(place)
    same_knowledge(before, after)
    assert {NEW, OTHER} <= {*after.expectations.videos}
    run("teach", place, "--back", "--quiet")  # one step back
    assert sc.load(place).samples == before.samples


def test_without_labels_names_follow_their_steps(made):
    proc = sc.learn(made / "old", steps=6, restarts=2).rename({0: "boil", 1: "pour"})
    again = proc.add(made / "more", learn=True)
    assert {"boil", "pour"} <= {*again.steps}
    assert not again.expectations.labelled
    for name in ("boil", "pour"):
        shown, now = (proc.labels, proc.steps), (again.labels, again.steps)
        rows = [one[ONE] == steps.index(name) for one, steps in (shown, now)]
        assert (rows[0] & rows[1]).sum() > 0.5 * rows[0].sum()


def test_a_removed_video_stays_in_the_log_and_comes_back(place, run):
    before, log = sc.load(place), (place / "events.jsonl").read_bytes()
    said = "".join(run("remove", place, TWO, "--quiet"))
    after = sc.load(place)
    assert f"removed: {TWO}; what people said of it stays" in said
    assert list(after.samples) == [name for name in LEARNED if name != TWO]
    same_knowledge(before, after)
    assert (place / "events.jsonl").read_bytes().startswith(log)
    assert TWO not in after.annotations.videos
    assert f"{TWO} (removed)" in after.expectations.mistakes  # it is no reference any more
    assert after.check(ROWS[0]).verdict
    assert after.teach().steps
    assert f"removed {TWO}" in " ".join(one.what for one in history(place))
    run("teach", place, "--back", "--quiet")
    same_knowledge(before, sc.load(place))


def test_the_file_of_a_removed_video_is_not_needed_to_learn_again(made, tmp_path):
    files = [shutil.copy(made / "old" / f"{name}.npy", tmp_path) for name in LEARNED]
    sc.learn(files, steps=6, restarts=2, output=tmp_path / "b.proc")
    sc.load(tmp_path / "b.proc").remove(LEARNED[-1]).save(tmp_path / "b.proc")
    Path(files[-1]).unlink()
    assert list(sc.load(tmp_path / "b.proc").add(learn=True).samples) == LEARNED[:-1]


def test_a_video_is_replaced_also_under_its_name(place, made, tmp_path, run):
    shutil.copy(made / "more" / f"{NEW}.npy", tmp_path / f"{TWO}.npy")
    said = run("add", place, tmp_path / f"{TWO}.npy", "--quiet", code=2).err
    assert "already has this name" in said
    assert "stepcut replace" in said
    run("replace", place, TWO, tmp_path / f"{TWO}.npy", "--quiet")
    after = sc.load(place)
    assert (list(after.samples)[-1], after.samples[TWO]) == (TWO, len(ROWS[6]))
    assert TWO not in after.annotations.videos
    assert ONE in after.annotations.videos


def test_edits_of_another_person_in_between(place, made):
    mine, shorter = sc.load(place).add(made / "more"), sc.load(place).remove(THREE)
    do(place, edit("mark", THREE, start=1.0, end=2.0, step=1))
    do(place, edit("rename", step=2, name="stir"))
    mine.save(place)
    after = sc.load(place)
    assert "stir" in after.steps
    assert THREE in after.annotations.videos
    with raises(OutputError, "learned again since it was loaded"):
        shorter.save(place)


def test_an_edit_of_a_video_that_is_removed_meanwhile_is_kept(place, caplog):
    mine = sc.load(place).remove(THREE)
    do(place, edit("mark", THREE, start=1.0, end=2.0, step=1))
    mine.save(place)
    assert "1 corrections do not fit" in caplog.text
    assert "history" in caplog.text
    assert any(one.get("values", {}).get("video") == THREE for one in events(place))


def test_what_cannot_be_added_or_removed(place, made, tmp_path, run, caplog):
    stamp = (place / "CURRENT").read_text(), (place / "events.jsonl").read_bytes()
    (tmp_path / "empty").mkdir()
    shutil.copy(made / "old" / f"{ONE}.npy", tmp_path / "copy.npy")
    for words, why in (
        (["add", place, made / "old"], "nothing to add"),
        (["add", place, tmp_path / "empty"], "empty"),
        (["add", place, tmp_path / "copy.npy"], "nothing to add"),
        (["add", place], "no videos to add"),
        (["remove", place, "nobody"], "nobody"),
        (["remove", place, *LEARNED[1:]], "2 or more must stay"),
        (["replace", place, "nobody", made / "more" / f"{NEW}.npy"], "nobody"),
    ):
        assert why in "".join(run(*words, "--quiet", code=2))
    assert f"a copy of {ONE}" in caplog.text
    assert stamp == ((place / "CURRENT").read_text(), (place / "events.jsonl").read_bytes())


def test_a_video_of_another_task_is_named(place, tmp_path, caplog):
    rows, _ = toy_features(videos=1, seed=70, dim=12)
    np.save(tmp_path / "strange.npy", np.roll(rows[0], 5, axis=1) + 3.0)
    sc.load(place).add(tmp_path / "strange.npy")
    assert "strange seems to show another task" in caplog.text


def test_arrays_join_a_procedure_that_is_not_saved():
    proc = sc.learn(dict(zip(LEARNED, ROWS, strict=False)), steps=6, restarts=2)
    grown = proc.add({NEW: ROWS[6]}).teach({ONE: Timeline([Segment(0, 9, "boil")])})
    assert set(grown.samples) == {*LEARNED, NEW}


def test_learning_like_another_says_what_it_does_not_take_over(place, made, tmp_path, run):
    words = ["learn", made / "old", "--like", place, "-o", tmp_path / "b.proc", "--log", "json"]
    assert "not its steps, names, labels, severities and rules" in run(*words).err
