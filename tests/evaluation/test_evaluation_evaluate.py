"""evaluate() and agree: clocks, names, odd truths, rows that are always there, kappa, boundaries."""

import json
import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from elan_kit import write_tiers
from errors_kit import raises
from sklearn.metrics import cohen_kappa_score
from store_kit import revision

from stepcut.app.server import Running
from stepcut.errors import AnnotationError, OptionError
from stepcut.evaluation import Protocol, evaluate
from stepcut.evaluation.agreement import agree, compare_annotations, match_boundaries
from stepcut.evaluation.clock import put_on_one_clock
from stepcut.evaluation.compare import compare_videos
from stepcut.evaluation.metrics import Rates
from stepcut.evaluation.protocols import match_f1
from stepcut.formats import read, write, write_folder
from stepcut.paper.datasets import Task, TaskVideo
from stepcut.procedure.learning import learn
from stepcut.procedure.lengths import Mismatch, check_lengths, far_too_short
from stepcut.tables import Spread
from stepcut.timeline import Segment, Timeline

STEPS = ("pour", "stir", "serve")


def truth(videos=4):
    rng = np.random.default_rng(0)
    timelines = {}
    for number in range(videos):
        cuts = np.cumsum(rng.uniform(2, 20, size=5))
        segments = [
            Segment(float(cuts[i]), float(cuts[i + 1]), step) for i, step in enumerate(STEPS)
        ]
        timelines[f"v{number}"] = Timeline(segments, duration=float(cuts[4]), steps=STEPS)
    return timelines


def renamed(timelines):
    names = {"pour": "step 2", "stir": "step 0", "serve": "step 1"}
    return {name: t.rename(names) for name, t in timelines.items()}


def test_a_perfect_prediction_is_perfect_whatever_its_names():
    table = evaluate(renamed(truth()), truth())
    assert table.column("row") == ["ours", "random", "uniform", "one-cluster"]
    assert table.rows[0][1:10] == pytest.approx([100.0] * 9)
    assert table.score.tau == 1.0
    assert "step 0 = stir, 100 % of its frames" in table.matching
    assert "protocol strict, K = 3, 4 videos, data unnamed " in table.caption
    assert isinstance(table.rows[1][1], Spread)
    assert " above the uniform baseline (100.0 against " in table.notes[0]


def test_rates_are_compared_in_seconds_and_baselines_have_the_length_of_the_annotation():
    true = truth()
    rows = {name: t.labels(np.arange(int(4 * t.end)) / 4) for name, t in true.items()}
    slow = {n: Timeline.from_labels(rows[n], 4.0, STEPS, t.duration) for n, t in true.items()}
    table = evaluate(slow, true)
    assert table.score.f1 > 97
    true = {name: Timeline(t.segments, steps=STEPS) for name, t in truth().items()}
    found = renamed(true)
    stated = {name: Timeline(t.segments, t.end + 8, t.steps) for name, t in found.items()}
    tables = [evaluate(found, true), evaluate(stated, true, ignore_lengths=True)]
    for row in range(1, 4):
        assert tables[0].rows[row][1] == tables[1].rows[row][1]
    assert tables[0].notes[0] == tables[1].notes[0]


def test_several_seeds_give_mean_and_deviation():
    true = truth()
    worse = {n: Timeline([Segment(0, t.end, "pour")], t.duration, STEPS) for n, t in true.items()}
    table = evaluate([true, worse], true)
    cell = table.rows[0][1]
    assert isinstance(cell, Spread)
    assert cell.mean == pytest.approx((table.scores["ours"][0].f1 + table.scores["ours"][1].f1) / 2)
    assert cell.sd > 0
    with raises(OptionError, "[3, 4]"):
        evaluate([true, {"v0": Timeline([Segment(0, 1, "x")], steps=("x", *STEPS))}], true)


