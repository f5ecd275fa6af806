"""The procedure graph, orders and plans: learning, likelihood, exports; real recipes and their true graphs."""

import importlib.util
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from kitchen_kit import STEPS
from matplotlib.backends.backend_agg import FigureCanvasAgg

from stepcut.errors import OptionError, ProcedureError
from stepcut.order import (
    ProcedureGraph,
    find_occurrences,
    learn_graph,
    orders_of_labels,
    rank_orders,
    sequence,
    video_order,
)
from stepcut.order.graph import make_plan, next_weights, read_schema
from stepcut.order.learn import close_order, main_places, order_likelihood, reduce_order
from stepcut.paper.datasets import load

DIAMOND = {(0, 1), (0, 2), (1, 3), (2, 3)}


def random_walks(edges, steps, videos, seed):
    rng = np.random.default_rng(seed)
    walks = []
    for _ in range(videos):
        left, walk = set(range(steps)), []
        while left:
            free = sorted(s for s in left if not any(a in left for a, b in edges if b == s))
            walk.append(int(rng.choice(free)))
            left.remove(walk[-1])
        walks.append(walk)
    return walks


def test_a_common_order_is_no_requirement_and_misplaced_steps_hide_no_rule():
    edges = {(0, 1), (1, 2), (2, 3), (3, 4)}  # and 5 at any time, mostly first
    walks = [[5, 0, 1, 2, 3, 4]] * 6 + [[0, 1, 5, 2, 3, 4], [0, 1, 2, 3, 4, 5]]
    graph = learn_graph(walks)
    assert graph.edges == edges
    lines = dict(line.strip().split(": ", 1) for line in str(graph).splitlines()[1:])
    assert "any time" in lines[graph.name(5)]
    # Nothing precedes it, but it must come before the others.
    assert "any time" not in lines[graph.name(0)]
    rng = np.random.default_rng(0)
    walks = []
    for video in range(20):
        walk = list(range(8))
        if video % 2:
            walk.insert(int(rng.integers(8)), walk.pop(int(rng.integers(8))))
        walks.append(walk)
    assert learn_graph(walks).edges == {(step, step + 1) for step in range(7)}
    assert learn_graph(walks, order=False).edges == set()


def test_the_likelihood_of_sequences_is_a_mean_over_all_error_rates():
    none, a_first = np.zeros((2, 2), dtype=bool), np.array([[False, True], [False, False]])
    assert order_likelihood(none, [[0, 1]]) == pytest.approx(np.log(1 / 2))
    price = np.log(2) / 2
    # 1 - e + e / 2, e from 0 to 1.
    assert order_likelihood(a_first, [[0, 1]]) == pytest.approx(np.log(3 / 4) - price)
    assert order_likelihood(a_first, [[1, 0]]) == pytest.approx(np.log(1 / 4) - price)  # e / 2
    rates, chain = (np.arange(10_000) + 0.5) / 10_000, close_order(np.eye(4, k=1, dtype=bool))
    # A step before its two preconditions is an error; they are not required again.
    slow = (rates / 4) * (1 / 3) * (1 / 2)
    expected = np.log(slow.mean()) - 3 * np.log(4) / 2
    assert order_likelihood(chain, [[2, 0, 1, 3]]) == pytest.approx(expected, abs=1e-6)
    kept = (1 - rates + rates / 4) * (1 - rates + rates / 3) * (1 - rates + rates / 2)
    assert order_likelihood(chain, [[0, 1, 2, 3]]) == pytest.approx(
        np.log(kept.mean()) - 3 * np.log(4) / 2, abs=1e-6
    )


def test_rare_pairs_are_undecided_and_low_confidence_weighs_less():
    graph = learn_graph([[0, 1, 2]] * 6 + [[0, 3]])
    assert graph.undecided >= {(1, 3), (2, 3)}
    assert "not enough evidence: " in str(graph)
    assert ProcedureGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph
    walks = [[0, 1]] * 5 + [[1, 0]] * 4
    assert learn_graph(walks).edges == set()
    assert learn_graph(walks, confidences=[[1.0, 1.0]] * 5 + [[0.1, 0.1]] * 4).edges == {(0, 1)}


def test_a_diamond_is_found_through_flaws_and_nothing_in_every_order():
    walks = random_walks(DIAMOND, 4, 14, seed=1)
    walks[0].remove(2)  # missing
    walks[1].insert(3, walks[1][1])  # repeated
    walks[2] = walks[2][::-1]  # everything swapped
    assert learn_graph(walks).edges == DIAMOND
    assert learn_graph([*walks, [3, 2, 0, 1], [2, 3, 1, 0]]).edges == DIAMOND
    graph = learn_graph([list(order) for order in permutations(range(4))])
    assert graph.edges == set()
    assert "any order" in str(graph)
    empty = learn_graph([[], []])
    assert (empty.edges, empty.next([])) == (set(), [])
    assert empty._repr_svg_().startswith("<svg")


