"""The folder of a procedure: corrections survive saving, and writes are atomic."""

import contextlib
import fcntl
import os
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest
from errors_kit import raises
from fuzz_kit import mutate
from store_kit import change_config, change_file, change_saved, revision, saved

import stepcut as sc
from stepcut import files
from stepcut.annotations import Annotation, Annotations
from stepcut.cli.main import main
from stepcut.errors import OptionError, OutputError, ProcedureError
from stepcut.files import write_json
from stepcut.procedure.corrections import StaleEdit, append, read_log
from stepcut.procedure.edits import Edits, go_back, take_back
from stepcut.procedure.verbs import VERBS
from stepcut.toy import toy_features

TRUE = toy_features(videos=3, seed=1, dim=8)[1]
QUICK = {"restarts": 2}


@pytest.fixture(scope="module")
def videos():
    return toy_features(videos=3, seed=1, dim=8)[0]


@pytest.fixture(scope="module")
def learned_once(videos, tmp_path_factory):
    place = tmp_path_factory.mktemp("learned") / "a.proc"
    sc.learn(videos, steps=4, output=place, **QUICK)
    return place


@pytest.fixture
def place(learned_once, tmp_path):
    return Path(shutil.copytree(learned_once, tmp_path / "a.proc"))


def move(place):
    Edits(place).do({"do": "move", "video": "0", "part": 0, "edge": "end", "time": 3.0})


def severity(edits, step, kind):
    return edits.do({"do": "severity", "step": step, "severity": kind})


def test_every_kind_of_correction_shows_everywhere(place, videos):
    edits = Edits(place)
    for edit in (
        {"do": "merge", "step": 1, "into": 0},
        {"do": "split", "video": "0", "time": 2.0},
        {"do": "add", "name": "taste"},
        {"do": "mark", "video": "1", "start": 0, "end": 2, "step": 5},
        {"do": "mark", "video": "2", "start": 0, "end": 2, "step": None},
        {"do": "rename", "step": 3, "name": "serve"},
    ):
        edits.do(edit)
    procedure = sc.load(place)
    assert procedure.timelines == edits.document.timelines
    assert procedure.steps == ["step 1", "step 3", "serve", "step 1 (2)", "taste"]
    assert set(procedure.labels["1"][:2].tolist()) == {procedure.steps.index("taste")}
    assert set(procedure.labels["2"][:2].tolist()) == {-1}
    assert "taste" in str(procedure.orders)
    assert "step 2" not in str(procedure.graph.to_json())
    np.save(place.parent / "0.npy", videos[0])
    assert procedure.segment(place.parent / "0.npy") == procedure.timelines["0"]
    # New videos use the target of a merged step as well.
    assert "step 2" not in procedure.segment(toy_features(videos=1, seed=5, dim=8)[0][0]).sequence()


def test_check_says_what_it_does_not_know_of_corrections(place, videos, capsys):
    assert not sc.load(place).untaught
    edits = Edits(place)
    edits.do({"do": "merge", "step": 1, "into": 0})
    edits.do({"do": "split", "video": "0", "time": 2.0})
    np.save(place.parent / "new.npy", videos[0])
    main(["check", str(place), *[str(place.parent / "new.npy")] * 2, "--quiet"])
    shown, told = capsys.readouterr()
    assert told.count("merged (step 2) and new (step 1 (2)): run teach") == 1
    assert shown.count("the rate of false alarms cannot be set below") == 1  # once for all videos
    assert not sc.load(place).teach(source=videos).untaught


def test_rules_are_read_with_former_names_kept_elsewhere_and_refused(place, videos, tmp_path):
    (place / "rules.toml").write_text('rules = ["step 2 is last", "step 1 at most 1 s"]')
    Edits(place).do({"do": "rename", "step": 1, "name": "turn it off"})
    loaded = sc.load(place)
    assert [str(rule) for rule in loaded.expectations.rules] == [
        "turn it off is last", "step 1 at most 1 s",
    ]  # fmt: skip
    broken = [one for one in loaded.check(videos[0]).findings if one.kind == "rule"]
    assert any(one.reason.startswith("rule: step 1 at most 1 s; it took ") for one in broken)
    assert loaded.check(videos[0], rules=[]).to_json()["rule"] == []
    loaded.rename({"step 1": "begin"}).save(tmp_path / "b.proc")
    assert "begin at most 1 s" in (tmp_path / "b.proc" / "rules.toml").read_text()
    edits = Edits(tmp_path / "b.proc")
    assert str(edits.set_rule("begin  is first")) == "begin is first"
    edits.set_rule("begin at most 1 s", holds=False)
    assert list(map(str, edits.rules)) == ["turn it off is last", "begin is first"]
    with pytest.raises(OptionError, match="no video can keep"):
        edits.set_rule("turn it off is first")
    (place / "rules.toml").write_text('rules = ["step 9 once"]')
    with pytest.raises(ProcedureError, match="rules.toml: rule 'step 9 once': step='step 9'"):
        sc.load(place)


