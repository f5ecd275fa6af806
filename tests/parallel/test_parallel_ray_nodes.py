"""Faults of a cluster: a node is lost, the driver is killed, the disk is full, no cluster answers."""

import os
import sys

import pytest
from errors_kit import raises
from extraction_kit import fill_the_disk, kill_and_run_again, stored
from parallel_kit import Logged, seen

from stepcut.errors import OptionError
from stepcut.features.extract import extract
from stepcut.parallel.ray import Ray, import_ray

pytestmark = [
    pytest.mark.ray,
    # Ray leaves sockets and processes to the garbage collector, and warns of its own future.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes on this machine, with one worker each."""
    import_ray()
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    yield cluster
    cluster.shutdown()


def test_a_lost_node(cluster, films, tmp_path):
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    engine = Ray(address=cluster.address)
    try:
        assert engine.workers == 2
        backbone = Logged(tmp_path / "log", wait=0.2)
        lost = []

        def lose(event):
            if event.done >= 10 and not lost:
                lost.append(event.done)
                cluster.remove_node(node, allow_graceful=False)

        features, failures = extract(
            films, backbone, fps=5, cache=tmp_path / "many", engine=engine, progress=lose
        )
    finally:
        engine.close()
    assert failures == []
    assert lost
    extract(films, Logged(tmp_path / "other"), fps=5, cache=tmp_path / "one")
    assert stored(tmp_path / "one") == stored(tmp_path / "many")
    rows = sum(len(f.rows) for f in features)
    # Only the video that the lost node was at is computed again.
    assert rows <= seen(tmp_path / "log") <= rows + max(len(f.rows) for f in features)


def test_killing_the_driver(films, tmp_path):
    kill_and_run_again(films, tmp_path, "ray")


def test_a_full_disk(films, tmp_path):
    fill_the_disk(films, tmp_path, "ray")


def test_no_cluster_at_the_address():
    with raises(OptionError, "ray start --head"):
        Ray(address="auto")
