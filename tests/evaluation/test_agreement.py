"""Agreement: kappa against scikit-learn's, boundaries by hand, and the command."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
from elan_kit import write_tiers
from errors_kit import raises
from sklearn.metrics import cohen_kappa_score

from stepcut.app.server import Running
from stepcut.errors import AnnotationError, OptionError
from stepcut.evaluation.agreement import agree, compare_annotations, match_boundaries
from stepcut.formats import read, write
from stepcut.timeline import Segment, Timeline

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
    told = run("agree", tmp_path / "soup.csv", tmp_path / "apart.json", code=2).err
    assert "no video in common" in told


def test_the_command_that_shows_both_can_be_run(tmp_path, monkeypatch, run):
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


def test_a_format_of_one_video_is_told_before_the_table(tmp_path, run):
    write(tmp_path / "two.json", [replace(ANN, video=video) for video in "ab"])
    words = ["agree", *[str(tmp_path / "two.json")] * 2, "-o", str(tmp_path / "apart.eaf")]
    assert run(*words, code=2).out == ""


@pytest.mark.parametrize("tolerance", [-1, float("nan"), None, "1"])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with raises(OptionError, setting="tolerance"):
        agree([(ANN, BOB)], tolerance)
