"""Every data set returns tasks, videos, timelines in seconds, step names, and missing files."""

import contextlib
import json
import logging
import re
from fractions import Fraction
from pathlib import Path

import datasets_trees as trees
import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film

from stepcut.errors import AnnotationError, DataError, FeatureError, OptionError
from stepcut.formats import write
from stepcut.formats.records import video_rate
from stepcut.paper.datasets import DATASETS, Task, TaskVideo, egoprocel, find_dataset, load
from stepcut.paper.datasets.egoprocel import collapse_views, fullest
from stepcut.procedure.lengths import video_duration
from stepcut.timeline import Segment, Timeline

STEPS = "complete_step_annotations.json"
MAKERS = ("egoprocel", "crosstask", "procel", "captaincook4d")
MAKERS = {name: getattr(trees, f"{name}_tree") for name in MAKERS}


@pytest.mark.parametrize("name", list(MAKERS))
def test_every_data_set_gives_the_same_thing(name, tmp_path):
    for task in load(name, MAKERS[name](tmp_path)):
        assert len(set(task.steps)) == len(task.steps) > 0
        assert repr(task) == f"<Task {task.name}: {len(task)} videos, {len(task.steps)} steps>"
        for video in task:
            assert (video.timeline.steps, video.timeline.video) == (task.steps, video.name)
            assert all(path.suffix == ".npy" for path in video.features.values())


@pytest.mark.parametrize("name", list(DATASETS))
def test_a_root_that_is_not_there_or_empty(name, tmp_path):
    for root in (tmp_path / "nowhere", tmp_path):
        with raises(DataError, f"stepcut data info {name}"):
            load(name, root)
    assert find_dataset(name).examine(tmp_path).missing


@pytest.mark.parametrize("name", list(MAKERS))
def test_what_macos_leaves_beside_every_file_is_passed_over(name, tmp_path):
    root = MAKERS[name](tmp_path)
    trees.put(root / "videos" / "film.mp4", "no video")
    before = find_dataset(name).examine(root)
    for path in [path for path in root.rglob("*") if path.suffix in (".csv", ".npy", ".mp4")]:
        path.with_name(f"._{path.name}").write_bytes(bytes(range(256)))
    assert find_dataset(name).examine(root) == before


def test_egoprocel_tree(tmp_path):
    root = trees.egoprocel_tree(tmp_path) / "annotations"  # which may be the root
    (root / "EGTEA_Gaze+").rename(root / "egtea gaze")
    tasks = {task.name: task for task in load("egoprocel", root)}
    assert list(tasks) == list(DATASETS["egoprocel"].tasks)
    eggs = tasks["Eggs"].videos[0]
    about = {"person_id": "S07", "view": "egocentric"}
    assert (eggs.name, eggs.about) == ("S07_Eggs_7150991-100", about)
    assert tasks["Eggs"].steps == ("break egg", "serve")
    assert tasks["Tent"].videos[0].name == "01.tent.090617.gopro"
    bike = Timeline([Segment(0, 2, "open"), Segment(2, 4, "close"), Segment(4, 5, "open")])
    shown = tasks["Toy Bike (MECCANO)"].videos[0].timeline
    assert (shown.segments, shown.video) == (bike.segments, "ToyBike(MECCANO)_1")


