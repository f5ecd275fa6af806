"""learn(): wrong settings, resuming, reproducibility with a seed; recipes and namers."""

import numpy as np
import pytest
from errors_kit import raises
from sklearn.metrics import adjusted_rand_score
from store_kit import revision
from threadpoolctl import threadpool_limits

import stepcut as sc
from stepcut.annotations import RecipeStep
from stepcut.cli.main import main
from stepcut.errors import AnnotationError, FeatureError, OptionError, OutputError
from stepcut.features.spec import FeatureSpec
from stepcut.methods import StepCut
from stepcut.methods.baselines import KMeans
from stepcut.procedure.labels import read_recipe
from stepcut.toy import toy_features

QUICK = {"restarts": 2}
PAPER = {"method": "cnc", "train": {"iterations": 30}}


@pytest.fixture(scope="module")
def videos():
    return toy_features(videos=3, seed=1, dim=8)[0]


@pytest.fixture(scope="module")
def four():
    return toy_features(videos=4, seed=1, dim=8)[0]


def test_same_seed_same_procedure_whatever_threads_a_program_uses(tmp_path):
    wide, learned = toy_features(videos=6, seed=1, dim=64)[0], []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            place = tmp_path / f"{threads}.proc"
            sc.learn(wide, steps=6, seed=3, cache=tmp_path / place.stem, output=place, **QUICK)
        learned.append((revision(place) / "model.safetensors").read_bytes())
    assert learned[0] == learned[1]
    assert sc.load(tmp_path / "1.proc") == sc.load(tmp_path / "2.proc")


def test_the_same_command_again_does_no_work_and_another_learns_anew(videos, tmp_path):
    place, stages = tmp_path / "a.proc", []

    def listen(event):
        stages.append(event.stage)

    plain = {"steps": 4, "seed": 1, "rate": 2, "restarts": 2, "background": 0.5}
    numpy = {"steps": np.int64(4), "seed": np.int64(1), "rate": np.float32(2)}
    numpy |= {"restarts": np.int32(2), "background": np.float64(0.5)}
    first = sc.learn(videos, output=place, progress=listen, **plain)
    assert "steps" in stages
    stages.clear()
    assert sc.learn(videos, output=place, progress=listen, **numpy) == first == sc.load(place)
    assert stages == []
    assert len(sc.learn(videos, steps=3, output=place, **QUICK).steps) == 3
    assert len(sc.load(place).steps) == 3


@pytest.mark.slow
def test_interrupted_training_goes_on_and_ends_the_same(videos, tmp_path):
    whole = sc.learn(videos, steps=4, cache=tmp_path / "whole", **PAPER)

    def stop(event):
        if event.stage == "train" and event.done >= 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sc.learn(videos, steps=4, cache=tmp_path / "cut", progress=stop, **PAPER)
    assert list((tmp_path / "cut").rglob("*.safetensors"))
    assert sc.learn(videos, steps=4, cache=tmp_path / "cut", **PAPER) == whole
    assert not list((tmp_path / "cut").rglob("*.safetensors"))


def test_what_stands_in_the_way_is_said_before_the_work(videos, tmp_path):
    def never(event):
        raise AssertionError(event)

    (tmp_path / "file").write_text("not a folder")
    with raises(OutputError, "not a procedure"):
        sc.learn(videos, steps=4, output=tmp_path, progress=never, **QUICK)
    for place in (tmp_path / "file" / "a.proc", "/proc/stepcut/a.proc"):
        with pytest.raises(OutputError):
            sc.learn(videos, steps=4, output=place, progress=never, **QUICK)
    with pytest.raises(OptionError, match=r"false_alarms=5"):
        sc.learn(videos, steps=4, false_alarms=5, progress=never, **QUICK)


