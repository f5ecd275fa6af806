"""Sensor files become feature files: columns and gaps, bad files, and how procedures use them."""

import json
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import FeatureError, OptionError
from stepcut.features.sensors import load_sensors
from stepcut.features.spec import SENSORS, FeatureSpec

STEPS = np.array([[0.0, 1.0, 0.1], [3.0, 0.0, 1.0], [-2.0, -2.0, 0.3]])
"""Two means and a spread for each of three steps."""


def record(seed, rate=50):
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
    [one], _ = load_sensors(path, rate, strict=True)
    return one.rows


def test_rows_are_means_and_log_spreads(tmp_path):
    samples = record(0)[:110]
    [one], failures = load_sensors(write(tmp_path / "a.csv", samples), 50)
    assert failures == []
    assert (one.name, one.rate, one.rows.shape, one.duration) == ("a", 2, (5, 4), 2.2)
    with raises(OptionError, "--rate 50", setting="rate"):  # without times
        load_sensors(tmp_path / "a.csv")
    for row, part in zip(one.rows, np.split(samples, [25, 50, 75, 100]), strict=True):
        wanted = [*part.mean(axis=0), *np.log(part.std(axis=0) + 1e-3)]
        np.testing.assert_allclose(row, wanted, atol=1e-3)


def test_header_delimiter_and_time_change_nothing(tmp_path):
    samples = record(0)
    seconds = np.arange(len(samples)) / 50
    plain, file = read(write(tmp_path / "a.csv", samples)), tmp_path / "b.csv"
    for header, delimiter in ((None, ","), ("x\ty", "\t"), ("x;y", ";")):
        np.testing.assert_array_equal(read(write(file, samples, header, delimiter)), plain)
    for title, times in (("Time", 1_700_000_000 + seconds), ("ms", 1000 * seconds)):
        timed = np.column_stack([samples[:, 0], times, samples[:, 1]])
        rows = read(write(file, timed, f"x,{title},y"), 1)
        np.testing.assert_allclose(rows, plain, atol=1e-3)
    both = np.column_stack([seconds, 1e9 + 1000 * seconds, samples])
    one = read(write(tmp_path / "one.csv", both[:, [0, 2, 3]], "time,x,y"))
    np.testing.assert_array_equal(read(write(file, both, "time,ms,x,y")), one)  # no sensor


def test_bursts_of_times_keep_the_length_and_times_too_dense_are_refused(tmp_path):
    # Of 50 samples per second, each ten arrive within microseconds.
    samples = record(0)
    number = np.arange(len(samples))
    seconds = number // 10 / 5 + number % 10 * 1e-6
    lines = [f"{t:.6f},{x:.5f},{y:.5f}" for t, (x, y) in zip(seconds, samples, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["time,x,y", *lines]))
    [one], failures = load_sensors(tmp_path / "a.csv")
    assert (failures, one.rows.shape) == ([], (round(2 * seconds[-1]), 4))
    assert one.duration == pytest.approx(seconds[-1], abs=0.1)
    write(tmp_path / "good.csv", record(0))
    lines = "".join(f"{number * 1e-9:.12f},1,1\n" for number in range(100))
    (tmp_path / "dense.csv").write_text("time,x,y\n" + lines)
    (tmp_path / "huge.csv").write_text("time,x,y\n-1e308,1,1\n0,1,1\n1e308,1,1\n")
    found, failures = load_sensors(tmp_path, 50)
    assert [one.name for one in found] == ["a", "good"]
    assert sorted(failure.name for failure in failures) == ["dense", "huge"]
    assert all("1,000,000 samples per second" in str(failure.error) for failure in failures)


def test_short_gaps_are_filled_and_long_ones_refused(tmp_path):
    samples, file = record(0), tmp_path / "a.csv"
    whole, holed = read(write(file, samples)), samples.copy()
    holed[100:110] = np.nan
    holed[200, 1] = np.nan
    rows = read(write(file, holed))
    assert rows.shape == whole.shape
    assert np.abs(rows - whole).max() < 1
    holed[300:360, 1] = np.nan
    with raises(FeatureError, "'y'", "line 301"):
        read(write(file, holed))
    timed = np.column_stack([np.arange(len(samples)) / 50, samples])
    with raises(FeatureError, "line 101"):
        read(write(file, np.delete(timed, slice(100, 200), axis=0), "t,x,y"))


