"""Toy videos: steps, order and durations of the script, and real mp4 files that match it."""

import copy
import hashlib
import itertools
import json

import av
import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import DataError, OptionError
from stepcut.toy import EDGES, STEPS, Flaw, make_kitchen, toy_features, write_script
from stepcut.toy.render import FPS, render_frames
from stepcut.toy.scene import Look
from stepcut.toy.script import BEFORE


def many(count=60, **plan):
    return [write_script(seed, 0, **plan).timeline.sequence() for seed in range(count)]


def test_a_seed_is_a_script_and_every_allowed_order_and_no_other_occurs():
    assert write_script(3, 1) == write_script(3, 1)
    pairs = itertools.product(range(4), repeat=2)
    assert len({write_script(*pair).timeline.segments for pair in pairs}) == 16
    assert all(sequence == list(STEPS) for sequence in many(shuffle=0, skip=0, repeat=0))
    assert all(len(sequence) == 3 for sequence in many(skip=1, repeat=0))  # the shortest
    orders = itertools.permutations(STEPS)
    allowed = {each for each in orders if all(each.index(a) < each.index(b) for a, b in EDGES)}
    seen = {tuple(sequence) for sequence in many(400, shuffle=1, skip=0, repeat=0)}
    assert seen == allowed
    assert {(a, c) for a, b in EDGES for d, c in EDGES if b == d} <= BEFORE - EDGES  # reduced


def test_shots_lie_on_frames_and_skips_and_repeats_are_as_frequent_as_asked():
    script = write_script(1, 0, duration=30)
    assert script.shots[0].start == 0
    assert all(a.end == b.start for a, b in itertools.pairwise(script.shots))
    assert all(round(shot.end * 15, 6) % 3 == 0 for shot in script.shots)
    assert 0.84 * 30 <= script.duration <= 1.16 * 30
    assert script.timeline.steps == STEPS
    none, some = many(skip=0, repeat=0), many(200, skip=0.3, repeat=0.4)
    assert all(sorted(sequence) == sorted(STEPS) for sequence in none)
    assert np.mean([len(set(sequence)) for sequence in some]) == pytest.approx(0.7 * 6, abs=0.3)
    assert np.mean([len(sequence) > len(set(sequence)) for sequence in some]) > 0.5
    assert all(a != b for sequence in some for a, b in itertools.pairwise(sequence))


@pytest.mark.parametrize("background", [0.0, 0.2, 0.5])
def test_background_has_the_share_asked_for(background):
    timeline = write_script(4, 0, background=background).timeline
    idle = sum(end - start for start, end in timeline.gaps())
    assert idle / timeline.end == pytest.approx(background, abs=0.01)


def test_a_missed_step_is_missing_and_described():
    script = write_script(7, 0, flaw="skip:add jam")
    assert sorted(script.timeline.sequence()) == sorted(set(STEPS) - {"add jam"})
    (flaw,) = script.flaws
    assert flaw == Flaw("skip", "add jam", (), "'add jam' is missing")


@pytest.mark.parametrize("step", ["spread butter", "add jam", "stir tea", "wash dish"])
def test_a_swapped_step_comes_before_what_it_needs(step):
    script = write_script(7, 0, flaw=f"swap:{step}")
    sequence = script.timeline.sequence()
    assert sorted(sequence) == sorted(STEPS)
    broken = {(a, b) for a, b in BEFORE if sequence.index(a) > sequence.index(b)}
    assert {b for _, b in broken} == {step}
    (segment,) = [s for s in script.timeline if s.step == step]
    assert script.flaws[0].times == ((segment.start, segment.end),)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_repeated_too_often_breaks_no_order(step):
    script = write_script(7, 0, flaw=f"repeat:{step}")
    sequence = script.timeline.sequence()
    assert sequence.count(step) == 3
    assert len(script.flaws[0].times) == 3
    assert len(sequence) == 8
    assert all(sequence.index(a) < sequence.index(b) for a, b in EDGES)


@pytest.mark.parametrize(("plan", "words"), [
    ({"seed": -1}, "seed=-1 is not allowed"),
    ({"duration": 2}, "duration=2 is not allowed; give a number of at least 4 and at most"),
    ({"background": 1.0}, "background=1.0 is not allowed; give a number of at least 0 and at"),
    ({"skip": -0.1}, "skip=-0.1 is not allowed"),
    ({"repeat": 2}, "repeat=2 is not allowed"),
    ({"shuffle": float("nan")}, "shuffle=nan is not allowed"),
    ({"flaw": "skop:add jam"}, "flaw='skop' is unknown; did you mean 'skip'?"),
    ({"flaw": "skip:add jm"}, "flaw='skip:add jm': step='add jm' is unknown; did you mean"),
    ({"flaw": "swap:cut bread"}, "Choose from spread butter, add jam, stir tea, wash dish"),
])  # fmt: skip
def test_bad_settings_are_answered_with_what_is_allowed(plan, words):
    with raises(OptionError, words):
        write_script(**plan)
    for wrong in ("videos", "dim", "rate"):
        with raises(OptionError, "is not allowed", setting=wrong):
            toy_features(**{wrong: 0})


