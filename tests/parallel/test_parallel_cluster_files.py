"""The cluster examples, as far as they can be checked without a cluster: they parse, and Ray knows their words."""

import json
import re
import shlex
from pathlib import Path

import pytest

from stepcut.cli.main import COMMANDS, make_parser

FILE = Path(__file__).resolve().parents[2] / "examples" / "cluster" / "ray-cluster.yaml"

pytestmark = pytest.mark.ray  # PyYAML comes with Ray


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
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
