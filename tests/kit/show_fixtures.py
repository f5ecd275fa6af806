"""A small procedure for viewer tests, learned only if a test needs the model."""

import json
import shutil
from pathlib import Path

import pytest
from show_kit import Served

from stepcut.app.server import Running
from stepcut.app.workspace import Workspace
from stepcut.colours import colour
from stepcut.procedure.old import convert, remove_converted
from stepcut.toy import make_kitchen

STEPS = ("slice bread", "spread butter", "pour tea")
PARTS = {
    "one": [(0.0, 2.0, 0), (2.0, 4.0, 1), (4.5, 6.0, 2)],
    "two": [(0.5, 3.0, 0), (3.0, 5.0, 2)],
}


def write_procedure(folder, videos, duration=6.0, fingerprint="f00d"):
    folder.mkdir(parents=True)
    config = {
        "format": 1, "stepcut": "0", "method": "cnc", "rate": "2", "fingerprint": fingerprint,
    }  # fmt: skip
    steps = [{"step": k, "name": name, "colour": colour(k)} for k, name in enumerate(STEPS)]
    timelines = {
        name: {
            "path": videos[name],
            "duration": duration,
            "samples": int(2 * duration),
            "segments": [{"start": s, "end": e, "step": k, "confidence": 0.8} for s, e, k in parts],
        }
        for name, parts in PARTS.items()
    }
    for file, value in (("config", config), ("steps", steps), ("timelines", timelines)):
        (folder / f"{file}.json").write_text(json.dumps(value))
    convert(folder)
    remove_converted(folder)
    shutil.rmtree(folder.with_name(f"{folder.name}.0.3"))
    return folder


@pytest.fixture(scope="session")
def kitchen(tmp_path_factory):
    return make_kitchen(tmp_path_factory.mktemp("show") / "kitchen", videos=2, duration=6).folder


@pytest.fixture
def place(kitchen, tmp_path):
    first, second = sorted((kitchen / "videos").iterdir())
    return write_procedure(tmp_path / "breakfast.proc", {"one": str(first), "two": str(second)})


@pytest.fixture
def work(kitchen, tmp_path):
    """A folder with two videos, labels and a procedure; `outside` lies beside it."""
    folder, outside = tmp_path / "work", tmp_path / "outside"
    shutil.copytree(kitchen / "videos", folder / "kitchen")
    shutil.copytree(kitchen / "annotations", folder / "labels")
    first, second = sorted((folder / "kitchen").iterdir())
    write_procedure(folder / "tea.proc", {"one": str(first), "two": str(second)})
    outside.mkdir()
    shutil.copy(first, outside / "private.mp4")
    (outside / "private.csv").write_text("start,end,step\n0,1,secret\n")
    return folder


@pytest.fixture
def app(work):
    with Served(Running(Workspace(work))) as served:
        yield served


@pytest.fixture(scope="session")
def learned_once(kitchen, tmp_path_factory):
    import stepcut as sc

    folder = tmp_path_factory.mktemp("learned") / "toy.proc"
    how = {"steps": 3, "restarts": 2, "background": 0.0, "output": folder}
    sc.learn(kitchen / "videos", cache=tmp_path_factory.mktemp("features"), **how)
    return folder


@pytest.fixture(scope="session")
def many_once(tmp_path_factory):
    import stepcut as sc
    from stepcut.toy import toy_features

    rows, timelines = toy_features(videos=5, seed=0, dim=12)
    videos = {timeline.video: one for timeline, one in zip(timelines, rows, strict=True)}
    folder = tmp_path_factory.mktemp("learned") / "many.proc"
    sc.learn(videos, steps=6, restarts=2).save(folder)
    return folder


@pytest.fixture
def many(many_once, tmp_path):
    return Path(shutil.copytree(many_once, tmp_path / "many.proc"))


@pytest.fixture
def learned(learned_once, tmp_path):
    return Path(shutil.copytree(learned_once, tmp_path / "toy.proc"))
