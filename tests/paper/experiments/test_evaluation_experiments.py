"""Experiments: plans, resumable cells, tables from stored results, published figures."""

import importlib
import json
import re
import shutil
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

import datasets_trees as trees
import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film
from resnet_weights import resnet_file

import stepcut
from stepcut.cli.main import main
from stepcut.errors import DataError, OptionError
from stepcut.evaluation.clock import NO_VIDEO
from stepcut.features.extract import export
from stepcut.features.features import Features
from stepcut.features.spec import FeatureSpec
from stepcut.formats import write_folder
from stepcut.paper.cnc.method import cut_settings
from stepcut.paper.cnc.settings import group_settings
from stepcut.paper.datasets import egoprocel
from stepcut.paper.experiments import Results, run_experiment
from stepcut.paper.experiments.figure import draw_correspondences
from stepcut.paper.experiments.results import SCORED
from stepcut.timeline import Segment, Timeline

TINY = {"iterations": 3, "components": 4, "dim": 4}
STEPS = ("pour", "stir", "serve")
ONE = {"seeds": 1, "steps": 3, "jobs": 1}
TEA = {**ONE, "tasks": ["tea"]}


@pytest.fixture(scope="module")
def data(tmp_path_factory, labelled_video):
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for task in ("tea", "soup"):
        timelines = {}
        for number in range(3):
            timeline, rows = labelled_video(rng, STEPS, least=3)
            (root / task / "features" / "eyes").mkdir(parents=True, exist_ok=True)
            np.save(root / task / "features" / "eyes" / f"v{number}.npy", rows.astype(np.float16))
            timelines[f"v{number}"] = timeline
        write_folder(root / task / "annotations", timelines, "json")
    return root


