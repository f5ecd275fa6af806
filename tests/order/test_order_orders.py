"""Orders, ranked, and sequences of segments; plans that follow the published schema."""

import importlib.util
import json
import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kitchen_kit import STEPS

from stepcut.order import (
    find_occurrences,
    learn_graph,
    orders_of_labels,
    rank_orders,
    sequence,
    video_order,
)
from stepcut.order.graph import make_plan, read_schema

label_lists = st.lists(st.integers(-1, 4), max_size=40)


def order_by_the_paper(labels):
    """Reference implementation: the exact mean of n / p over the frames of each step."""
    times = {}
    for n, step in enumerate(labels):
        if step != -1:
            times.setdefault(step, []).append(Fraction(n, len(labels)))
    return sorted(times, key=lambda step: (sum(times[step]) / len(times[step]), step))


@given(label_lists)
def test_the_order_is_that_of_the_paper(labels):
    assert video_order(labels) == order_by_the_paper(labels)
    assert video_order(np.array(labels, dtype=np.int64)) == video_order(labels)


def test_split_steps_stand_at_their_mean_time_and_slivers_are_dropped():
    assert video_order([1, 0, 0, 0, 1, 1, 1]) == [0, 1]
    assert sequence([1, 0, 0, 0, 1, 1, 1]) == [1, 0, 1]
    labels = [0] * 30 + [1] * 40 + [0] + [1] * 9
    assert [one.step for one in find_occurrences(labels, rate=1.0)] == [0, 1]
    assert find_occurrences(labels, rate=1.0)[1].spent == 49


def test_cyclic_tasks_are_ordered_by_first_occurrence():
    rng, rounds, once = np.random.default_rng(0), [0, *[1, 2, 3] * 3, 4], [0, 1, 2, 3, 4]
    films = {f"{n}": np.repeat(rounds, rng.integers(3, 9, len(rounds))).tolist() for n in range(12)}
    found = orders_of_labels(films, rate=2.0, names=["a", "b", "c", "d", "e"])
    assert [order for order, _ in found] == [(0, 1, 2, 3, 4)]
    assert repr(found) == "<Orders 1 distinct, of 12 videos, by when each step is first done>"
    assert len(rank_orders({name: video_order(labels) for name, labels in films.items()})) > 1

    films = {f"{n}": np.repeat(once, rng.integers(3, 9, len(once))).tolist() for n in range(3)}
    # One video alone: by mean times, as in the paper.
    films["back"] = [0] * 4 + [1] * 2 + [2] * 4 + [1] * 6
    found = orders_of_labels(films, rate=2.0)
    assert [order for order, _ in found] == [(0, 1, 2, 3, 4), (0, 2, 1)]
    assert not found.by_first


@given(label_lists)
def test_a_sequence_and_its_occurrences_lose_no_step(labels):
    found = sequence(labels)
    assert all(a != b for a, b in pairwise(found))
    assert set(found) == set(labels) - {-1}
    found = find_occurrences(labels, rate=2.0, sliver=0.0)
    assert [one.step for one in found] == sequence(labels)
    assert sum(one.spent for one in found) == sum(step != -1 for step in labels) / 2
    for one in found:
        assert labels[round(one.start * 2)] == labels[round(one.end * 2) - 1] == one.step


@pytest.mark.parametrize("rounds", [2, 5, 40])
def test_repeated_segments_are_not_slivers(rounds):
    labels = np.tile(np.repeat([0, 1, 2], [4, 3, 6]), rounds)
    assert [one.step for one in find_occurrences(labels, rate=1.0)] == [0, 1, 2] * rounds
    slip = np.insert(np.repeat(labels, 10), 65, 1)  # within a step that takes 60 rows
    assert len(find_occurrences(slip, rate=1.0)) == 3 * rounds


def test_orders_are_ranked_written_and_drawn():
    orders = rank_orders({"a": [0, 1], "b": [1, 0], "c": [0, 1], "d": [2]}, names=["pour", "stir"])
    assert orders.ranked == [((0, 1), ["a", "c"]), ((1, 0), ["b"]), ((2,), ["d"])]
    assert orders[0] == next(iter(orders)) == ((0, 1), ["a", "c"])
    assert len(orders) == 3
    assert "2 videos  pour → stir" in str(orders)
    assert "step 3" in str(orders)
    orders = rank_orders({"<a>": [0, 1], "b": []}, names=["pour", "<stir>"])
    assert orders.to_json() == [
        {"order": [0, 1], "videos": ["<a>"]},
        {"order": [], "videos": ["b"]},
    ]
    # Arrows keep their direction between right-to-left names.
    assert "<bdi>pour</bdi> → <bdi>&lt;stir&gt;</bdi>" in orders._repr_html_()
    assert "(no step)" in str(orders)


EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
KINDS |= {"number": (int, float), "null": type(None)}


def problems(value, schema, root, at="plan"):
    """Validate a value against the JSON schema keywords that the plan uses."""
    if "$ref" in schema:
        _, group, name = schema["$ref"].split("/")
        schema = root[group][name]
    kinds = schema.get("type", list(KINDS))
    allowed = tuple(KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    if not isinstance(value, allowed) or value != schema.get("const", value):
        return [f"{at}: {value!r} is not {schema}"]
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return [f"{at}: {value!r} does not match {schema['pattern']}"]
    found = []
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += problems(item, schema.get("items", {}), root, f"{at}[{number}]")
    if isinstance(value, dict):
        inside = schema.get("properties", {})
        found += [f"{at}: {key} is missing" for key in {*schema.get("required", [])} - {*value}]
        if schema.get("additionalProperties") is False:
            found += [f"{at}: {key} is not known" for key in {*value} - {*inside}]
        for key in value.keys() & inside.keys():
            found += problems(value[key], inside[key], root, f"{at}.{key}")
    return found


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
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


def test_a_plan_becomes_a_behaviour_tree_and_pddl(tiny_task):
    root = ElementTree.fromstring(
        example("plan_to_behaviour_tree").behaviour_tree(tiny_task.procedure.plan())
    )
    sequence = root.find("BehaviorTree/Sequence")
    assert sequence is not None
    assert [part.tag for part in sequence] == ["Action", "Parallel", "Action"]
    assert [action.get("name") for action in root.iter("Action")] == STEPS
    module = example("plan_to_pddl")
    plan = tiny_task.procedure.plan()
    for text in (module.domain(plan), module.problem(plan)):
        assert text.count("(") == text.count(")")
    assert module.domain(plan).count(":durative-action ") == 4
    assert "(at start (done-step_1)) (at start (done-step_2))" in module.domain(plan)
    assert "(done-step_3)" in module.problem(plan)
