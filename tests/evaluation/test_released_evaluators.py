"""`segmentation` against plain implementations of what the evaluators of CTE, TW-FINCH and ASOT compute.

They were written from the definitions, with sampling where the released code samples. Two flaws of
that code are not followed: segments run across the ends of videos, and CTE leaves out the last one.
"""

from itertools import groupby, permutations

import numpy as np
import pytest

from stepcut.evaluation import score

DRAWS = 4000


def videos(seed, background=True, clusters=4, count=3):
    """Segmented labels of a few videos, and a prediction that is right on most frames."""
    rng = np.random.default_rng(seed)
    pred, true = [], []
    for _ in range(count):
        labels = np.repeat(
            rng.permutation(np.arange(0 if background else 1, 5)),
            rng.integers(5, 30, 5 - (not background)),
        )
        noisy = np.where(rng.random(len(labels)) < 0.6, labels, rng.integers(0, 5, len(labels)))
        pred.append(rng.permutation(clusters)[noisy % clusters] if seed % 2 else noisy % clusters)
        true.append(labels)
    return pred, true


def best(pred, true):
    """Class -> cluster, the one-to-one matching with the most common frames, by trying them all."""
    classes, clusters = sorted(set(true.tolist())), sorted(set(pred.tolist()))
    size = max(len(classes), len(clusters))
    padded = clusters + [None] * (size - len(clusters))

    def agreement(chosen):
        return sum(np.sum((true == c) & (pred == k)) for c, k in zip(classes, chosen, strict=False))

    return dict(zip(classes, max(permutations(padded, len(classes)), key=agreement), strict=True))


def mof_and_iou(pred, true, cluster_of):
    """MoF over all frames, and the mean IoU of the true classes."""
    right, ious = 0, []
    for step, cluster in cluster_of.items():
        both = np.sum((true == step) & (pred == cluster))
        right += both
        ious.append(both / np.sum((true == step) | (pred == cluster)))
    return 100 * right / len(true), 100 * np.mean(ious)


def segments(labels):
    at = 0
    for step, group in groupby(labels.tolist()):
        size = len(list(group))
        yield step, at, at + size
        at += size


def sampled(pred, true, cluster_of, predicted, majority):
    """F1 of 15 frames per true segment, the mean of many experiments, as CTE and ASOT sample them."""
    rng = np.random.default_rng(0)
    hits, count = 0.0, 0
    for labels, actual in zip(pred, true, strict=True):
        for step, first, end in segments(actual):
            drawn = rng.integers(first, end, size=(DRAWS, 15))
            right = (labels[drawn] == cluster_of[step]).mean(axis=1)
            hits += np.mean(right > 0.5 if majority else right)
            count += 1
    precision, recall = hits / predicted, hits / count
    return 100 * 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(4))
def test_cte_and_asot_over_all_videos_with_and_without_a_class(seed):
    pred, true = videos(seed)
    result = score(pred, true, "segmentation", clusters=4)
    cluster_of = best(np.concatenate(pred), np.concatenate(true))
    expected = mof_and_iou(np.concatenate(pred), np.concatenate(true), cluster_of)
    assert (result.mof_all, result.iou) == pytest.approx(expected)
    cte = sampled(pred, true, cluster_of, 4 * len(pred), majority=False)
    assert result.f1_sampled == pytest.approx(cte, abs=0.4)
    asot = sampled(pred, true, cluster_of, 5 * len(pred), majority=True)
    assert result.f1_majority == pytest.approx(asot, abs=0.4)
    assert [result.figures[name] for name in ("MoF all", "F1 sampled", "F1 majority")] == [
        result.mof_all, result.f1_sampled, result.f1_majority,
    ]  # fmt: skip
    # ASOT's exclude_cls drops the frames of one class before anything else.
    pred, true = videos(seed)
    kept = [t != 0 for t in true]
    result = score(pred, true, "segmentation", background="drop", clusters=4)
    less = [np.concatenate(side)[np.concatenate(kept)] for side in (pred, true)]
    expected = mof_and_iou(*less, best(*less))
    assert (result.mof_all, result.iou) == pytest.approx(expected)
    assert result.mof == result.mof_all


def test_background_stays_background_and_a_class_without_a_cluster_scores_zero():
    # CTE's exclude: "no step" is matched to background, and MoF is that of the other classes.
    rng = np.random.default_rng(0)
    true = [np.repeat([0, 1, 2, 0, 3], 20)]
    pred = [np.where(rng.random(100) < 0.7, true[0], rng.integers(0, 4, 100)) - 1]
    result = score(pred, true, "segmentation", clusters=3)
    steps = true[0] > 0
    assert result.matching == {-1: 0, 0: 1, 1: 2, 2: 3}
    assert result.mof == pytest.approx(100 * np.mean((pred[0] + 1 == true[0])[steps]))
    assert result.mof_all == pytest.approx(100 * np.mean(pred[0] + 1 == true[0]))
    result = score([[0] * 4], [[0, 0, 1, 2]], "segmentation", clusters=3)
    assert (result.iou, result.recall, result.mof_all) == pytest.approx((100 / 6, 100 / 3, 50))
    assert result.f1_sampled == pytest.approx(100 * 2 * 1 / (3 + 3))


@pytest.mark.parametrize("seed", range(4))
def test_tw_finch_per_video(seed):
    """MoF and IoU of each video under its own matching, then the mean; TW-FINCH divides IoU by K."""
    pred, true = videos(seed, background=False)
    result = score(pred, true, "segmentation-per-video", clusters=4)
    each = [mof_and_iou(p, t, best(p, t)) for p, t in zip(pred, true, strict=True)]
    assert result.iou == pytest.approx(np.mean([iou for _, iou in each]))
    alone = [score([p], [t], "segmentation", clusters=4) for p, t in zip(pred, true, strict=True)]
    assert [one.mof_all for one in alone] == pytest.approx([mof for mof, _ in each])
    assert result.f1_majority == pytest.approx(np.mean([one.f1_majority for one in alone]))
    assert result.f1 == pytest.approx(np.mean([one.f1 for one in alone]))
    steps = [step.iou for step in result.per_step]
    assert np.mean(steps) == pytest.approx(result.iou)  # all classes occur in all videos
