"""Whether a method of one's own keeps the contract: `check_method(MyMethod(steps=3))`."""

import json

import numpy as np

from stepcut.errors import OptionError
from stepcut.methods import METHODS
from stepcut.methods.contract import VERBS, Array, Method
from stepcut.parallel.contract import attempt
from stepcut.plugins import check_part


def check_method(method: Method, videos: list[Array] | None = None) -> list[str]:
    """Fit `method` to small made-up videos and try every verb of the contract; what it keeps is given as sentences.

    method  an object of your own, with its settings and not fitted
    videos  arrays (T, d) to try it on; left out, five videos of three steps

    What it does not keep raises an `OptionError` that says what was expected and what came.
    """
    check_part("method", method, method, VERBS, METHODS)
    videos = made_up_videos() if videos is None else videos
    if len(videos) < 2:
        raise OptionError(
            f"{len(videos)} videos; give at least two, of which the last is tried as a new one."
        )
    known, new = videos[:-1], videos[-1:]
    kept = []

    def expect(held: bool, what: str, seen: object) -> None:
        if not held:
            raise OptionError(f"{type(method).__name__}: {what}; got {seen!r}. See docs/extend.md.")
        kept.append(what)

    settings = method.settings()
    expect(
        isinstance(attempt(json.dumps, settings), str),
        "settings() gives what JSON can hold",
        settings,
    )
    fitted = method.fit(known)
    expect(fitted is method, "fit() returns the method itself", fitted)
    first = [labels.copy() for labels in method.labels_]
    expect(
        [len(one) for one in first] == [len(one) for one in known],
        "labels_ has a label for every row",
        first,
    )
    steps = method.steps_
    valid = all(one.dtype.kind == "i" and one.min() >= -1 and one.max() < steps for one in first)
    expect(valid, "labels are numbers from 0 to steps_ - 1, or -1 for background", first[0])
    method.fit(known)
    same = all(np.array_equal(a, b) for a, b in zip(first, method.labels_, strict=True))
    expect(same, "fit twice equals fit once", "other labels")
    (labels,), (shares,), (novelty,) = (
        method.predict(new),
        method.probabilities(new),
        method.novelty(new),
    )
    expect(labels.shape == (len(new[0]),), "predict() gives (T,)", labels.shape)
    expect(shares.shape == (len(new[0]), steps), "probabilities() gives (T, K)", shares.shape)
    expect(
        bool(np.allclose(shares.sum(axis=1), 1, atol=1e-4)),
        "probabilities of a row sum to 1",
        shares.sum(axis=1),
    )
    expect(
        novelty.shape == (len(new[0]),) and bool((novelty >= 0).all()),
        "novelty() gives (T,), 0 or more",
        novelty,
    )
    online = method.online()
    pushed = np.stack([online.push(row) for row in new[0][:5]])
    expect(pushed.shape == (5, steps), "online().push(row) gives (K,)", pushed.shape)
    state = method.state()
    arrays = all(
        isinstance(array, np.ndarray) and array.dtype != object for array in state.values()
    )
    expect(arrays, "state() gives plain arrays by name", sorted(state))
    again: object
    try:
        again = (
            type(method)
            .restore(json.loads(json.dumps(method.settings())), state)
            .predict(new)[0]
            .tolist()
        )
    except Exception as error:
        again = error
    expect(again == labels.tolist(), "restore(settings, state) predicts the same", again)
    return kept


def made_up_videos(videos: int = 5, steps: int = 3, seed: int = 0) -> list[Array]:
    """Features (T, 8) of `videos` in which `steps` steps of 15 to 25 rows follow one another, drawn by `seed`."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(videos):
        labels = np.repeat(np.arange(steps), random.integers(15, 26, size=steps))
        made.append(np.eye(steps, 8)[labels] + 0.1 * random.normal(size=(len(labels), 8)))
    return made