def test_severity_is_undone_saved_and_taught_as_other_corrections_are(place, videos):
    edits, older = Edits(place), sc.load(place)
    (place / "severity.json").write_text('{"critical": [2]}')
    with raises(OutputError, "severity.json"):
        sc.learn(videos, steps=3, output=place, **QUICK)
    edits.do({"do": "rename", "step": 1, "name": "turn it off"})
    (place / "severity.json").write_text('{"critical": [1], "free": ["turn it off"]}')
    edits.do({"do": "merge", "step": 3, "into": 2})
    severity(edits, 1, "optional")
    assert severity(edits, 2, "critical") == "set the severity of step 3"
    now = sc.load(place).expectations.severity
    assert (now.optional, now.critical, now.free) == ({1}, {2, 3}, frozenset())
    assert edits.undo() == "set the severity of step 3"
    assert edits.severity == {1: "optional"}
    edits.undo()
    said = sc.load(place).expectations.severity
    assert (said.optional, said.critical, said.free) == (frozenset(), {1}, {1})  # both are restored
    edits.redo()
    edits.redo()
    edits.do({"do": "rename", "step": 2, "name": "switch it off"})
    older.save(place)
    assert sc.load(place).expectations.severity == now
    edits = Edits(place)
    edits.do({"do": "confirm", "video": "0"})
    taught = sc.load(place).teach(source=videos)
    assert [taught.steps[n] for n in taught.expectations.severity.critical] == ["switch it off"]
    severity(edits, 2, None)
    assert not sc.load(place).expectations.severity.critical
    edits.do({"do": "add", "name": "taste"})
    for step, kind, words in (
        (0, "importent", "optional, critical, free"),
        (4, "free", "run teach"),
    ):
        with raises(OptionError, words):
            severity(edits, step, kind)


@pytest.mark.parametrize(("text", "words"), [
    ("{bad", "not readable as JSON"),
    ('{"critical": ["setp 2"]}', "did you mean 'step 2'"),
    (None, "delete"),
])  # fmt: skip
def test_a_slip_in_the_severities_is_not_called_damage(place, text, words):
    (place / "severity.json").write_text('{"critical": [1]}', encoding="utf-8-sig")
    assert sc.load(place).expectations.severity.critical == {1}  # with the mark of an editor
    (place / "severity.json").unlink()
    if text is None:
        (place / "severity.json").mkdir()
    else:
        (place / "severity.json").write_text(text)
    with raises(ProcedureError, words, "severity.json") as told:
        sc.load(place)
    assert "damaged" not in str(told.value)


def test_saving_an_older_copy_keeps_what_was_corrected_since(place):
    before, mine = sc.load(place), sc.load(place).rename({0: "mine"})
    move(place)
    before.save(place)
    assert sc.load(place).timelines["0"].segments[0].end == 3.0
    assert before.timelines["0"].segments[0].end == 3.0
    Edits(place).do({"do": "rename", "step": 0, "name": "theirs"})
    with raises(OutputError, "changed on disk"):
        mine.save(place)
    assert sc.load(place).steps[0] == "theirs"


def test_a_link_to_a_procedure_or_a_file_stays_one(place, tmp_path):
    (tmp_path / "disk").mkdir()
    there = place.rename(tmp_path / "disk" / "b.proc")
    place.symlink_to(there)
    sc.load(place).rename({0: "pour"}).save(place)
    assert place.is_symlink()
    assert sc.load(there).steps[0] == "pour"
    (there.parent / "a.json").touch()
    (tmp_path / "a.json").symlink_to(there.parent / "a.json")
    write_json(tmp_path / "a.json", [1])
    assert (there.parent / "a.json").read_text() == "[\n 1\n]\n"
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.proc", "disk"}
    assert {path.name for path in there.parent.iterdir()} == {"a.json", "b.proc"}


def edit_four_times(place, who):
    edits, accepted = Edits(place), {}
    while len(accepted) < 4:
        seen, name = edits.document.steps[0].name, f"{who} {len(accepted)}"
        with contextlib.suppress(StaleEdit):
            edits.do({"do": "rename", "step": 0, "name": name})
            accepted[name] = seen
    return accepted


