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
