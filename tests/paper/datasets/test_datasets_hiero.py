"""HiERO's published features of EgoProceL: conversion of `.pt` files, on small files in that layout."""

import datasets_trees as trees
import numpy as np
import pytest

from stepcut.cli.main import main
from stepcut.features.features import load_features
from stepcut.paper.datasets import load

torch = pytest.importorskip("torch")


def put_rows(root, name, count, backbone="egovlp", part="EGTEA"):
    file = root / "features" / backbone / part / f"{name}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.arange(4.0 * count).reshape(count, 4), file)
    return file


def convert(root, *words):
    return main(["data", "convert", "egoprocel", "--root", str(root), *words])


def recording(root):
    return next(video for task in load("egoprocel", root) for video in task if video.duration)


def test_the_rate_follows_from_the_length_of_the_recording_or_is_given(tmp_path):
    root = trees.egoprocel_json(tmp_path)
    video = recording(root)
    put_rows(root, video.name, 20)
    assert convert(root) == 0
    (features,) = load_features(root / "features" / "egovlp" / f"{video.name}.safetensors")
    assert features.rows.tolist() == np.arange(80.0).reshape(20, 4).tolist()
    assert features.duration == pytest.approx(video.duration, rel=0.001)
    (found,) = [each for task in load("egoprocel", root) for each in task if each.features]
    assert (found.name, found.read_features("egovlp").shape) == (video.name, (20, 4))
    root = trees.egoprocel_tree(tmp_path)  # the lengths of its recordings are unknown
    put_rows(root, "Tent_1", 30)
    assert convert(root, "--rate", "24") == 0
    (features,) = load_features(root / "features" / "egovlp" / "Tent_1.safetensors")
    assert (float(features.rate), features.duration) == (1.5, 20.0)


class Evil:
    def __reduce__(self):
        return (print, ("code of the file was run",))


CANNOT = "cannot be converted"


@pytest.mark.parametrize(
    ("content", "word"), [(b"nothing", CANNOT), ({"a": 1}, "one tensor"), (Evil(), CANNOT)]
)
def test_a_bad_file_is_named_and_the_others_are_converted(content, word, tmp_path, capsys):
    root = trees.egoprocel_json(tmp_path)
    good = put_rows(root, recording(root).name, 20)
    bad = good.with_name("bad.pt")
    if isinstance(content, bytes):
        bad.write_bytes(content)
    else:
        torch.save(content, bad)
    assert convert(root) == 1
    out, err = capsys.readouterr()
    assert str(bad) in err
    assert word in err
    assert "code of the file was run" not in out + err
    assert (root / "features" / "egovlp" / f"{good.stem}.safetensors").is_file()


def test_what_cannot_be_converted_says_why(tmp_path, run):
    root = trees.egoprocel_tree(tmp_path)
    words = ["data", "convert", "egoprocel", "--root", root]
    assert "no .pt file" in run(*words, code=2).err
    put_rows(root, "Tent_1", 30)
    assert "--rate" in run(*words, code=1).err
    assert "only egoprocel" in run("data", "convert", "crosstask", "--root", root, code=2).err
