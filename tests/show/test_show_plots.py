"""Plots: all of them as PNG, SVG and PDF; consistent colours; clear errors."""

import re
from itertools import pairwise

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.colours import PALETTE, colour, ink
from stepcut.errors import NotLearned, OptionError
from stepcut.methods.method import Curve
from stepcut.show import plots
from stepcut.show.plots import compare
from stepcut.timeline import Segment, Timeline

TRUE = {"a": Timeline([Segment(0, 4, "pour"), Segment(4, 6, "stir"), Segment(6, 7, "taste")], 10)}
PARTS = [Segment(4, 6, "step 0"), Segment(0, 3.5, "step 1")]
FOUND = {"a.mp4": Timeline(PARTS, 10, ("step 0", "step 1"))}


@pytest.fixture
def procedure(learned_once):
    return sc.load(learned_once)


def test_truth_is_matched_in_timelines_and_confusion(tmp_path):
    compared = compare(FOUND, TRUE)
    assert compared.colours == {"pour": colour(1), "stir": colour(0), "taste": colour(2)}
    plots.save(plots.timelines(FOUND, TRUE), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "step 1 = pour" in text
    assert "not found: taste" in text
    assert colour(1) in text
    axes = plots.confusion(FOUND, TRUE).axes[0]
    shares = axes.images[0].get_array()
    # rows: pour, stir, taste, background; columns: step 0, step 1, no step
    assert np.allclose(shares, [[0, 87.5, 12.5], [100, 0, 0], [0, 0, 100], [0, 0, 100]])


def test_names_in_plots(tmp_path, procedure):
    name = r"pay $\euro5$ now"
    one = {"$a_$": Timeline([Segment(0, 4, name)], duration=10)}
    plots.save(plots.timelines(one), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert name in text
    assert "$a_$" in text
    true = {"v": Timeline([Segment(0, 60, "pour"), Segment(60, 61, "stir")], duration=100)}
    found = {"v": Timeline([Segment(0, 40, "a"), Segment(40, 61, "b")], duration=100)}
    legend = plots.timelines(found, truth=true).legends[0]
    assert {"a = pour", "b"} <= {text.get_text() for text in legend.get_texts()}
    few = plots.orders(procedure, most=1).axes[0].get_xlabel()
    assert ("1 of" in few) == (len(procedure.orders) > 1)
    long = {f"the long name of a step that ends in {k}": colour(k) for k in range(4)}
    one = {"v": Timeline([Segment(k, k + 1, name) for k, name in enumerate(long)], duration=4)}
    shown = [text.get_text() for text in plots.timelines(one).legends[0].get_texts()]
    assert shown == list(long)


@pytest.mark.parametrize("suffix", ["png", "svg", pytest.param("pdf", marks=pytest.mark.slow)])
def test_the_same_picture_is_the_same_file(suffix, tmp_path):
    for name in ("one", "two"):
        plots.save(plots.timelines(FOUND), tmp_path / f"{name}.{suffix}")
    one = (tmp_path / f"one.{suffix}").read_bytes()
    assert one == (tmp_path / f"two.{suffix}").read_bytes()
    assert one.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])


def test_plots_have_the_colours_that_a_person_chose(learned, kitchen, tmp_path):
    mine = sc.load(learned)
    for step, chosen in enumerate(("#123456", "#654321", "#abcdef")):
        mine = mine.corrected({"do": "colour", "step": step, "colour": chosen})
    shapes = [(count, *mine.config.shape) for count in mine.samples.values()]
    rows = [np.random.default_rng(0).random(shape) for shape in shapes]
    drawn = {
        "timelines": plots.timelines(mine),
        "truth": plots.timelines(mine, kitchen / "annotations"),
        "graph": plots.graph(mine),
        "orders": plots.orders(mine),
        "confusion": plots.confusion(mine, kitchen / "annotations"),
        "embedding": plots.embedding(mine, rows, most=5),
        "hierarchy": plots.hierarchy(mine),
    }
    for name, figure in drawn.items():
        plots.save(figure, tmp_path / f"{name}.svg")
        text = (tmp_path / f"{name}.svg").read_text()
        assert ("#123456" in text) == (name != "hierarchy"), name
        assert not [number for number in range(3) if colour(number) in text], name
    left, right = drawn["embedding"].axes
    assert len(left.collections[0].get_offsets()) == 5
    assert (left.get_title(), right.get_title()) == ("by step", "by video")


def test_embedding_map_of_a_procedure_that_was_learned_from_feature_files(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "features").mkdir()
    for number in range(2):
        rows = np.repeat(np.eye(2, 8), 10, axis=0) + 0.05 * rng.normal(size=(20, 8))
        np.save(tmp_path / "features" / f"v{number}.npy", rows)
    learned = sc.learn(tmp_path / "features", steps=2, output=tmp_path / "a.proc")
    assert len(plots.embedding(learned).axes[0].collections[0].get_offsets()) == 40
    again = sc.load(tmp_path / "a.proc")
    assert len(plots.embedding(again).axes[0].collections[0].get_offsets()) == 40
    (tmp_path / "features" / "v0.npy").unlink()
    with pytest.raises(OptionError):
        plots.embedding(sc.load(tmp_path / "a.proc"))


def test_impossible_plots_are_refused_and_things_draw_themselves(procedure, tmp_path):
    with raises(OptionError, ".png, .svg, .pdf"):
        plots.save(plots.timelines(FOUND), tmp_path / "a.gif")
    with raises(NotLearned, "no loss curve"):
        plots.loss(procedure)
    procedure.method.curve_ = Curve(("loss",), [[2.0], [1.0]])
    assert plots.loss(procedure).axes[0].get_xlabel() == "iteration"
    hostile = Timeline([Segment(0, 1, "<script>")], duration=2)
    assert "<script>" not in hostile._repr_html_()
    assert "<title>&lt;script&gt;, 00:00:00.0 to 00:00:01.0</title>" in hostile._repr_html_()
    assert len(re.findall("<svg", procedure._repr_html_())) == 3
    pandas = pytest.importorskip("pandas")
    frame = Timeline([Segment(0, 2, "pour", 0.5)], duration=3, video="v").to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc[0, ["video", "step", "end"]].tolist() == ["v", "pour", 2]


def luminance(hexadecimal):
    channels = [int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_thirty_steps_have_colours_on_which_ink_reads_well():
    assert len({colour(k) for k in range(30)}) == 30
    for k in range(30):
        light, dark = sorted((luminance(colour(k)), luminance(ink(colour(k)))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    for one, other in pairwise(PALETTE):
        assert abs(luminance(one) - luminance(other)) > 0.03