def test_toy_features_follow_the_script_and_without_nuisance_a_step_is_one_vector():
    rows, timelines = toy_features(videos=3, seed=2, dim=16, rate=2)
    assert timelines == [write_script(2, video).timeline for video in range(3)]
    for array, timeline in zip(rows, timelines, strict=True):
        assert array.shape == (round(2 * timeline.end), 16)
        assert array.dtype == np.float32
    again, _ = toy_features(videos=3, seed=2, dim=16, rate=2)
    assert all(np.array_equal(a, b) for a, b in zip(rows, again, strict=True))
    rows, timelines = toy_features(videos=3, rate=5, noise=0, offset=0, drift=0)
    pairs = zip(rows, timelines, strict=True)
    labels = [timeline.labels(np.arange(len(array)) / 5) for array, timeline in pairs]
    stacked, step = np.concatenate(rows), np.concatenate(labels)
    for number in range(6):
        assert len(np.unique(stacked[step == number], axis=0)) == 1
    gaps = sum(len(timeline.gaps()) for timeline in timelines)
    assert len(np.unique(stacked, axis=0)) == 6 + gaps


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    return make_kitchen(tmp_path_factory.mktemp("kitchen"), videos=2, seed=5, duration=4)


def fingerprint(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def changed(look, **values):
    other = copy.copy(look)
    vars(other).update(values)
    return other


def test_videos_annotations_and_the_graph_are_those_of_the_script(kitchen):
    assert [path.name for path in kitchen.videos] == ["kitchen-5-00.mp4", "kitchen-5-01.mp4"]
    for path in kitchen.videos:
        with av.open(str(path)) as container:
            frames = [frame.time for frame in container.decode(video=0)]
        assert len(frames) == round(kitchen.timelines[path.stem].end * FPS)
        assert frames == pytest.approx(np.arange(len(frames)) / FPS, abs=1e-3)
    for name, timeline in kitchen.timelines.items():
        lines = (kitchen.annotations / f"{name}.csv").read_text().splitlines()
        cells = [line.split(",") for line in lines]
        found = [(float(start), float(end), step) for start, end, step in cells]
        assert found == [(s.start, s.end, f"{STEPS.index(s.step) + 1} {s.step}") for s in timeline]
    scripts = [write_script(5, video, duration=4) for video in (0, 1)]
    assert kitchen.timelines == {script.name: script.timeline for script in scripts}
    graph = json.loads((kitchen.folder / "graph.json").read_text())
    assert {tuple(edge) for edge in graph["edges"]} == EDGES == kitchen.edges
    assert tuple(graph["steps"]) == STEPS == kitchen.steps
    assert kitchen.flaws == {}
    assert repr(kitchen) == "<ToyKitchen 2 videos of 6 steps, 0.1 min, ego>"


def test_the_same_arguments_give_the_same_bytes_and_spare_other_kitchens(kitchen, tmp_path):
    again = make_kitchen(tmp_path, videos=1, seed=5, duration=4)
    assert fingerprint(again.videos[0]) == fingerprint(kitchen.videos[0])
    assert fingerprint(kitchen.videos[0]) != fingerprint(kitchen.videos[1])
    with raises(DataError, "videos=2, seed=5"):
        make_kitchen(kitchen.folder, videos=3, seed=9, duration=4)
    assert len(list(kitchen.folder.glob("videos/*.mp4"))) == 2


@pytest.mark.slow
def test_a_second_call_does_no_work_and_a_damaged_video_is_filmed_again(tmp_path):
    first = make_kitchen(tmp_path, videos=2, seed=6, duration=4)
    before = {path: (path.stat().st_mtime_ns, fingerprint(path)) for path in first.videos}
    damaged = first.videos[1]
    damaged.write_bytes(damaged.read_bytes()[:4000])
    events = []
    second = make_kitchen(tmp_path, videos=2, seed=6, duration=4, progress=events.append)
    assert second == first
    assert first.videos[0].stat().st_mtime_ns == before[first.videos[0]][0]
    assert fingerprint(damaged) == before[damaged][1]
    assert events[-1].finished
    assert events[-1].done == 2
    assert not list(tmp_path.rglob("*.part"))


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


@pytest.mark.parametrize(("wrong", "words"), [
    ({"view": "top"}, "view='top' is unknown. Choose from ego, side."),
    ({"videos": 10**11}, "videos=100000000000 is not allowed"),
    ({"videos": 0}, "videos=0 is not allowed; give a whole number of at least 1"),
    ({"duration": 1}, "duration=1 is not allowed"),
])  # fmt: skip
def test_bad_arguments_leave_nothing_behind(tmp_path, wrong, words):
    with raises(OptionError, words):
        make_kitchen(tmp_path / "new", **wrong)
    assert not (tmp_path / "new").exists()
