"""What all tests share: the place of the real data, and a cache folder of their own."""

import functools
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from kitchen_kit import make_kitchen

from stepcut.cli.main import main
from stepcut.features.backbones import BACKBONES
from stepcut.parallel.engine import count_cores
from stepcut.timeline import Segment, Timeline

pytest_plugins = ["show_fixtures"]

# The same examples in every run, and no deadline: a gate must not fail by luck.
# To look for new ones: --hypothesis-profile default.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.load_profile("gate")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give every process consecutive tests, so that few files set up their fixtures twice."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(scope="session")
def caches(tmp_path_factory):
    """Folders without end; `mktemp` would look through all earlier ones for each test."""
    base = tmp_path_factory.mktemp("caches")
    return (base / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_cache(caches, monkeypatch):
    """No test reads or fills the user's cache or state."""
    folder = next(caches)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("STEPCUT_STATE", str(folder / "state"))
    monkeypatch.setenv("STEPCUT_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session", autouse=True)
def default_network():
    """Compile the default backbone once, instead of in every command."""
    load = BACKBONES["efficientnet-lite0"]

    @functools.cache
    def keep(spec, place, _cores):
        return load(spec, place)

    def load_once(spec, place):
        return load(spec, place) if spec.weights else keep(spec, place, count_cores())

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(BACKBONES, "efficientnet-lite0", load_once)
        yield


@pytest.fixture
def run(capsys):
    """A function that runs a command, whose exit code must be one of `code`; gives what it printed."""

    def run(*words, code=(0,)):
        capsys.readouterr()
        codes = code if isinstance(code, tuple) else (code,)
        assert main([str(word) for word in words]) in codes, capsys.readouterr().err
        return capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data beside the project; tests that need it say so where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the real data in {SHARED}, which is not there")
    return SHARED


@pytest.fixture(scope="session")
def labelled_video():
    """A function that makes up the timeline of one video, steps of `least` to 19 seconds, and features of six numbers
    a second that tell the step."""

    def make(random, steps, least):
        cuts = np.cumsum([0, *random.integers(least, 20, size=len(steps))])
        segments = [
            Segment(float(a), float(b), s) for (a, b), s in zip(pairwise(cuts), steps, strict=True)
        ]
        timeline = Timeline(segments, duration=float(cuts[-1]), steps=steps)
        labels = timeline.labels(np.arange(round(timeline.end)) + 0.5)
        return timeline, np.eye(6)[labels] + 0.05 * random.normal(size=(len(labels), 6))

    return make


@pytest.fixture(scope="session")
def tiny_task():
    return make_kitchen()


@pytest.fixture(scope="session")
def films(tmp_path_factory):
    """Three short films and a long one with a key frame every half second, with frames out of order."""
    from features_films import make_film

    folder = tmp_path_factory.mktemp("films")
    for number, frames in enumerate((30, 45, 61)):
        make_film(folder / f"v{number}.mp4", frames=frames, g="10", bf="2")
    make_film(folder / "v3.mp4", frames=240, g="10", bf="2")
    return folder