def test_many_editors_and_a_reader(place):
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(edit_four_times, place, editor) for editor in range(8)]
        for _ in range(5):
            sc.load(place).save(place)  # no edits in memory: those on disk stay
    accepted = {name: seen for job in jobs for name, seen in job.result().items()}
    done = [edit["name"] for edit in Edits(place).corrections.done]
    # Each edit was based on the current state.
    assert accepted == dict(zip(done, ["step 1", *done], strict=False))
    assert len(done) == 4 * 8


@pytest.mark.parametrize(("changes", "way_out"), [
    ({"stepcut": "0.2.0"}, "stepcut 0.3"),
    ({"stepcut": "9.0", "format": 99}, "pip install --upgrade stepcut"),
])  # fmt: skip
def test_other_versions_are_refused_with_a_way_out(place, changes, way_out):
    change_config(place, **changes)
    with raises(ProcedureError, changes["stepcut"], way_out):
        sc.load(place)


def test_more_rows_than_the_model_has_are_refused_before_they_take_memory(place):
    record = saved(place)
    record["videos"]["0"] |= {"samples": 300_000_000, "duration": 3e8}
    change_saved(place, record)
    tracemalloc.start()
    try:
        with raises(ProcedureError, "other videos"):
            sc.load(place)
        Edits(place)
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["config.json", "procedure.json", "check.json", "model.safetensors", "events.jsonl"]
)
def test_a_hostile_folder_is_refused_or_right(place, file, videos):
    shown = sc.load(place).timelines["0"]
    said = Annotation(end=shown.end, segments=shown.segments[:2], annotated=((0.0, 9.0),))
    change_saved(place, saved(place) | {"annotations": Annotations(videos={"0": said}).to_json()})
    move(place)
    random, config = Random(0), revision(place) / "config.json"
    path = place / file if file == "events.jsonl" else revision(place) / file
    whole, settings = path.read_bytes(), config.read_bytes()
    for _ in range(60):
        config.write_bytes(settings)
        data = mutate(whole, random)
        if file in ("config.json", "events.jsonl"):
            path.write_bytes(data)
        else:
            change_file(place, file, data)
        try:
            Edits(place)
            procedure = sc.load(place)
        except ProcedureError:
            continue
        procedure.check(videos[0])
        procedure.segment(videos[0])
        procedure.guide().push(0.0, videos[0][0])
        procedure.plan()
        repr(procedure.orders), procedure._repr_html_()


@pytest.mark.parametrize(("name", "values"), [
    ("rate", ["1e999999999", "0", -1, None]),
    ("quality", [5, {"kind": 1, "why": ""}, {"kind": "unknown", "why": "", "now": "x"}]),
    ("suggestions", [[1], {"0": "stir"}, {"0": ["\ud800"]}]),
    ("hierarchy", [{}, {"steps": ["a"], "merges": [{"a": [9], "b": [0]}]}]),
    ("skipped", [[5], {"a": 1}]),
    ("shape", [[0], ["a"], [[8]], {}]),
    ("backbone", [{}, 5, []]),
    ("title", [[], "\ud800"]),
    ("files", [5, {"check.json": 5}]),
])  # fmt: skip
def test_settings_that_make_no_sense_are_damage(place, name, values):
    for value in values:
        change_config(place, **{name: value})
        for read in (Edits, sc.load):
            with raises(ProcedureError, "damaged"):
                read(place)


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("severity", {"step": 0, "severity": "critical", "kinds": kinds})
        for kinds in (5, {"0": "critical"}, {"9": ["critical"]}, {"0": ["odd"]}, {"x": []})
    ]
    + [("fly", {}), ("rename", {"names": 5}), ("undo", {}), ("redo", {}), ("back", {"to": [9]})],
)
def test_events_that_make_no_sense_are_told_in_words(place, verb, values):
    log, name = read_log(place), Edits(place).outline.revision
    for last in ([], [("undo", {})] if verb in VERBS else []):
        made = log.plus(name, [(verb, values), *last])
        append(place, log, made.events[len(log.events) :])
        with raises(ProcedureError, "events.jsonl: event 2", "stepcut history"):
            Edits(place)


