"""Given features: every readable form, and one sentence for every way they can be wrong."""

import gc
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises
from safetensors.numpy import save_file

from stepcut.errors import FeatureError, OptionError
from stepcut.features.extract import load_features

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_all_formats(tmp_path):
    np.save(tmp_path / "v10.npy", ROWS)
    np.save(tmp_path / "v2.npy", ROWS.astype(np.float16))
    np.savez(tmp_path / "v3.npz", features=ROWS, times=np.arange(4))
    np.savez(tmp_path / "v4.npz", whatever=ROWS)
    save_file({"rows": ROWS}, tmp_path / "v5.safetensors")
    save_file(
        {"x": ROWS},
        tmp_path / "v6.safetensors",
        {"rate": "30000/1001", "duration": "9.5", "name": "six"},
    )
    (tmp_path / "readme.txt").touch()
    loaded = load_features(tmp_path, rate="30000/1001")
    assert [f.name for f in loaded] == ["v2", "v3", "v4", "v5", "six", "v10"]
    assert all(np.array_equal(f.rows, ROWS) for f in loaded)
    assert {f.rate for f in loaded} == {Fraction(30000, 1001)}
    assert [f.duration for f in loaded] == pytest.approx([4004 / 30000] * 4 + [9.5, 4004 / 30000])
    with raises(FeatureError, "v2 has 2 ", "six has 30000/1001 "):
        load_features(tmp_path, rate=2)
    assert isinstance(loaded[0].rows, np.memmap)
    assert isinstance(loaded[3].rows, np.memmap)
    assert load_features([tmp_path / "v2.npy", tmp_path / "v10.npy"], rate="1/2")[0].duration == 8.0
    assert len(load_features(f"{tmp_path}/*.npz", rate=1)) == 2


def test_maps(tmp_path):
    np.save(tmp_path / "maps.npy", np.zeros((2, 8, 7, 7), np.float16))
    assert load_features(tmp_path / "maps.npy", rate=1)[0].rows.shape == (2, 8, 7, 7)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.zeros((0, 3)), "(0, 3)"),
        (np.zeros((3, 0)), "(3, 0)"),
        (np.zeros(5), "(5,)"),
        (np.zeros((2, 3, 4)), "(2, 3, 4)"),
        (np.array([["a"]]), "<U1"),
        (np.array([[True]]), "bool"),
        (np.array([[1.0], [np.nan]]), "row 1"),
        (np.array([[np.inf], [1.0]], np.float16), "row 0"),
        # A signalling NaN.
        (np.array([[0], [0x7C01]], np.uint16).view(np.float16), "row 1"),
        (np.array([[{}]]), "numpy.save"),
    ],
)
def test_rows_that_make_no_sense(tmp_path, rows, says):
    np.save(tmp_path / "bad.npy", rows, allow_pickle=True)
    with raises(FeatureError, "bad.npy", says):
        load_features(tmp_path / "bad.npy", rate=1)


def test_nan_far_down_is_found(tmp_path):
    rows = np.zeros((3000, 2), np.float16)
    rows[2500, 1] = np.nan
    np.save(tmp_path / "long.npy", rows)
    with raises(FeatureError, "row 2500"):
        load_features(tmp_path / "long.npy", rate=1)


def test_different_dimensions(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    np.save(tmp_path / "b.npy", np.zeros((4, 5)))
    np.save(tmp_path / "c.npy", np.zeros((4, 3, 7, 7)))
    for other, shape in (("b", "(5,)"), ("c", "(3, 7, 7)")):
        with raises(FeatureError, "(3,)", shape):
            load_features([tmp_path / "a.npy", tmp_path / f"{other}.npy"], rate=1)


def test_a_rate_is_needed(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    with raises(OptionError, "a.npy", "rate=None"):
        load_features(tmp_path / "a.npy")
    with raises(OptionError, setting="rate", value=-1):
        load_features(tmp_path / "a.npy", rate=-1)


def test_files_that_are_not_there_or_not_features(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "a.csv").touch()
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    with raises(FeatureError, "empty"):
        load_features([], rate=1)
    for name, says in (
        ("none", "folder"),
        ("x.npy", "no such file"),
        ("empty.npy", "not readable"),
        ("a.csv", ".npy"),
        ("two.npz", "a, b"),
    ):
        with raises(FeatureError, name, says):
            load_features(tmp_path / name, rate=1)


def test_an_archive_that_is_none_is_told_and_closed(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 and no more")
    with raises(FeatureError, "x.npz"):
        load_features(tmp_path / "x.npz", rate=1)
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
