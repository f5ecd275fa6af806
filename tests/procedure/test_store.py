"""The folder of a procedure: whatever happens to it, what people did is there and can be reached."""

import ast
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path

import full_disk
import numpy as np
import pytest
from crash_kit import crashes
from errors_kit import raises
from store_kit import content, do, edit, events, revision

import stepcut as sc
from stepcut.annotations import Annotations
from stepcut.app.folder import _put_beside
from stepcut.errors import OptionError, OutputError, ProcedureError
from stepcut.files import cache_dir
from stepcut.formats import write_folder
from stepcut.procedure.corrections import StaleEdit
from stepcut.procedure.edits import Edits, diagnose, go_back, history, restore, take_back
from stepcut.procedure.learning import read_outline, teach_folder
from stepcut.procedure.verbs import VERBS
from stepcut.toy import toy_features

OLD = Path(__file__).parent / "v0_3_0"  # made by stepcut 0.3.0; see the script in commit c009639d
EXPECTED = json.loads((OLD / "expected.json").read_text())
ROWS, TRUE = toy_features(videos=3, seed=1, dim=8)
QUICK = {"restarts": 2}


@pytest.fixture(scope="module")
def learned_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    for number, rows in enumerate(ROWS):
        np.save(folder / f"{number}.npy", rows)
    sc.learn(folder, steps=4, output=folder.parent / "learned" / "a.proc", **QUICK)
    return folder.parent / "learned" / "a.proc"


@pytest.fixture(scope="module")
def taught_once(learned_once):
    place = Path(shutil.copytree(learned_once, learned_once.parents[1] / "taught" / "a.proc"))
    rename(place, "pour")
    teach_folder(place, {"0": TRUE[0]})
    rename(place, "stir", 1)
    return place


@pytest.fixture
def place(learned_once, tmp_path):
    return Path(shutil.copytree(learned_once, tmp_path / "a.proc"))


@pytest.fixture
def taught(taught_once, tmp_path):
    return Path(shutil.copytree(taught_once, tmp_path / "a.proc"))


def rename(place, name, step=0):
    do(place, edit("rename", step=step, name=name))


def shown(place):
    return json.loads(json.dumps(content(read_outline(place)), default=str))


def state_of(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def copy_old(name, folder):
    return Path(shutil.copytree(OLD / f"{name}.proc", folder / f"{name}.proc"))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_folder_of_0_3_0_is_read_as_it_is_and_converted_by_the_first_change(name, tmp_path):
    place = copy_old(name, tmp_path)
    before, expected = state_of(place), dict(EXPECTED[name])
    if name == "beyond":  # a labelled interval that ended after the video
        expected["annotations"]["videos"]["v0"]["annotated"] = [[32.0, 39.9999417]]
    for video, said in expected["annotations"].get("videos", {}).items():
        # 0.3.0 kept the confidence of what a person had annotated until it was taught
        spans = said.get("annotated", ())
        expected["timelines"][video] = [
            [*one[:3], None if any(a <= one[0] and one[1] <= b for a, b in spans) else one[3]]
            for one in expected["timelines"][video]
        ]
    seen = content(read_outline(place) if name == "labels" else sc.load(place))
    if name == "labels":
        expected["annotations"].pop("severities", None)
    if name in ("beyond", "tapped"):  # 0.3.0 cropped labels, or let them end after the video
        both = [Annotations.from_json(one.pop("annotations")) for one in (seen, expected)]
        labels = [{name: one.labelled for name, one in each.videos.items()} for each in both]
        assert labels[0] == labels[1]
    assert json.loads(json.dumps(seen, default=str)) == expected
    shown_before, edits = shown(place), Edits(place)
    done, undone = edits.corrections.done, edits.corrections.undone
    assert len(history(place)) == 1 + len(done) + 2 * len(undone)
    assert (state_of(place), list(tmp_path.iterdir())) == (before, [place])
    edits.do({"do": "add", "name": "a new step"}, edits.revision)
    edits.undo()
    assert shown(place) == shown_before
    kept = state_of(tmp_path / f"{name}.proc.0.3")
    assert kept == {file: data for file, data in before.items() if file != "notes.md"}
    left = {path.name for path in place.iterdir()} - {"notes.md", "severity.json"}
    assert left == {"CURRENT", "events.jsonl", "revisions"}
    if name != "labels":
        was = sc.load(OLD / f"{name}.proc").expectations.severity
        assert sc.load(place).expectations.severity == was


def test_a_teaching_by_0_3_0_is_taken_back_and_a_persons_files_stay(tmp_path):
    import hashlib

    place = copy_old("taught", tmp_path)
    fingerprint = json.loads((place / "config.json").read_text())["fingerprint"]
    where = hashlib.sha256(os.fsencode(place.resolve())).hexdigest()[:16]
    shutil.copytree(OLD / "before_taught.proc", cache_dir() / f"before/{fingerprint}-{where}.proc")
    taught = shown(place)
    take_back(place)
    assert shown(place)["steps"] == EXPECTED["before_taught"]["steps"]
    assert shown(place)["timelines"] == EXPECTED["before_taught"]["timelines"]
    go_back(place, min(entry.id for entry in history(place) if entry.what.startswith("click")))
    assert shown(place) == taught
    place = copy_old("edited", tmp_path)
    (place / "README.md").write_text("what I know of it")
    rename(place, "boil")
    assert (place / "README.md").read_text() == "what I know of it"
    assert (place / "notes.md").read_text() == "my notes\n"


every = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "step"), [("edited", 8), every("edited", 1), every("taught", 1)])
def test_a_crash_while_converting_loses_nothing(name, step, tmp_path):
    place, expected = tmp_path / f"{name}.proc", shown(OLD / f"{name}.proc")

    def prepare():
        shutil.rmtree(tmp_path)
        copy_old(name, tmp_path)

    for crash in crashes(prepare, lambda: rename(place, "boil"), step):
        now = shown(place)
        if crash:
            assert now == expected or now["steps"][0][0] == "boil"
        Edits(place).do({"do": "add", "name": "after the crash"})
        assert now["timelines"] == expected["timelines"] or now["steps"][0][0] == "boil"
        assert not (place / "config.json").exists()
        assert (tmp_path / f"{name}.proc.0.3" / "edits.json").exists()


