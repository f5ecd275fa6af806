"""A recipe names steps by order; namer words are only suggestions."""

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.annotations import RecipeStep
from stepcut.cli.main import main
from stepcut.errors import AnnotationError, OptionError
from stepcut.features.spec import FeatureSpec
from stepcut.procedure.labels import read_recipe

QUICK = {"restarts": 2}


def films(orders):
    rng = np.random.default_rng(0)
    return [
        np.repeat(np.eye(4, 8)[order], 15, axis=0) + 0.1 * rng.normal(size=(60, 8))
        for order in orders
    ]


def test_a_recipe_names_the_steps_in_their_order():
    procedure = sc.learn(
        films([[0, 1, 2, 3]] * 4), recipe=["pour", "stir; 15 s", "bake", "serve"], **QUICK
    )
    assert procedure.timelines["0"].sequence() == ["pour", "stir", "bake", "serve"]
    assert procedure.suggestions == {}
    with raises(OptionError, "kmeans", "recipes", setting="transcripts"):
        sc.learn(films([[0, 1, 2, 3]] * 4), recipe=["pour", "stir"], method="kmeans")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("cut bread; 1:30", RecipeStep("cut bread", 90.0)),
        ("wipe ; any time", RecipeStep("wipe", any_time=True)),
        ("bake; 2 min; Optional", RecipeStep("bake", 120.0, optional=True)),
        ("knead; 1:30 min", RecipeStep("knead", 90.0)),
        ("rest; 1:30 h", RecipeStep("rest", 5400.0)),
    ],
)
def test_lines_of_a_recipe(line, step):
    assert read_recipe([line]) == [step]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "empty"),
        (["a", "A "], "twice"),
        (["a; soon"], "duration"),
        (["; 3 s"], "name"),
        (["a", f"b; {'9' * 400} s"], "line 2"),
    ],
)
def test_a_recipe_that_makes_no_sense(lines, words):
    with raises(AnnotationError, words):
        read_recipe(lines)


def test_a_recipe_in_the_letters_of_windows(tmp_path):
    (tmp_path / "recipe.txt").write_bytes("Käse schneiden\r\nrühren; 40 s\r\n".encode("latin-1"))
    steps = read_recipe(tmp_path / "recipe.txt")
    assert steps == [RecipeStep("Käse schneiden"), RecipeStep("rühren", 40.0)]


def test_a_recipe_that_is_not_there(tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.mp4").touch()
    assert main(["learn", str(tmp_path), "--recipe", str(tmp_path / "none.txt")]) == 2
    assert capsys.readouterr().err.count("none.txt") == 1
    with pytest.raises(OptionError, match="recipe and names"):
        sc.learn(films([[0, 1, 2, 3]] * 2), steps=1, names=["a"], recipe=["a"])


@pytest.mark.slow
def test_words_are_suggestions_and_a_namer_is_heard(kitchen, tmp_path):
    spec = FeatureSpec(fps=2)
    settings = {"steps": 3, "backbone": spec, "background": 0.0, "cache": tmp_path, **QUICK}
    procedure = sc.learn(kitchen / "videos", **settings)
    assert procedure.steps == ["step 1", "step 2", "step 3"]
    assert procedure.suggestions == {}
    seen = []

    def namer(pictures):
        seen.append(len(pictures))
        assert pictures[0].ndim == 3
        return ["kitchen", f"thing {len(seen)}"]

    named = sc.learn(kitchen / "videos", namer=namer, **settings)
    assert len(seen) == 3
    assert named.suggestions == {0: ["thing 1"], 1: ["thing 2"], 2: ["thing 3"]}
    assert named.steps == procedure.steps
