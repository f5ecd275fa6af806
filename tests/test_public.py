"""The public names: exact, documented, and quick to import."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepcut
from stepcut import MOVED
from stepcut.errors import FeatureError, OptionError
from stepcut.evaluation import score
from stepcut.formats import left_out, read_folder, write_folder
from stepcut.paper.datasets import load as load_tasks
from stepcut.paper.experiments import run_experiment
from stepcut.show import draw_bar, plots
from stepcut.show.report import make_report
from stepcut.toy import make_kitchen, toy_features, write_script


def test_the_public_names_are_exactly_these_and_documented():
    assert sorted(stepcut.__all__) == [
        "Annotations", "FeatureSpec", "Procedure", "Segment", "Timeline", "__version__", "evaluate",
        "learn", "load", "read", "view", "write",
    ]  # fmt: skip
    for name in stepcut.__all__:
        assert name == "__version__" or getattr(stepcut, name).__doc__
    for name in stepcut.__all__:
        thing = getattr(stepcut, name)
        for verb, part in inspect.getmembers(thing) if inspect.isclass(thing) else [(name, thing)]:
            if (inspect.isfunction(part) or inspect.ismethod(part)) and not verb.startswith("_"):
                given, doc = inspect.signature(part).parameters, inspect.getdoc(part) or ""
                lost = [each for each in given if each not in doc]
                assert set(lost) <= {"self"}, f"{name}, {verb}: {lost}"
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = stepcut.lern


@pytest.mark.parametrize("words", [["-c", "import stepcut"], ["-m", "stepcut.cli.main", "-h"]])
def test_neither_import_nor_help_loads_torch(words):
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert not loaded & {"torch", "numpy", "av", "sklearn", "numba"}


@pytest.fixture(scope="module")
def procedure():
    return stepcut.learn(toy_features(videos=3, seed=1, dim=8)[0], steps=3, restarts=2)


TEA = stepcut.Timeline([stepcut.Segment(0, 1, "pour")])
ROW = np.zeros(8)
ROWS = np.zeros((20, 8))


def calls(proc):
    """By the word that an error must name: a call with a value that may be of a wrong kind."""
    return {
        "path: load": lambda odd: stepcut.load(odd),
        "path: save": lambda odd: proc.save(odd),
        "path: graph.save": lambda odd: proc.graph.save(odd),
        "path: read": lambda odd: stepcut.read(odd),
        "path: read_folder": lambda odd: read_folder(odd),
        "path: write": lambda odd: stepcut.write(odd, TEA),
        "path: write_folder": lambda odd: write_folder(odd, [TEA], "json"),
        "path: output": lambda odd: stepcut.learn([np.eye(3)] * 2, 2, output=odd or 5),
        "recipe": lambda odd: stepcut.learn([np.eye(3)] * 2, 2, recipe=odd or 5),
        "names: learn": lambda odd: stepcut.learn([np.eye(3)] * 2, 2, names=odd or 5),
        "false_alarms": lambda odd: stepcut.learn([np.eye(3)] * 2, 2, false_alarms=odd),
        "timelines: write": lambda odd: stepcut.write("a.json", odd),
        "timelines: left out": lambda odd: left_out(odd, "json"),
        "timelines: of a dict": lambda odd: write_folder("a", {"tea": odd}, "json"),
        "format": lambda odd: write_folder("a", [TEA], odd),
        "columns": lambda odd: stepcut.read("a.csv", columns=odd or 5),
        "seed": lambda odd: stepcut.evaluate(proc, proc.timelines, seed=odd),
        "clock": lambda odd: stepcut.evaluate(proc, proc.timelines, clock=odd),
        "graph": lambda odd: stepcut.evaluate(proc, proc.timelines, graph=odd or 5),
        "procedure: view": lambda odd: stepcut.view(odd, browser=False, block=False),
        "port: view": lambda odd: stepcut.view(proc, port=odd, browser=False, block=False),
        "n: suggest": lambda odd: proc.suggest(odd),
        "names: rename": lambda odd: proc.rename(odd),
        "done": lambda odd: proc.graph.next(odd),
        "step: before": lambda odd: proc.graph.before(odd),
        "time": lambda odd: proc.guide().push(odd, ROW),
        "row": lambda odd: proc.guide().push(0.0, odd),
        "video: online": lambda odd: proc.method.online().push(odd),
        "count": lambda odd: proc.hierarchy().groups(odd),
        "column": lambda odd: stepcut.evaluate(proc, proc.timelines).column(odd),
        "segments": lambda odd: stepcut.Timeline(odd),
        "segments: in a list": lambda odd: stepcut.Timeline([odd]),
        "steps": lambda odd: stepcut.Timeline([], steps=odd),
        "duration": lambda odd: stepcut.Timeline([], duration=odd or "5"),
        "labels": lambda odd: stepcut.Timeline.from_labels(odd, 1, ["pour"]),
        "rate": lambda odd: stepcut.Timeline.from_labels([0, 0], odd, ["pour"]),
        "names: score": lambda odd: score([[0, 1]], [[1, 2]], names=odd or 5),
        "pred": lambda odd: score([[[0], [1, 2]], odd], [[1, 2], [1]]),
        "root": lambda odd: load_tasks("folder", odd),
        "data": lambda odd: run_experiment("main", odd or []),
        "path: make_kitchen": lambda odd: make_kitchen(odd),
        "flaw": lambda odd: write_script(flaw=odd or 5),
        "video: write_script": lambda odd: write_script(video=odd),
        "seed: toy_features": lambda odd: toy_features(seed=odd),
        "noise": lambda odd: toy_features(noise=odd),
        "found": lambda odd: plots.timelines(odd),
        "truth: plots": lambda odd: plots.timelines({"tea": TEA}, truth=odd or 3),
        "most": lambda odd: plots.orders(proc, most=odd),
        "procedure: graph": lambda odd: plots.graph(odd),
        "procedure: embedding": lambda odd: plots.embedding(odd),
        "features": lambda odd: plots.embedding(proc, features=odd or 3),
        "figure": lambda odd: plots.save(odd, "a.png"),
        "procedure: report": lambda odd: make_report(odd),
        "checks": lambda odd: make_report(proc, checks=odd or 3),
        "start": lambda odd: TEA.crop(odd, 1),
        "times": lambda odd: TEA.labels(odd and repr(odd)),
        "names: timeline": lambda odd: TEA.rename(odd),
        "height": lambda odd: draw_bar(TEA, height=odd),
    }


@pytest.mark.parametrize("odd", [None, 2.5j, [None], b"x"], ids=repr)
def test_a_value_of_a_wrong_kind_is_told_in_a_sentence(procedure, odd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("step,start,end\npour,0,1\n")
    for what, call in calls(procedure).items():
        with pytest.raises((OptionError, FeatureError), match=what.partition(":")[0].rstrip("s")):
            call(odd)


def test_odd_rows_are_told_and_forgotten_and_numbers_of_numpy_are_numbers(procedure, tmp_path):
    rows = toy_features(videos=3, seed=1, dim=8)[0]
    online = stepcut.learn(rows, steps=3, restarts=2).method.online()
    for odd in (np.zeros(5), np.full(8, np.nan), ["x"] * 8):
        with pytest.raises(FeatureError):
            online.push(odd)
        assert online.push(rows[0][0]).shape == (3,)
    assert len(procedure.suggest(np.int64(2))) == 2
    assert procedure.graph.next(np.array([0])) == procedure.graph.next([0])
    assert procedure.guide().push(np.float32(0), ROW.astype(np.float16)).time == 0
    stepcut.write(tmp_path / "all.json", {0: TEA, 1: TEA})
    assert stepcut.read(tmp_path / "all.json", video=1).video == "1"
    assert len(stepcut.evaluate(procedure, procedure.timelines, seed=np.int64(1)).rows) == 4


@pytest.mark.parametrize("old", MOVED)
def test_modules_that_moved_keep_their_old_names_with_a_warning(old):
    sys.modules.pop(old, None)
    with pytest.warns(FutureWarning, match=f"{MOVED[old]}; the old name ends"):
        module = importlib.import_module(old)
    new = importlib.import_module(MOVED[old])
    assert module is new
    assert new.__spec__.name == MOVED[old]