def edit_and_undo(place):
    edits = Edits(place)
    for name in ("first", "second"):
        edits.do({"do": "rename", "step": 3, "name": name})
    edits.undo(), edits.undo(), edits.redo()


@pytest.mark.parametrize(("what", "step"), [
    ("edit", 1), ("take back", 3), ("go back", 3), ("restore", 3), ("learn", 9), ("teach", 9),
    *(every(what, 1) for what in ("take back", "go back", "restore", "learn", "teach")),
])  # fmt: skip
def test_a_crash_at_any_point_leaves_a_procedure_with_all_edits(
    what, step, taught_once, learned_once
):
    folder = learned_once.parents[1] / what
    place = folder / "a.proc"
    learned, before = sc.load(learned_once), sc.load(taught_once)
    new = before.teach({"1": TRUE[1]})

    def prepare():
        shutil.rmtree(folder, ignore_errors=True)
        if what == "learn":
            folder.mkdir()
        else:
            shutil.copytree(taught_once, place)
        if what == "restore":
            (revision(place) / "model.safetensors").write_bytes(b"x")

    saved = {"learn": learned.save, "teach": new.save, "edit": edit_and_undo, "restore": restore}
    saved |= {"take back": take_back, "go back": lambda place: go_back(place, 1)}
    work = partial(saved[what], place)
    for _ in crashes(prepare, work, step):
        if what == "learn" and not place.exists():
            continue
        if what == "restore" and diagnose(place):
            restore(place)
        now = sc.load(place)
        if what == "edit":
            assert now.steps[3] in (before.steps[3], "first", "second")
            assert [*now.steps[:3], *now.steps[4:]] == [*before.steps[:3], *before.steps[4:]]
        else:
            assert now in (learned, before, new) or now.steps[0] == "pour"
        written = (place / "events.jsonl").read_text()
        assert what == "learn" or ('"pour"' in written and '"stir"' in written)
        rename(place, "still works", 2)
        assert sc.load(place).steps[2] == "still works"


def test_an_incomplete_last_line_is_an_edit_that_was_not_confirmed(place, caplog):
    rename(place, "pour")
    with open(place / "events.jsonl", "ab") as file:
        file.write(b'{"id": 3, "verb": "rena')
    assert sc.load(place).steps[0] == "pour"
    rename(place, "stir", 1)
    assert "the last line was incomplete" in caplog.text
    assert sc.load(place).steps[:2] == ["pour", "stir"]
    assert [event["id"] for event in events(place)] == [1, 2, 3]


def test_a_full_disk_keeps_the_edits_and_says_so(place, monkeypatch):
    rename(place, "pour")
    before, write = state_of(place), os.write

    def full(handle, data):
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, bytes(data)[:50])

    edits = Edits(place)
    monkeypatch.setattr(os, "write", full)
    for change in (edits.undo, lambda: edits.do({"do": "add", "name": "x"})):
        with raises(OutputError, "no space left"):
            change()
    monkeypatch.undo()
    assert state_of(place) == before
    assert edits.document.steps[0].name == "pour"