def test_breakdowns_name_steps_and_videos():
    table = evaluate(renamed(truth()), truth(), protocol="paper")
    names = [row[:2] for row in table.per_step().rows]
    assert names[1:] == [["pour", "step 2"], ["stir", "step 0"], ["serve", "step 1"]]
    assert table.per_step().rows[0][0] == "background"
    assert table.per_video().column("video") == ["v0", "v1", "v2", "v3"]
    uniform = table.scores["uniform"][0]
    assert table.per_video().column("uniform F1") == [each.f1 for each in uniform.per_video]
    assert table.per_step().column("uniform F1") == [each.f1 for each in uniform.per_step]
    named = {name: t.rename({"stir": "taste"}) for name, t in truth().items()}
    found = {n: Timeline([*t], t.duration, ("serve", "taste", "pour")) for n, t in named.items()}
    table = evaluate(found, truth(), protocol="named")
    confusion = table.confusion()
    counts = {row[0]: dict(zip(confusion.columns, row, strict=True)) for row in confusion.rows}
    assert min(counts["pour"]["pour"], counts["serve"]["serve"], counts["stir"]["taste"]) > 0
    assert counts["pour"]["serve"] == counts["stir"]["pour"] == 0
    shown = [row[:2] for row in table.per_step().rows]
    assert shown == [["pour", "pour"], ["stir", None], ["serve", "serve"]]
    alone = {name: Timeline([Segment(0, 3, "taste")], t.duration) for name, t in truth().items()}
    assert evaluate(alone, truth(), protocol="named").per_step().column("F1") == [0, 0, 0]


def test_a_placeholder_is_no_name():
    true = one((0, 4, "Step_1"), (4, 10, "Step_2"))
    found = one((0, 4, "step 1"), (4, 10, "step 2"))
    assert evaluate(found, true, protocol="named").score.f1 == 0
    assert evaluate(found, true).score.f1 == 100
    assert evaluate(true, found, protocol="named").score.f1 == 100  # a person wrote Step_1


def test_graph_edges_are_scored_where_the_true_graph_is_known():
    graph = [("pour", "stir"), ("stir", "serve")]
    videos = [TaskVideo(name, timeline=timeline) for name, timeline in truth(6).items()]
    task = Task("tea", videos, STEPS, graph=(*graph, ("pour", "serve")))  # compared after reduction
    for table in (evaluate(truth(6), truth(6), graph=graph), evaluate(truth(6), task)):
        assert table.columns[-1] == "graph F1"
        assert table.rows[0][-1] == pytest.approx(100.0)
    assert "data tea " in table.caption


def test_a_data_set_brings_the_graph_of_the_task_whose_videos_are_scored(monkeypatch):
    tea, soup = ({f"{name}{v}": t for v, t in truth(6).items()} for name in ("tea", "soup"))
    graphs = ((tea, (("Pour", "stir"), ("stir", "serve"))), (soup, None))
    films = [[TaskVideo(name, timeline=t) for name, t in videos.items()] for videos, _ in graphs]
    tasks = [Task("", each, STEPS, graph=one) for each, (_, one) in zip(films, graphs, strict=True)]
    monkeypatch.setattr("stepcut.paper.datasets.DataSet.load", lambda *_: tasks)
    one = evaluate(tea, "captaincook4d:x")
    assert one.columns[-1] == "graph F1"
    assert one.rows[0][-1] == pytest.approx(100.0)
    for others in (soup, tea | soup):  # two tasks have no graph in common
        assert "graph F1" not in evaluate(others, "captaincook4d:x").columns


def test_a_procedure_and_its_folder_are_evaluated_alike(tmp_path):
    true = truth(3)
    rng = np.random.default_rng(1)
    features = {}
    for name, timeline in true.items():
        labels = timeline.labels(np.arange(int(timeline.end)) + 0.5)
        features[name] = np.eye(4, 8)[labels] + 0.05 * rng.normal(size=(len(labels), 8))
    procedure = learn(features, steps=3, seed=4, restarts=2)
    table = evaluate(procedure, true)
    assert "K = 3, 3 videos" in table.caption
    assert "seeds 4 (random: 0 to 4)" in table.caption
    procedure.save(tmp_path / "tea.proc")
    (revision(tmp_path / "tea.proc") / "model.safetensors").unlink()  # it is not opened
    assert evaluate(tmp_path / "tea.proc", true).json() == table.json()