@pytest.mark.parametrize(("wrong", "says"), [
    ({"steps": 0}, "steps=0"),
    ({"steps": 2.5}, "steps=2.5"),
    ({"steps": 10_000}, "steps=10000"),
    ({"method": "cnk"}, "'cnc'?"),
    ({"restart": 1}, "'restarts'?"),
    ({**PAPER, "segmenter": "procutt"}, "'procut'?"),
    ({"method": "cnc", "steps": "auto"}, "'CnC'"),
    ({"namer": "blip"}, "namer='blip'"),
    ({"names": ["a"]}, "1 names"),
    ({"names": ["a", "b"], "steps": (2, 3)}, "steps=(2, 3)"),
    ({"names": ["a", "b", "c", "a"]}, "all different"),
    ({"names": ["a", "b", "c", " A"]}, "all different"),
    ({"names": ["a", "b", "c", 4]}, "one name per step"),
    ({"method": np}, "<module 'numpy'"),
    ({"method": KMeans}, "method=KMeans is a class"),
    ({"method": "collections:OrderedDict"}, "is not a method"),
    ({**PAPER, "segmenter": KMeans}, "segmenter=KMeans is a class"),
    ({**PAPER, "segmenter": 5}, "segmenter=5"),
    ({**PAPER, "train": "x"}, "train='x'"),
    ({"method": StepCut(steps=4), "prior": 1.0}, "set prior on the method object"),
])  # fmt: skip
def test_settings_that_make_no_sense(videos, wrong, says):
    with raises(OptionError, says):
        sc.learn(videos, **{"steps": 4, **({} if "method" in wrong else QUICK), **wrong})


def test_videos_may_come_from_a_generator(videos, tmp_path):
    whole = sc.learn(videos, steps=4, **QUICK)
    assert sc.learn((rows for rows in videos), steps=4, **QUICK) == whole
    for number, rows in enumerate(videos):
        np.save(tmp_path / f"{number}.npy", rows)
    assert len(sc.learn(tmp_path.glob("*.npy"), steps=4, **QUICK).timelines) == len(videos)


@pytest.mark.parametrize(("source", "says"), [
    (None, "source=None"),
    (3, "source=3"),
    ("", "path is empty"),
    ([np.ones((9, 2)), "a.mp4"], "1 arrays and 1 paths"),
    ([[[1, 2], [3]]] * 2, "video 0"),
    (np.ones((9, 2)), "(2,)"),
])  # fmt: skip
def test_what_is_no_video_is_told(source, says):
    with raises((OptionError, FeatureError), says):
        sc.learn(source, steps=2, **QUICK)


def test_the_fewest_videos_steps_and_rows(videos, tmp_path):
    with raises(OptionError, "1 video (0)"):
        sc.learn(videos[:1], steps=2, **QUICK)
    with pytest.raises(FeatureError, match="no arrays"):
        sc.learn({}, steps=2, **QUICK)
    assert len(sc.learn(videos[:2], steps=3, **QUICK).timelines) == 2
    labels = sc.learn(videos, steps=1, **QUICK).labels
    assert {int(number) for one in labels.values() for number in one} <= {-1, 0}
    rows = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert len(sc.learn(list(rows), steps=6, **QUICK).steps) == 6  # as many as rows
    procedure = sc.learn([*videos, videos[0][:1]], steps=4, **QUICK)
    assert procedure.labels["3"].shape == (1,)
    with raises(OptionError, "2 rows") as told:
        sc.learn([np.ones((1, 2))] * 2)
    assert "steps=" not in str(told.value)  # the caller did not set it
    np.save(tmp_path / "good.npy", videos[0])
    (tmp_path / "broken.npy").write_bytes(b"no array")
    with raises(OptionError, "1 video (good)", "Skipped:", "broken.npy"):
        sc.learn(tmp_path, steps=2)


def test_a_video_without_any_step_is_no_normal_one(four):
    blinks = [video[:1] for video in four[:3]]
    proc = sc.learn([*four, *blinks], steps=4)
    empty = [not timeline.segments for timeline in proc.timelines.values()]
    assert empty == [False] * len(four) + [True] * 3
    assert proc.expectations.graph.videos == len(four)
    assert not proc.check(blinks[0]).ok
    assert proc.check(four[0]).ok


def test_a_method_object_obeys_steps_rate_and_names(videos, tmp_path):
    mine = StepCut(steps=5, restarts=2)
    procedure = sc.learn(videos, steps=2, rate=3, method=mine, names=["pour", "stir"])
    assert (procedure.steps, procedure.method.rate, mine.steps) == (["pour", "stir"], 3.0, 5)
    with raises(OptionError, "1 names", "5"):
        sc.learn(videos, method=mine, names=["pour"])

    class Mine(StepCut):
        def fit(self, *_, **__):
            raise AssertionError

    with pytest.raises(OutputError, match="cannot be imported"):
        sc.learn(videos, method=Mine(steps=3), output=tmp_path / "a.proc")


