"""The reference set and its limits; warping: the best path, and where a video deviates."""

import json
import math
from dataclasses import replace
from functools import cache
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
from stepcut.checking.usual import FINE, SLICES, Slices, align_slices, slice_video
from stepcut.errors import OptionError, ProcedureError
from stepcut.methods.method import LeftOut
from stepcut.procedure.old import check_of_0_3

ORDER = [0, 1, 2, 3, 4, 5]
NAMES = [f"video{n}" for n in range(13)]
OLD = Path(__file__).parents[1] / "procedure" / "v0_3_0"


@pytest.fixture(scope="module")
def mixed():
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


def test_a_rate_that_one_video_decides_on_is_unstable(mixed, monkeypatch):
    one, kind = mixed.most_unusual[0], "missing step"
    rates = property(lambda each: {kind: 1.0 if one in each.mistakes else 0.06})
    assert "Unstable" not in mixed.with_marks([one]).forecast
    monkeypatch.setattr(Expectations, "detects", rates)
    assert f"Unstable: without {one}, the rate for {kind} is 100%." in mixed.forecast


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
    how = {"probabilities": shares(labels), "names": STEPS}
    results = {n: check_labels(labels, 1.0, blind, **how, min_detection=n) for n in (None, 0.5, 0)}
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


LOOKS = np.eye(8)
"""Embedding of each step."""


def sliced(steps):
    return Slices(LOOKS[steps] * FINE, np.array(steps))


def slowly_apart(cost):
    @cache
    def paths(i, j):
        if i < 0 or j < 0:
            return []
        if i == j == 0:
            return [(float(cost[0, 0]), 1)]
        before = [*paths(i - 1, j - 1), *paths(i - 1, j), *paths(i, j - 1)]
        return [(total + float(cost[i, j]), length + 1) for total, length in before]

    n, m = cost.shape
    total, length = min(paths(n - 1, m - 1))
    return total / length


def test_the_distance_is_that_of_the_best_path():
    rng = np.random.default_rng(0)
    for n, m in [(1, 1), (1, 4), (5, 2), (5, 5), (6, 4)]:
        made = [rng.normal(size=(size, 3)) for size in (n, m)]
        units = [(rows / np.linalg.norm(rows, axis=1)[:, None] * FINE).round() for rows in made]
        one, other = (Slices(rows, np.zeros(len(rows), dtype=int)) for rows in units)
        laid = align_slices(one, [other])
        slowly = slowly_apart(1 - one.rows @ other.rows.T / FINE**2)
        assert laid.apart == pytest.approx(np.log(slowly))
        assert laid.along.shape == (n,)


def test_steps_that_may_be_left_out_or_come_at_any_time_do_not_set_it_apart():
    whole, short, moved = sliced([0, 1, 2, 3]), sliced([0, 1, 3]), sliced([2, 0, 1, 3])
    same = align_slices(whole, [whole]).apart
    assert align_slices(short, [whole]).apart > same
    assert align_slices(short, [whole], optional=[2]).apart == same
    assert align_slices(whole, [short, short], optional=[2]).apart > same  # it is not left out here
    assert align_slices(moved, [whole]).apart > same
    laid = align_slices(moved, [whole], free=[2])
    assert laid.apart == same
    assert laid.along.tolist() == [0, 0, 0, 0]
    assert align_slices(sliced([2, 2]), [whole], free=[2]).apart == 0.0