def test_egoprocel_reports_missing_and_inconsistent_files(tmp_path):
    root = trees.egoprocel_tree(tmp_path)
    (root / "annotations/CMU-MMAC/Eggs/S07_Eggs_Video/S07_Eggs_7150991-100.csv").unlink()
    trees.put(root / "annotations/MECCANO/0002.csv", "0,2,1 unfold\n3,4,1 open\n")
    trees.put(root / "videos/any/0002.mp4", "no video")
    trees.put(root / "videos/any/stray.mp4", "no video")
    trees.put(root / "durations.csv", "name,seconds\n0002,8\n")
    found = find_dataset("egoprocel").examine(root)
    missing, problems = "\n".join(found.missing), "\n".join(found.problems)
    assert "camera 7150991" in missing
    assert "0 of 33 recordings of Eggs" in missing
    assert "videos/Head" not in missing
    assert "ToyBike(MECCANO)_1.*: annotated, but without video" in missing
    assert "stray.mp4: a video without an annotation" in problems
    assert "step 1 is 'unfold' here, elsewhere 'open'" in problems
    bike = next(task for task in found.tasks if task.name == "Toy Bike (MECCANO)")
    assert {video.name: video.duration for video in bike}["0002"] == 8.0
    trees.put(root / "annotations/MECCANO/0002.csv", "0,2,1 unfold\n3,4,open\n")
    with raises(AnnotationError, "0002.csv, line 2", "'open'"):
        load("egoprocel", root)


@pytest.mark.parametrize(("name", "file", "text"), [
    ("captaincook4d", f"annotations/{STEPS}", '[{"recording_id": "5_1"}]'),
    ("captaincook4d", "annotations/error_annotations.json", '{"5_1": []}'),
    ("captaincook4d", "task_graphs/coffee.json", '{"steps": {}}'),
    ("egoprocel", "egoprocel.json", '{"tent": {"handles": []}}'),
    ("toy", "graph.json", "{}"),
])  # fmt: skip
def test_an_invalid_file_is_named(name, file, text, tmp_path):
    if name == "captaincook4d":
        trees.captaincook4d_tree(tmp_path)
    trees.put(tmp_path / file, text)
    with raises(AnnotationError, Path(file).name):
        load(name, tmp_path)


def test_egoprocel_json_collapses_views(tmp_path):
    found = find_dataset("egoprocel").examine(trees.egoprocel_json(tmp_path))
    pc, eggs = found.tasks
    assert [video.name for video in pc] == ["Head_1", "Head_2"]
    assert [(video.name, video.about["views"]) for video in eggs] == [("S07", "3"), ("S08", "3")]
    assert eggs.defects == ("6 lists of camera views were collapsed to 2 recordings",)
    for task in (pc, eggs):
        first, second = (video.timeline for video in task)
        steps = [Segment(1, 2, "break eggs"), Segment(3, 5, "mix eggs")]
        assert first == Timeline(steps, 10.0, task.steps, task.videos[0].name)
        assert second.segments[0].start == 50.0
    assert sum("is missing" in line for line in found.missing) == 14


def test_views_are_of_one_recording_when_their_steps_begin_together():
    def frames(*starts):
        return list(zip(["1", "2"], starts, [start + 10 for start in starts], strict=False))

    here, nearby, elsewhere = frames(100, 200), frames(140, 160), frames(100, 251)
    shorter = frames(100)
    assert [len(group) for group in collapse_views([here, nearby, elsewhere])] == [2, 1]
    assert [len(group) for group in collapse_views([shorter, here, shorter, frames()])] == [4]
    assert [len(group) for group in collapse_views([here] * 12)] == [6, 6]
    assert [len(group) for group in collapse_views([frames()])] == [1]
    assert fullest([shorter, here, nearby]) is here


def test_crosstask(tmp_path, caplog):
    root = trees.crosstask_tree(tmp_path)
    with caplog.at_level(logging.WARNING, "stepcut"):
        jello, car = load("crosstask", root)
    assert jello.steps == ("pour jello powder", "stir", "stir (3)")
    (video,) = jello
    assert video.name == "23521_a_b-1"
    steps = (Segment(0.5, 2, "pour jello powder"), Segment(2, 4.25, "stir (3)"))
    assert video.timeline.segments == steps
    assert video.rate == Fraction(1)
    assert video.read_features("crosstask").shape == (5, 4)
    assert [v.name for v in car] == ["16815_yy", "16815_zz"]
    assert "'7,3,4' is not 'step number,start,end' with one of 2 steps" in caplog.text
    assert "task 99999 is not in tasks_primary.txt" in caplog.text
    missing = "\n".join(find_dataset("crosstask").examine(root).missing)
    assert "1 of 182 files of Make Jello Shots" in missing
    assert "16815_zz.*: annotated, but without video and features" in missing


