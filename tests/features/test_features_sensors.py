"""Sensor files: CSV columns become rows; gaps are filled or refused; a procedure checks new ones."""

import json
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import FeatureError, OptionError, StepcutError
from stepcut.features.extract import read_source
from stepcut.features.spec import SENSORS

STEPS = np.array([[0.0, 1.0, 0.1], [3.0, 0.0, 1.0], [-2.0, -2.0, 0.3]])
"""Two means and a spread for each of three steps."""


def record(seed, rate=50):
    """A recording of three steps, each eight to twelve seconds long, by two sensors."""
    rng = np.random.default_rng(seed)
    label = np.repeat([0, 1, 2], rng.integers(8 * rate, 12 * rate, 3))
    return STEPS[label, :2] + STEPS[label, 2:] * rng.normal(size=(len(label), 2))


def write(path, samples, header="x,y", delimiter=","):
    lines = [] if header is None else [header]
    lines += [delimiter.join("" if np.isnan(v) else f"{v:.5f}" for v in row) for row in samples]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def read(path, rate=50):
    [one], _ = read_source(path, rate, strict=True)
    return one.rows


def test_rows_are_means_and_log_spreads(tmp_path):
    samples = record(0)[:110]
    [one], failures = read_source(write(tmp_path / "a.csv", samples), 50)
    assert failures == []
    assert (one.rate, one.rows.shape, one.duration) == (2, (5, 4), 2.2)
    assert one.name == "a"
    for row, part in zip(one.rows, np.split(samples, [25, 50, 75, 100]), strict=True):
        wanted = [*part.mean(axis=0), *np.log(part.std(axis=0) + 1e-3)]
        np.testing.assert_allclose(row, wanted, atol=1e-3)


def test_header_delimiter_and_time_change_nothing(tmp_path):
    samples = record(0)
    seconds = 1_700_000_000 + np.arange(len(samples)) / 50
    plain = read(write(tmp_path / "a.csv", samples))
    np.testing.assert_array_equal(read(write(tmp_path / "b.csv", samples, None)), plain)
    np.testing.assert_array_equal(
        read(write(tmp_path / "c.tsv", samples, "x\ty", delimiter="\t")), plain
    )
    np.testing.assert_array_equal(
        read(write(tmp_path / "d.csv", samples, "x;y", delimiter=";")), plain
    )
    timed = np.column_stack([samples[:, 0], seconds, samples[:, 1]])
    np.testing.assert_allclose(
        read(write(tmp_path / "e.csv", timed, "x,Time,y"), 1), plain, atol=1e-3
    )
    timed[:, 1] = 1000 * np.arange(len(samples)) / 50
    np.testing.assert_allclose(
        read(write(tmp_path / "f.csv", timed, "x,ms,y"), 1), plain, atol=1e-3
    )


def test_bursts_of_times_keep_the_length_of_the_recording(tmp_path):
    """Of 50 samples per second, each ten arrive within microseconds."""
    samples = record(0)
    number = np.arange(len(samples))
    seconds = number // 10 / 5 + number % 10 * 1e-6
    file = tmp_path / "a.csv"
    lines = [f"{t:.6f},{x:.5f},{y:.5f}" for t, (x, y) in zip(seconds, samples, strict=True)]
    file.write_text("\n".join(["time,x,y", *lines]))
    [one], failures = read_source(file, None)
    assert failures == []
    assert one.rows.shape == (round(2 * seconds[-1]), 4)
    assert one.duration == pytest.approx(seconds[-1], abs=0.1)


def test_times_too_dense_for_any_sensor_are_refused_and_the_others_are_read(tmp_path):
    write(tmp_path / "good.csv", record(0))
    lines = "".join(f"{number * 1e-9:.12f},1\n" for number in range(100))
    (tmp_path / "dense.csv").write_text("time,x\n" + lines)
    (tmp_path / "huge.csv").write_text("time,x\n-1e308,1\n0,1\n1e308,1\n")
    found, failures = read_source(tmp_path, 50)
    assert [one.name for one in found] == ["good"]
    assert sorted(failure.name for failure in failures) == ["dense", "huge"]
    assert all("1,000,000 samples per second" in str(failure.error) for failure in failures)


def test_a_second_column_of_times_is_not_a_sensor(tmp_path):
    samples = record(0)
    seconds = np.arange(len(samples)) / 50
    both = np.column_stack([seconds, 1e9 + 1000 * seconds, samples])
    plain = write(tmp_path / "a.csv", np.column_stack([seconds, samples]), "time,x,y")
    two = write(tmp_path / "b.csv", both, "time,ms,x,y")
    np.testing.assert_array_equal(read(two), read(plain))


