"""`stepcut data`; statistics against a slow count; the layout of Breakfast, 50Salads, YTI and Desktop Assembly."""

import importlib
import json
import random
from pathlib import Path

import datasets_trees as trees
import numpy as np
import pytest
from errors_kit import raises

from stepcut.cli.main import main
from stepcut.errors import AnnotationError, DataError
from stepcut.evaluation import evaluate, score
from stepcut.evaluation.compare import baseline
from stepcut.formats import write_folder
from stepcut.paper.datasets import DATASETS, Task, TaskVideo, find_dataset, load
from stepcut.paper.datasets.dataset import count, leaderboard, statistics
from stepcut.paper.experiments.results import read_published
from stepcut.timeline import Segment, Timeline


def run(capsys, *words):
    code = main(["data", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_list(capsys):
    code, out, _ = run(capsys, "list", "--format", "csv")
    assert code == 0
    assert out.startswith("name,title,tasks,licence\negoprocel,EgoProceL,16,")
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == list(DATASETS)


@pytest.mark.parametrize("name", list(DATASETS))
def test_info_and_cite(name, capsys):
    code, out, _ = run(capsys, "info", name)
    assert code == 0
    for part in (DATASETS[name].title, "Licence: ", "How to obtain it: ", "Folder tree:\nROOT/"):
        assert part in out
    code, out, _ = run(capsys, "cite", name)
    assert code == 0
    assert out.startswith(("@inproceedings{", "% "))


def test_check_says_exactly_what_is_missing(capsys, tmp_path):
    root = str(trees.egoprocel_json(tmp_path))
    code, out, _ = run(capsys, "check", "egoprocel", "--root", root)
    assert code == 1
    assert "2 of 16 tasks, 4 recordings:\n  4 with a timeline, 0 with a video, 0 with feat" in out
    assert "  known defect: Eggs: 6 lists of camera views were collapsed to 2 recordings.\n" in out
    assert "the task 'tent' (Tent) is missing." in out.partition("  missing: ")[2]
    code, out, _ = run(capsys, "check", "captaincook4d", "--root", str(tmp_path))
    assert code == 1
    assert "complete_step_annotations.json: absent. Copy it from https://github.com/Captain" in out


def test_stats(capsys, tmp_path):
    words = ["stats", "egoprocel", "--root", str(trees.egoprocel_json(tmp_path))]
    code, out, err = run(capsys, *words, "--format", "csv")
    assert code == 0
    assert out.splitlines()[0] == "task,videos,steps,foreground,missing,repeated"
    assert out.splitlines()[2].startswith("Eggs,2,2,0.")
    assert "stepcut: Eggs: 6 lists of camera views were collapsed to 2 recordings." in err
    code, out, _ = run(capsys, *words, "--all", "--plot", str(tmp_path / "p.svg"))
    assert "mean over tasks (published)" in out
    assert "Eggs (published)" in out
    assert (tmp_path / "p.svg").stat().st_size > 1000
    assert run(capsys, *words, "-o", str(tmp_path / "stats.csv"))[0] == 0
    assert "\nEggs,2,2,0." in (tmp_path / "stats.csv").read_text(encoding="utf-8-sig")
    words = ["check", *words[1:], "-o", str(tmp_path / "c.csv")]
    assert "use -o with list, stats or leaderboard" in run(capsys, *words)[2]


@pytest.mark.parametrize(("words", "what"), [
    (["info"], "data info needs the name of a data set: egoprocel, crosstask"),
    (["info", "egoprocl"], "data set='egoprocl' is unknown; did you mean 'egoprocel'?"),
    (["stats", "egoprocel"], "data stats egoprocel needs --root DIR"),
    (["check", "egoprocel", "--root", "/nowhere/at/all"], "/nowhere/at/all: no such folder"),
    (
        ["stats", "procel", "--root", ".", "--view", "top"],
        "--view: procel does not have this option",
    ),
    (["stats", "procel", "--root", "."], ".: nothing to count."),
    (["list", "--format", "tex"], "format='tex' is unknown; did you mean 'text'?"),
])  # fmt: skip
def test_errors_are_one_line(words, what, capsys):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1


ROOT = Path(__file__).parents[3]


def make_task(seed, name="tea"):
    """A task with overlaps, repeats, missing steps and, in one video, no segment at all; whole seconds."""
    rng = random.Random(seed)
    steps = tuple(f"step {k}" for k in range(rng.randint(1, 6)))
    videos = []
    for n in range(rng.randint(1, 5)):
        length = rng.randint(20, 60)
        starts = [rng.randint(0, 15) for _ in range(rng.randint(0, 7))]
        segments = [Segment(at, at + rng.randint(0, 5), rng.choice(steps)) for at in starts]
        videos.append(
            TaskVideo(f"v{n}", duration=length, timeline=Timeline(segments, length, steps, f"v{n}"))
        )
    return Task(name, videos, steps)


def by_hand(task):
    ratios, distinct, segments = [], 0, 0
    for timeline in task.timelines.values():
        seconds = range(int(timeline.duration))
        ratios.append(
            sum(any(s.start <= t < s.end for s in timeline) for t in seconds) / timeline.duration
        )
        distinct += sum(any(s.step == step for s in timeline) for step in task.steps)
        segments += len(timeline.segments)
    missing = 1 - distinct / (len(task.steps) * len(task))
    return sum(ratios) / len(ratios), missing, 1 - distinct / segments if segments else None


@pytest.mark.parametrize("seed", range(12))
def test_figures_equal_the_count_by_hand(seed):
    task = make_task(seed)
    counted = count([task])
    assert (counted.foreground, counted.missing, counted.repeated) == pytest.approx(by_hand(task))


def test_means_over_tasks_and_videos_and_what_is_unknown():
    def task(name, videos, steps, seconds):
        timeline = Timeline([Segment(0, 1, steps[0])], seconds, steps)
        each = [TaskVideo(f"{name}{n}", timeline=timeline) for n in range(videos)]
        return Task(name, each, steps)

    tasks = [task("a", 3, ("x", "y"), 10.0), task("b", 1, ("x", "y", "z", "w"), 50.0)]
    shown = {str(row[0]): row for row in statistics(tasks, more=True).rows}
    for name, steps, seconds in (("mean over tasks", 3.0, 30.0), ("mean over videos", 2.5, 20.0)):
        assert shown[name][2] == pytest.approx(steps)
        assert shown[name][8] == pytest.approx(seconds / 60)
    videos = [TaskVideo("a", timeline=Timeline([Segment(0, 1, "x")])), TaskVideo("b")]
    task = Task("t", videos, ("x",), defects=("odd",))
    table = statistics([task])
    assert table.rows[0] == ["t", 1, 1, None, 0.0, 0.0]
    unknown = "1 videos have no known length; foreground and hours exclude them."
    assert table.notes == ["t: odd.", unknown]
    bare = statistics([Task("t", [], ())], more=True).rows[0]
    assert bare[3:] == [None, None, None, 0, 0.0, None, None]


def test_the_leaderboard_has_only_figures_that_are_found_at_their_source():
    table = leaderboard()
    parts = table.columns[5:11]
    reported = (ROOT / "benchmarks" / "reports" / "protocols.md").read_text(encoding="utf-8")
    names = {"uniform": "uniform", "random": "random", "one cluster": "one-cluster"}
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        assert cells["matching"] in ("all videos", "per video")
        assert all(cells[name] for name in ("K", "features", "source", "mean"))
        system, _, blind = str(cells["system"]).partition(" (ignores")
        if blind:
            protocol = "paper" if cells["matching"] == "all videos" else "paper-per-video"
            figures = [str(cells[name]).replace("/", " / ") for name in (*parts, "mean")]
            assert f"| {names[system]}, `{protocol}` | {' | '.join(figures)} |" in reported
    ours = [each for each in read_published() if each["row"] == "tc3i + procut"]
    known = {one["column"]: f"{one['F1']}/{one['IoU']}" for one in ours if one["table"] == "main"}
    (shown,) = [row for row in table.rows if row[0] == "CnC"]
    assert shown[5:11] == [known[part] for part in parts]


def test_the_leaderboard_is_that_of_one_data_set(run):
    assert "HiERO" in run("data", "leaderboard", "egoprocel", "--format", "csv").out
    assert "egoprocel" in run("data", "leaderboard", "procel", code=2).err


BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
RATE = 15
STEPS = ("SIL", "take_cup", "pour_milk", "stir")


def labels(seed):
    lengths = np.random.default_rng(seed).integers(60, 150, 5)
    return np.repeat([0, 1, 2, 3, 0], lengths)


def dataset(root, names, suffix="", mapping="mapping.txt", activities=False, text=False, first=0):
    """Labels per frame and features (d, T), or (T, d) as text; YTI calls background -1 bg."""
    steps = ("bg" if first else STEPS[0], *STEPS[1:])
    trees.put(root / mapping, "".join(f"{n} {step}\n" for n, step in enumerate(steps, first)))
    for seed, (name, activity) in enumerate(names.items()):
        frames = labels(seed)
        text_of = "".join(f"{steps[n]}\n" for n in frames)
        trees.put(root / "groundTruth" / f"{name}{suffix}", text_of)
        noise = np.random.default_rng(seed).normal(size=(len(frames), 6))
        rows = np.eye(4, 6)[frames] + 0.05 * noise
        folder = root / "features" / (activity if activities else "")
        folder.mkdir(parents=True, exist_ok=True)
        if text:
            np.savetxt(folder / f"{name}.txt", rows)
        else:
            np.save(folder / f"{name}.npy", rows.T.astype(np.float32))
    return root


BREAKFAST = {f"P0{n}_cam01_P0{n}_{what}": what for what in ("coffee", "milk") for n in (3, 4, 5)}
SALADS = {"rgb-01-1": "", "rgb-02-1": "", "rgb-03-2": ""}
YTI = {f"{what}_000{n}": what for what in ("changing_tire", "cpr") for n in (1, 2)}


@pytest.mark.parametrize(("names", "how", "activities"), [
    (BREAKFAST, {"suffix": ".txt"}, {"coffee": 3, "milk": 3}),  # MS-TCN's
    (BREAKFAST, {"activities": True, "text": True, "mapping": "mapping/mapping.txt"},
     {"coffee": 3, "milk": 3}),  # CTE's
    (SALADS, {"mapping": "groundTruth/mapping/mapping.txt"}, {"data": 3}),
    (YTI, {"first": -1}, {"changing_tire": 2, "cpr": 2}),
])  # fmt: skip
def test_every_released_layout(names, how, activities, tmp_path):
    tasks = load("segmentation", dataset(tmp_path / "data", names, **how), rate=RATE)
    assert {task.name: len(task) for task in tasks} == activities
    seeds = {name: seed for seed, name in enumerate(names)}
    for task in tasks:
        assert task.steps == STEPS[1:]
        for video in task:
            frames = labels(seeds[video.name])
            assert video.read_features("features").shape == (len(frames), 6)
            times = (np.arange(len(frames)) + 0.5) / RATE
            assert video.timeline.labels(times, list(task.steps)).tolist() == (frames - 1).tolist()


def test_what_is_missing_or_wrong_is_reported(tmp_path):
    root = dataset(tmp_path / "data", SALADS)
    with raises(AnnotationError, setting="rate"):
        load("segmentation", root)
    with raises(DataError, "segmentation"):
        load("segmentation", tmp_path, rate=RATE)
    (root / "features" / "rgb-01-1.npy").unlink()
    np.save(root / "features" / "alone.npy", np.zeros((6, 9)))
    trees.put(root / "groundTruth" / "rgb-09-1", "SIL\nfly\n")
    trees.put(root / "groundTruth" / "rgb-01-1_idt", "0\n")  # beside those of YTI
    (root / "mapping.txt").rename(root / "mapping.md")
    found = find_dataset("segmentation").examine(root, rate=RATE)
    missing, problems = "\n".join(found.missing), "\n".join(found.problems)
    assert "mapping.txt: absent" in missing
    assert "rgb-01-1.*" in missing
    assert "alone.npy: a video without an annotation" in problems
    (root / "mapping.md").rename(root / "mapping.txt")
    problems = "\n".join(find_dataset("segmentation").examine(root, rate=RATE).problems)
    assert "rgb-09-1, line 2" in problems


def test_evaluated_per_activity_and_over_all(tmp_path, run):
    root = dataset(tmp_path / "data", BREAKFAST, suffix=".txt")
    tasks = load("segmentation", root, rate=RATE)
    names = {"milk": {"take_cup": "b", "pour_milk": "a", "stir": "c"}}
    pairs = [(one, names.get(one.name, {})) for one in tasks]
    renamed = {n: t.rename(new) for one, new in pairs for n, t in one.timelines.items()}
    write_folder(tmp_path / "pred", renamed, "json")
    words = ["evaluate", str(tmp_path / "pred"), "--truth", f"segmentation:{root}"]
    words += ["--rate", str(RATE), "--clock", str(RATE), "--protocol", "segmentation"]
    record = json.loads(run(*words, "--per-activity", "--per-step", "--format", "json").out)
    assert record["rows"][0]["MoF all"] == record["rows"][0]["IoU"] == 100
    activities = [row["activity"] for row in record["per_activity"]["rows"]]
    assert activities == ["coffee"] * 4 + ["milk"] * 4
    assert {row["activity"] for row in record["per_step"]["rows"]} == {"coffee", "milk"}
    assert "Means over 2 activities" in " ".join(record["notes"])
    # One matching: a step has two names, of which one counts.
    assert json.loads(run(*words, "--format", "json").out)["rows"][0]["MoF all"] < 90


def test_frames_of_all_activities_count_alike(tmp_path):
    """As CTE: MoF is that of the frames of all activities, other figures are means over them."""
    root = dataset(tmp_path / "data", BREAKFAST, suffix=".txt")
    tasks = load("segmentation", root, rate=RATE)
    half = {n: t.crop(0, t.end / 2) for task in tasks for n, t in task.timelines.items()}
    table = evaluate(
        half, f"segmentation:{root}", "segmentation", clock=RATE, per_activity=True,
        reading={"rate": RATE}, ignore_lengths=True,
    )  # fmt: skip
    each = [part.score for part in table.activities.values()]
    frames = [one.confusion.sum() for one in each]
    right = sum(one.mof_all * count for one, count in zip(each, frames, strict=True))
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["MoF all"] == pytest.approx(right / sum(frames))
    assert row["F1"] == pytest.approx(np.mean([one.f1 for one in each]))
    assert frames[0] != frames[1]


def test_features_directly_in_their_folder_are_read(tmp_path):
    (tmp_path / "tea" / "features").mkdir(parents=True)
    np.save(tmp_path / "tea" / "features" / "a.npy", np.ones((10, 4), np.float16))
    trees.put(tmp_path / "tea" / "annotations" / "a.csv", "start,end,step\n0,4,pour\n")
    (task,) = load("folder", tmp_path / "tea")
    assert task.videos[0].read_features("features").shape == (10, 4)


def test_the_tree_for_peers_and_the_score_of_their_predictions(tmp_path, monkeypatch, capsys):
    """What CTE, TOT, HVQ and ASOT read, and what they would write if they found the truth."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    peers = importlib.import_module("peers")
    data, root, written = (tmp_path / name for name in ("my tea", "root", "output"))
    (data / "features").mkdir(parents=True)
    written.mkdir()
    truth = {}
    for seed in range(3):
        frames = labels(seed)
        truth[f"v{seed}"] = Timeline.from_labels(frames - 1, 1, ["take cup", "pour", "stir"])
        np.save(data / "features" / f"v{seed}.npy", np.eye(4)[frames])
    write_folder(data / "labels", truth, "csv")
    peers.export(f"folder:{data}", str(root))
    assert capsys.readouterr().out == "TASK mytea, K 3, D 4\n"
    assert (root / "mapping" / "mapping.txt").read_text().split()[:2] == ["-1", "background"]
    new = {"background": -1, "mytea-0": 2, "mytea-1": 0, "mytea-2": 1}
    true = []
    for file in sorted((root / "groundTruth").iterdir()):
        words = file.read_text().split()
        assert len(np.loadtxt(root / "features" / "mytea" / f"{file.name}.txt")) == len(words)
        np.savetxt(written / f"{file.name}_test_iter0.txt", [new[word] for word in words], "%d")
        true.append(np.array([new[word] + 1 for word in words]))
    peers.judge(str(root), "mytea", str(written))
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    figures = {(line[0], line[1]): line[2:] for line in table if line[0] in ("peer", "uniform")}
    assert figures["peer", "strict"] == figures["peer", "segmentation"] == ["100.0"] * 3
    blind = score(baseline("uniform", true, 3), true)
    assert figures["uniform", "strict"] == [f"{x:.1f}" for x in (blind.f1, blind.iou, blind.mof)]
    [task] = load("segmentation", root, rate=1)  # and our own reader reads it
    assert (task.name, len(task), len(task.steps)) == ("mytea", 3, 3)