def one(*segments, duration=10.0):
    return {"a": Timeline([Segment(*s) for s in segments], duration=duration)}


X = one((0, 5, "x"))
TWO_SIZES = {"a": X["a"], "b": one((0, 5, "x"), (5, 6, "y"))["a"]}


@pytest.mark.parametrize(("found", "true", "said"), [
    (X, one((0, 5, "x"), (7, 7, "y")), ["a: clicks"]),
    (
        {**X, **{name: Timeline() for name in ("v10", "²", "v9")}},
        {**one((0, 5, "y")), "c": Timeline()},
        ["3 predicted videos without annotation are excluded: v9, v10, ².",
         "1 annotated videos without prediction are excluded: c."],
    ),
    (
        one((0, 30, "x"), duration=30), one((0, 31.5, "y"), duration=None),
        ["a: the labels end at 31.5 s, but the video ends at 30.0 s"],
    ),
    (one((0, 30, "x"), duration=30), one((0, 30.9, "y"), duration=None), []),
    (
        one((0, 5, "x"), duration=21.5), one((0, 5, "y"), duration=20.0),
        ["the length is 20.0 s in the labels, but 21.5 s"],
    ),
    (
        X, one((-1, 3, "y"), (2, 4, "z")),
        ["1 true segments start before 0 s", "1 pairs of true segments overlap (1.0 s in all)"],
    ),
    (
        X, one((0, 2, "Add  jam"), (3, 4, "add jam ")),
        ["'Add  jam', 'add jam ' differ only in case, spaces or underscores"],
    ),
    (
        {**X, "b": Timeline(steps=["x"])}, {**one((0, 5, "y")), "b": Timeline(duration=0)},
        ["b: excluded, because it is empty (0 s)."],
    ),
    (
        TWO_SIZES, TWO_SIZES,
        ["K differs between videos: the predictions have 1 to 2 steps per video and 2 in all"],
    ),
])  # fmt: skip
def test_what_is_odd_is_said(found, true, said):
    pair = put_on_one_clock(found, true)
    assert bool(pair.notes) == bool(said)
    assert all(any(words in note for note in pair.notes) for words in said)
    assert pair.steps[0] in ("x", "y", "Add  jam")
    assert pair.videos == (["a", "b"] if found is TWO_SIZES else ["a"])


