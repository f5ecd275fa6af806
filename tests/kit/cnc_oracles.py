"""The losses of the paper as plain loops over their equations, in float64."""

import math

import numpy as np


def _frames(x, mask):
    return [row if mask is None else row[mask[b]] for b, row in enumerate(x)]


def _softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    return [v / sum(e) for v in e]


def tcc(u, t, mask=None, temperature=0.1, lam=0.001):
    videos, times, dim = _frames(u, mask), _frames(t, mask), u.shape[2]
    pairs = []
    for a, first in enumerate(videos):
        for b, second in enumerate(videos):
            if a == b:
                continue
            losses = []
            for i, frame in enumerate(first):
                alpha = _softmax([-sum((frame - v) ** 2) / (dim * temperature) for v in second])
                nearest = sum(w * v for w, v in zip(alpha, second, strict=True))
                beta = _softmax([-sum((nearest - v) ** 2) / (dim * temperature) for v in first])
                mu = sum(w * s for w, s in zip(beta, times[a], strict=True))
                var = sum(w * (s - mu) ** 2 for w, s in zip(beta, times[a], strict=True))
                var = max(var, 1e-6)
                losses.append((times[a][i] - mu) ** 2 / var + lam * math.log(var))
            pairs.append(sum(losses) / len(losses))
    return float(sum(pairs) / len(pairs))


def cidm(u, t, durations, mask=None, window=10.0, margin=2.0):
    videos = []
    for frames, times, seconds in zip(_frames(u, mask), _frames(t, mask), durations, strict=True):
        total = 0.0
        for x, s in zip(frames, times, strict=True):
            for y, r in zip(frames, times, strict=True):
                d = math.sqrt(sum((x - y) ** 2))
                gamma = (s - r) ** 2 + 1
                near = abs(s * seconds - r * seconds) <= window
                total += d / gamma if near else gamma * max(0.0, margin - d)
        videos.append(total / len(frames) ** 2)
    return float(sum(videos) / len(videos))


def soft_dtw(cost, gamma=0.1):
    n, m = cost.shape
    r = np.full((n + 1, m + 1), math.inf)
    r[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = [r[i - 1, j], r[i, j - 1], r[i - 1, j - 1]]
            low = min(before)
            soft = gamma * math.log(sum(math.exp((low - x) / gamma) for x in before))
            r[i, j] = cost[i - 1, j - 1] + low - soft
    return float(r[n, m])


def lav(u, t, durations, mask=None):
    """Mean over pairs of videos of (softDTW + 0.5 (I_a + I_b)) / T, with I a sum over T^2 pairs.

    Of a video with padded frames, I is the mean over its pairs, times T^2."""
    u = u / np.linalg.norm(u, axis=2, keepdims=True)
    frames, videos, values = t.shape[1], _frames(u, mask), []
    moments = [
        frames**2 * cidm(u[[a]], t[[a]], durations[[a]], None if mask is None else mask[[a]])
        for a in range(len(u))
    ]
    for a, first in enumerate(videos):
        for b, second in enumerate(videos):
            if a != b:
                cost = np.array([[sum((x - y) ** 2) for y in second] for x in first])
                values.append(soft_dtw(cost) + 0.5 * (moments[a] + moments[b]))
    return sum(values) / len(values) / frames


def tc3i(u, t, durations, mask=None, weight=1.0):
    return tcc(u, t, mask) + weight * cidm(u, t, durations, mask)


def lav_tcc(u, t, durations, mask=None):
    return lav(u, t, durations, mask) + tcc(u, t, mask)


def _plan(cost, prior, sharp):
    """The plan that minimises sum P (cost + sharp log(P / prior)), after 30 rounds of Sinkhorn."""
    n, m = cost.shape
    kernel = prior * np.exp(-cost / sharp)
    left = [1.0] * n
    for _ in range(30):
        right = [1 / m / sum(kernel[i, j] * left[i] for i in range(n)) for j in range(m)]
        left = [1 / n / sum(kernel[i, j] * right[j] for j in range(m)) for i in range(n)]
    return np.array([[left[i] * kernel[i, j] * right[j] for j in range(m)] for i in range(n)])


def _pairs(u, t, mask):
    videos, times = _frames(u / np.linalg.norm(u, axis=2, keepdims=True), mask), _frames(t, mask)
    places = [(a, b) for a in range(len(u)) for b in range(len(u)) if a != b]
    return [
        (np.array([[sum(x * y) for y in videos[b]] for x in videos[a]]), times[a], times[b])
        for a, b in places
    ]


def opel(u, t, mask=None):
    values = []
    for like, first, second in _pairs(u, t, mask):
        n, m = like.shape
        cost, prior = np.full((n + 1, m + 1), 0.5), np.full((n + 1, m + 1), math.exp(-1))
        width = 3 * math.sqrt(1 / n**2 + 1 / m**2)
        for i in range(n):
            for j in range(m):
                time = abs(first[i] - second[j])
                back, there = first[np.argmax(like[:, j])], second[np.argmax(like[i])]
                best = (abs(first[i] - back) + abs(second[j] - there)) / 2
                prior[i, j] = (math.exp(-time / width) + math.exp(-best / width)) / 2
                cost[i, j] = 1 - like[i, j] - 0.1 * (1 / (time**2 + 1) + 1 / (best**2 + 1)) / 2
        plan = _plan(cost, prior, 0.1)
        values.append(float((plan * (cost + 0.1 * np.log(plan / prior))).sum()))
    return sum(values) / len(values)


def rgwot(u, t, mask=None):
    values = []
    for like, first, second in _pairs(u, t, mask):
        n, m = like.shape
        cost = np.full((n + 1, m + 1), 0.5)
        for i in range(n):
            for j in range(m):
                cost[i, j] = 1 - like[i, j] + 0.35 * abs(first[i] - second[j])
        near, far = max(1, int(0.04 * n)), max(1, int(0.04 * m))
        plan = np.full((n + 1, m + 1), 1 / (n + 1) / (m + 1))
        for _ in range(5):
            structure = np.zeros_like(cost)
            for i in range(n):
                for j in range(m):
                    beside = [k for k in range(n) if 0 < abs(i - k) <= near]
                    away = [x for x in range(m) if abs(j - x) > far]
                    structure[i, j] = (n + 1) / near * sum(plan[k, x] for k in beside for x in away)
            plan = _plan(0.7 * cost + 0.3 * structure, np.ones_like(cost), 0.07)
        for i in range(n):
            shares = _softmax([x / 0.1 for x in like[i]])
            values.append(-sum((n + 1) * plan[i, j] * math.log(shares[j]) for j in range(m)) / n)
    return sum(values) / (len(u) * (len(u) - 1))
