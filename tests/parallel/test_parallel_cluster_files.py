"""The cluster examples, as far as they can be checked without a cluster: they parse, and Ray knows their words."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from stepcut.cli.main import COMMANDS, make_parser

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