def test_short_gaps_are_filled_and_long_ones_refused(tmp_path):
    samples = record(0)
    holed = samples.copy()
    holed[100:110] = np.nan
    holed[200, 1] = np.nan
    rows, whole = read(write(tmp_path / "a.csv", holed)), read(write(tmp_path / "b.csv", samples))
    assert rows.shape == whole.shape
    assert np.isfinite(rows).all()
    assert np.abs(rows - whole).max() < 1
    holed[300:360, 1] = np.nan
    with raises(FeatureError, "'y'", "line 301"):
        read(write(tmp_path / "c.csv", holed))
    timed = np.column_stack([np.arange(len(samples)) / 50, samples])
    with raises(FeatureError, "line 101"):
        read(write(tmp_path / "d.csv", np.delete(timed, slice(100, 200), axis=0), "t,x,y"))


BAD = {
    "text": ("start,end,step\n0,1,butter\n1,2,jam\n", "'butter'"),
    "short line": ("1,2\n1\n", "line 2 has 1 columns"),
    "empty": ("", "empty"),
    "one sample": ("x\n1\n", "1 samples"),
    "only times": ("t\n0\n0.02\n0.04\n", "time column"),
    "no time": ("t,x\n0,1\n,2\n0.04,3\n", "line 3 has no time"),
    "back in time": ("t,x\n0,1\n1,2\n0.5,3\n", "line 4 "),
    "too slow": ("t,x\n0,1\n20,2\n40,3\n", "0.05 "),
    "no number": ("x,y\n1,\n2,\n3,\n", "column 'y'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_and_the_others_are_read(tmp_path, name):
    text, told = BAD[name]
    (tmp_path / "bad.csv").write_text(text)
    write(tmp_path / "good.csv", record(0))
    found, [failure] = read_source(tmp_path, 50)
    assert [one.name for one in found] == ["good"]
    assert failure.name == "bad"
    with raises(FeatureError, told, str(tmp_path / "bad.csv")):
        raise failure.error


def test_labels_beside_videos_or_features_are_no_sensors(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((4, 2)))
    (tmp_path / "labels.csv").write_text("start,end,step\n0,1,butter\n")
    assert [one.name for one in read_source(tmp_path, 1)[0]] == ["a"]


def test_a_procedure_of_sensors_is_learned_and_checks_new_ones(tmp_path, capsys):
    for number in range(5):
        write(tmp_path / "sensors" / f"box{number}.csv", record(number))
    place = str(tmp_path / "boxes.proc")
    words = ["learn", str(tmp_path / "sensors"), "--rate", "50", "-k", "3", "-o", place, "--quiet"]
    words += ["--set", "restarts=2"]
    assert main(words) == 0
    procedure = sc.load(place)
    assert procedure.rate == Fraction(2)
    assert procedure.spec is not None
    assert (procedure.spec.backbone, procedure.spec.clip_fps) == (SENSORS, 50)
    new = write(tmp_path / "new.csv", record(9))
    assert len({one.step for one in procedure.segment(new).segments}) >= 3  # its rate is known
    assert main(["check", place, str(new), "--quiet"]) in (0, 1)
    capsys.readouterr()
    with raises(OptionError, "sensor files"):
        (tmp_path / "film.mp4").write_bytes(b"x")
        procedure.check(tmp_path / "film.mp4")
    with raises(StepcutError, "shape"):
        procedure.check(write(tmp_path / "wide.csv", np.column_stack([record(9)] * 2), None))


def test_columns_are_matched_by_name(tmp_path):
    samples = record(0)
    write(tmp_path / "a.csv", samples)
    write(tmp_path / "b.csv", samples[:, ::-1], "Y,x")
    write(tmp_path / "c.csv", samples, None)  # without names, by position
    found = read_source(tmp_path, 50, strict=True)[0]
    for one in found:
        assert one.spec.columns == ("x", "y")
        np.testing.assert_array_equal(one.rows, found[0].rows)
    bad = write(tmp_path / "d.csv", samples, "x,z")
    with raises(FeatureError, str(bad), str(tmp_path / "a.csv"), path=str(bad), value=["x", "z"]):
        read_source(tmp_path, 50)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    """A procedure of five recordings without times, learned with --rate 50."""
    return learn_boxes(tmp_path_factory.mktemp("boxes"), timed=False)


@pytest.fixture(scope="module")
def timed_boxes(tmp_path_factory):
    """The same, with a time column and without --rate."""
    return learn_boxes(tmp_path_factory.mktemp("timed"), timed=True)


def learn_boxes(folder, timed):
    for number in range(5):
        samples = record(number)
        write(
            folder / "in" / f"{number}.csv", with_times(samples) if timed else samples, HEAD[timed]
        )
    words = ["learn", str(folder / "in"), "-k", "3", "-o", str(folder / "p.proc"), "--quiet"]
    words += ["--set", "restarts=1", *([] if timed else ["--rate", "50"])]
    assert main(words) == 0
    return folder / "p.proc"


HEAD = {True: "time,x,y", False: "x,y"}


def with_times(samples, rate=50):
    """Samples with times in front that jitter a little, as a clock does."""
    seconds = np.arange(len(samples)) / (rate * 1.001)
    return np.column_stack([seconds, samples])


def test_new_files_are_matched_to_the_columns_of_the_procedure(boxes, tmp_path):
    procedure, samples = sc.load(boxes), record(9)
    same = procedure.features(write(tmp_path / "a.csv", samples)).rows
    turned = procedure.features(write(tmp_path / "b.csv", samples[:, ::-1], "y,x"))
    np.testing.assert_array_equal(turned.rows, same)
    bare = procedure.features(write(tmp_path / "c.csv", samples, None))
    np.testing.assert_array_equal(bare.rows, same)
    wide = write(tmp_path / "d.csv", np.column_stack([samples, samples[:, 0]]), "x,y,z")
    with raises(FeatureError, "z", path=str(wide), value=["x", "y", "z"], allowed=["x", "y"]):
        procedure.check(wide)
    del procedure.config["backbone"]["columns"]  # as versions before wrote it
    turned = procedure.features(write(tmp_path / "b.csv", samples[:, ::-1], "y,x"))
    assert not np.array_equal(turned.rows, same)


@pytest.mark.parametrize("learned", ["boxes", "timed_boxes"])
@pytest.mark.parametrize("timed", [True, False])
def test_a_file_with_or_without_times_fits(learned, timed, request, tmp_path, monkeypatch):
    procedure, warned = sc.load(request.getfixturevalue(learned)), []
    monkeypatch.setattr("stepcut.features.extract.warn_once", warned.append)
    samples = record(9)
    new = write(tmp_path / "new.csv", with_times(samples) if timed else samples, HEAD[timed])
    assert procedure.features(new).duration == pytest.approx(len(samples) / 50, rel=0.01)
    assert warned == []
    procedure.features(write(tmp_path / "slow.csv", with_times(samples, 25), HEAD[True]))
    assert len(warned) == 1


def test_an_unknown_sample_rate_names_no_option_that_check_lacks(timed_boxes, tmp_path):
    procedure = sc.load(timed_boxes)
    del procedure.config["backbone"]["clip_fps"]  # as versions before wrote it
    with raises(OptionError, "time", setting="rate") as caught:
        procedure.check(write(tmp_path / "new.csv", record(9)))
    assert "--" not in str(caught.value)


def test_decimal_commas_are_named(tmp_path):
    for header in ("x;y\n", ""):
        path = tmp_path / "a.csv"
        path.write_text(header + "0,5;-1,25\n0,75;1,5\n0,5;2,5\n")
        with raises(FeatureError, "decimal points", line=2):
            read(path)


def test_a_guide_follows_a_sensor_file(boxes, tmp_path, capsys):
    new = write(tmp_path / "new.csv", record(9))
    assert main(["guide", str(boxes), str(new)]) == 0
    states = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(states) == len(sc.load(boxes).features(new).rows)
    assert [state["time"] for state in states[:3]] == [0, 0.5, 1]


def test_sensor_files_of_another_procedure_are_refused(tmp_path):
    procedure = sc.learn([np.random.default_rng(n).normal(size=(30, 4)) for n in range(3)], steps=2)
    new = write(tmp_path / "new.csv", record(9))
    with raises(OptionError, path=str(new)):
        procedure.check(new)


def test_learning_like_a_procedure_of_sensors_takes_other_columns(boxes, tmp_path):
    for number in range(3):
        write(tmp_path / "in" / f"{number}.csv", record(number), "u,v")
    words = ["learn", str(tmp_path / "in"), "--like", str(boxes), "-o", str(tmp_path / "q.proc")]
    assert main([*words, "--quiet"]) == 0
    spec = sc.load(tmp_path / "q.proc").spec
    assert (spec.columns, spec.clip_fps) == (("u", "v"), 50)
