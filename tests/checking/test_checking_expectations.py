"""The reference set: one odd video hides nothing, limits hold, files are read back or refused."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kitchen_kit import STEPS, film, shares

from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.check import check_labels
from stepcut.checking.expectations import (
    MEASURES,
    PRIORS,
    Expectations,
    find_limit,
    held_out_totals,
    stand_out,
)
from stepcut.checking.rules import Severity
from stepcut.errors import OptionError, ProcedureError
from stepcut.methods.method import LeftOut
from stepcut.procedure.old import check_of_0_3

ORDER = [0, 1, 2, 3, 4, 5]
NAMES = [f"video{n}" for n in range(13)]
OLD = Path(__file__).parents[1] / "procedure" / "v0_3_0"


@pytest.fixture(scope="module")
def mixed():
    """Twelve videos that do all steps, and one that stops after the first two."""
    rng = np.random.default_rng(0)
    videos = [*(film(ORDER, rng) for _ in range(12)), film(ORDER[:2], rng, 5.0)]
    return learn_expectations(videos, 1.0, videos=NAMES)


def half(seed):
    labels = film(ORDER, np.random.default_rng(seed))
    return labels[: len(labels) // 2]


def test_one_odd_video_is_set_aside_with_its_name_until_a_person_calls_it_normal(mixed):
    assert mixed.most_unusual[0] == "video12"
    assert mixed.set_aside == ("video12",)
    assert "Set aside as unlike the others: video12." in mixed.forecast
    assert mixed.alarmed >= 1 / 13
    assert f"in up to {mixed.alarmed:.0%} of normal videos" in mixed.aside
    assert mixed.aside in check_labels(half(1), 1.0, mixed).note
    assert mixed.normal == 12
    assert mixed.detects["missing half"] > 0.9
    assert not check_labels(half(1), 1.0, mixed).ok
    assert check_labels(film(ORDER, np.random.default_rng(2)), 1.0, mixed).ok
    back = mixed.with_marks((), ["video12"])
    assert (back.normal, back.set_aside) == (13, ())
    assert back.detects["missing half"] < 0.1
    assert check_labels(half(1), 1.0, back, min_detection=0).ok
    gone = mixed.with_marks(["video12"])
    assert (gone.normal, gone.set_aside, gone.limit) == (12, (), mixed.limit)
    assert gone.promised == pytest.approx(1 / 13)
    assert mixed.with_marks(NAMES).normal == mixed.normal  # somebody must set the limits


def test_at_most_a_fifth_is_set_aside_the_most_unusual_first():
    rng = np.random.default_rng(1)
    amounts = np.array([rng.normal(0, prior, 20) for prior in MEASURES.values()])
    assert stand_out(amounts, range(20)) == []
    amounts[:, :5] += 100 * PRIORS * (1 + np.arange(5))
    assert stand_out(amounts, range(20)) == [4, 3, 2, 1]
    assert stand_out(amounts, range(4)) == [3, 2, 1, 0]
    assert stand_out(amounts[:, :4], range(4)) == []


@pytest.mark.parametrize(("videos", "asked"), [(8, 0.05), (20, 0.05), (20, 0.2)])
def test_normal_videos_exceed_the_limit_as_often_as_is_stated(videos, asked):
    rng, over, promised = np.random.default_rng(videos), [], max(asked, 1 / (videos + 1))
    for _ in range(150):
        drawn = rng.normal(0, 2 * PRIORS, (5, videos + 10))
        limit = find_limit(held_out_totals(drawn[:, :videos]), promised)
        for new in range(videos, videos + 10):
            over.append(held_out_totals(drawn[:, [*range(videos), new]])[-1] > limit)
    assert np.mean(over) == pytest.approx(promised, abs=0.035)


def test_the_forecast_has_an_interval_and_the_videos_needed(mixed):
    for kind, (low, high) in mixed.ranges.items():
        share = mixed.detects[kind]
        assert 0 <= low <= share <= high <= 1
        assert f"{kind} {100 * share:.0f} % (90 % interval {100 * low:.0f}–{100 * high:.0f} %)" in (
            mixed.forecast
        )
    assert [*mixed.detects] == [
        "missing step", "exchanged steps", "missing half", "half speed", "frozen picture",
    ]  # fmt: skip
    assert "up to 8 % of normal videos" in mixed.forecast
    rng = np.random.default_rng(3)
    cuts = [film(ORDER, rng) for _ in range(12)]
    few, many = (learn_expectations(cuts[:n], 1.0, false_alarms=0.25) for n in (3, 12))
    kind = "missing half"
    assert np.subtract(*many.ranges[kind][::-1]) < np.subtract(*few.ranges[kind][::-1])


def test_a_new_video_is_compared_with_predictions_even_where_labels_are_known():
    """Predictions cut each step short; with labels for all videos, a prediction stays normal."""
    rng = np.random.default_rng(0)
    labels = [film([0, 1, 2, 3], rng) for _ in range(16)]

    def predicted(true):
        return np.where(np.arange(len(true)) % 3 == 0, -1, true)

    new = [predicted(one) for one in labels]
    seen = LeftOut(new, [shares(one) for one in new], [None] * 16)
    usual = learn_expectations(labels, 1.0, seen.probabilities, left_out=seen)
    fresh = [predicted(film([0, 1, 2, 3], rng)) for _ in range(16)]
    assert sum(check_labels(one, 1.0, usual, shares(one)).deviates for one in fresh) <= 2
    assert usual.graph.edges == {(0, 1), (1, 2), (2, 3)}
    assert check_labels(fresh[0][: len(fresh[0]) // 2], 1.0, usual).deviates


def test_an_invariant_step_that_is_not_seen_raises_the_alarm_by_itself():
    rng = np.random.default_rng(0)
    orders = [[0, *rng.permutation([1, 2]).tolist(), 3] for _ in range(20)]
    # Lengths vary so much that the total says little.
    videos = [film(order, rng, seconds) for order, seconds in zip(orders, rng.uniform(5, 60, 20), strict=True)]  # fmt: skip
    usual = learn_expectations(videos, 1.0, [shares(one) for one in videos])
    assert set(usual.invariant) == {0, 1, 2, 3}
    lost = film([0, 1, 2], rng, 40)
    report = check_labels(lost, 1.0, usual, shares(lost), names=STEPS)
    assert report.alarms == ("serve",)
    assert "no deviation" not in str(report)
    assert report.missed[0].name == "serve"
    # Too faint for an alarm, too faint to be fine.
    faint = replace(report, score=0.5, alarms=(), findings=[])
    assert (faint.verdict, faint.exit_code) == ("inconclusive", 4)
    assert "serve not seen, which every reference video shows" in str(faint)
    optional = replace(usual, severity=Severity(optional=frozenset({3})))
    assert check_labels(lost, 1.0, optional, shares(lost), names=STEPS).alarms == ()


@pytest.fixture(scope="module")
def blind():
    """Half of the videos leave each step out, in any order, at any length: little is unusual."""
    rng = np.random.default_rng(0)
    orders = [rng.permutation(4)[: rng.integers(1, 5)].tolist() for _ in range(16)]
    videos = [film(order, rng, float(rng.uniform(5, 60))) for order in orders]
    return learn_expectations(videos, 1.0, [shares(one) for one in videos])


def test_green_means_that_a_fault_would_be_found(blind):
    labels = film([0, 1, 2, 3], np.random.default_rng(1))
    rate = blind.detects["missing step"]
    assert rate < 0.5
    results = {
        least: check_labels(labels, 1.0, blind, shares(labels), names=STEPS, min_detection=least)
        for least in (None, 0.5, 0)
    }
    assert [one.verdict for one in results.values()] == ["inconclusive", "inconclusive", "fine"]
    assert [one.exit_code for one in results.values()] == [4, 4, 0]
    assert [one.ok for one in results.values()] == [False, False, True]
    default = results[None]
    assert "50% are needed" in default.summary
    assert "label three or more videos that show them" in default.summary
    assert "✓" not in default._repr_html_()
    record = default.to_json()
    assert [record[key] for key in ("conclusive", "min_detection")] == [False, 0.5]
    assert record["remedy"]
    assert record["detection"]["missing step"] == pytest.approx(rate, abs=1e-4)


def test_what_must_be_found_and_critical_steps_decide_what_is_fine(blind):
    labels = film([0, 1, 2, 3], np.random.default_rng(1))

    def verdict(expectations, **how):
        return check_labels(labels, 1.0, expectations, shares(labels), names=STEPS, **how).verdict

    critical = replace(blind, severity=Severity(critical=frozenset({2})))
    assert critical.detects["missing step"] == critical.detects_step[2] > blind.detects_step[2]
    assert critical.detects_step[2] > 0.9  # an alarm whenever it is not seen
    assert verdict(critical) == "fine"
    best = max(blind.detects, key=lambda kind: blind.detects[kind])
    short = {"missing half": "half", "half speed": "slow", "frozen picture": "frozen",
             "exchanged steps": "exchange", "missing step": "step"}[best]  # fmt: skip
    assert verdict(blind, must_find=short, min_detection=blind.detects[best] or 0) == "fine"
    with pytest.raises(OptionError, match="must_find"):
        verdict(blind, must_find="halves")
    with pytest.raises(OptionError, match="min_detection=5"):
        verdict(blind, min_detection=5)


def test_the_file_keeps_everything_and_damage_is_refused(mixed, tiny_task):
    for expected in (mixed, tiny_task.expectations, learn_expectations([half(1)], 1.0)):
        again = Expectations.from_json(json.loads(json.dumps(expected.to_json(), allow_nan=False)))
        assert again == expected
        assert (again.limit, again.detects) == (expected.limit, expected.detects)
    record = json.loads(json.dumps(mixed.to_json()))
    amounts, graph, usual = record["amounts"], record["graph"], record["usual"]
    lengths, (step, *steps) = amounts["length"], graph["steps"]
    half_missing, *copies = record["altered"]["missing half"]

    def other_copies(*changed):
        changed = [*changed, *half_missing[len(changed) :]]
        return {"altered": {"missing half": [changed, *copies]}}

    for damaged in (
        {"amounts": {way: amounts[way] for way in amounts if way != "length"}},
        {"amounts": amounts | {"haste": lengths}},
        *(
            {"amounts": amounts | {"length": n}}
            for n in (lengths[1:], [1e200] * 13, [math.nan] * 13)
        ),
        {"usual": usual | {"length": [math.inf, 1.0, 12]}},
        {"usual": usual | {"paces": usual["paces"] | {"9": [1.0, 0.5, 3]}}},
        {"usual": usual | {"repeats": usual["repeats"] | {"0": []}}},
        *({"graph": graph | {"steps": [step | {"times": n}, *steps]}} for n in (["x"], [0, 1])),
        {"graph": graph | {"videos": True}},
        {"videos": NAMES[1:]},
        {"false_alarms": 2},
        other_copies(13),
        other_copies(0, half_missing[1][1:]),
        other_copies(0, half_missing[1], 2.0),
        other_copies(0, [math.nan] * 5),
    ):
        with pytest.raises(ProcedureError, match=r"check.json is damaged|procedure graph"):
            Expectations.from_json(record | damaged)


@pytest.mark.parametrize("path", sorted(OLD.rglob("check.json")), ids=lambda path: path.parent.name)
def test_a_file_of_version_0_3_0_checks_with_the_five_measures(path):
    record = json.loads(path.read_text())
    expected = Expectations.from_json(check_of_0_3(record))
    assert list(expected.videos) == record["videos"]
    assert expected.normal + len(expected.set_aside) == len(record["amounts"]["length"])
    assert set(expected.detects) <= {"missing step", "missing half", "exchanged steps"}
    again = Expectations.from_json(json.loads(json.dumps(expected.to_json())))
    assert again == expected
    with pytest.raises(ProcedureError, match="Learn the procedure again"):
        Expectations.from_json(check_of_0_3({k: record[k] for k in record if k != "paces"}))