@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=1, max_size=6))
def test_a_graph_is_always_an_acyclic_reduced_order(sequences):
    graph = learn_graph(sequences)
    adjacent = np.zeros((6, 6), dtype=bool)
    for a, b in graph.edges:
        adjacent[a, b] = True
    closed = close_order(adjacent)
    assert not closed.diagonal().any()
    assert (reduce_order(closed) == adjacent).all()
    assert graph.steps == tuple(sorted({step for sequence in sequences for step in sequence}))
    for (a, b), (kept, together) in graph.support.items():
        both = [s for s in sequences if a in s and b in s]
        assert together == len(both)
        assert kept == sum(s.index(a) < s.index(b) for s in both)
    for done in [[], *sequences]:
        chances = graph.next(done)
        assert all(0 < p <= 1 for _, p in chances)
        assert sum(p for _, p in chances) <= 1 + 1e-9
        assert chances == sorted(chances, key=lambda pair: (-pair[1], pair[0]))


def test_optional_repeated_and_durations():
    sequences = [[0, 1, 2], [0, 2], [0, 2, 0], [0, 1, 2, 0]]
    graph = learn_graph(
        sequences, durations=[[2.0] * len(s) for s in sequences], names=["pour", "shake", "stir"]
    )
    assert graph.optional == {1}
    assert graph.repeated == {0}
    assert graph.durations[1].median == 2
    # Two of four videos spend 4 s on it.
    assert graph.durations[0].high > graph.durations[0].median == 3
    assert "optional, done in 2 of 4 videos" in str(graph)
    assert "repeated, up to 2 times" in str(graph)


@pytest.mark.parametrize(("videos", "marked"), [(2, set()), (3, {1})])
def test_more_than_a_tenth_of_the_videos_make_a_step_optional_or_repeated(videos, marked):
    usual = [[0, 1, 2]] * (20 - videos)
    assert learn_graph([*usual, *[[0, 2]] * videos]).optional == marked
    assert learn_graph([*usual, *[[0, 1, 2, 1]] * videos]).repeated == marked


def test_a_short_segment_in_the_wrong_place_is_not_the_first_time_of_its_step():
    rng = np.random.default_rng(0)
    sequences, durations = [], []
    for _ in range(12):  # a chain, with one segmentation error per video
        sequence, seconds = [0, 1, 2, 3], [20.0, 15.0, 25.0, 10.0]
        place, step = int(rng.integers(0, 4)), int(rng.integers(1, 4))
        sequence.insert(place, step)
        seconds.insert(place, 4.0)
        sequences.append(sequence)
        durations.append(seconds)
    chain = {(0, 1), (1, 2), (2, 3)}
    assert learn_graph(sequences, durations).edges == chain
    assert learn_graph(sequences, durations).support[2, 3].kept == 12


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.1, 50)), max_size=12))
def test_every_step_has_one_main_place(segments):
    steps, seconds = [step for step, _ in segments], [time for _, time in segments]
    places = main_places(steps, seconds)
    assert places == sorted(places)
    assert sorted(steps[place] for place in places) == sorted(set(steps))
    for place in places:
        same = [time for step, time in segments if step == steps[place]]
        times = math.floor(sum(same) ** 2 / sum(time**2 for time in same) + 1e-9)
        least = max(same) / 2 / times
        assert seconds[place] >= least
        earlier = [time for step, time in segments[:place] if step == steps[place]]
        assert all(time < least for time in earlier)
    first = [steps[at] for at in main_places(steps, [1.0] * len(steps))]
    assert first == list(dict.fromkeys(steps))


def test_what_comes_next_waits_for_its_preconditions_and_ends():
    graph = learn_graph(random_walks(DIAMOND, 4, 20, seed=0))
    assert graph.next([])[0][0] == 0
    assert graph.next([])[0][1] > 0.9
    assert {step for step, _ in graph.next([0])[:2]} == {1, 2}
    assert graph.next([0, 1])[0][0] == 2
    assert graph.next({0, 1})[0][0] == 2  # a set: the last step is unknown
    assert sum(p for _, p in graph.next([0, 1, 2, 3])) < 0.1  # nothing is left to do
    assert graph.before(3) == {0, 1, 2}
    assert graph.after(0) == {1, 2, 3}


def test_cycles_end_after_the_usual_number_and_no_step_is_impossible():
    graph = learn_graph([[0, *[1, 2] * 4, 3]] * 12)
    following = [graph.next([0, *[1, 2] * rounds])[0][0] for rounds in range(1, 5)]
    assert following == [1, 1, 1, 3]
    assert graph.next([0, *[1, 2] * 9])[0][0] == 3  # more often than ever
    for end in ([], [3]):
        graph = learn_graph([[0, *[1, 2] * 2, *end]] * 12)
        again = dict(graph.next([0, 1, 2]))
        assert again[1] > 0.9, "one round is not two"
        assert dict(graph.next([0, *[1, 2] * 2])).get(1, 0) < 0.1
        assert ProcedureGraph.from_json(graph.to_json()) == graph
    varied = learn_graph([[0, *[1, 2] * rounds, 3] for rounds in (1, 2) for _ in range(6)])
    assert dict(varied.next([0, 1, 2]))[3] > 0.4, "half of the videos go on after one"
    graph = learn_graph([[0, 1, 2, 3]] * 12)
    sure, doubtful = (next_weights(graph, {0: 1}, [0], least) for least in (0.0, 0.05))
    assert max(sure, key=sure.get) == max(doubtful, key=doubtful.get) == 1
    assert all(doubtful[step] >= sure[step] for step in graph.steps)
    assert doubtful[3] > sure[3]