@pytest.mark.parametrize(
    ("text", "what"), [("1\nA\nx\n2\nonly one\n", "line 5"), ("A\n1\nx\n2\na,b\n", "line 1")]
)
def test_an_invalid_crosstask_task_list_is_refused(text, what, tmp_path):
    trees.put(tmp_path / "crosstask_release" / "tasks_primary.txt", text)
    (tmp_path / "crosstask_release" / "annotations").mkdir()
    with raises(AnnotationError, what):
        load("crosstask", tmp_path)


@pytest.mark.parametrize(("name", "file"), [
    ("procel", "ProceL_dataset/change_tire/annotations/tire_0001.csv"),
    ("crosstask", "crosstask_release/annotations/16815_zz.csv"),
])  # fmt: skip
def test_an_invalid_line_is_reported_and_the_others_are_read(name, file, tmp_path):
    root = MAKERS[name](tmp_path)
    trees.put(root / file, "1,0,2\nsoon\n2,5,4\n2,3,4.5\n")
    found = find_dataset(name).examine(root)
    videos = {video.name: video.timeline for task in found.tasks for video in task}
    assert videos[Path(file).stem].sequence() == ["brake on", "raise jack"]
    problems = "\n".join(found.problems)
    assert "line 2: 'soon' is not 'step number,start,end'" in problems
    assert re.search("line 3.*the end 4 s is before the start", problems)


def test_procel(tmp_path):
    root = trees.procel_tree(tmp_path)
    tire, coffee = load("procel", root)
    assert (tire.name, tire.steps) == ("change_tire", ("brake on", "raise jack"))
    assert coffee.steps == ("grind coffee", "pour water")
    one, two = (video.timeline for video in coffee)
    assert (one.video, two.video) == ("coffee_0001", "coffee_0002")
    assert one.segments == (Segment(1, 2, "grind coffee"), Segment(5, 6, "grind coffee"))
    assert two.segments == (Segment(3, 4.5, "pour water"),)
    trees.put(root / "ProceL_dataset" / "make_coffee" / "readme.txt", "1\tonly_one\tx\n")
    found = find_dataset("procel").examine(root)
    assert "1 names for 2 annotated videos" in "\n".join(found.problems)
    assert [video.name for video in found.tasks[1]] == ["make_coffee_0001", "make_coffee_0002"]
    assert sum("data.mat: absent" in line for line in found.missing) == 10
    (root / "ProceL_dataset" / "make_coffee" / "data.mat").write_bytes(b"not matlab" * 50)
    with raises(AnnotationError, "data.mat", "key_steps_time"):
        load("procel", root)


