"""The default method learns from the labels of some videos: their numbers, their frames, their background stay."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.methods import BACKGROUND, OPEN, StepCut
from stepcut.methods.constraints import as_constraints
from stepcut.methods.stepcut import teaching
from stepcut.methods.stepcut.slow_features import SHRINK, centre
from stepcut.methods.stepcut.taught import cut_mixture, motion
from stepcut.methods.stepcut.teaching import (
    Piece,
    check_labels,
    estimate,
    labelled_videos,
    match_found,
    read_lesson,
)
from stepcut.paper.cnc.method import CnC
from stepcut.toy import STEPS, toy_features

RATE = 2.0
Labels = NDArray[np.int64]
Kitchen = tuple[list[NDArray[np.float32]], list[Labels]]


@pytest.fixture(scope="module")
def kitchen() -> Kitchen:
    rows, timelines = toy_features(videos=6, rate=RATE, seed=3)
    true = []
    for video, timeline in zip(rows, timelines, strict=True):
        labels = np.full(len(video), BACKGROUND)
        times = np.arange(len(video)) / RATE
        for segment in timeline:
            labels[(times >= segment.start) & (times < segment.end)] = STEPS.index(segment.step)
        true.append(labels)
    return rows, true


def some(true: list[Labels], count: int) -> list[Labels | None]:
    return [labels if number < count else None for number, labels in enumerate(true)]


@pytest.fixture(scope="module")
def taught(kitchen: Kitchen) -> StepCut:
    return StepCut(steps=len(STEPS), rate=RATE, restarts=9).fit(
        kitchen[0], constraints=as_constraints(some(kitchen[1], 2))
    )


def test_what_a_person_said_stays(kitchen: Kitchen, taught: StepCut) -> None:
    for found, true in zip(taught.labels_[:2], kitchen[1][:2], strict=True):
        np.testing.assert_array_equal(found, true)


def test_the_other_videos_take_the_numbers_of_the_labels(kitchen: Kitchen, taught: StepCut) -> None:
    found, true = np.concatenate(taught.labels_[2:]), np.concatenate(kitchen[1][2:])
    busy = true >= 0
    assert (found == true)[busy].mean() > 0.7


def test_a_label_beyond_the_number_of_steps_makes_more_steps(kitchen: Kitchen) -> None:
    labels = np.full(len(kitchen[0][0]), OPEN)
    labels[:20] = 4
    learned = StepCut(steps=3, rate=RATE, restarts=3).fit(
        kitchen[0], constraints=as_constraints([labels, None, None, None, None, None])
    )
    assert learned.steps_ == 5
    assert (learned.labels_[0][:20] == 4).all()


@pytest.mark.parametrize(
    ("labels", "fact"),
    [
        ([None], "videos"),
        ([np.zeros(3, dtype=np.int64), *[None] * 5], "shape"),
        ([np.zeros(1, dtype=np.float64), *[None] * 5], "whole numbers"),
        ([None] * 6, "open"),
    ],
)
def test_labels_that_make_no_sense_are_told_so(
    kitchen: Kitchen, labels: list[Labels | None], fact: str
) -> None:
    with pytest.raises(OptionError, match=fact):
        StepCut(steps=6, rate=RATE).fit(kitchen[0], constraints=as_constraints(labels))


def test_a_number_below_open_is_told_so(kitchen: Kitchen) -> None:
    with pytest.raises(OptionError, match="-3"):
        StepCut(steps=6).fit(
            kitchen[0], constraints=as_constraints([np.full(len(kitchen[0][0]), -3), *[None] * 5])
        )


def test_the_method_of_the_paper_takes_no_labels(kitchen: Kitchen) -> None:
    with pytest.raises(OptionError, match="labels"):
        CnC(steps=6).fit(kitchen[0], constraints=as_constraints(some(kitchen[1], 1)))


def test_a_taught_method_can_be_stored(kitchen: Kitchen, taught: StepCut) -> None:
    again = StepCut.restore(taught.settings(), taught.state())
    for first, second in zip(
        taught.probabilities(kitchen[0]), again.probabilities(kitchen[0]), strict=True
    ):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(again.predict(kitchen[0])[4], taught.predict(kitchen[0])[4])
    np.testing.assert_array_equal(
        again.online().push(kitchen[0][0][0]), taught.online().push(kitchen[0][0][0])
    )


def test_probabilities_of_a_taught_method_are_shares_of_the_steps(
    kitchen: Kitchen, taught: StepCut
) -> None:
    for share, cut, true in zip(
        taught.probabilities(kitchen[0]), taught.predict(kitchen[0]), kitchen[1], strict=True
    ):
        assert share.shape == (len(true), len(STEPS))
        np.testing.assert_allclose(share.sum(axis=1), 1)
        assert (share.argmax(axis=1) == cut)[cut >= 0].mean() > 0.95


def test_a_taught_method_follows_a_video_as_it_comes(kitchen: Kitchen, taught: StepCut) -> None:
    video, true = kitchen[0][5], kitchen[1][5]
    follower = taught.online()
    found = np.array([follower.push(row).argmax() for row in video])
    assert (found == true)[true >= 0].mean() > 0.5


def test_labelled_videos_are_seen_less_surely_when_they_are_left_out() -> None:
    rows, timelines = toy_features(videos=6, rate=RATE, seed=3, noise=3.0)
    true = [
        timeline.labels(np.arange(len(video)) / RATE)
        for timeline, video in zip(timelines, rows, strict=True)
    ]
    method = StepCut(steps=len(STEPS), rate=RATE, restarts=4).fit(
        rows, constraints=as_constraints(some(true, 3))
    )
    assert method.left_out_ is not None
    assert [len(cut) for cut in method.left_out_.labels] == [len(video) for video in rows]
    sure = []
    for seen in (method.left_out_.probabilities, method.probabilities(rows)):
        np.testing.assert_allclose(np.concatenate(seen).sum(axis=1), 1)
        whole, known = np.concatenate(seen[:3]), np.concatenate(true[:3])
        sure.append(whole[known >= 0][np.arange((known >= 0).sum()), known[known >= 0]].mean())
    assert sure[0] < sure[1] - 0.05  # 0.78 and 0.88


def test_a_video_without_labels_is_left_out_with_all_labels_kept(kitchen: Kitchen) -> None:
    """So is a new video cut, and the limit of the check is set by videos that are cut like it."""
    rows, true = kitchen
    plain = StepCut(steps=len(STEPS), rate=RATE, restarts=4).fit(rows)
    shares, videos = plain.probabilities(rows), [centre(video) for video in rows]
    labels = check_labels(some(true, 3), [len(video) for video in rows])
    _, _, left_out = teaching.calibrate(videos, RATE, plain.labels_, shares, labels, len(STEPS))
    others = [place for place in range(len(rows)) if place != 3]
    start, known = [plain.labels_[place] for place in others], [labels[place] for place in others]
    model = teaching.teach([videos[place] for place in others], RATE, start, known, len(STEPS))
    seen = model.posterior(videos[3]), shares[3][:, match_found(start, known, len(STEPS))]
    np.testing.assert_array_equal(left_out[3][0], cut_mixture(*seen, labelled_videos(known)))


def test_steps_are_as_many_as_labelled_where_a_video_is_labelled_whole(kitchen: Kitchen) -> None:
    assert StepCut(rate=RATE, restarts=4).fit(
        kitchen[0], constraints=as_constraints(some(kitchen[1], 1))
    ).steps_ == len(STEPS)


def test_background_is_what_a_person_calls_background(kitchen: Kitchen) -> None:
    """A step that a person calls background in all labelled videos is background in the others too."""
    rows, true = kitchen
    without = [np.where(labels == 2, BACKGROUND, labels) for labels in true]
    learned = StepCut(steps=len(STEPS), rate=RATE, restarts=4).fit(
        rows, constraints=as_constraints(some(without, 4))
    )
    there = true[5] == 2
    assert (learned.labels_[5][there] == BACKGROUND).mean() > 0.5


def test_steps_that_differ_in_motion_alone_are_taught_apart() -> None:
    """Pictures that go 0 to 1 and back to 0: the same pictures in both steps, in opposite order."""
    rng = np.random.default_rng(0)
    swing = np.concatenate([np.linspace(0, 1, 12), np.linspace(1, 0, 12)])
    rows = [
        np.outer(np.tile(swing, 5), np.ones(4)) + 0.02 * rng.normal(size=(120, 4)) for _ in range(4)
    ]
    true = np.tile(np.repeat([0, 1], 12), 5)
    method = StepCut(steps=2, rate=4.0, restarts=3, background=0.0)
    found = method.fit(rows, constraints=as_constraints([true, true, true, None])).labels_[3]
    assert (found == true).mean() > 0.9


def test_motion_is_the_difference_of_rows_around_each() -> None:
    rows = np.array([[0.0], [1.0], [3.0], [6.0]])
    np.testing.assert_array_equal(motion(rows, 1), [[1.0], [3.0], [5.0], [3.0]])
    np.testing.assert_array_equal(motion(rows, 9), [[6.0]] * 4)


def test_what_lies_between_labels_counts_as_it_was_found_in_shares_and_durations() -> None:
    """Three steps of ten rows; one row is labelled: by that no step is longer than the others."""
    found = [np.repeat([0, 1, 2], 10)] * 2
    part = np.where(np.arange(30) == 15, 1, OPEN)
    for labels in ([part, part], [part, np.full(30, OPEN)]):
        lesson = read_lesson(labels, 3, found)
        assert lesson.lasts == pytest.approx(10)
        np.testing.assert_allclose(lesson.share[:3], lesson.share[0])
        assert lesson.trust == pytest.approx(
            30 / sum(int((given == OPEN).sum()) for given in labels)
        )
    whole = read_lesson([found[0], np.full(30, OPEN)], 3, [found[0], np.zeros(30, dtype=np.int64)])
    assert whole.lasts == pytest.approx(10)  # nobody said anything of the other


def test_the_discriminant_is_that_of_a_plain_loop() -> None:
    """Means of states with every video once, scatter within row by row; what was found counts less than labels."""
    rng = np.random.default_rng(0)
    labels = [
        rng.integers(-1, 2, 12),
        np.full(9, OPEN),
        np.array([0, 1, OPEN, OPEN, -1, OPEN, OPEN, OPEN]),
    ]
    lesson = read_lesson(labels, 2, [np.zeros(len(known), dtype=np.int64) for known in labels])
    pieces = []
    for known in lesson.known:
        piece = Piece(
            rng.normal(size=(len(known), 3)), known, rng.integers(0, 2, len(known)), lesson
        )
        open_rows = rng.random((int(piece.open.sum()), 3))
        piece.posterior[piece.open] = open_rows / open_rows.sum(axis=1, keepdims=True)
        pieces.append(piece)
    weights, bias, _ = estimate(
        pieces, np.sum([piece.scatter for piece in pieces], axis=0), lesson, 1.0
    )

    means, counts, within, total = np.zeros((3, 3)), np.zeros(3), np.zeros((3, 3)), 0.0
    for piece in pieces:
        for part, trust in ((~piece.open, 1.0), (piece.open, lesson.trust)):
            for state in range(3):
                share = piece.posterior[part, state]
                once = trust * share / max(share.sum(), 1.0)
                means[state] += once @ piece.rows[part]
                counts[state] += once.sum()
    means /= counts[:, None]
    for piece in pieces:
        for row, shares, is_open in zip(piece.rows, piece.posterior, piece.open, strict=True):
            trust = lesson.trust if is_open else 1.0
            for share, mean in zip(shares, means, strict=True):
                within += trust * share * np.outer(row - mean, row - mean)
                total += trust * share
    within /= total
    inverse = np.linalg.inv(within + SHRINK * np.trace(within) / 3 * np.eye(3))
    np.testing.assert_allclose(weights, inverse @ means.T, atol=1e-10)
    np.testing.assert_allclose(
        bias, -0.5 * np.einsum("kp,pq,kq->k", means, inverse, means), atol=1e-10
    )
