"""The same on Ray: lost workers and nodes, a killed driver, a full disk, no cluster; all on this machine."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from errors_kit import raises
from extraction_kit import fill_the_disk, kill_and_run_again, stored
from parallel_kit import RAY, Logged, check_answers, scribble, seen, square

from stepcut.errors import OptionError
from stepcut.features.extract import extract
from stepcut.parallel.engine import Ray, import_ray

pytestmark = RAY


@pytest.fixture
def cluster(monkeypatch):
    import_ray()
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def test_a_lost_node(cluster, films, tmp_path):
    node, lost = cluster.add_node(num_cpus=1), list[float]()
    cluster.wait_for_nodes()
    engine = Ray(address=cluster.address)

    def lose(event):
        if event.done >= 10 and not lost:
            lost.append(event.done)
            cluster.remove_node(node, allow_graceful=False)

    try:
        assert engine.workers == 2
        how = {"cache": tmp_path / "many", "engine": engine, "progress": lose}
        features, failures = extract(films, Logged(tmp_path / "log", wait=0.2), fps=5, **how)
    finally:
        engine.close()
    assert (failures, len(lost)) == ([], 1)
    extract(films, Logged(tmp_path / "other"), fps=5, cache=tmp_path / "one")
    assert stored(tmp_path / "one") == stored(tmp_path / "many")
    counts = [len(f.rows) for f in features]
    # Only the video that the lost node was at is computed again.
    assert sum(counts) <= seen(tmp_path / "log") <= sum(counts) + max(counts)


def test_killing_the_driver(films, tmp_path):
    kill_and_run_again(films, tmp_path, "ray")


def test_a_full_disk(films, tmp_path):
    fill_the_disk(films, tmp_path, "ray")


def test_no_cluster_at_the_address():
    with raises(OptionError, "ray start --head"):
        Ray(address="auto")


ALONE = """
import contextlib, json, os, psutil
from stepcut.parallel.engine import Ray
engine = Ray(workers=1)
assert engine.map(abs, [-3]) == [3]
me = psutil.Process()
all_of_it = []
for process in [me, *me.children(recursive=True)]:
    with contextlib.suppress(psutil.NoSuchProcess):  # one that ended meanwhile
        all_of_it += process.net_connections("tcp")
listening = {c.laddr.ip for c in all_of_it if c.status == "LISTEN"}
folder = engine._files
engine.close()
print(json.dumps([sorted(listening), os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]), folder]))
"""


def test_nobody_else_can_reach_it_and_nothing_stays():
    pytest.importorskip("psutil")
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    listening, mode, token, folder = json.loads(run.stdout.splitlines()[-1])
    assert listening
    assert all(address.endswith("127.0.0.1") or address == "::1" for address in listening)
    assert (mode, token) == ("token", 64)
    assert folder.startswith(tempfile.gettempdir())
    assert not Path(folder).exists()


@pytest.fixture(scope="module")
def engine():
    """A cluster that stays: the tests before this one start their own."""
    engine = Ray(workers=2)
    yield engine
    engine.close()
    import ray

    assert not ray.is_initialized()


def test_answers_failures_deaths_and_cancelling(engine, tmp_path):
    check_answers(engine, tmp_path, "the worker process died, 2 times")

    def enough(_number, _answer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.map(scribble, [(n, str(tmp_path)) for n in range(4)], enough)
    written = (tmp_path / "scribbled").read_text()
    time.sleep(0.5)
    assert (tmp_path / "scribbled").read_text() == written
    assert engine.map(square, [3]) == [9]