def damage(path, how):
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    path.write_bytes({"empty": b"", "half": data[:middle], "flipped": flipped}[how])


@pytest.mark.parametrize("how", ["empty", "half", "flipped"])
@pytest.mark.parametrize(
    "file",
    ["CURRENT", "events.jsonl", "config.json", "procedure.json", "model.safetensors", "check.json"],
)
def test_a_damaged_file_is_told_and_restored(file, how, taught, run):
    path = taught / file if (taught / file).exists() else revision(taught) / file
    before = sc.load(taught)
    damage(path, how)
    told = run("history", taught, code=1).out
    assert (file if path.parent == taught else path.parent.name[:8]) in told
    with raises(ProcedureError, f"stepcut history {taught}"):
        sc.load(taught)
    assert "lost: " in run("history", taught, "--restore").out
    with raises(OptionError, "nothing is damaged"):
        restore(taught)
    now = sc.load(taught)
    if file == "CURRENT":
        assert now == before
    elif file == "events.jsonl":
        assert now.learned.steps == before.learned.steps
        assert (taught / "events.jsonl.damaged-1").exists() == (how == "flipped")
    else:  # the state before the teaching, with its edits
        assert now.steps[0] == "pour"
        assert not now.annotations.annotated
        assert path.parent.with_name(f"{path.parent.name}.damaged-1").is_dir()
    rename(taught, "still works", 2)
    assert sc.load(taught).steps[2] == "still works"


def test_damage_that_cannot_be_restored_or_that_can_be_left_out(place, tmp_path):
    rename(place, "pour")
    (revision(place) / "procedure.json").write_text("{")
    before = state_of(place)
    assert diagnose(place).to is None
    with raises(ProcedureError, "no learned state can be read", "same videos"):
        restore(place)
    assert state_of(place) == before
    (place / "events.jsonl").touch()
    place = copy_old("edited", tmp_path)
    (place / "edits.json").write_text("{")
    with raises(ProcedureError, "edits.json", "--restore"):
        Edits(place)
    assert diagnose(place).lost == ("the corrections in edits.json",)
    restore(place)
    assert len(sc.load(place).steps) == 4
    assert (tmp_path / "edited.proc.0.3" / "edits.json").read_text() == "{"


@pytest.mark.parametrize("jumps", [(), (1e9, -1e9, 4e9)], ids=["", "the clock jumps"])
def test_the_history_names_who_did_what_and_any_point_can_be_reached(
    jumps, taught, run, monkeypatch
):
    if jumps:
        monkeypatch.setattr("time.time", partial(next, cycle(jumps)))
    Edits(taught).undo()
    Edits(taught).do({"do": "confirm", "video": "1"}, author="Ada")
    before = shown(taught)
    entries = history(taught)
    told = [entry.what for entry in entries]
    assert told[:3] == ["learn the steps", "rename step 1 to pour", "teach"]
    assert told[4:] == [f"undo: {told[3]}", "confirm 1"]
    assert entries[-1].author == "Ada"
    assert [entry.now for entry in entries] == [False] * 5 + [True]
    go_back(taught, 2)
    assert sc.load(taught).steps[0] == "pour"
    assert not sc.load(taught).annotations.annotated
    rename(taught, "boil")
    go_back(taught, 6)
    assert shown(taught) == before
    run("history", taught, "--to", "1")
    assert sc.load(taught).steps[0] == "step 1"
    assert "go back to 6" in run("history", taught, "--format", "json").out
    assert "event 99 does not exist" in run("history", taught, "--to", "99", code=2).err


def test_edits_made_while_teaching_are_applied_on_top(place, caplog):
    rename(place, "pour")
    edits = do(place, edit("confirm", "1"))
    new = sc.load(place).teach({"0": TRUE[0]})
    kept = next(name for name in new.steps if name in sc.load(place).steps)
    there = next(step.number for step in edits.document.steps if step.name == kept)
    do(place, edit("rename", step=there, name="boil"), edit("add", name="taste"))
    do(place, edit("mark", "2", start=1.0, end=2.0, step=None), edit("cut", "2", time=0.5))
    new.save(place)
    assert "1 corrections do not fit" in caplog.text
    assert "stepcut history" in caplog.text
    now = sc.load(place)
    assert {"taste", "boil"} <= set(now.steps)
    assert now.timelines["2"].labels([1.5]).tolist() == [-1]
    take_back(place)
    assert "taste" in sc.load(place).steps


