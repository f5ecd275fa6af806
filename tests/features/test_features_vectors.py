"""Given features: every readable form, and one sentence for every way they can be wrong."""

from __future__ import annotations

import gc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from stepcut.errors import FeatureError, OptionError
from stepcut.features.extract import load_features

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_all_formats(tmp_path: Path) -> None:
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
    with pytest.raises(FeatureError, match="v2 has 2 rows .* six has 30000/1001 rows"):
        load_features(tmp_path, rate=2)
    assert isinstance(loaded[0].rows, np.memmap)
    assert isinstance(loaded[3].rows, np.memmap)
    assert load_features([tmp_path / "v2.npy", tmp_path / "v10.npy"], rate="1/2")[0].duration == 8.0
    assert len(load_features(f"{tmp_path}/*.npz", rate=1)) == 2


def test_maps(tmp_path: Path) -> None:
    np.save(tmp_path / "maps.npy", np.zeros((2, 8, 7, 7), np.float16))
    assert load_features(tmp_path / "maps.npy", rate=1)[0].rows.shape == (2, 8, 7, 7)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.zeros((0, 3)), r"empty, shape \(0, 3\)"),
        (np.zeros((3, 0)), r"empty, shape \(3, 0\)"),
        (np.zeros(5), r"shape \(5,\); features are \(T, d\) vectors or \(T, C, h, w\) maps"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\); features are"),
        (np.array([["a"]]), r"values of type <U1, not numbers"),
        (np.array([[True]]), r"values of type bool, not numbers"),
        (np.array([[1.0], [np.nan]]), r"row 1 contains NaN, infinity"),
        (np.array([[np.inf], [1.0]], np.float16), r"row 0 contains NaN, infinity"),
        (
            np.array([[0], [0x7C01]], np.uint16).view(np.float16),
            r"row 1 contains NaN, infinity",
        ),  # a signalling NaN
        (np.array([[{}]]), r"Python objects\)\. Save it with numpy\.save"),
    ],
)
def test_rows_that_make_no_sense(tmp_path: Path, rows: np.ndarray, says: str) -> None:
    np.save(tmp_path / "bad.npy", rows, allow_pickle=True)
    with pytest.raises(FeatureError, match=rf"bad\.npy: .*{says}"):
        load_features(tmp_path / "bad.npy", rate=1)


def test_nan_far_down_is_found(tmp_path: Path) -> None:
    rows = np.zeros((3000, 2), np.float16)
    rows[2500, 1] = np.nan
    np.save(tmp_path / "long.npy", rows)
    with pytest.raises(FeatureError, match="row 2500 contains NaN"):
        load_features(tmp_path / "long.npy", rate=1)


def test_different_dimensions(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    np.save(tmp_path / "b.npy", np.zeros((4, 5)))
    np.save(tmp_path / "c.npy", np.zeros((4, 3, 7, 7)))
    with pytest.raises(
        FeatureError,
        match=r"a has 1 rows of shape \(3,\) .* b has 1 rows of shape \(5,\) .*one backbone",
    ):
        load_features([tmp_path / "a.npy", tmp_path / "b.npy"], rate=1)
    with pytest.raises(
        FeatureError, match=r"rows of shape \(3,\) .* c has 1 rows of shape \(3, 7, 7\)"
    ):
        load_features([tmp_path / "a.npy", tmp_path / "c.npy"], rate=1)


def test_a_rate_is_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    with pytest.raises(OptionError, match=r"a\.npy: .*\(rate=None\)"):
        load_features(tmp_path / "a.npy")
    with pytest.raises(OptionError, match=r"rate=-1 is not a rate"):
        load_features(tmp_path / "a.npy", rate=-1)


def test_files_that_are_not_there_or_not_features(tmp_path: Path) -> None:
    with pytest.raises(FeatureError, match="no feature file: the list is empty"):
        load_features([], rate=1)
    with pytest.raises(FeatureError, match="no feature file in this folder"):
        load_features(tmp_path, rate=1)
    with pytest.raises(FeatureError, match=r"x\.npy: no such file"):
        load_features(tmp_path / "x.npy", rate=1)
    (tmp_path / "empty.npy").touch()
    with pytest.raises(FeatureError, match=r"empty\.npy: not readable as an array"):
        load_features(tmp_path / "empty.npy", rate=1)
    (tmp_path / "a.csv").touch()
    with pytest.raises(FeatureError, match=r"a\.csv: not a feature file. Use \.npy"):
        load_features(tmp_path / "a.csv", rate=1)
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    with pytest.raises(FeatureError, match=r"the arrays a, b"):
        load_features(tmp_path / "two.npz", rate=1)


def test_damaged_safetensors(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_file({"rows": ROWS}, file)
    whole = file.read_bytes()
    for damaged, says in (
        (b"", "header too small"),
        (b"junk" * 10, "header too large"),
        (whole[:-4], "not entirely cover the file|incomplete metadata|[Mm]etadata"),
        (whole.replace(b'"F32"', b'"F99"'), "F99"),
        (whole.replace(b'"F32"', b'"U32"'), "no rows of a supported type"),
    ):
        file.write_bytes(damaged)
        with pytest.raises(FeatureError, match=rf"not a safetensors file of features \(.*({says})"):
            load_features(file, rate=1)


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", features=np.zeros((200_000, 100), np.float32))
    with pytest.raises(FeatureError, match=r"bomb\.npz: [\d,]+ bytes would unpack to 80,000,\d+"):
        load_features(tmp_path / "bomb.npz", rate=1)


def test_an_archive_that_is_none_is_told_and_closed(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(FeatureError, match=r"x\.npz: not readable as an array"):
        load_features(tmp_path / "x.npz", rate=1)
    gc.collect()  # a file that was left open would be told of now


def test_a_header_that_is_no_header_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data.replace(b"'descr'", b"'de\nscr"))
    with pytest.raises(FeatureError, match=r"x\.npy: not readable as an array"):
        load_features(tmp_path / "x.npy", rate=1)


@pytest.mark.parametrize(
    "change",
    [(b'"shape":[4,3]', b'"shape":[4,null]'), (b"[4,3]", b"[-4,-3]"), (b"[4,3]", b"[" * 3000)],
)
def test_a_damaged_safetensors_header_is_told(change: tuple[bytes, bytes], tmp_path: Path) -> None:
    header = b'{"rows":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}}'.replace(*change)
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(48))
    with pytest.raises(FeatureError, match=r"x\.safetensors: "):
        load_features(tmp_path / "x.safetensors", rate=1)


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.safetensors"])
def test_a_file_that_may_not_be_read_is_told_as_such(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"rows")

    def shut(file: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    # Whoever runs this may be allowed to read everything.
    monkeypatch.setattr("builtins.open", shut)
    with pytest.raises(
        FeatureError, match=rf"{name}: cannot be read \(Permission denied\). Check its permissions"
    ):
        load_features(tmp_path / name, 1)
