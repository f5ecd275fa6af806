"""The same on Ray: a local cluster, lost workers, lost nodes, a killed driver; all on this machine."""

import os
import time
from typing import Any

import pytest
from extraction_kit import Crash, stored
from parallel_kit import Logged, die_once, pids, scribble, seen, square, stumble

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import WorkerDied
from stepcut.features.extract import extract
from stepcut.parallel.ray import Ray

pytestmark = [
    pytest.mark.ray,
    # Ray leaves sockets and processes to the garbage collector, and warns of its own future.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def engine():
    engine = Ray(workers=2)
    yield engine
    engine.close()
    import ray

    assert not ray.is_initialized()


def test_answers_failures_and_deaths(engine, tmp_path):
    assert engine.map(square, range(7)) == [n * n for n in range(7)]
    answers = engine.map(stumble, range(6))
    assert [answers[n] for n in (0, 1, 4, 5)] == [0, 1, 4, 5]
    assert isinstance(answers[2], ValueError)
    assert isinstance(answers[3], WorkerDied)
    assert "the worker process died, 2 times" in str(answers[3])
    assert engine.map(die_once, [(n, str(tmp_path)) for n in range(4)]) == [0, 1, 2, 3]
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "begun-0": "x",
        "begun-1": "xx",
        "begun-2": "x",
        "begun-3": "x",
    }


def test_nobody_writes_once_cancelling_has_ended(engine, tmp_path):
    def enough(_number, _answer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.map(scribble, [(n, str(tmp_path)) for n in range(4)], enough)
    written = (tmp_path / "scribbled").read_text()
    time.sleep(0.5)
    assert (tmp_path / "scribbled").read_text() == written
    assert engine.map(square, [3]) == [9]


def test_ray_gives_the_features_of_one_process(films, tmp_path, engine):
    one, _ = extract(films, Logged(tmp_path / "here"), fps=5, cache=tmp_path / "one")
    # And one worker is killed on the way.
    backbone = Logged(tmp_path / "there", die=tmp_path / "died")
    many, failures = extract(films, backbone, fps=5, cache=tmp_path / "many", engine=engine)
    assert failures == []
    assert [(f.name, f.path, f.duration) for f in one] == [
        (f.name, f.path, f.duration) for f in many
    ]
    assert stored(tmp_path / "one") == stored(tmp_path / "many")
    assert (tmp_path / "died").exists()
    assert seen(tmp_path / "there") == sum(len(f.rows) for f in one)
    assert os.getpid() not in pids(tmp_path / "there")


def test_a_video_that_crashes_its_worker_is_named(films, tmp_path, engine):
    from features_films import make_film

    dark = make_film(tmp_path / "dark.mp4", frames=1, rate=1)
    features, failures = extract(
        [films / "v0.mp4", dark], Crash(tmp_path / "log"), fps=5, cache=tmp_path, engine=engine
    )
    assert [f.name for f in features] == ["v0"]
    assert f"{dark}: the worker process died by SIGSEGV, 2 times" in str(failures[0])


def test_learning_on_ray_gives_the_same_procedure(films, tmp_path, engine):
    assert engine.workers == 2  # it is running, so that what follows joins it
    quick: dict[str, Any] = {"steps": 3, "restarts": 2, "device": "cpu"}
    here = sc.learn(films, cache=tmp_path / "here", **quick)
    there = sc.learn(films, cache=tmp_path / "there", engine="ray", **quick)
    assert here == there
    assert here.config == there.config
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "films").symlink_to(films)
    words = ["learn", "--tasks", str(tmp_path / "root"), "--cache", str(tmp_path / "there")]
    words += ["--device", "cpu"]
    words += ["--quiet", "-k", "3", "--set", "restarts=2", "--workers", "2"]
    assert main([*words, "-o", str(tmp_path / "local")]) == 0
    assert main([*words, "-o", str(tmp_path / "ray"), "--engine", "ray"]) == 0
    assert sc.load(tmp_path / "local" / "films.proc") == sc.load(tmp_path / "ray" / "films.proc")
    one, many = tmp_path / "one", tmp_path / "many"
    for folder, more in ((one, []), (many, ["--engine", "ray"])):
        assert (
            main(["features", str(films), "-o", str(folder), "--device", "cpu", "--quiet", *more])
            == 0
        )
    assert {f.name: f.read_bytes() for f in one.iterdir()} == {
        f.name: f.read_bytes() for f in many.iterdir()
    }
