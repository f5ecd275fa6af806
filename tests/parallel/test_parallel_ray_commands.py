"""Every command that takes --engine, on a cluster that others have started elsewhere: the numbers of one process."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from parallel_kit import RAY

import stepcut as sc
from stepcut.cli.main import COMMANDS, main, make_parser
from stepcut.formats import write_folder
from stepcut.parallel.engine import Ray, import_ray

pytestmark = RAY

STEPS = ("pour", "stir", "serve")
QUICK = ["-k", "3", "--set", "restarts=2", "--quiet"]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    import_ray()
    from ray.cluster_utils import Cluster

    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    patch.setenv("OMP_NUM_THREADS", "1")
    patch.chdir(tmp_path_factory.mktemp("elsewhere"))
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    patch.undo()
    yield cluster.address
    cluster.shutdown()


@pytest.fixture(scope="module")
def root(tmp_path_factory, films, labelled_video):
    root = tmp_path_factory.mktemp("root")
    random = np.random.default_rng(0)
    for task in ("soup", "tea"):
        timelines = {}
        for number in range(3):
            timeline, rows = labelled_video(random, STEPS, least=5)
            for folder in (root / "data" / task / "features" / "eyes", root / "tasks" / task):
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / f"v{number}.npy", rows.astype(np.float32))
            timelines[f"v{number}"] = timeline
        write_folder(root / "data" / task / "annotations", timelines, "json")
    (root / "films").symlink_to(films)
    (root / "bad.mp4").write_bytes(b"not a video")
    sc.learn(root / "tasks" / "tea", 3, output=root / "tea.proc", restarts=2)
    return root


@pytest.fixture
def both(address, root, tmp_path, monkeypatch, capsys):
    """Run a command here and on the cluster; what they say and their exit codes must be one. Gives their folders."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "in").symlink_to(root)
    # All paths are relative, so that a worker elsewhere would not find them.
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        said = []
        cluster = ["--engine", "ray", "--address", address, "--workers", "2"]
        for name, more in (("made-here", []), ("made-there", cluster)):
            Path(name).mkdir(exist_ok=True)
            ended = main([word.replace("OUT", name) for word in words] + more)
            shown = [text.replace(f"{tmp_path}/", "") for text in capsys.readouterr()]
            assert ended == code, shown
            said.append([alike(text.replace(name, "OUT")) for text in shown])
        assert said[0] == said[1]
        return Path("made-here"), Path("made-there")

    return run


def alike(text):
    """The text without the seconds that tasks took, and with one name for the device."""
    text = text.replace("device of each worker", "device CPU")
    return re.sub(r" +\d+\.\d+ +| +|-+", " ", text)


def contents(folder):
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_features_and_learn(both):
    words = "features in/films in/bad.mp4 -o OUT --cache OUT/cache --device cpu --quiet"
    here, there = both(*words.split(), code=2)
    for folder in (Path(), Path("cache", "features")):
        files = [[*(root / folder).glob("*.safetensors")] for root in (here, there)]
        made, other = ({file.name: file.read_bytes() for file in some} for some in files)
        assert made == other
        assert len(made) == 4
    words = "learn in/films --cache OUT/cache -o OUT/a.proc --device cpu"
    here, there = both(*words.split(), *QUICK)
    assert sc.load(here / "a.proc") == sc.load(there / "a.proc")


def test_learn_in_python(address, root, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    own = Ray(address=address)
    engines = ({}, {"engine": "ray", "address": address, "workers": 2}, {"engine": own})
    quick = {"steps": 3, "restarts": 2, "device": "cpu"}
    try:
        each = [{"cache": tmp_path / str(n), **quick, **one} for n, one in enumerate(engines)]
        here, there, again = (sc.learn(root / "films", **how) for how in each)
        assert own.map(abs, [-1]) == [1]  # an engine of one's own stays open
    finally:
        own.close()
    assert here == there == again
    assert here.config == there.config


def test_segment_and_check(both):
    videos = [f"in/tasks/tea/v{number}.npy" for number in range(3)]
    here, there = both("segment", "in/tea.proc", *videos, "-o", "OUT/{name}.csv", "--quiet")
    assert contents(here) == contents(there)
    assert len(contents(here)) == 3
    again = ["in/bad.mp4", "-o", "OUT/again-{name}.csv", "--quiet"]
    here, there = both("segment", "in/tea.proc", *videos, *again, code=2)
    assert len(contents(there)) == 6  # the bad one stops nobody
    videos = [f"in/tasks/tea/v{number}.npy" for number in range(3)]
    both("check", "in/tea.proc", *videos, "--json", "--quiet")
    both("check", "in/tea.proc", "in/bad.mp4", *videos, "--json", "--quiet", code=2)


TRAIN = ["--set", "train.iterations=3", "train.components=4", "train.dim=4"]


def figures(folder):
    (file,) = folder.glob("*.json")
    record = json.loads(file.read_text())
    for cell in record["cells"]:
        del cell["seconds"]
    del record["made"], record["device"]  # the workers choose it on a cluster
    return record


def test_experiment_on_given_features(both):
    rows = ["--rows", "random", "kmeans", "smooth", "tc3i + procut"]
    words = ["experiment", "main", "--data", "folder:in/data", *rows, "--seeds", "2", "--steps"]
    words += ["true", *TRAIN]
    here, there = both(*words, "--out", "OUT", "--quiet")
    assert figures(here) == figures(there)
    assert len(figures(there)["cells"]) == 2 * 10  # two seeds of four rows, uniform and one-cluster
    before = {file.name: file.stat().st_mtime_ns for file in (there / "cells").iterdir()}
    both(*words, "--out", "OUT", "--quiet")
    assert {file.name: file.stat().st_mtime_ns for file in (there / "cells").iterdir()} == before


FILE = Path(__file__).resolve().parents[2] / "examples" / "cluster" / "ray-cluster.yaml"


def test_the_cluster_file_is_one_that_ray_takes():
    import ray.autoscaler
    import yaml
    from jsonschema import validate

    text = FILE.read_text()
    config = yaml.safe_load(text)
    schema = Path(ray.autoscaler.__file__).parent / "ray-schema.json"
    validate(config, json.loads(schema.read_text()))
    types = config["available_node_types"]
    assert config["head_node_type"] in types
    assert sum(each["max_workers"] for each in types.values()) <= config["max_workers"]
    start, end = re.search(r"#\s+(stepcut .*\\\n)#\s+(.*)\n", text).groups()
    words = shlex.split(start.replace("\\\n", " ") + end)
    assert (words[0], words[1] in COMMANDS) == ("stepcut", True)
    args = make_parser(words[1]).parse_args(words[2:])
    assert (args.engine, args.address) == ("ray", "auto")
