"""Toy videos on disk: real mp4 files that match their ground truth."""

import copy
import hashlib
import json

import av
import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import DataError, OptionError
from stepcut.progress import Event
from stepcut.toy import EDGES, STEPS, make_kitchen, write_script
from stepcut.toy.render import FPS, render_frames
from stepcut.toy.scene import Look


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    return make_kitchen(tmp_path_factory.mktemp("kitchen"), videos=2, seed=5, duration=4)


def fingerprint(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def changed(look, **values):
    other = copy.copy(look)
    vars(other).update(values)
    return other


def test_files_are_real_videos_of_the_stated_length(kitchen):
    assert [path.name for path in kitchen.videos] == ["kitchen-5-00.mp4", "kitchen-5-01.mp4"]
    for path in kitchen.videos:
        with av.open(str(path)) as container:
            frames = [frame.time for frame in container.decode(video=0)]
        assert len(frames) == round(kitchen.timelines[path.stem].end * FPS)
        assert frames == pytest.approx(np.arange(len(frames)) / FPS, abs=1e-3)


def test_annotations_have_the_egoprocel_layout(kitchen):
    for name, timeline in kitchen.timelines.items():
        lines = (kitchen.annotations / f"{name}.csv").read_text().splitlines()
        found = [
            (float(start), float(end), step)
            for start, end, step in (line.split(",") for line in lines)
        ]
        assert found == [(s.start, s.end, f"{STEPS.index(s.step) + 1} {s.step}") for s in timeline]


def test_truth_is_that_of_the_plan_and_the_graph_is_beside_it(kitchen):
    scripts = [write_script(5, video, duration=4) for video in (0, 1)]
    assert kitchen.timelines == {script.name: script.timeline for script in scripts}
    graph = json.loads((kitchen.folder / "graph.json").read_text())
    assert {tuple(edge) for edge in graph["edges"]} == EDGES == kitchen.edges
    assert tuple(graph["steps"]) == STEPS == kitchen.steps
    assert kitchen.flaws == {}
    assert repr(kitchen) == "<ToyKitchen 2 videos of 6 steps, 0.1 min, ego>"


def test_the_same_arguments_give_the_same_bytes_and_others_do_not(kitchen, tmp_path):
    again = make_kitchen(tmp_path, videos=1, seed=5, duration=4)
    assert fingerprint(again.videos[0]) == fingerprint(kitchen.videos[0])
    assert fingerprint(kitchen.videos[0]) != fingerprint(kitchen.videos[1])


@pytest.mark.slow
def test_a_second_call_does_no_work_and_a_damaged_video_is_filmed_again(tmp_path):
    first = make_kitchen(tmp_path, videos=2, seed=6, duration=4)
    before = {path: (path.stat().st_mtime_ns, fingerprint(path)) for path in first.videos}
    damaged = first.videos[1]
    damaged.write_bytes(damaged.read_bytes()[:4000])
    events: list[Event] = []
    second = make_kitchen(tmp_path, videos=2, seed=6, duration=4, progress=events.append)
    assert second == first
    assert first.videos[0].stat().st_mtime_ns == before[first.videos[0]][0]
    assert fingerprint(damaged) == before[damaged][1]
    assert events[-1].finished
    assert events[-1].done == 2
    assert not list(tmp_path.rglob("*.part"))


def test_a_folder_with_another_kitchen_is_left_alone(kitchen):
    with raises(DataError, "videos=2, seed=5"):
        make_kitchen(kitchen.folder, videos=3, seed=9, duration=4)
    assert len(list(kitchen.folder.glob("videos/*.mp4"))) == 2


def test_a_flawed_kitchen_describes_its_mistakes(tmp_path):
    flawed = make_kitchen(tmp_path, videos=1, seed=7, duration=4, flaw="skip:add jam")
    (name,) = flawed.timelines
    assert "add jam" not in flawed.timelines[name].sequence()
    (stored,) = json.loads((tmp_path / "flaws.json").read_text())[name]
    reason = "'add jam' is missing"
    assert stored == {"kind": "skip", "step": "add jam", "times": [], "reason": reason}
    assert flawed.flaws[name][0].reason == reason


@pytest.mark.parametrize(("step", "view"), [("pour water", "ego"), ("cut bread", "side")])
@pytest.mark.slow
def test_a_steps_tool_is_seen_from_the_first_frame_of_its_segments_to_the_last(step, view):
    script = write_script(8, 0, duration=4, repeat=0, skip=0)
    plain = changed(Look(script.seed), light=(1.0, 1.0, 1.0), gamma=1.0, vivid=1.0, noise=0.0)
    marked = changed(plain, tools={**plain.tools, step: (255, 0, 255)})
    one, other = (render_frames(script, view, look) for look in (plain, marked))
    seen = np.array([not np.array_equal(a, b) for a, b in zip(one, other, strict=True)])
    truth = script.timeline.labels(np.arange(len(seen)) / FPS) == STEPS.index(step)
    assert truth.any()
    assert np.array_equal(seen, truth)


def test_the_side_view_films_the_same_recording_otherwise(kitchen, tmp_path):
    side = make_kitchen(tmp_path, videos=1, seed=5, duration=4, view="side")
    (name,) = side.timelines
    assert side.timelines[name] == kitchen.timelines[name]
    assert fingerprint(side.videos[0]) != fingerprint(kitchen.videos[0])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"view": "top"}, "view='top' is unknown. Choose from ego, side."),
        ({"videos": 10**11}, "videos=100000000000 is not allowed"),
        ({"videos": 0}, "videos=0 is not allowed; give a whole number of at least 1"),
        ({"duration": 1}, "duration=1 is not allowed"),
    ],
)
def test_bad_arguments_leave_nothing_behind(tmp_path, wrong, words):
    with raises(OptionError, words):
        make_kitchen(tmp_path / "new", **wrong)
    assert not (tmp_path / "new").exists()