@pytest.mark.slow
def test_main_end_to_end_and_the_table_again_from_its_file(data, tmp_path):
    rows = ["random", "one-cluster", "kmeans", "smooth", "tc3i + procut"]
    options = {"seeds": 2, "steps": "true", "rows": rows, "train": TINY}
    results = run_experiment("main", data, folder=tmp_path, jobs=1, **options)
    processes = run_experiment("main", data, folder=tmp_path / "two", jobs=2, **options)
    assert figures_of(processes) == figures_of(results)
    results.save(tmp_path / "main.json")
    again = Results.load(tmp_path / "main.json")
    table = again.table("strict")
    assert table.json() == results.table("strict").json()
    figures = [f"{task} {figure}" for task in ("soup", "tea", "mean") for figure in ("F1", "IoU")]
    assert table.columns == ["row", *figures]
    assert table.column("row")[:5] == ["random", "uniform", "one-cluster", "kmeans", "smooth"]
    (verdict,) = [note for note in table.notes if note.startswith("kmeans: ")]
    assert "above the uniform baseline" in verdict
    for words in ("on folder, protocol strict", "K is the true number", "over 2 seeds"):
        assert words in table.caption
    assert len(table.caption.split()) <= 40
    best = max(results.mean(row).mean for row in results.record["rows"])
    (bold,) = [row for row, place in table.bold if place == table.columns.index("mean F1")]
    assert results.mean(str(table.rows[bold][0])).mean == best
    (tests,) = [note for note in table.notes if "p against uniform, adjusted for 3" in note]
    assert "tc3i + procut " in tests
    with raises(OptionError, "strict, paper,", setting="protocol", value="named"):
        again.table("named")  # what is found without labels has no names
    again.record["data"] = r"$\euro5$"  # a name, and no formula
    again.plot(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text().count("<svg") == 1


MINE = """
import numpy as np
from stepcut.methods import StepCut

class Mine(StepCut):
    def fit(self, features, *_, **__):
        self.labels_ = [np.arange(len(rows)) * {} // len(rows) for rows in features]
        return self
"""


def test_a_custom_method_is_a_row_and_runs_again_when_it_changes(data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    rows, figures, files = ["my_method:Mine", "mine=my_method:Mine"], [], []
    for parts in (1, 1, 3):
        (tmp_path / "my_method.py").write_text(MINE.format(parts))
        monkeypatch.delitem(sys.modules, "my_method", raising=False)
        importlib.invalidate_caches()
        results = run_experiment("main", data, rows=rows, **TEA, folder=tmp_path)
        figures.append(results.mean("mine").mean)
        files.append(results.file_name())
    assert figures[0] == figures[1] != figures[2]
    assert files[0] == files[1] != files[2]
    assert results.table("strict").column("row") == [*NO_VIDEO, "my_method:Mine", "mine"]
    # Three equal parts are the uniform baseline at K 3.
    assert figures[2] == pytest.approx(results.mean("uniform").mean, abs=1)
    assert results.mean("my_method:Mine") == results.mean("mine")
    with pytest.raises(OptionError, match="Nobody"):
        run_experiment("main", data, rows=["my_method:Nobody"], **TEA, folder=tmp_path)


@pytest.mark.slow
def test_finished_cells_and_embeddings_are_made_again_only_if_damaged(data, tmp_path, monkeypatch):
    options = {**TEA, "folder": tmp_path, "train": TINY}
    first = run_experiment("cuts", data, rows=["tcc + kmeans"], **options)
    assert len(list((tmp_path / "embeddings").iterdir())) == 1  # and no checkpoint

    def refuse(*_, **__):
        raise AssertionError("an embedder was trained again")

    with monkeypatch.context() as patched:
        patched.setattr("stepcut.paper.cnc.embedder.Embedder.fit", refuse)
        again = run_experiment("cuts", data, rows=["tcc + kmeans"], **options)
        assert again.record["cells"] == first.record["cells"]
        run_experiment("cuts", data, rows=["tcc + subset"], **options)
        with pytest.raises(AssertionError, match="trained again"):
            run_experiment("cuts", data, rows=["tcc + subset"], **{**options, "train": {"dim": 5}})
    for damage in (b"", b"{\xff", b"{}"):
        for kind in ("cells", "embeddings"):
            for path in (tmp_path / kind).iterdir():
                path.write_bytes(damage)
        again = run_experiment("cuts", data, rows=["tcc + kmeans"], **options)
        assert figures_of(again) == figures_of(first)


def test_interrupted_work_goes_on(data, tmp_path):
    class Stop(Exception):
        pass

    def stop_after_two(event):
        if getattr(event, "stage", "") == "cells" and getattr(event, "done", 0) >= 2:
            raise Stop

    options = {**ONE, "seeds": 2, "folder": tmp_path, "rows": ["random", "one-cluster"]}
    with pytest.raises(Stop):
        run_experiment("main", data, progress=stop_after_two, **options)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert len(kept) == 2
    results = run_experiment("main", data, **options)
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert len(results.record["cells"]) == len(list((tmp_path / "cells").iterdir())) == 8


def figures_of(results):
    return [cell["figures"] for cell in results.record["cells"]]


def fake(experiment, data, rows, tasks, **cell):
    scores = {"F1": 20.0, "IoU": 10.0, "precision": 21.0, "recall": 19.0}
    figures = {name: {**scores} for name in SCORED}
    common = {"steps": 7, "seed": 0, "view": "", **cell}
    names = [{"task": task, "row": row, **common} for row in rows for task in tasks]
    cells = [{"cell": name, "figures": figures, "notes": []} for name in names]
    described = [{"task": task, "videos": 3, "view": cell.get("view", "")} for task in tasks]
    return Results({
        "experiment": experiment, "data": data, "cells": cells, "tasks": described, "steps": 7,
        "seeds": [0], "features": None, "notes": [], "versions": {"stepcut": "0"},
    })  # fmt: skip


def test_published_figures_stand_beside_ours_under_the_papers_protocol_only():
    rows, tasks = ["random", "uniform", "tc3i + procut"], ["Eggs", "Salad", "Tent"]
    results = fake("main", "egoprocel", rows, tasks)
    table = results.table()
    assert table.columns[:3] == ["row", "CMU-MMAC F1", "CMU-MMAC IoU"]
    shown = {row[0]: row[1:] for row in table.rows}
    assert shown["random (published)"] == pytest.approx([15.7, 5.9, 14.1, 6.5, 14.9, 6.2])
    assert shown["tc3i + procut (published)"][:2] == [22.7, 11.1]
    assert "uniform (published)" not in shown
    toy = fake("main", "toy", ["random"], ["Eggs"])
    for other in (results.table("strict"), toy.table()):
        assert not any("published" in str(row[0]) for row in other.rows)


@pytest.mark.parametrize(("name", "row", "task", "cell", "shown"), [
    ("losses", "uniform", "Tent", {}, ["lav+tcc + procut (published)", 16.0, 16.7, 8.5]),
    ("steps", "random", "Eggs", {"steps": 12}, ["random (published)", 12, 11.6, None]),
    ("views", "tc3i + procut", "Eggs", {"view": "left"},
     ["tc3i + procut (published)", "left", 21.2, 22.7, 21.8, 9.7]),
    ("third-person", "uniform", "make jello", {"view": "crosstask"},
     ["uniform (published)", "framewise", 12.4, 9.4, 10.3, 8.7, 9.8, 9.0]),
    ("third-person", "uniform", "make jello", {"view": "crosstask"},
     ["Elhamifar et al. (published)", "framewise-steps", 9.5, 26.7, 14.0, 10.1, 41.6, 16.3]),
    ("cuts", "lav + subset", "Eggs", {}, ["lav + subset (published)", 17.82, 18.99, 18.36, 8.53]),
])  # fmt: skip
def test_published_figures_of_the_other_tables(name, row, task, cell, shown):
    data = "crosstask" if name == "third-person" else "egoprocel"
    table = fake(name, data, [row], [task], **cell).table()
    assert shown in [one[: len(shown)] for one in table.rows]  # also of rows that were not run
    notes = {"third-person": "cannot be verified without the videos", "cuts": "conv4c maps"}
    assert notes.get(name, "") in " ".join(table.notes)


@pytest.mark.parametrize(("options", "words"), [
    ({"name": "mian"}, "'main'?"),
    ({"data": "nowhere"}, "nowhere"),
    ({"data": "egoprosel:/x"}, "'egoprocel'?"),
    ({"tasks": ["tee"]}, "'tea'?"),
    ({"features": "eye"}, "'eyes'?"),
    ({"seeds": 0}, "seeds=0"),
    ({"steps": "seven"}, "steps='seven'"),
    ({"rows": ["proqut"]}, "row='proqut'"),
    ({"jobs": 0}, "jobs=0"),
    ({"name": "views"}, "'folder'"),
    ({"maps": "half"}, "keep, stream"),
    ({"protocols": ["strickt"]}, "'strict'?"),
    ({"data": "toy", "toy": {"durtion": 5}}, "'duration'?"),
])  # fmt: skip
def test_wrong_settings_are_answered(data, tmp_path, options, words):
    given = {"name": "main", "data": data, "folder": tmp_path, **options}
    with raises(DataError if options.get("data") == "nowhere" else OptionError, words):
        run_experiment(**given)


@pytest.mark.parametrize(("text", "words"), [
    (None, "absent.json"),
    ("{}", "other.json"),
    ('{"format": "stepcut experiment 1", "experiment": "steps", "data": "toy"}', "cells, feat"),
])  # fmt: skip
def test_a_file_that_is_no_result_is_refused(tmp_path, text, words):
    file = tmp_path / ("absent.json" if text is None else "other.json")
    if text is not None:
        file.write_text(text)
    with raises(DataError, words):
        Results.load(file)


def test_what_was_not_run_is_named_and_equal_seeds_have_no_deviation():
    results = fake("main", "../a:b", ["random"], ["a"])
    with pytest.raises(OptionError, match="no row 'smooth'"):
        results.mean("smooth")
    with pytest.raises(OptionError, match="protocol='mine:MINE'"):
        results.table("mine:MINE")
    assert results.file_name().startswith("main-")
    assert not set(results.file_name()) & set("/:\\")
    results = fake("main", "toy", ["stepcut"], ["a"])
    [record] = results.record["cells"]
    record["figures"]["paper"]["F1"] = 88.8889  # three times that over three is not quite that
    cells = [{**record, "cell": {**record["cell"], "seed": seed}} for seed in range(3)]
    results.record["cells"] = cells
    assert isinstance(results.table().rows[0][1], float)


def test_data_without_features_fills_the_rows_of_no_video(data, tmp_path):
    shutil.copytree(data / "tea" / "annotations", tmp_path / "bare" / "tea" / "annotations")
    alone = {"seeds": 1, "folder": tmp_path, "jobs": 1}
    with raises(DataError, "neither features nor videos", setting="rows"):
        run_experiment("main", tmp_path / "bare", **alone)
    results = run_experiment("main", tmp_path / "bare", rows=["uniform"], **alone)
    assert results.table().column("row") == ["random", "uniform", "one-cluster"]
    assert "features none, encoder none, segmenters none, device CPU" in results.table().notes[0]
    with raises(OptionError, "procel and crosstask"):
        run_experiment("third-person", tmp_path / "bare", **alone)


def test_the_command_runs_keeps_and_makes_again(data, tmp_path, run):
    words = ["experiment", "steps", "--data", f"folder:{data}", "--out", str(tmp_path)]
    words += ["--tasks", "tea", "--seeds", "1", "--jobs", "1", "--rows", "one-cluster"]
    words += ["--log", "json", "--protocol", "strict"]
    first = run(*words)
    (kept,) = tmp_path.glob("steps-folder-*.json")
    assert str(kept) in first.err
    # random, uniform and one-cluster for each of four K
    assert len(json.loads(kept.read_text())["cells"]) == 4 * 3
    assert main([*words, "--steps", "3", "--set", "cut.smoothness=9", "cut.m=1.2"]) == 0
    (other,) = set(tmp_path.glob("steps-folder-*.json")) - {kept}  # other settings, another file
    assert json.loads(other.read_text())["cut"] == {"smoothness": 9, "m": 1.2}
    source = ["experiment", "steps", "--from", str(kept), "--protocol", "strict"]
    assert run(*source, "--plot", tmp_path / "steps.svg").out == first.out
    assert "mean F1 in percent, protocol strict" in (tmp_path / "steps.svg").read_text()
    run(*source, "-o", tmp_path / "steps.csv")
    assert "row,K,tea F1,tea IoU\nrandom,7," in (tmp_path / "steps.csv").read_text("utf-8-sig")
    assert "'steps', not 'main'" in run("experiment", "main", *source[2:], code=2).err


@pytest.mark.parametrize(("words", "said"), [
    ([], "--data is missing"),
    (["--data", "toy", "--set", "updates"], "--set updates: write it as NAME=VALUE"),
    (["--data", "toy", "--set", "cut.smothness=5"], "did you mean 'cut.smoothness'?"),
    (["--data", "toy", "--set", "train.steps=5"], "train.iterations"),
    (["--data", "toy", "--as-published", "--as-released"], "choose one"),
])  # fmt: skip
def test_the_command_refuses_before_any_work(run, words, said):
    assert said in run("experiment", "main", *words, code=2).err


def test_settings_reach_where_they_belong(data, tmp_path):
    given = {"cut.smoothness": 50, "cut.states": 4, "train.iterations": 3}
    given |= {"loss.weight": 32, "train.components": 4}
    train, cut = group_settings(given, cut_settings())
    assert train == {"iterations": 3, "weight": 32, "components": 4}
    options = {**TEA, "folder": tmp_path, "rows": ["tcc + procut"], "train": train}
    every = ({"cut": cut}, {}, {"as_published": True})
    smooth, plain, published = (run_experiment("cuts", data, **options, **one) for one in every)
    assert smooth.mean("tcc + procut", "edit").mean != plain.mean("tcc + procut", "edit").mean
    assert smooth.record["cut"] == {"smoothness": 50, "states": 4}
    assert published.record["preset"] == "published"
    assert any(note.startswith("As published, except for: ") for note in published.record["notes"])
    for results, words in (
        (smooth, "iterations 3"),
        (smooth, "smoothness 50, window 0.0, m 1.1, restarts 5, solver exact"),
        (plain, "segmenters procut (normalise True, prior 0.0, smoothness 2.0, window 0.0"),
        (published, "window 4.0, m 2.0, restarts 5, solver expansion"),
    ):
        assert words in results.table("strict").notes[0]
    assert len({each.file_name() for each in (smooth, plain, published)}) == 3


def test_features_of_the_command_are_found_with_their_own_rate(data, tmp_path):
    root = tmp_path / "tea"
    for number, file in enumerate(sorted((data / "tea" / "features" / "eyes").iterdir())):
        rows = np.load(file).astype(np.float32)
        spec = FeatureSpec("efficientnet-lite0", fps=1)
        features = Features(rows, Fraction(1), float(len(rows)), f"v{number}", spec=spec)
        export(features, root / "features")
    shutil.copytree(data / "tea" / "annotations", root / "annotations")
    options = {**ONE, "folder": tmp_path / "out", "rows": ["kmeans"]}
    results = run_experiment("main", tmp_path / "tea", **options)
    assert results.record["features"] == "efficientnet-lite0 at 1 per second"
    settings = "encoder none, segmenters kmeans (normalise False, prior 0.0, restarts 10), device"
    assert f"features efficientnet-lite0 at 1 per second, {settings}" in results.table().notes[0]
    same = run_experiment("main", tmp_path / "tea", spec=spec, **options)
    assert same.mean("kmeans").mean == results.mean("kmeans").mean
    with raises(DataError, "resnet50", "neither videos"):
        run_experiment("main", tmp_path / "tea", spec=FeatureSpec("resnet50"), **options)


@pytest.fixture(scope="module")
def small_network(tmp_path_factory):
    weights = resnet_file(tmp_path_factory.mktemp("weights") / "resnet.safetensors", stages=1)
    return FeatureSpec("resnet50", Fraction(1), weights=str(weights), layer="conv2a", family="v1.5")


@pytest.mark.slow
def test_maps_can_be_made_to_take_less_disk(small_network, tmp_path, caplog):
    options = {"steps": 2, "seeds": 1, "rows": ["kmeans"], "folder": tmp_path, "maps": "stream"}
    options["toy"] = {"videos": 2, "duration": 5.0}
    results = run_experiment("main", "toy", spec=small_network, jobs=2, **options)
    assert "frames need up to 0.0 GB" in caplog.text
    assert not (tmp_path / "maps").exists()
    assert results.record["features"].startswith("resnet50 conv2a maps")
    again = run_experiment("main", "toy", spec=small_network, jobs=1, **options)
    assert again.record["cells"] == results.record["cells"]


@pytest.mark.slow
def test_a_disk_that_is_too_small_is_refused_in_advance(small_network, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("usage", (), {"free": 1000}))
    options = {"folder": tmp_path, "toy": {"videos": 1, "duration": 4.0}, "spec": small_network}
    with pytest.raises(DataError, match="--maps stream"):
        run_experiment("main", "toy", **options)


def test_several_roots_are_one_data_set_and_its_rate_is_assumed_or_refused(data, tmp_path):
    options = {**ONE, "folder": tmp_path / "out", "rows": ["one-cluster"]}
    both = run_experiment("main", [data / "tea", data / "soup"], **options)
    assert [task["task"] for task in both.record["tasks"]] == ["tea", "soup"]
    shutil.copytree(data / "tea", tmp_path / "tea")
    assumed = run_experiment("main", tmp_path / "tea", **options)
    assert any("1 row per second is assumed" in note for note in assumed.record["notes"])
    files = sorted((tmp_path / "tea" / "features" / "eyes").iterdir())
    lengths = [f"{file.stem},{2 * len(np.load(file))}" for file in files]
    (tmp_path / "tea" / "durations.csv").write_text("\n".join(lengths))
    with raises(DataError, "--fps 0.5"):
        run_experiment("main", tmp_path / "tea", **options)
    assert run_experiment("main", tmp_path / "tea", fps=0.5, **options).record["notes"] == []


def test_third_person_trains_both_columns_on_small_data(tmp_path):
    rng = np.random.default_rng(0)
    crosstask, procel = tmp_path / "crosstask", tmp_path / "procel"
    release = crosstask / "crosstask_release"
    trees.put(release / "tasks_primary.txt", "1\nMake Tea\nhttp://example.org\n2\npour,stir\n\n")
    trees.put(release / "videos.csv", "1,a,https://example.org/1\n")
    (crosstask / "crosstask_features").mkdir()
    trees.put(procel / "change_tire" / "mapping.txt", "1 brake_on\n2 raise_jack\n")
    (procel / "features" / "eyes").mkdir(parents=True)
    for number in range(2):
        rows = np.repeat(np.eye(2, 6), 10, axis=0) + 0.05 * rng.normal(size=(20, 6))
        trees.put(release / "annotations" / f"1_v{number}.csv", "1,0,10\n2,10,20\n")
        np.save(crosstask / "crosstask_features" / f"v{number}.npy", rows)
        trees.put(procel / "change_tire" / "annotations" / f"t{number}.csv", "1,0,10\n2,10,20\n")
        np.save(procel / "features" / "eyes" / f"t{number}.npy", rows)
    options = {"steps": 2, "folder": tmp_path / "out", "train": {**TINY, "iterations": 40}}
    both = [f"procel:{procel}", f"crosstask:{crosstask}"]
    table = run_experiment("third-person", both, seeds=1, jobs=1, **options).table()
    assert "protocol framewise and framewise-steps" in table.caption
    shown = {(row[0], row[1]): row[2:8] for row in table.rows}
    for row in ("tc3i + kmeans", "tc3i + procut", "uniform"):
        assert shown[row, "framewise"] == pytest.approx([100.0] * 6), row
    assert shown["one-cluster", "framewise"][2] < 100
    assert {("uniform", "framewise-steps"), ("Fried et al. (published)", "framewise-steps")} <= {
        *shown
    }


def test_views_are_rows_of_every_camera(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "features" / "eyes").mkdir(parents=True)
    for person, camera in product(("S07", "S08"), egoprocel.VIEWS.values()):
        folder = tmp_path / "annotations" / "CMU-MMAC" / "Eggs" / f"{person}_Eggs_Video"
        name = f"{person}_Eggs_{camera}-100"
        trees.put(folder / f"{name}.csv", "1,8,1 break egg\n10,19,2 serve\n")
        rows = rng.normal(size=(24, 4)).astype(np.float16)
        np.save(tmp_path / "features" / "eyes" / f"{name}.npy", rows)
    options = {"seeds": 1, "steps": 2, "jobs": 1, "train": TINY, "folder": tmp_path / "out"}
    views = run_experiment("views", f"egoprocel:{tmp_path}", **options).table()
    cameras = [row[1] for row in views.rows if row[0] == "tc3i + procut"]
    assert sorted(cameras) == sorted(egoprocel.VIEWS)


@pytest.mark.slow
def test_a_table_of_conv4c_maps_of_toy_videos(conv4c, tmp_path, run):
    words = ["experiment", "main", "--seeds", "1", "--steps", "3", "--quiet", "--data", "toy"]
    words += ["--toy", "videos=2", "duration=8.0"]
    small = ["train.iterations=2", "train.frames=4", "train.hidden=4", "train.dim=4"]
    words += ["--set", *small, "--jobs", "1", "--out", str(tmp_path), *conv4c]
    words += ["--rows", "tc3i + procut", "tc3i + kmeans", "tc3i + subset"]
    printed = run(*words, "--plot", tmp_path / "table.svg").out
    assert "resnet50 conv4c maps of 14 x 14" in printed
    assert "iterations 2, frames 4, hidden 4" in printed
    for row in (*NO_VIDEO, "tc3i + procut"):
        assert f"\n{row} " in printed
    assert (tmp_path / "table.svg").read_text().startswith("<?xml")


OWN = """
import numpy as np
from stepcut.evaluation import Protocol
from stepcut.evaluation.protocols import match_steps, rate_strict
from stepcut.methods.method import Method

class Halves(Method):
    def segment(self, rows):
        return np.arange(len(rows)) * 2 // len(rows)

STEPS = Protocol("steps", match_steps, rate_strict)
"""


def test_an_own_loss_segmenter_and_protocol_stand_in_a_table(data, tmp_path, monkeypatch, run):
    docs = (Path(__file__).parents[3] / "docs" / "extend.md").read_text(encoding="utf-8")
    (loss,) = re.findall(r"^def slow.*?\n\n", docs, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "own_parts.py").write_text(OWN + loss)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    words = ["experiment", "losses", "--data", f"folder:{data}", "--tasks", "tea", "--quiet"]
    words += ["--seeds", "1", "--steps", "3", "--jobs", "1", "--out", str(tmp_path / "out")]
    words += ["--set", *(f"train.{name}={value}" for name, value in TINY.items())]
    rows = ["mine=own_parts:slow + procut", "own_parts:slow + own_parts:Halves"]
    rows += ["tcc + procut", "wide=tcc + procut; cut.smoothness=50"]
    rows += ["raw + asot", "asot-trained; epochs=2", "opel + procut", "rgwot + kmeans"]
    options = ["--rows", *rows, "--protocol", "own_parts:STEPS", "--format", "json"]
    record = json.loads(run(*words, *options).out)
    shown = {row["row"]: row["tea F1"] for row in record["rows"]}
    assert [*shown] == [*NO_VIDEO, "tcc + procut", "mine", rows[1], "wide", *rows[4:]]
    assert shown["wide"] != shown["tcc + procut"]
    assert "protocol own_parts:STEPS" in record["caption"]
    assert "wide: procut (normalise True, prior 0.0, smoothness 50" in record["notes"][0]
    # One each of the own loss, tcc, opel and rgwot: the settings of a cut leave it as it is.
    assert len(list((tmp_path / "out" / "embeddings").iterdir())) == 4
    for row, said in (
        ("own_parts:fast + procut", "fast"),
        ("tci3 + procut", "'tc3i'?"),
        ("tcc + procutt", "'procut'?"),
        ("tcc + procut; cut.smothness=5", "'cut.smoothness'?"),
        ("stepcut; restart=5", "'restarts'?"),
        ("uniform=tcc + procut", "Choose another name"),
    ):
        assert said in run(*words, "--rows", row, code=2).err


@pytest.mark.parametrize("name", ["losses", "figure"])
def test_a_gpu_that_is_not_there_is_reported_before_any_work(data, tmp_path, run, name):
    words = ["experiment", name, "--data", f"folder:{data}", "--out", str(tmp_path), "--quiet"]
    words += ["--plot", str(tmp_path / "figure.svg")]
    for device, said in (("cuda", "finds no CUDA GPU"), ("tpu", "Choose from auto, cpu, cuda")):
        for chosen in (["--device", device], ["--set", f"train.device={device}"]):
            assert said in run(*words, *chosen, code=2).err


def test_the_device_of_learn_is_where_the_embedder_trains(data):
    rows = {file.stem: np.load(file) for file in (data / "tea/features/eyes").iterdir()}
    learned = stepcut.learn(rows, steps=3, method="cnc", device="cpu", train=TINY)
    assert learned.method.embedder_.device == "cpu"


@pytest.mark.slow
def test_the_figure_of_one_video(data, tmp_path, run):
    picture = tmp_path / "cuts.svg"
    words = ["experiment", "figure", "--data", f"folder:{data}", "--steps", "true", "--quiet"]
    words += ["--tasks", "tea", "--set", "train.iterations=30", "train.dim=8"]
    words += ["--out", str(tmp_path), "--video"]
    assert "v1 of tea, K = 3" in run(*words, "v1", "--plot", picture).out
    drawn = picture.read_text()
    for word in ("truth", "k-means (HC)", "subset selection (SS)", "ProCut (PCM)", "stir"):
        assert word in drawn
    run(*words, "v0", "v2", "--rows", "kmeans", "--plot", picture)
    drawn = picture.read_text()
    for word in ("v0: truth", "v0: kmeans", "v2: truth", "v2: kmeans"):
        assert word in drawn
    assert "--plot" in run(*words, "v1", code=2).err


def test_a_correspondence_figure_joins_the_segments_of_a_step(tmp_path):
    made = [make_film(tmp_path / f"v{number}.mp4", frames=60, rate=10) for number in range(2)]
    steps = [Segment(0, 2, "pour"), Segment(2, 3, "stir"), Segment(4, 6, "pour")]
    timelines = {video.stem: Timeline(steps, duration=6) for video in made}
    figure = draw_correspondences(timelines, {video.stem: video for video in made})
    # A line from the longest pour of one video to that of the other, and one for stir.
    assert len(figure.artists) == 2
    pictures = [axes for axes in figure.axes if axes.images]
    assert sorted(axes.get_title() for axes in pictures) == ["1 s", "1 s", "2 s", "2 s"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["pour", "stir"]
    bare = draw_correspondences(timelines, {})
    assert not [axes for axes in bare.axes if axes.images]


@pytest.fixture(scope="module")
def conv4c(tmp_path_factory):
    weights = resnet_file(tmp_path_factory.mktemp("conv4c") / "resnet50.safetensors")
    return ["--backbone", "resnet50", "--weights", str(weights), "--fps", "1"]
