"""The cluster examples, as far as they can be checked without a cluster: they parse, and Ray knows their words."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from stepcut.cli.parser import COMMANDS, make_parser

CLUSTER = Path(__file__).resolve().parents[2] / "examples" / "cluster"

pytestmark = pytest.mark.ray  # PyYAML comes with Ray


def read(name):
    import yaml

    content: dict[str, Any] = yaml.safe_load((CLUSTER / name).read_text())
    return content


def check_command(words):
    """The command in an example is one that stepcut understands."""
    assert words[0] == "stepcut"
    assert words[1] in COMMANDS
    args = make_parser(words[1]).parse_args(words[2:])
    assert (args.engine, args.address) == ("ray", "auto")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_cluster_file_is_one_that_ray_takes():
    from jsonschema import validate

    config = read("ray-cluster.yaml")
    import json

    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    validate(config, schema)
    types = config["available_node_types"]
    assert config["head_node_type"] in types
    assert sum(each["max_workers"] for each in types.values()) <= config["max_workers"]
    text = (CLUSTER / "ray-cluster.yaml").read_text()
    command = re.search(r"#\s+(stepcut .*\\\n)#\s+(.*)\n", text)
    assert command is not None
    check_command(shlex.split(command.group(1).replace("\\\n", " ") + command.group(2)))


def test_the_kubernetes_file_has_the_words_of_kuberay():
    job = read("kuberay.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    known = "entrypoint shutdownAfterJobFinishes ttlSecondsAfterFinished rayClusterSpec"
    assert set(job["spec"]) <= set(known.split())
    cluster = job["spec"]["rayClusterSpec"]
    known = "rayVersion enableInTreeAutoscaling headGroupSpec workerGroupSpecs"
    assert set(cluster) == set(known.split())
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        assert {"rayStartParams", "template"} <= set(group)
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        for container in group["template"]["spec"]["containers"]:
            assert {"name", "image", "resources"} <= set(container)
            assert container["resources"]["requests"] == container["resources"]["limits"]
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    check_command(shlex.split(job["spec"]["entrypoint"]))
