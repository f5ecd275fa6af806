"""Videos with mistakes set the limit until they are excluded from the reference set."""

import json

import numpy as np
import pytest
from kitchen_kit import film

from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.check import check_labels
from stepcut.checking.evidence import Comparison
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import observe
from stepcut.checking.score import (
    PRIOR_SPREADS,
    Altered,
    contributions,
    contributions_beside,
    find_limit,
    is_found,
    learn_scales,
)
from stepcut.errors import ProcedureError

ORDER = [0, 1, 2, 3, 4, 5]
NAMES = [f"video{n}" for n in range(13)]


@pytest.fixture(scope="module")
def mixed():
    """Twelve videos that do all steps, and one that stops after the first two."""
    rng = np.random.default_rng(0)
    videos = [*(film(ORDER, rng) for _ in range(12)), film(ORDER[:2], rng, 5.0)]
    return learn_expectations(videos, 1.0, videos=NAMES)


def half(seed):
    labels = film(ORDER, np.random.default_rng(seed))
    return labels[: len(labels) // 2]


def test_one_video_with_mistakes_hides_others_until_it_is_excluded(mixed):
    assert mixed.most_unusual[0] == "video12"
    assert mixed.detects["missing half"] < 0.1
    assert check_labels(half(1), 1.0, mixed).ok
    checked = mixed.without(["video12"])
    assert checked.detects["missing half"] > 0.9
    assert not check_labels(half(1), 1.0, checked).ok
    assert check_labels(film(ORDER, np.random.default_rng(2)), 1.0, checked).ok
    assert (mixed.normal, checked.normal) == (13, 12)
    assert checked.promised == pytest.approx(1 / 13)
    assert check_labels(half(1), 1.0, checked).learned == 12


def test_the_advice_names_the_videos_to_look_at_and_what_is_won(mixed):
    first, second, third = mixed.most_unusual[:3]
    share = mixed.without([first]).detects["missing half"]
    assert all(name in mixed.advice for name in (first, second, third))
    assert f"missing half {100 * share:.0f} %" in mixed.advice
    rng = np.random.default_rng(0)
    two = learn_expectations([film(ORDER, rng), film(ORDER, rng)], 1.0, videos=["a", "b"])
    assert two.advice == ""


def test_the_forecast_has_an_interval_and_the_videos_needed(mixed):
    checked = mixed.without(["video12"])
    # The interval contains all shares that the count does not refute.
    for kind, (low, high) in checked.ranges.items():
        share, n = checked.detects[kind], len(set(checked.altered[kind].of))
        assert 0 <= low <= share <= high <= 1
        for edge in (low, high):
            far = abs(edge - share) / np.sqrt(edge * (1 - edge) / n) if 0 < edge < 1 else 0.0
            assert edge in (0.0, 1.0) or far == pytest.approx(1.645, abs=1e-3)
        assert f"{kind} {100 * share:.0f} % (90 % interval {100 * low:.0f}–{100 * high:.0f} %)" in (
            checked.forecast
        )
    assert "8 % of normal videos" in checked.forecast
    assert "19 videos" in checked.forecast
    rng = np.random.default_rng(3)
    few, many = (
        learn_expectations([film(ORDER, rng) for _ in range(count)], 1.0, false_alarms=0.25)
        for count in (3, 12)
    )
    # The requested rate is possible: no more videos needed.
    assert "False alarms" not in many.forecast
    kind = "missing half"
    assert np.subtract(*many.ranges[kind][::-1]) < np.subtract(*few.ranges[kind][::-1])


@pytest.mark.parametrize(
    "new",
    [half(5), film(ORDER, np.random.default_rng(6)), film(ORDER[1:], np.random.default_rng(7))],
)
def test_what_is_left_is_what_counting_the_others_gives(mixed, new):
    """Compute the limit beside a new video by hand."""
    checked = mixed.without(["video12", "video3"])
    kept = [place for place, name in enumerate(NAMES) if name not in ("video12", "video3")]
    amounts = {way: np.array(values)[kept] for way, values in mixed.amounts.items()}
    assert checked.videos == tuple(NAMES[place] for place in kept)
    assert {way: list(values) for way, values in checked.amounts.items()} == {
        w: v.tolist() for w, v in amounts.items()
    }
    assert checked.scales == learn_scales(amounts)
    shown = observe(new, 1.0)
    strayed = Comparison(shown, mixed.usual).amounts
    limit = find_limit(sum(contributions_beside(amounts, strayed).values()), checked.false_alarms)
    total = sum(contributions(strayed, checked.scales).values())
    assert (total > limit) == (not check_labels(new, 1.0, checked).ok)
    assert mixed.without([]) is mixed
    one = mixed.without(NAMES[1:])
    assert (one.normal, one.promised, set(one.detects.values())) == (1, 0.5, {0.0})
    assert mixed.without(NAMES) is mixed
    assert mixed.without(["a video that is not there"]) is mixed


def test_altered_videos_are_found_as_one_by_one(mixed):
    kinds = list(mixed.altered.values())
    for altered in (*kinds, kinds[0].among([4, 2, 7])):
        amounts = {way: np.array(values) for way, values in mixed.amounts.items()}
        slow = []
        for row, place in enumerate(altered.of):
            rest = {way: np.delete(values, place) for way, values in amounts.items()}
            new = {way: values[row] for way, values in altered.amounts.items()}
            limit = find_limit(sum(contributions_beside(rest, new).values()), 0.05)
            slow.append(bool(sum(contributions(new, learn_scales(rest)).values()) > limit))
        assert is_found(altered, amounts, 0.05).tolist() == slow
    assert is_found(Altered.gather([]), amounts, 0.05).shape == (0,)


def test_changed_videos_keep_the_number_of_theirs():
    changed = [(place, dict.fromkeys(PRIOR_SPREADS, float(place))) for place in (0, 0, 2, 3)]
    kept = Altered.gather(changed).among([3, 0])
    assert kept.of == (1, 1, 0)
    assert kept.amounts["length"] == (0.0, 0.0, 3.0)


def test_the_file_keeps_the_videos_and_the_altered_ones(mixed):
    record = json.loads(json.dumps(mixed.to_json(), allow_nan=False))
    again = Expectations.from_json(record)
    assert again == mixed
    assert again.without(["video12"]) == mixed.without(["video12"])
    shared = record["planted"]["missing half"]
    steps = record["graph"]["steps"]
    for damaged in (
        {"length": [float("inf"), 1.0, 12]},
        {"scales": record["scales"] | {"missed": [0.0, -1.0, 12]}},
        {"graph": record["graph"] | {"steps": [steps[0] | {"times": ["x"]}, *steps[1:]]}},
        {
            "graph": record["graph"]
            | {"steps": [steps[0] | {"duration": dict.fromkeys(("median", "low", "high"))}]}
        },
        {"graph": record["graph"] | {"videos": True}},
        {"videos": NAMES[1:]},
        {"detects": {"missing half": 1.5}},
        {"planted": {"missing half": shared | {"of": [13, *shared["of"][1:]]}}},
        {"planted": {"missing half": shared | {"of": shared["of"][1:]}}},
        {"planted": {"missing half": {"of": shared["of"]}}},
        {"planted": {"missing half": shared | {"length": [float("nan")] * len(shared["of"])}}},
    ):
        with pytest.raises(ProcedureError, match=r"check.json is damaged|procedure graph"):
            Expectations.from_json(record | damaged)


def test_a_file_of_version_0_2_0_checks_without_knowing_its_power(mixed):
    record = json.loads(json.dumps(mixed.to_json()))
    del record["presence"]
    old = Expectations.from_json(record | {"clarity": [], "peaks": [], "unlike": []})
    report = check_labels(film(ORDER, np.random.default_rng(2)), 1.0, old, min_detection=0.1)
    assert report.ok
    assert (report.verdict, report.detection) == ("inconclusive", {})