def test_slices_have_their_means_and_the_nearer_half_of_the_others_counts():
    rng = np.random.default_rng(1)
    for rows in (1, 7, SLICES, SLICES + 1, 333):
        embedding, labels = rng.normal(size=(rows, 4)), rng.integers(-1, 3, rows)
        made = slice_video(embedding, labels)
        assert made.rows.shape == (SLICES, 4)
        for place in (0, 17, SLICES - 1):
            start = place * rows // SLICES
            end = max((place + 1) * rows // SLICES, start + 1)
            mean = embedding[start:end].mean(axis=0)
            assert made.rows[place] == pytest.approx(FINE * mean / np.linalg.norm(mean), abs=0.51)
            assert made.steps[place] == labels[(start + end) // 2]
    video = sliced([0, 1, 2, 3])
    near, off, far = sliced([0, 1, 2, 4]), sliced([0, 5, 6, 4]), sliced([4, 5, 6, 7])
    both = np.log(np.mean([np.exp(align_slices(video, [one]).apart) for one in (near, off)]))
    assert align_slices(video, [far, near, off]).apart == pytest.approx(both)
    assert align_slices(video, []).apart == 0.0


@pytest.fixture(scope="module")
def learned():
    labels, embeddings = zip(*(_video([0, 1, 2, 3], seed) for seed in range(10)), strict=True)
    return learn_expectations(labels, 1.0, embeddings=embeddings)


def _video(steps, seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat(steps, rng.integers(28, 33, len(steps)))
    return labels, LOOKS[labels] + rng.normal(scale=0.1, size=(len(labels), 8))


def test_a_deviation_outside_the_segmentation_is_located(learned):
    labels, embedding = _video([0, 1, 2, 3], 99)
    assert check_labels(labels, 1.0, learned, embedding=embedding).ok
    embedding[labels == 2] -= LOOKS[2] - LOOKS[0]  # looks like the first step
    report = check_labels(labels, 1.0, learned, embedding=embedding)
    assert not report.ok
    (finding,) = report.findings
    assert (finding.kind, finding.step) == ("unusual", None)
    times = np.flatnonzero(labels == 2)
    assert abs(finding.start - times[0]) < 4
    assert abs(finding.end - times[-1]) < 4
    free = replace(learned, severity=Severity(free=frozenset({2})))
    assert check_labels(labels, 1.0, free, embedding=embedding).ok


@pytest.mark.parametrize("odd", [1, 4])
def test_of_two_steps_left_out_that_is_named_first_where_the_video_looks_otherwise(odd):
    cuts, embeddings = zip(*(_video([0, 1, 2, 3, 4, 5], seed) for seed in range(10)), strict=True)
    expectations = learn_expectations(cuts, 1.0, embeddings=embeddings)
    labels, embedding = _video([0, 6, 2, 3, 7, 5], 99)
    # Two pauses that look as before them,
    embedding[labels == 6], embedding[labels == 7] = LOOKS[0], LOOKS[3]
    embedding[labels == odd // 4 + 6] = LOOKS[7]  # but for one of the two
    report = check_labels(np.where(labels < 6, labels, -1), 1.0, expectations, embedding=embedding)
    assert [finding.step for finding in report.missed] == ([1, 4] if odd == 1 else [4, 1])


def test_where_only_the_whole_is_unusual_a_time_is_named_too():
    # Every video ends with a pause.
    made = [_video([0, 1, 2, 3, *[7] * 5], seed) for seed in range(10)]
    cuts = [np.where(labels < 4, labels, -1) for labels, _ in made]
    expectations = learn_expectations(cuts, 1.0, embeddings=[one for _, one in made])
    labels, embedding = _video([0, 1, 2, 3, 7], 99)
    embedding[labels == 2] -= LOOKS[2] - LOOKS[0]
    report = check_labels(np.where(labels < 4, labels, -1), 1.0, expectations, embedding=embedding)
    assert [(finding.kind, finding.step) for finding in report.findings] == [("unusual", None)] * 2
    whole, part = sorted(report.findings, key=lambda finding: finding.start)
    times = np.flatnonzero(labels == 2)
    assert (whole.start, whole.end) == (0, report.seconds)
    assert abs(part.start - times[0]) < 4
    assert abs(part.end - times[-1]) < 4


@pytest.mark.parametrize("videos", [6, pytest.param(45, marks=pytest.mark.slow)])
def test_each_video_is_laid_beside_the_others_as_a_model_sees_them_that_did_not_see_it(videos):
    made = [_video([0, 1, 2, 3], seed) for seed in range(videos)]
    labels, embeddings = [one for one, _ in made], [one for _, one in made]

    def embed(without, place, kept):
        rows = embeddings[place] if kept is None else embeddings[place][kept]
        turned, _ = np.linalg.qr(np.random.default_rng(without).normal(size=(8, 5)))
        return np.asarray(rows @ turned)

    as_new = LeftOut(labels, [None] * videos, [None] * videos, embed=embed)
    checked = learn_expectations(labels, 1.0, embeddings=embeddings, left_out=as_new)
    for place in (0, 3, videos - 1):
        group = place % 8
        others = [other for other in range(videos) if other % 8 != group]
        few = np.linspace(0, len(others) - 1, min(32, len(others))).round().astype(int)
        used = (place, *(others[at] for at in few))
        own, *beside = (slice_video(embed(group, one, None), labels[one]) for one in used)
        assert checked.amounts["apart"][place] == pytest.approx(align_slices(own, beside).apart)
        kept, half = np.arange(len(labels[place]) // 2), checked.altered["missing half"]
        own = slice_video(embed(group, place, kept), labels[place][kept])
        (apart,) = (one.amounts[3] for one in half if one.of == place)
        assert apart == pytest.approx(align_slices(own, beside).apart)
    plain = learn_expectations(labels, 1.0, embeddings=embeddings)
    assert checked.to_json()["usual"] == plain.to_json()["usual"]


def test_slices_round_trip_and_damage_is_refused(learned):
    record = json.loads(json.dumps(learned.to_json()))
    assert Expectations.from_json(record) == learned
    usual = record["usual"]
    (rows, steps), *others = usual["slices"]
    wrong_steps = ([*steps[1:]], *([wrong, *steps[1:]] for wrong in (-2, 10**9, 10**30)))
    wrong_rows = [[[value] * 8] * SLICES for value in (2000, math.nan)]
    wrong_rows += [[row[1:] for row in rows], rows[0]]
    damage = [*([rows, one] for one in wrong_steps), *([one, steps] for one in wrong_rows)]
    for damaged in (*damage, [[[]], []], [rows], None):
        with pytest.raises(ProcedureError, match=r"check.json is damaged"):
            Expectations.from_json(record | {"usual": usual | {"slices": [damaged, *others]}})