def test_another_procedure_leaves_the_corrections_in_the_history(place, videos, caplog):
    mine = sc.load(place)
    move(place)
    with raises(OutputError, "stepcut teach"):
        sc.learn(videos, steps=3, output=place, **QUICK)
    sc.learn(videos, steps=3, **QUICK).save(place)
    assert "1 corrections" in caplog.text
    with raises(OutputError, "learned again", "--to 2"):
        mine.rename({0: "pour"}).save(place)
    go_back(place, 2)
    assert sc.load(place).timelines["0"].segments[0].end == 3.0


def test_a_procedure_of_a_stranger_runs_no_code(place, tmp_path, monkeypatch):
    (tmp_path / "evil_code.py").write_text(
        "from stepcut.methods import StepCut\nopen(__file__ + '.ran', 'w').close()\nclass Mine(StepCut): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    change_config(place, method="evil_code:Mine")
    with pytest.raises(ProcedureError, match="trust=True"):
        sc.load(place)
    assert not (tmp_path / "evil_code.py.ran").exists()
    from stepcut.methods import StepCut

    assert len(sc.load(place, method=StepCut).steps) == 4
    assert type(sc.load(place, trust=True).method).__name__ == "Mine"


def test_what_stepcut_did_not_write_stays(place, videos):
    (place / "notes.md").write_text("n")
    (place / "clips" / "deep").mkdir(parents=True)
    (place / "clips" / "deep" / "a.mp4").write_bytes(b"video")
    (place / "clips").chmod(0o500)
    (place / "config.json").write_text("mine")
    (place / "loss.csv").mkdir()
    (place / "dangling").symlink_to("/nowhere/at/all")
    (place / ".hidden").touch(0o400)

    def own():
        states = {path.name: path.lstat() for path in place.iterdir()}
        names = states.keys() - {"CURRENT", "revisions", "events.jsonl"}
        return {n: (states[n].st_mode, states[n].st_mtime_ns, states[n].st_ino) for n in names}

    before = own()
    assert len(before) == 6
    move(place)
    sc.load(place).teach({"0": TRUE[0]}, source=videos).save(place)
    take_back(place)
    sc.load(place).rename({0: "pour"}).save(place)
    sc.learn(videos, steps=3, **QUICK).save(place)
    assert own() == before
    assert [path.name for path in place.parent.iterdir()] == ["a.proc"]
    (place / "clips").chmod(0o700)


def test_unfinished_folders_of_killed_runs_go_and_others_stay(videos, tmp_path):
    old, new = (tmp_path / f".b.proc.{letter * 32}.part" for letter in "ab")
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (0, 0))
    sc.learn(videos, steps=4, output=tmp_path / "b.proc", **QUICK)
    assert {path.name for path in tmp_path.iterdir()} == {"b.proc", new.name}


def test_files_have_the_rights_that_the_user_gives_and_keep_them(place):
    mask = os.umask(0)
    os.umask(mask)
    files = [path for path in place.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}
    place.chmod(0o700)
    (place / "events.jsonl").chmod(0o600)
    (place / "CURRENT").chmod(0o640)
    move(place)
    go_back(place, 1)
    modes = [path.stat().st_mode & 0o777 for path in (place, place / "events.jsonl")]
    assert [*modes, (place / "CURRENT").stat().st_mode & 0o777] == [0o700, 0o600, 0o640]


@pytest.mark.parametrize("name", ["events.jsonl", "severity.json", "CURRENT"])
def test_a_link_in_a_procedure_writes_nothing_elsewhere(place, tmp_path, name, videos):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(
        b'{"critical": ["step 1"]}' if name == "severity.json" else (place / name).read_bytes()
    )
    before = elsewhere.read_bytes()
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to(elsewhere)
    Edits(place).do({"do": "rename", "step": 0, "name": "pour"})
    sc.load(place).teach({"0": TRUE[0]}, source=videos).save(place)
    go_back(place, 2)
    assert elsewhere.read_bytes() == before
    assert sc.load(place).steps[0] == "pour"


@pytest.mark.parametrize("kind", ["pipe", "device", "hole"])
@pytest.mark.parametrize(
    "name", ["config.json", "procedure.json", "model.safetensors", "events.jsonl", "CURRENT"]
)
def test_what_is_not_a_plain_file_is_not_read(place, name, kind):
    path = place / name if (place / name).exists() else revision(place) / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    with pytest.raises(ProcedureError):
        sc.load(place)


def test_a_folder_that_somebody_else_locks_is_not_waited_for_without_end(place, monkeypatch):
    handle = os.open(place, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr(files, "LONGEST_WAIT", 0.0)
    try:
        with raises(OutputError, "locked"):
            move(place)
    finally:
        os.close(handle)
    assert len(sc.load(place).steps) == 4