@pytest.mark.parametrize(
    "wrong", [{"restart": 1}, {"restarts": 0}, {"seed": -1}, {"method": "cnc", "as_published": 3}]
)
def test_a_wrong_setting_is_told_before_any_video_is_read(tmp_path, wrong):
    with raises(OptionError, "'CnC'", setting="steps", value="auto"):
        sc.learn(tmp_path / "absent", method="cnc")
    films = [tmp_path / "a.mp4", tmp_path / "b.mp4"]
    for film in films:
        film.write_bytes(b"no video")
    with pytest.raises(OptionError, match=list(wrong)[-1]):
        sc.learn(films, **wrong)


@pytest.mark.slow
def test_beyond_that_many_videos_some_stand_for_all_and_up_to_it_nothing_changes(monkeypatch):
    rows, _ = toy_features(videos=12, rate=1.0, duration=60, seed=3)
    made = []
    for many in (1000, 12, 8):
        for module in ("stepcut.methods.stepcut.learning", "stepcut.checking.calibrate"):
            monkeypatch.setattr(f"{module}.MANY", many)
        made.append(sc.learn(rows, steps=6, rate=1, restarts=8))
    whole, same, some = made
    for name, values in whole.method.state().items():
        np.testing.assert_array_equal(same.method.state()[name], values)
    altered = {one.of for copies in some.expectations.altered.values() for one in copies}
    assert len(altered) == 8
    assert {len(values) for values in some.expectations.amounts.values()} == {12}
    labels, expected = ([one.labels[name] for name in one.samples] for one in (some, whole))
    assert adjusted_rand_score(np.concatenate(expected), np.concatenate(labels)) > 0.7


def films(orders):
    rng = np.random.default_rng(0)
    clean = [np.repeat(np.eye(4, 8)[order], 15, axis=0) for order in orders]
    return [rows + 0.1 * rng.normal(size=(60, 8)) for rows in clean]


def test_a_recipe_names_the_steps_in_their_order():
    procedure = sc.learn(
        films([[0, 1, 2, 3]] * 4), recipe=["pour", "stir; 15 s", "bake", "serve"], **QUICK
    )
    assert procedure.timelines["0"].sequence() == ["pour", "stir", "bake", "serve"]
    assert procedure.suggestions == {}
    with raises(OptionError, "kmeans", "recipes", setting="transcripts"):
        sc.learn(films([[0, 1, 2, 3]] * 4), recipe=["pour", "stir"], method="kmeans")
    lines = ["cut bread; 1:30", "wipe ; any time", "bake; 2 min; Optional", "rest; 1:30 h"]
    assert read_recipe(lines) == [
        RecipeStep("cut bread", 90.0), RecipeStep("wipe", any_time=True),
        RecipeStep("bake", 120.0, optional=True), RecipeStep("rest", 5400.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("lines", "words"), [
    ([], "empty"),
    (["a", "A "], "twice"),
    (["a; soon"], "duration"),
    (["; 3 s"], "name"),
    (["a", f"b; {'9' * 400} s"], "line 2"),
])  # fmt: skip
def test_a_recipe_that_makes_no_sense(lines, words):
    with raises(AnnotationError, words):
        read_recipe(lines)


def test_files_of_recipes(tmp_path, capsys):
    (tmp_path / "recipe.txt").write_bytes("Käse schneiden\r\nrühren; 40 s\r\n".encode("latin-1"))
    steps = read_recipe(tmp_path / "recipe.txt")
    assert steps == [RecipeStep("Käse schneiden"), RecipeStep("rühren", 40.0)]
    for name in "ab":
        (tmp_path / f"{name}.mp4").touch()
    assert main(["learn", str(tmp_path), "--recipe", str(tmp_path / "none.txt")]) == 2
    assert capsys.readouterr().err.count("none.txt") == 1
    with pytest.raises(OptionError, match="recipe and names"):
        sc.learn(films([[0, 1, 2, 3]] * 2), steps=1, names=["a"], recipe=["a"])


@pytest.mark.slow
def test_words_are_suggestions_and_a_namer_is_heard(kitchen, tmp_path):
    settings = {"steps": 3, "backbone": FeatureSpec(fps=2), "background": 0.0, "cache": tmp_path}
    seen = []

    def namer(pictures):
        seen.append(len(pictures))
        assert pictures[0].ndim == 3
        return ["kitchen", f"thing {len(seen)}"]

    named = sc.learn(kitchen / "videos", namer=namer, **settings, **QUICK)
    assert len(seen) == 3
    assert named.suggestions == {0: ["thing 1"], 1: ["thing 2"], 2: ["thing 3"]}
    assert named.steps == ["step 1", "step 2", "step 3"]