BAD = {
    "text": ("start,end,step\n0,1,butter\n1,2,jam\n", "'butter'"),
    "short line": ("1,2\n1\n", "line 2 has 1 columns"),
    "empty": ("", "empty"),
    "one sample": ("x\n1\n", "1 samples"),
    "only times": ("t\n0\n0.02\n0.04\n", "time column"),
    "no time": ("t,x\n0,1\n,2\n0.04,3\n", "line 3 has no time"),
    "back in time": ("t,x\n0,1\n1,2\n0.5,3\n", "line 4 "),
    "tracks": ("track,frame_idx,x\na,1,1\nb,2,1\n", "2 tracks (a, b)"),
    "deeplabcut": ("scorer,x\nbodyparts,nose\n0,1\n1,1\n2,1\n", "coords"),
    "no number": ("x,y\n1,\n2,\n3,\n", "column 'y'"),
    "decimal commas": ("x;y\n0,5;-1,25\n0,75;1,5\n", "line 2, column 'x' contains '0,5'"),
    "decimal commas alone": ("0,5;-1,25\n0,75;1,5\n0,5;2,5\n", "decimal points"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_and_the_others_are_read(tmp_path, name):
    text, told = BAD[name]
    (tmp_path / "bad.csv").write_text(text)
    write(tmp_path / "good.csv", record(0))
    found, [failure] = load_sensors(tmp_path, 50)
    assert [one.name for one in found] == ["good"]
    assert failure.name == "bad"
    with raises(FeatureError, told, str(tmp_path / "bad.csv")):
        raise failure.error


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(("rate", "fps"), [(0.98, 1), (0.25, Fraction(1, 4)), (3, 2)])
def test_slow_sensors_have_fewer_rows_a_second(tmp_path, rate, fps, timed, caplog):
    samples = record(0)[:300]
    seconds = np.arange(300) / rate
    table = np.column_stack([seconds, samples]) if timed else samples
    file = write(tmp_path / "a.csv", table, "time,x,y" if timed else "x,y")
    given = None if timed else rate
    [one], _ = load_sensors(file, given)
    assert (one.rate, one.duration) == (fps, pytest.approx(300 / rate, rel=1e-3))
    assert len(one.rows) == pytest.approx(one.duration * float(fps), abs=1)
    shown = np.interp(np.arange(len(one.rows)) / float(fps), seconds, samples[:, 0])
    assert np.corrcoef(one.rows[:, 0], shown)[0, 1] > 0.8
    [few], _ = load_sensors(file, given, fps=fps / 2)
    assert len(few.rows) == pytest.approx(len(one.rows) / 2, abs=1)
    assert ("too fast to see" in caplog.text) == (rate < 2)


def test_tables_of_deeplabcut_and_sleap(tmp_path):
    samples = record(0)
    plain = load_sensors(write(tmp_path / "plain.csv", samples, "nose.x,nose.y"), 50)[0][0]
    numbers = [f"{n},{x:.5f},{y:.5f}" for n, (x, y) in enumerate(samples)]
    heads = {
        "dlc": ["scorer,net,net", "bodyparts,nose,nose", "coords,x,y"],
        "many": ["scorer,net,net", "individuals,one,one", "bodyparts,nose,nose", "coords,x,y"],
        "sleap": ["frame_idx,nose.x,nose.y"],
    }
    for name, lines in heads.items():
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join([*lines, *numbers]))
        [one], _ = load_sensors(file, 50)
        np.testing.assert_array_equal(one.rows, plain.rows)
        assert one.spec.columns[0] == ("one.nose.x" if name == "many" else "nose.x")
    tracked = [",".join(["a", line]) for line in numbers]
    file.write_text("\n".join(["track,frame_idx,nose.x,nose.y", *tracked]))
    np.testing.assert_array_equal(read(file), plain.rows)
    holed = [line for n, line in enumerate(numbers) if n not in range(100, 110)]
    file.write_text("\n".join(["frame_idx,nose.x,nose.y", *holed]))  # frames nobody tracked
    [one], _ = load_sensors(file, 50)
    assert one.rows.shape == plain.rows.shape


def test_columns_are_matched_by_name(tmp_path):
    samples = record(0)
    write(tmp_path / "a.csv", samples)
    write(tmp_path / "b.csv", samples[:, ::-1], "Y,x")
    write(tmp_path / "c.csv", samples, None)  # without names, by position
    found, failures = load_sensors(tmp_path, 50)
    assert failures == []
    for one in found:
        assert one.spec.columns == ("x", "y")
        np.testing.assert_array_equal(one.rows, found[0].rows)
    bad = write(tmp_path / "d.csv", samples, "x,z")
    with raises(FeatureError, str(bad), str(tmp_path / "a.csv"), path=str(bad), value=["x", "z"]):
        load_sensors(tmp_path, 50, strict=True)
    assert [one.name for one in load_sensors(tmp_path, 50)[0]] == ["a", "b", "c"]


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    for number in range(5):
        write(folder / "sensors" / f"{number}.csv", record(number))
    assert features_of(folder / "sensors", folder / "features") == 0
    words = ["learn", str(folder / "features"), "-k", "3", "-o", str(folder / "p.proc")]
    assert main([*words, "--quiet", "--set", "restarts=1"]) == 0
    return folder / "p.proc"


def features_of(sensors, folder):
    return main(["features", str(sensors), "--rate", "50", "-o", str(folder), "--quiet"])


def test_a_procedure_of_sensors_is_learned_checked_and_guided(boxes, tmp_path, run):
    procedure = sc.load(boxes)
    assert (procedure.rate, procedure.spec) == (2, FeatureSpec(SENSORS, columns=("x", "y")))
    assert features_of(write(tmp_path / "new.csv", record(9)), tmp_path) == 0
    new = tmp_path / "new.safetensors"
    assert len({one.step for one in procedure.segment(new).segments}) >= 3
    assert main(["check", str(boxes), str(new), "--quiet"]) in (0, 1, 4)
    states = [json.loads(line) for line in run("guide", boxes, new).out.splitlines()]
    assert len(states) == len(procedure.features(new).rows)
    assert [state["time"] for state in states[:3]] == [0, 0.5, 1]


def test_what_a_procedure_of_sensors_refuses(boxes, tmp_path, run):
    procedure = sc.load(boxes)
    for name in ("film.mp4", "new.csv"):
        (tmp_path / name).write_bytes(b"x")
        with raises(OptionError, "stepcut features"):
            procedure.check(tmp_path / name)
        assert "stepcut features" in run("guide", boxes, tmp_path / name, code=2).err
    write(tmp_path / "wide.csv", np.column_stack([record(9)] * 2), None)
    write(tmp_path / "other.csv", record(9), "x,z")
    for name, said in (("wide", "shape"), ("other", "columns=('x', 'z')")):
        assert features_of(tmp_path / f"{name}.csv", tmp_path) == 0
        with raises(FeatureError, said):
            procedure.check(tmp_path / f"{name}.safetensors")


def test_learn_names_the_command_that_makes_features(boxes, tmp_path, run):
    """As of 0.3.0: `stepcut learn sensors/ --rate 50`."""
    sensors = tmp_path / "sensors"
    write(sensors / "a.csv", record(0))
    told = run("learn", sensors, "--rate", "50", "-o", tmp_path / "q.proc", code=2).err
    assert f"stepcut features {sensors} --rate 50 -o features/" in told
    old = {"name": "sensors", "fps": "2", "clip_fps": "50", "columns": ["x", "y"]}
    assert FeatureSpec.from_json(old) == sc.load(boxes).spec
    (tmp_path / "a.mp4").write_bytes(b"x")
    told = run("features", tmp_path / "a.mp4", "--rate", "50", "-o", tmp_path, code=2).err
    assert "--fps 50" in told
