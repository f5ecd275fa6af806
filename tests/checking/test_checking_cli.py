"""stepcut check and stepcut guide: exit codes, JSON, JSON lines, the live view."""

import json
import shutil

import av
import numpy as np
import pytest
from kitchen_kit import Eye, film

from stepcut.cli import checking
from stepcut.cli.checking import follow_pictures
from stepcut.cli.main import main
from stepcut.parallel.engine import Local
from stepcut.parallel.worker import attempt
from stepcut.procedure.learning import ask


@pytest.fixture(autouse=True)
def loaded(tiny_task, monkeypatch):
    for reader in ("procedure.learning.load", "cli.checking.load", "cli.checking.read_outline"):
        monkeypatch.setattr(f"stepcut.{reader}", lambda *_, **__: tiny_task.procedure)


def feature_file(folder, order):
    path = folder / "new.npy"
    np.save(path, np.eye(4)[np.maximum(film(order, np.random.default_rng(5)), 0)])
    return str(path)


def test_check_exits_with_0_when_fine_1_with_deviations_and_2_on_an_error(tmp_path, run):
    check = ["check", "any.proc"]
    assert "absent.mp4" in run(*check, tmp_path / "absent.mp4", code=2).err
    assert "no deviation found" in run(*check, feature_file(tmp_path, [0, 1, 2, 3])).out
    flawed = [*check, feature_file(tmp_path, [0, 2, 3])]
    assert "spread jam was not seen" in run(*flawed, code=1).out
    record = json.loads(run(*flawed, "--json", code=1).out)
    assert record["missed"][0]["name"] == "spread jam"
    assert [step["seen"] for step in record["steps"]] == ["not seen", "seen", "seen", "seen"]


def test_check_exits_with_4_where_too_little_would_be_found(tmp_path, run):
    words = ["check", "any.proc", feature_file(tmp_path, [0, 1, 2, 3])]
    frozen = [*words, "--for", "frozen"]  # a short pause is found in one of ten
    assert "To make it conclusive: label three or more videos" in run(*frozen, code=4).out
    run(*frozen, "--min-detection", "0")
    run(*words, "--for", "half", "--min-detection", "0.9", "--json")
    record = json.loads(run(*frozen, "--json", code=4).out.splitlines()[-1])
    assert (record["verdict"], record["ok"]) == ("inconclusive", False)
    assert record["detection"]["frozen picture"] < 0.5
    wrong = ["check", "any.proc", feature_file(tmp_path, [0, 2, 3])]
    run(*wrong, "--for", "frozen", "--alarm-at", "0.9", code=1)
    assert "--min-detection=5" in run(*words, "--min-detection", "5", code=2).err


def test_a_broken_rule_is_an_alarm_and_a_wrong_one_an_error(tmp_path, run):
    rules = tmp_path / "mine.toml"
    words = ["check", "any.proc", feature_file(tmp_path, [0, 1, 2, 3])]
    rules.write_text('rules = ["serve is last", "open jar before serve", "serve at least 9 s"]')
    run(*words, "--rules", rules)
    rules.write_text('rules = ["cut bread before spread jam", "serve once"]')
    text = run(*words, "--rules", rules, code=1).out
    assert text.startswith("new: 1 rule.\n")
    assert "rule: cut bread before spread jam; spread jam was done at 00:00:" in text
    record = json.loads(run(*words, "--rules", rules, "--json", code=1).out)
    assert (record["verdict"], record["rule"][0]["name"]) == ("deviations", "cut bread")
    rules.write_text('rules = ["cut bred once"]')
    assert "did you mean 'cut bread'?" in run(*words, "--rules", rules, code=2).err
    told = run(*words, "--rules", "none.toml", code=2).err
    assert "none.toml: this file of rules does not exist" in told


@pytest.mark.parametrize(
    "words", [["check"], ["check", "--json"], ["segment"], ["segment", "--workers", "1"]]
)
def test_results_appear_at_once_and_a_broken_file_loses_none(words, tmp_path, capsys, monkeypatch):
    good = feature_file(tmp_path, [0, 1, 2, 3])
    videos = [good, str(tmp_path / "absent.mp4"), str(shutil.copy(good, tmp_path / "last.npy"))]
    outputs = []

    def look(*given, **more):
        shown = capsys.readouterr()
        outputs.append((bool(shown.out), "absent.mp4" in shown.err))
        return ask(*given, **more)

    def map_here(_, work, items, done):
        for place in (1, 0, 2):  # workers finish in any order
            done(place, attempt(work, items[place]))

    monkeypatch.setattr("stepcut.cli.common.ask", look)
    monkeypatch.setattr(Local, "map", map_here)
    assert main([words[0], "any.proc", *videos, "--quiet", *words[1:]]) == 2
    # JSON has a line for the broken one, too.
    assert outputs[2] == (bool({"--workers", "--json"} & set(words)), True)
    assert outputs[1] == ("--workers" not in words, False)
    assert capsys.readouterr().out