def test_a_damaged_file_of_matlab_is_named(tmp_path):
    root = trees.procel_tree(tmp_path)
    path = root / "ProceL_dataset" / "make_coffee" / "data.mat"
    whole = path.read_bytes()
    # On damage inside scipy may crash.
    for end in (0, 1, 100, 130, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with raises(AnnotationError, "data.mat"):
            load("procel", root)


def test_captaincook4d(tmp_path):
    root = trees.captaincook4d_tree(tmp_path)
    (task,) = load("captaincook4d", root)
    assert task.name == "Coffee"
    assert task.steps == ("pour water", "Grind the beans", "drink it")
    assert task.graph == (("Grind the beans", "pour water"), ("pour water", "drink it"))
    good, bad = task
    assert good.timeline == Timeline(
        [Segment(1, 3, "Grind the beans"), Segment(2.5, 9, "pour water")], 10.0, task.steps, "5_1"
    )
    assert (good.rate, good.duration) == (Fraction(1), 10.0)
    assert good.about == {"person_id": "2", "environment": "3"}
    assert good.errors == ()
    assert bad.errors == (("Grind the beans", "missing step"), ("pour water", "technique error"))
    assert bad.timeline.sequence() == ["pour water"]
    missing = "\n".join(find_dataset("captaincook4d").examine(root).missing)
    assert "5_2.*: annotated, but without video and features" in missing
    assert "23 of 24 recipes are missing" in missing


def test_captaincook4d_reports_unknown_steps_unmatched_and_changed_files(tmp_path):
    root = trees.captaincook4d_tree(tmp_path)
    graph = root / "task_graphs" / "coffee.json"
    graph.write_text(graph.read_text().replace("pour-pour water", "pour-pour milk"))
    np.save(root / "features" / "omnivore" / "9_9.npy", np.ones((3, 4)))
    trees.put(root / "task_graphs" / "scrambledeggs.json", "{}")
    problems = "\n".join(find_dataset("captaincook4d").examine(root).problems)
    assert "'pour-pour water' is not in" in problems
    assert "9_9.npy: a video without an annotation" in problems
    assert "scrambledeggs.json differs from the published file (SHA-256)" in problems
    graph.unlink()
    (root / "annotations" / "error_annotations.json").unlink()
    found = find_dataset("captaincook4d").examine(root)
    assert found.tasks[0].graph is None
    assert found.tasks[0].videos[1].errors == (("Grind the beans", "missing step"),)
    assert "coffee.json: absent" in "\n".join(found.missing)


def test_videos_of_one_name_in_two_folders_are_reported(tmp_path):
    for folder in ("monday", "tuesday"):
        trees.put(tmp_path / "videos" / folder / "tea.mp4", "no video")
    found = find_dataset("folder").examine(tmp_path)
    assert [video.path for video in found.tasks[0]] == [tmp_path / "videos" / "monday" / "tea.mp4"]
    (problem,) = found.problems
    assert str(tmp_path / "videos" / "tuesday" / "tea.mp4") in problem


def test_a_plain_folder(tmp_path):
    for name in ("a", "b", "quiet"):
        trees.put(tmp_path / "tea" / f"{name}.mp4", "no video")
    write(tmp_path / "tea" / "a.eaf", Timeline([Segment(0, 1, "pour")], 3.0, video="a.mp4"))
    write(tmp_path / "tea" / "b.vtt", Timeline([Segment(0, 1, "stir")]))
    write(tmp_path / "tea" / "lost.csv", Timeline([Segment(0, 1, "drink")]))
    trees.put(tmp_path / "tea" / "bad.srt", "1\n00:00:02,000 --> 00:00:01,000\nx\n")
    found = find_dataset("folder").examine(tmp_path / "tea")
    (task,) = found.tasks
    assert (task.name, task.steps) == ("tea", ("pour", "stir", "drink"))
    assert [video.name for video in task] == ["a", "b", "lost", "quiet"]
    assert [video.timeline is None for video in task] == [False, False, False, True]
    assert [video.path is None for video in task] == [False, False, True, False]
    assert task.videos[0].duration == 3.0
    assert "quiet.mp4: a video without a label file" in "\n".join(found.missing)
    assert "the label file of 'lost'" in "\n".join(found.problems)
    assert "bad.srt, line 2" in "\n".join(found.problems)
    assert [each.name for each in load("folder", tmp_path)] == ["tea"]


def test_a_toy_kitchen_and_the_features_of_a_video(tmp_path):
    trees.put(tmp_path / "graph.json", '{"steps": ["pour", "stir"], "edges": [["pour", "stir"]]}')
    trees.put(tmp_path / "annotations" / "k1.csv", "0,1,2 stir\n")
    trees.put(tmp_path / "videos" / "k1.mp4", "no video")
    (task,) = load("toy", tmp_path)
    assert (task.steps, task.graph) == (("pour", "stir"), (("pour", "stir"),))
    assert task.timelines["k1"].steps == ("pour", "stir")
    np.save(tmp_path / "x.npy", np.array([[1.0, np.nan]]))
    video = TaskVideo("x", features={"net": tmp_path / "x.npy"})
    with raises(FeatureError, "x.npy: row 0"):
        video.read_features("net")
    with raises(OptionError, "'net'?", setting="backbone", value="nut"):
        video.read_features("nut")
    assert len(Task("t", [video], ())) == 1


def test_the_five_camera_layout_is_complete_and_json_finds_its_videos(tmp_path):
    tree = trees.egoprocel_tree(tmp_path / "tree")
    for path in (tree / "annotations").rglob("*.csv"):
        trees.put(tree / "videos" / f"{path.name[:-4].removesuffix(egoprocel.TENT_ENDING)}.mp4")
    loaded = find_dataset("egoprocel").examine(tree)
    assert not [line for line in loaded.problems if "without a timeline" in line]
    assert not [line for line in loaded.missing if "no video" in line]
    root = trees.egoprocel_json(tmp_path / "json")
    cameras = {"egocentric": "S07_Eggs_7150991-100", "top": "S07_Eggs_7151020-100"}
    eggs = [f"CMU-MMAC/{name}" for name in cameras.values()]
    for film in ("pc_assembly/Head_1", "pc_disassembly/Head_1", *eggs):
        trees.put(root / "videos" / f"{film}.mp4")
    tasks = {task.name: task for task in load("egoprocel", root)}
    # Not its namesake of another part.
    assert tasks["PC Assembly"].videos[0].path == root / "videos" / "pc_assembly" / "Head_1.mp4"
    for view, name in cameras.items():
        assert load("egoprocel", root, view=view)[-1].videos[0].path.stem == name


def test_the_length_and_the_rate_are_those_of_the_video(tmp_path):
    film = make_film(tmp_path / "a.mp4", frames=30, rate=12)
    assert video_duration(film) == pytest.approx(2.5)
    assert video_rate(str(film)) == Fraction(12)
    write(film.with_suffix(".csv"), Timeline([Segment(0, 1, "pour")]))
    assert video_duration(film.with_suffix(".csv")) is None
    assert video_rate("no such file") is None
    (task,) = load("folder", tmp_path)
    assert task.videos[0].duration == pytest.approx(2.5)
    assert task.timelines["a"].duration == pytest.approx(2.5)
    path = tmp_path / "tasks.json"
    write(path, Timeline([Segment(0, 1, "pour")], video=str(film)), "label-studio")
    (task,) = json.loads(path.read_text())
    assert (task["data"]["rate"], task["data"]["fps"]) == ("12", 12.0)
    assert task["predictions"][0]["result"][0]["value"]["ranges"] == [{"start": 1, "end": 12}]


DOC = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_data_set_and_task_is_in_the_docs_and_their_example_runs(tmp_path, capsys):
    named = re.findall(r"^\| `(\w+)` \|", DOC, flags=re.MULTILINE)
    assert named == list(DATASETS)
    for name in named:
        count = len(DATASETS[name].tasks) or "any"
        assert re.search(rf"^\| `{name}` \|.*\| {count} \|$", DOC, flags=re.MULTILINE)
    for title, info in DATASETS["egoprocel"].tasks.items():
        if info.part == "EGTEA":
            folder = info.folder.partition("/")[2]
            row = rf"^\| {title} \| `{folder}` \|.*-{folder}` \| `{info.key}` \| {info.videos} \| {info.steps} \|"
            assert re.search(row, DOC, flags=re.MULTILINE), title
    trees.put(tmp_path / "kitchen" / "a.mp4", "no video")
    trees.put(tmp_path / "kitchen" / "a.csv", "0,1,pour\n")
    (python,) = re.findall(r"```python\n(.*?)```", DOC, flags=re.DOTALL)
    with contextlib.chdir(tmp_path):
        exec(python, {})
    assert "kitchen ('pour',)" in capsys.readouterr().out