@pytest.mark.parametrize(("found", "true", "error", "words"), [
    (truth(), {f"clip{i}": t for i, t in enumerate(truth().values())}, AnnotationError,
     ["v0, v1, v2, v3", "clip0, clip1, clip2, clip3"]),
    (X, one((7, 7, "y")), AnnotationError, ["clicks"]),
    (one((0, 30, "x"), duration=30), one((0, 34.5, "y"), duration=None), AnnotationError,
     ["a: ", "10 %"]),
    (X, one((0, 5, "y"), duration=20.0), AnnotationError, ["a: ", "10 %"]),
    ({"b": Timeline()}, {"b": Timeline()}, AnnotationError, ["length"]),
    (None, truth(), OptionError, ["None"]),
    ({"a": [1, 2]}, truth(), OptionError, ["1 cannot"]),
    (truth(), 3, OptionError, ["truth=3"]),
    (truth(), {"v0": [1, 2]}, OptionError, ["[1, 2]"]),
    (Task("tea", [], STEPS), truth(), OptionError, ["Task tea"]),
    ({"random": [truth()]}, truth(), OptionError, ["'random'"]),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused(found, true, error, words):
    with raises(error, *words):
        evaluate(found, true)


def two_halves(rows):
    rng = np.random.default_rng(rows)
    halves = np.arange(rows) * 2 // rows
    return np.eye(2, 8)[halves] + 0.05 * rng.normal(size=(rows, 8))


def test_labels_beyond_the_end_are_missed_and_those_of_the_first_part_are_no_wrong_rate():
    pair = put_on_one_clock(one((0, 10, "x")), one((0, 20, "y")), ignore_lengths=True)
    assert "a: the labels end at 20.0 s, but the video ends at 10.0 s" in pair.notes[0]
    assert pair.pred[0].tolist() == [0] * 20 + [-1] * 20
    assert (pair.true[0] == 1).all()
    made = {f"v{number}": two_halves(40) for number in range(3)}
    ends = zip(made, (15, 25, 33), strict=True)
    true = {name: Timeline([Segment(0, 10, "a"), Segment(10, end, "b")]) for name, end in ends}
    assert evaluate(learn(made, steps=2, restarts=2), true).score.f1 > 0


def test_a_wrong_rate_of_features_is_refused_with_the_one_that_fits():
    made = {f"v{number}": two_halves(40 + 4 * number) for number in range(4)}
    ends = {name: len(rows) / 2 for name, rows in made.items()}
    true = {n: Timeline([Segment(0, e / 2, "a"), Segment(e / 2, e, "b")]) for n, e in ends.items()}
    procedure = learn(made, steps=2, rate=1, restarts=2)
    with raises(AnnotationError, setting="rate", value=1, allowed=2):
        evaluate(procedure, true)
    assert evaluate(procedure, true, ignore_lengths=True).notes
    right = learn(made, steps=2, rate=2, restarts=2)
    assert not [note for note in evaluate(right, true).notes if "lasts" in note]


@pytest.mark.parametrize(("shares", "refused", "warned"), [
    ((0.7, 0.78, 0.85, 0.8), False, False),  # hands rest at the end
    ((0.55, 0.9, 0.95, 0.8), False, False),
    ((0.83, 0.83, 0.834, 0.83), True, False),  # 25 rows a second are read as 30
    ((0.5, 0.5, 0.5, 0.52), True, True),
])  # fmt: skip
def test_labels_end_early_by_one_factor_or_as_hands_rest(shares, refused, warned):
    found = {f"v{n}": Timeline([Segment(0, 100, "a")], 100.0) for n in range(4)}
    true = {f"v{n}": Timeline([Segment(0, 100 * s, "a")]) for n, s in enumerate(shares)}
    if refused:
        with raises(AnnotationError, "labels end at"):
            check_lengths(found, true, Fraction(1))
    else:
        assert check_lengths(found, true, Fraction(1)) == []
    assert bool(far_too_short([Mismatch("v", 100, 100 * s) for s in shares])) == warned


@pytest.mark.parametrize(("setting", "value"), [
    ("graph", [("pour", "stir", "serve")]),
    ("graph", [("pour", "stir"), ("stir", "serve"), ("stir", "pour")]),
    ("graph", [("pour", "pour")]),
    ("protocol", "papr"),
    ("clock", 1e9),
    ("clock", 0),
    ("clock", float("inf")),
    ("seeds", 0),
    ("seeds", 10**11),
    ("seed", 10**30),
])  # fmt: skip
def test_wrong_settings(setting, value):
    with raises(OptionError, setting=setting) as caught:
        evaluate(truth(), truth(), **{setting: value})
    assert caught.value.value in (value, None)


@pytest.fixture
def folders(tmp_path):
    write_folder(tmp_path / "found", renamed(truth()), "json")
    write_folder(tmp_path / "true", truth(), "csv")
    return str(tmp_path / "found"), str(tmp_path / "true")


def test_the_command_prints_breakdowns_and_the_matching(folders, run):
    found, true = folders
    words = ["evaluate", found, "--truth", true]
    record = json.loads(run(*words, "--per-step", "--per-video", "--format", "json").out)
    assert record["rows"][0]["F1"] == pytest.approx(100, abs=0.1)
    assert record["matching"] == {"step 2": "pour", "step 0": "stir", "step 1": "serve"}
    assert [row["video"] for row in record["per_video"]["rows"]] == ["v0", "v1", "v2", "v3"]
    assert record["per_step"]["rows"][0]["step"] == "pour"
    assert "step 2 = pour, 100 % of its frames" in run(*words, "--matching").out


def test_named_rows_stand_apart_and_are_compared_over_videos(folders, run):
    found, true = folders
    backwards = {name: Timeline(duration=t.duration, steps=["x"]) for name, t in truth().items()}
    table = evaluate({"good": renamed(truth()), "nothing": [backwards]}, truth())
    assert table.column("row") == ["good", "nothing", "random", "uniform", "one-cluster"]
    assert table.rows[0][1] == pytest.approx(100, abs=1)
    assert table.rows[1][1] == 0
    # 2 of the 2^4 exchanges.
    (note,) = [note for note in table.notes if note.startswith("good against nothing: +")]
    assert "on the mean of 4 videos" in note
    assert "p = 0.125" in note
    words = ["evaluate", f"a={found}", f"b={found}", "--truth", true]
    record = json.loads(run(*words, "--confusion", "--format", "json").out)
    assert [row["row"] for row in record["rows"]][:2] == ["a", "b"]
    assert record["confusion"]["rows"][1]["true step"] == "pour"
    assert f"data {Path(true).name} " in record["caption"]


def test_differences_are_bounded_and_all_seeds_and_rows_are_compared():
    one, other = ({f"v{n}": 50.0 + n + better for n in range(30)} for better in (10, 0))
    found = compare_videos(one, other)
    assert (found.p, found.better, found.low, found.high) == (5e-05, 30, 10.0, 10.0)
    found, true = renamed(truth(12)), truth(12)
    one, other = (evaluate(videos, true) for videos in (found, dict(reversed(found.items()))))
    assert one.text() == other.text()
    assert one.videos == other.videos == list(true)  # v2 before v10
    """With one seed each, which of two seeds comes first would decide; with all it does not."""
    good = renamed(truth())
    steps = good["v0"].steps
    poor = {name: Timeline(duration=t.duration, steps=steps) for name, t in truth().items()}
    rows = {"mixed": [good, poor], "other": [poor, good], "good": [good, good]}
    notes = [n for n in evaluate(rows, truth()).notes if n.startswith(("mixed against", "p of"))]
    assert notes[0].startswith("mixed against other: +0.0 F1")
    assert "p = 1)" in notes[0]
    assert notes[1].startswith("mixed against good: -")
    assert notes[2] == "p of mixed against each row, adjusted for 2 tests: other 1, good 0.25."


def test_rows_are_compared_on_videos_that_all_have_without_those_of_background():
    few = {name: renamed(truth())[name] for name in ("v0", "v1")}
    table = evaluate({"all": renamed(truth()), "few": few}, truth())
    assert table.rows == evaluate({"all": few, "few": few}, truth()).rows
    assert "2 videos are not in every row and are excluded: v2, v3." in table.notes
    other = {"v3": renamed(truth())["v3"]}
    with raises(AnnotationError, "in common"):
        evaluate({"few": few, "other": other}, truth())
    true = {**truth(), "v4": Timeline(duration=9, steps=STEPS)}
    found = renamed(true)
    table = evaluate(found, true, background="drop")
    assert table.per_video().column("video") == ["v0", "v1", "v2", "v3"]
    assert "v4: excluded, because it is background only." in table.notes
    assert table.rows == evaluate(renamed(truth()), truth(), background="drop").rows
    with pytest.raises(AnnotationError, match="nothing to score"):
        evaluate(found, {"v4": true["v4"]}, background="drop")


OWN = Protocol(
    "all or nothing", match_f1, lambda _, matching: Rates(*[float(len(matching) == 3)] * 4)
)


def test_a_protocol_of_ones_own(folders, run):
    found, true = folders
    table = evaluate(renamed(truth()), truth(), OWN)
    assert table.caption.startswith("protocol all or nothing, ")
    assert table.rows[0][1:3] == [100.0, 100.0]
    assert table.column("F1")[-1] == 0  # one cluster
    words = ["evaluate", found, "--truth", true, "--protocol"]
    own = run(*words, f"{__name__}:OWN", "--format", "json").out
    assert json.loads(own)["rows"][0]["F1"] == 100
    for name, said in ((f"{__name__}:STEPS", "is a tuple"), ("strickt", "did you mean 'strict'?")):
        assert said in run(*words, name, code=2).err
    told = run("evaluate", f"a={found}", found, "--truth", true, code=2).err
    assert f"NAME={found}, or none" in told


def test_truth_by_the_name_of_a_data_set(tmp_path):
    write_folder(tmp_path / "tea" / "annotations", truth(), "json")
    table = evaluate(renamed(truth()), f"folder:{tmp_path / 'tea'}")
    assert table.rows[0][1] == pytest.approx(100, abs=1)
    write_folder(tmp_path / "soup" / "annotations", {"v0": truth()["v1"]}, "json")
    table = evaluate({"tea/v0": truth()["v0"], "soup/v0": truth()["v1"]}, f"folder:{tmp_path}")
    assert table.rows[0][1] == pytest.approx(100, abs=1)  # one name in two tasks
    with raises(OptionError, "'folder'"):
        evaluate(renamed(truth()), f"foldr:{tmp_path / 'tea'}")


ANN = Timeline([Segment(0, 4, "pour"), Segment(4, 10, "stir")], 12.0, video="tea")
BOB = Timeline(
    [Segment(0, 4.5, "pour"), Segment(4.5, 9, "wait"), Segment(9, 10, "stir")], 12.0, video="tea"
)


def test_kappa_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    labels = random.integers(-1, 3, size=(2, 400))
    labels[1, :250] = labels[0, :250]
    one, other = (Timeline.from_labels(row, 1.0, ["a", "b", "c"]) for row in labels)
    assert agree([(one, other)]).kappa == pytest.approx(cohen_kappa_score(*labels))
    assert agree([(one, other)]).same == pytest.approx(np.mean(labels[0] == labels[1]))


def test_videos_and_spellings_are_matched_and_clicks_left_out():
    table, apart = compare_annotations({"Tea": ANN, "soup": ANN}, {"tea.mp4": BOB, "stew": BOB})
    assert table.column("video") == ["Tea", "all"]
    assert table.notes == ["Only in one of the two: soup, stew."]
    assert list(apart) == ["Tea"]
    clicked = Timeline([*ANN, Segment(11, 11, "taste")], 12.0, video="tea")
    table, _ = compare_annotations({"tea": clicked}, {"tea": BOB})
    assert [note for note in table.notes if "Clicks" in note]
    with raises(AnnotationError, "clicks"):
        compare_annotations({"tea": BOB}, {"tea": clicked.crop(11, 12)})
    loud = ANN.rename({"pour": "Pour", "stir": "stir_it"})
    quiet = ANN.rename({"stir": "Stir  it"})
    table, apart = compare_annotations({"a": loud, "b": quiet}, {"a": quiet, "b": loud})
    assert table.column("kappa") == [1, 1, 1]
    assert not any(map(len, apart.values()))


def test_steps_are_matched_by_name_and_placeholders_by_overlap():
    person = Timeline([Segment(0, 4, "Step_1"), Segment(4, 10, "Step_2")], 12.0)
    swapped = person.rename({"Step_1": "step 2", "Step_2": "step 1"})
    table, apart = compare_annotations({"tea": person}, {"tea": swapped})
    assert table.column("kappa") == [1, 1]
    assert not len(apart["tea"])
    assert "Step_1 = step 2" in table.notes[0]
    person = ANN.rename({"pour": "Pour"})
    proposed = Timeline([Segment(0, 4, "step 0"), Segment(4, 9, "stir")], 12.0)
    swapped = Timeline([Segment(0, 4, "stir"), Segment(4, 9, "step 0")], 12.0)
    # `stir` has a name, and `pour` shares no time with the step 0 of the second.
    for other, seconds in ((proposed, 11), (swapped, 2)):
        table, _ = compare_annotations({"a": person}, {"a": other})
        assert table.column("same %")[0] == pytest.approx(100 * seconds / 12)
    proposed = ANN.rename({"pour": "step 0", "stir": "step 1"})
    edited = Timeline([Segment(0, 7, "step 0"), Segment(7, 10, "stir")], 12.0)
    table, apart = compare_annotations({"a": edited}, {"a": proposed})
    assert [segment.step for segment in apart["a"]] == ["step 0 | stir"]
    assert "stir = step 1" in table.notes[0]


def test_boundaries():
    assert match_boundaries([1, 5, 9], [1.5, 5, 12], 1.0) == [(1, 1.5), (5, 5)]
    assert match_boundaries([1, 1.4], [1.5], 1.0) == [(1.4, 1.5)]
    assert match_boundaries([0, 1.8, 2], [2], 3.0) == [(2, 2)]
    # Two, though one pair would lie nearer.
    assert match_boundaries([1, 2], [2, 3], 1.0) == [(1, 2), (2, 3)]
    assert match_boundaries([], [2], 1.0) == match_boundaries([1], [3], 1.0) == []
    # 4 and 10 against 4.5, 9 and 10.
    assert agree([(ANN, BOB)]).boundaries == pytest.approx(2 * 2 / 5)
    assert np.isnan(agree([(Timeline([]), Timeline([]))]).kappa)
    # The longest disagreement comes first.
    assert agree([(ANN, BOB)]).disagreements[0] == (4.5, 9.0, "stir", "wait")
    exact = Timeline([Segment(0, 4, "pour"), Segment(4, 9.9996, "stir")], 9.9996)
    rounded = Timeline([Segment(0.001, 4, "pour"), Segment(4, 9.999, "stir")], 9.9996)
    assert agree([(exact, rounded)]).boundaries == 1
    late = Timeline([Segment(2, 4, "pour"), Segment(4, 9.9996, "stir")], 9.9996)
    assert agree([(exact, late)]).boundaries == pytest.approx(2 / 3)  # 4 against 2 and 4


def test_the_command(tmp_path, run):
    write_tiers(tmp_path / "tea.eaf", {"ann": ANN, "bob": BOB})
    words = ["agree", *[str(tmp_path / "tea.eaf")] * 2, "--annotators", "ann", "bob"]
    out = run(*words, "--worst", "1", "-o", tmp_path / "apart.json").out
    assert "00:00:04.5  00:00:09.0  stir | wait" in out
    assert "1 of 2 disagreements" in out
    assert read(tmp_path / "apart.json").sequence() == ["stir | pour", "stir | wait"]
    rounded = Timeline([Segment(0, 4.003, "pour"), Segment(4.003, 10, "stir")], 12.0, video="tea")
    write(tmp_path / "rounded.json", rounded)
    words[2] = str(tmp_path / "rounded.json")
    assert "stir | pour" not in run(*words[:-1], "ann").out  # 3 ms
    write(tmp_path / "soup.csv", Timeline([Segment(0, 1, "pour")]))
    same = run("agree", tmp_path / "rounded.json", tmp_path / "rounded.json").out
    assert "Both are the same labels" in same
    told = run("agree", tmp_path / "soup.csv", tmp_path / "apart.json", code=2).err
    assert "no video in common" in told


def test_the_command_shows_both_and_tells_a_format_of_one_video_first(tmp_path, monkeypatch, run):
    shown = []
    monkeypatch.setattr(Running, "run", lambda self: (shown.append(self), self._socket.close()))
    monkeypatch.chdir(tmp_path)
    write_tiers(tmp_path / "my tea.eaf", {"ann": ANN, "bob": BOB})
    write(tmp_path / "groundTruth" / "tea.txt", ANN, "mstcn", rate=2)
    for other, annotator in (("my tea.eaf", "ann"), ("groundTruth", "x")):
        words = ["my tea.eaf", other, "--annotators", "bob", annotator, "--rate", "2"]
        command = shlex.split(run("agree", *words).out.splitlines()[-1].partition("stepcut ")[2])
        run(*command, "--no-browser")
        (video,) = shown.pop().viewer.state()["videos"]
        assert (len(video["parts"]), len(video["beside"])) == (len(BOB), len(ANN))
    write(tmp_path / "two.json", [replace(ANN, video=video) for video in "ab"])
    words = ["agree", *[str(tmp_path / "two.json")] * 2, "-o", str(tmp_path / "apart.eaf")]
    assert run(*words, code=2).out == ""


@pytest.mark.parametrize("tolerance", [-1, float("nan"), None, "1"])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with raises(OptionError, setting="tolerance"):
        agree([(ANN, BOB)], tolerance)