def test_json_reports_a_failed_video_in_its_place_and_suffixes_are_distinct(tmp_path, capsys):
    videos = [str(tmp_path / "absent.mp4"), feature_file(tmp_path, [0, 1, 2, 3])]
    assert main(["check", "any.proc", *videos, "--json", "--quiet"]) == 2
    failed, fine = map(json.loads, capsys.readouterr().out.splitlines())
    assert (failed["video"], failed["verdict"], fine["ok"]) == ("absent", "error", True)
    assert "absent.mp4" in failed["error"]
    one = feature_file(tmp_path, [0, 1, 2, 3])
    np.savez(tmp_path / "new.npz", np.load(one))
    videos = [one, str(tmp_path / "new.npz")]
    assert main(["check", "any.proc", *videos, "--json", "--quiet"]) == 0
    names = [json.loads(line)["video"] for line in capsys.readouterr().out.splitlines()]
    assert names == ["new.npy", "new.npz"]
    out = ["-o", str(tmp_path / "out" / "{name}.csv")]
    assert main(["segment", "any.proc", *videos, "--quiet", *out]) == 0
    written = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert written == ["new.npy.csv", "new.npz.csv"]


def test_guide_prints_json_lines_or_draws_itself(tmp_path, run):
    shown = run("guide", "any.proc", feature_file(tmp_path, [0, 1, 2, 3])).out
    lines = [json.loads(line) for line in shown.splitlines()]
    assert [line["time"] for line in lines[:3]] == [0, 1, 2]
    assert [one["step"] for one in lines[-1]["done"]] == [0, 1, 2, 3]
    shown = run("guide", "any.proc", feature_file(tmp_path, [0, 1]), "--view").out
    assert "\x1b[H" in shown
    assert shown.endswith("\x1b[?25h")  # the cursor is visible again
    told = run("guide", "any.proc", tmp_path / "new.mp4", code=2).err
    assert "learned from feature files" in told


@pytest.mark.parametrize(("trouble", "code"), [("", 0), ("no answer", 5)])
def test_guide_posts_what_has_alerts(trouble, code, tmp_path, monkeypatch, run):
    got = []
    monkeypatch.setattr(checking, "RETRY_AFTER", (0.0,))
    monkeypatch.setattr(checking, "post", lambda _, record: got.append(record) or trouble)
    words = ["guide", "any.proc", feature_file(tmp_path, [0, 1, 3])]
    output = run(*words, "--webhook", "http://example.org/hook", code=code)
    lines = [json.loads(line) for line in output.out.splitlines()]
    alerted = [line for line in lines if line["alerts"]]
    assert alerted[0]["alerts"][0]["reason"].startswith("cut bread was not seen")
    assert {record["procedure"] for record in got} == {"any.proc"}
    assert all("+00:00" in record["clock"] for record in got)
    assert [record["time"] for record in got[:1]] == [alerted[0]["time"]]
    assert len(got) == len(alerted) * (1 if not trouble else 2)
    assert ("last attempt" in output.err) == bool(trouble)
    run(*words, "--webhook", "ftp://x", code=2)


def test_a_video_file_is_followed_frame_by_frame(tiny_task, tmp_path):
    path = tmp_path / "film.mp4"
    pictures = np.zeros((4, 64, 64, 3), dtype=np.uint8)
    for step in range(4):
        pictures[step, :, 16 * step : 16 * step + 16] = 255
    with av.open(str(path), "w") as container:
        track = container.add_stream("mpeg4", rate=2)
        track.width = track.height = 64
        for step in np.repeat([0, 2, 1, 3], 40):
            container.mux(track.encode(av.VideoFrame.from_ndarray(pictures[step])))
        container.mux(track.encode(None))
    guide = tiny_task.procedure.guide()
    states = list(follow_pictures(guide, str(path), tiny_task.procedure.rate, Eye()))
    assert [state.time for state in states] == list(range(80))  # one per second at any file rate
    assert states[-1].done == (0, 2, 1, 3)