@pytest.mark.parametrize(("sequences", "laid_out", "words"), [
    ([], {}, ["sequences is empty"]),
    ([[0], [-1, 0]], {}, ["sequences[1] contains -1"]),
    *((wrong, {}, ["list of lists"]) for wrong in (5, [5], [[0, 1], None])),
    ([[0, 1]], {"durations": [[1.0]]}, ["durations", "[1] for [2]"]),
    ([[0, 1]], {"confidences": [[1.0]]}, ["confidences", "[1] for [2]"]),
    ([[0, 1]], {"confidences": [[1.5, 1.0]]}, ["confidences contains 1.5"]),
    *(([[0, 1]], {"durations": wrong}, ["durations"]) for wrong in (5, [5], [["a", "b"]])),
    *(
        ([[0, 1]], {name: [[1.0, number]]}, [name])
        for name in ("durations", "confidences")
        for number in (np.nan, np.inf, -1.0, 10**400)
    ),
])  # fmt: skip
def test_wrong_input_is_refused(sequences, laid_out, words):
    with raises(OptionError, *words):
        learn_graph(sequences, **laid_out)


def test_unknown_steps_and_damaged_records_are_refused():
    with raises(OptionError, "step=7", "[0, 1]"):
        learn_graph([[0, 1]]).before(7)
    with pytest.raises(ProcedureError, match="procedure graph"):
        ProcedureGraph.from_json({"edges": []})


def test_it_goes_to_files_and_comes_back(tmp_path):
    walks = random_walks(DIAMOND, 4, 12, seed=0)
    names = ['a "quoted" <name>', "b", "c", "d"]
    graph = learn_graph(walks, durations=[[1.5] * 4] * 12, names=names)
    for suffix in ("dot", "json", "svg"):
        graph.save(str(tmp_path / f"graph.{suffix}"))
    assert ProcedureGraph.from_json(json.loads((tmp_path / "graph.json").read_text())) == graph

    dot = (tmp_path / "graph.dot").read_text()
    assert dot.count(" -> ") == 4
    assert r'0 [label="a \"quoted\" <name>"' in dot

    assert ElementTree.fromstring((tmp_path / "graph.svg").read_text()).tag.endswith("svg")
    with raises(OptionError, setting="suffix", value=".pdf", allowed=[".dot", ".json", ".svg"]):
        graph.save(str(tmp_path / "graph.pdf"))


def test_long_names_keep_their_ends_and_their_boxes_do_not_overlap():
    ends = ("jam", "tea", "oil", "egg")
    names = [f"take the ingredient from the upper shelf and carry it over: {end}" for end in ends]
    graph = learn_graph(random_walks(DIAMOND, 4, 12, seed=0), names=names)
    assert all(f"carry it over: {end}</tspan>" in graph._repr_svg_() for end in ends)
    axes = graph.renamed([r"pay $\euro5$", *names[1:]]).draw()
    assert len(axes.texts) == 4 + 4  # a box per step, an arrow per edge
    FigureCanvasAgg(axes.figure).draw()  # a name is not a formula
    boxes = [text.get_bbox_patch().get_window_extent() for text in axes.texts[:4]]
    assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at])


def edge_f1(task):
    true = np.zeros((len(task.steps),) * 2, dtype=bool)
    for before, after in task.graph or ():
        true[task.steps.index(before), task.steps.index(after)] = True
    edges = {(a, b) for a, b in np.argwhere(reduce_order(close_order(true))).tolist()}
    walks = [[task.steps.index(s.step) for s in one] for one in task.timelines.values()]
    found = learn_graph(walks).edges
    return 2 * len(found & edges) / (len(found) + len(edges))


@pytest.mark.data
def test_the_graphs_of_real_recipes_are_found(shared_data):
    tasks = [one for one in load("captaincook4d", shared_data / "captaincook4d") if one.graph]
    assert len(tasks) == 5
    assert np.mean([edge_f1(task) for task in tasks]) >= 0.80


label_lists = st.lists(st.integers(-1, 4), max_size=40)


def order_by_the_paper(labels):
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
    first, second = orders.to_json()
    assert first == {"order": [0, 1], "videos": ["<a>"]}
    assert second == {"order": [], "videos": ["b"]}
    # Arrows keep their direction between right-to-left names.
    assert "<bdi>pour</bdi> → <bdi>&lt;stir&gt;</bdi>" in orders._repr_html_()
    assert "(no step)" in str(orders)


EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
KINDS |= {"number": (int, float), "null": type(None)}


def problems(value, schema, root, at="plan"):
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
    kept = [{"id": step, "kept": 24, "together": 24} for step in ("step_1", "step_2")]
    assert serve["preconditions"] == kept
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
