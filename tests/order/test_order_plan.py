"""Plans follow the published schema; the examples convert them to behaviour trees and PDDL."""

import importlib.util
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from kitchen_kit import STEPS

from stepcut.order import learn_graph, rank_orders
from stepcut.order.graph import make_plan, read_schema

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def problems(value, schema, root, at="plan"):
    """Validate a value against the JSON schema keywords that the plan uses."""
    if "$ref" in schema:
        target = root
        for key in schema["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        return problems(value, target, root, at)
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: {value!r} is not {schema['const']!r}")
    kinds = schema.get("type", [])
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if value is None and "null" in allowed:
        return found
    if allowed and not any(isinstance(value, KINDS[k]) and (k == "boolean") == isinstance(value, bool)
                           for k in allowed if k != "null"):  # fmt: skip
        return [f"{at}: {value!r} is no {kinds}"]
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{at}: {value} is below {schema['minimum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{at}: {value!r} does not match {schema['pattern']}")
    if isinstance(value, list):
        if schema.get("uniqueItems") and len(set(value)) != len(value):
            found.append(f"{at}: an item stands twice")
        for number, item in enumerate(value):
            found += problems(item, schema.get("items", {}), root, f"{at}[{number}]")
    if isinstance(value, dict):
        inside = schema.get("properties", {})
        found += [
            f"{at}: {key} is missing" for key in schema.get("required", []) if key not in value
        ]
        if schema.get("additionalProperties") is False:
            found += [f"{at}: {key} is not known" for key in value if key not in inside]
        for key in value.keys() & inside.keys():
            found += problems(value[key], inside[key], root, f"{at}.{key}")
    return found


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_plan_follows_the_schema(tiny_task):
    plan = json.loads(json.dumps(tiny_task.procedure.plan(), allow_nan=False))
    assert problems(plan, read_schema(), read_schema()) == []
    serve = plan["steps"][3]
    assert serve["name"] == "serve"
    assert serve["preconditions"] == [
        {"id": "step_1", "kept": 24, "together": 24},
        {"id": "step_2", "kept": 24, "together": 24},
    ]
    assert serve["duration"]["median"] == pytest.approx(20, abs=3)
    assert plan["start"] == ["step_0"]
    assert plan["end"] == ["step_3"]
    assert [len(way["order"]) for way in plan["alternatives"]] == [4, 4]
    assert all(way["keeps"] for way in plan["alternatives"])


def test_plans_without_lengths_edges_or_steps_follow_it_too():
    for sequences in ([[0, 1]] * 5 + [[1, 0]], [[0, 1], [1, 0]], [[]]):
        orders = rank_orders({str(n): sequence for n, sequence in enumerate(sequences)})
        plan = make_plan(learn_graph(sequences), orders, STEPS)
        assert problems(plan, read_schema(), read_schema()) == []
    swapped = make_plan(
        learn_graph([[0, 1]] * 9 + [[1, 0]]), rank_orders({"a": [0, 1], "b": [1, 0]}), STEPS
    )
    assert [way["keeps"] for way in swapped["alternatives"]] == [True, False]


def test_a_plan_becomes_a_behaviour_tree(tiny_task):
    root = ElementTree.fromstring(
        example("plan_to_behaviour_tree").behaviour_tree(tiny_task.procedure.plan())
    )
    sequence = root.find("BehaviorTree/Sequence")
    assert sequence is not None
    assert [part.tag for part in sequence] == ["Action", "Parallel", "Action"]
    assert [action.get("name") for action in root.iter("Action")] == STEPS


def test_a_plan_becomes_pddl(tiny_task):
    module = example("plan_to_pddl")
    plan = tiny_task.procedure.plan()
    for text in (module.domain(plan), module.problem(plan)):
        assert text.count("(") == text.count(")")
    assert module.domain(plan).count(":durative-action ") == 4
    assert "(at start (done-step_1)) (at start (done-step_2))" in module.domain(plan)
    assert "(done-step_3)" in module.problem(plan)