def edit_until(place, end):
    edits, made = Edits(place), []
    while time.time() < end:
        name, steps = f"name {len(made)}", edits.document.steps
        try:
            edits.do(edit("rename", step=steps[len(made) % len(steps)].number, name=name))
            made.append(name)
        except StaleEdit:  # shown, and made again on the new state
            edits.refresh()
    return made


def teach_until(place, end):
    count = 0
    while time.time() < end:
        sc.load(place).teach().save(place)
        count += 1
    return count


@pytest.mark.slow
def test_two_processes_edit_and_teach_at_once_and_lose_nothing(place):
    do(place, edit("confirm", "0"))
    end = time.time() + float(os.environ.get("STEPCUT_SECONDS_OF_TWO", "2"))
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        edited, taught = pool.submit(edit_until, place, end), pool.submit(teach_until, place, end)
        made, count = edited.result(), taught.result()
    assert made
    assert count
    written = {one["values"]["name"] for one in events(place) if "name" in one.get("values", {})}
    assert written >= set(made)
    assert made[-1] in sc.load(place).steps
    assert any(entry.what == "teach" for entry in history(place))


def test_an_edit_applies_one_verb(place, monkeypatch):
    edits, calls = Edits(place), []
    verb = VERBS["rename"]

    def run(document, **values):
        calls.append(1)
        return verb.run(document, **values)

    monkeypatch.setitem(VERBS, "rename", verb._replace(run=run))
    for number in range(30):
        edits.do(edit("rename", step=0, name=f"name {number}"))
    edits.undo(), edits.next_redo, edits.next_undo
    assert len(calls) == 30
    edits.redo()
    assert len(calls) == 31
    assert Edits(place).document == edits.document


@pytest.mark.slow
@pytest.mark.parametrize("free", [0, 24])
def test_learn_on_a_full_disk(free, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "features").mkdir()
    for name in "abc":
        rows = np.repeat(np.eye(3, 400), 20, axis=0) + rng.normal(size=(60, 400)) * 0.1
        np.save(tmp_path / "features" / f"{name}.npy", rows.astype(np.float32))
    disk = tmp_path / "disk"
    disk.mkdir()
    words = [sys.executable, full_disk.__file__, str(disk), str(free), sys.executable, "-m"]
    words += ["stepcut", "learn", str(tmp_path / "features"), "-k", "3", "--quiet"]
    words += ["-o", str(disk / "task.proc")]
    environment = {**os.environ, "STEPCUT_CACHE": str(tmp_path / "cache")}
    ran = full_disk.run_as_root(words, environment)
    assert ran.returncode == 0, ran.stderr
    code, left, again, *said = ran.stdout.splitlines()
    assert (code, again) == ("2", "0"), ran.stdout
    assert "no space left on the disk" in said[0]
    assert "Traceback" not in ran.stdout
    assert ast.literal_eval(left) == ["filler"]  # no procedure and no partial files


def test_a_disk_without_capitals_and_links(tmp_path):
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    image.touch()
    os.truncate(image, 2**26)
    for words in (["mkfs.vfat", image], ["mount", "-o", "loop", image, disk]):
        if not shutil.which(words[0]) or subprocess.run(words, capture_output=True).returncode:
            pytest.skip(f"this machine cannot mount such a disk ({words[0]})")
    try:
        live_on(disk)
    finally:
        subprocess.run(["umount", disk], check=True)


def live_on(disk):
    (disk / "F").mkdir()
    for number, rows in enumerate(ROWS):
        np.save(disk / "f" / f"{number}.npy", rows)
    place, other = disk / "a.proc", disk / "A.Proc"
    assert sc.learn(disk / "F", steps=4, output=place, **QUICK) == sc.load(other)
    rename(other, "pour")
    teach_folder(place, {"0": TRUE[0]})
    rename(place, "stir", 1)
    assert sc.load(other).steps[1] == "stir"
    go_back(other, 2)
    assert (sc.load(place).steps[0], len(history(place))) == ("pour", 5)
    with raises(OptionError, "Rename one"):
        write_folder(disk, dict.fromkeys(("one", "ONE"), TRUE[0]), "csv")
    for name in ("b.mp4", "B.MP4"):
        (disk / "part").write_text(name)
        assert _put_beside(disk / "part", name).read_text() == name
    assert [(disk / name).read_text() for name in ("B.mp4", "b-2.mp4")] == ["b.mp4", "B.MP4"]
