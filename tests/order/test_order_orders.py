"""Orders: by mean normalised time, ranked; sequences of segments."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepcut.order import (
    find_occurrences,
    orders_of_labels,
    rank_orders,
    sequence,
    video_order,
)

label_lists = st.lists(st.integers(-1, 4), max_size=40)


def order_by_the_paper(labels):
    """Reference implementation: the exact mean of n / p over the frames of each step."""
    times: dict[int, list[Fraction]] = {}
    for n, step in enumerate(labels):
        if step != -1:
            times.setdefault(step, []).append(Fraction(n, len(labels)))
    return sorted(times, key=lambda step: (sum(times[step]) / len(times[step]), step))


@given(label_lists)
def test_the_order_is_that_of_the_paper(labels):
    assert video_order(labels) == order_by_the_paper(labels)
    assert video_order(np.array(labels, dtype=np.int64)) == video_order(labels)


def test_a_step_split_in_two_stands_at_its_mean_time():
    assert video_order([1, 0, 0, 0, 1, 1, 1]) == [0, 1]
    assert sequence([1, 0, 0, 0, 1, 1, 1]) == [1, 0, 1]


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
def test_a_sequence_never_repeats_at_once_and_loses_no_step(labels):
    found = sequence(labels)
    assert all(a != b for a, b in pairwise(found))
    assert set(found) == set(labels) - {-1}


@given(label_lists)
def test_occurrences_without_slivers_are_the_sequence_with_times(labels):
    found = find_occurrences(labels, rate=2.0, sliver=0.0)
    assert [one.step for one in found] == sequence(labels)
    assert sum(one.spent for one in found) == sum(step != -1 for step in labels) / 2
    for one in found:
        assert labels[round(one.start * 2)] == labels[round(one.end * 2) - 1] == one.step


def test_a_sliver_is_dropped_and_what_it_parted_is_joined():
    labels = [0] * 30 + [1] * 40 + [0] + [1] * 9
    assert [one.step for one in find_occurrences(labels, rate=1.0)] == [0, 1]
    assert find_occurrences(labels, rate=1.0)[1].spent == 49


@pytest.mark.parametrize("rounds", [2, 5, 40])
def test_repeated_segments_are_not_slivers(rounds):
    labels = np.tile(np.repeat([0, 1, 2], [4, 3, 6]), rounds)
    assert [one.step for one in find_occurrences(labels, rate=1.0)] == [0, 1, 2] * rounds
    slip = np.insert(np.repeat(labels, 10), 65, 1)  # within a step that takes 60 rows
    assert len(find_occurrences(slip, rate=1.0)) == 3 * rounds


def test_orders_are_ranked_by_how_many_videos_follow_them():
    orders = rank_orders({"a": [0, 1], "b": [1, 0], "c": [0, 1], "d": [2]}, names=["pour", "stir"])
    assert orders.ranked == [((0, 1), ["a", "c"]), ((1, 0), ["b"]), ((2,), ["d"])]
    assert orders[0] == next(iter(orders)) == ((0, 1), ["a", "c"])
    assert len(orders) == 3
    assert "2 videos  pour → stir" in str(orders)
    assert "step 3" in str(orders)


def test_orders_are_written_and_draw_themselves():
    orders = rank_orders({"<a>": [0, 1], "b": []}, names=["pour", "<stir>"])
    assert orders.to_json() == [
        {"order": [0, 1], "videos": ["<a>"]},
        {"order": [], "videos": ["b"]},
    ]
    # Arrows keep their direction between right-to-left names.
    assert "<bdi>pour</bdi> → <bdi>&lt;stir&gt;</bdi>" in orders._repr_html_()
    assert "(no step)" in str(orders)
