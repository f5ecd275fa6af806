"""Tests of a custom method against the contract: `check_method(MyMethod(steps=3))`."""

import copy
import json
from functools import partial

import numpy as np

from stepcut.errors import OptionError
from stepcut.methods import METHODS
from stepcut.methods.constraints import Constraint
from stepcut.methods.inputs import Array
from stepcut.methods.method import NEEDED, Method, adapt
from stepcut.parallel.worker import attempt
from stepcut.plugins import check_part


def check_method(method: Method, videos: list[Array] | None = None) -> list[str]:
    """Fit `method` to small synthetic videos and check every rule of the contract.

    Parameters
    ----------
    method
        A method that is not fitted.
    videos
        Arrays (T, d); by default five videos of three steps.

    Returns
    -------
    list of str
        The rules that hold.

    Raises
    ------
    OptionError
        The first rule that does not hold, with the actual result.

    Examples
    --------
    >>> from stepcut.methods import METHODS
    >>> check_method(METHODS["stepcut"](steps=3, restarts=2))[0]
    'settings() returns JSON values'
    """
    check_part("method", method, method, NEEDED, METHODS)
    method = adapt(method)
    videos = made_up_videos() if videos is None else videos
    if len(videos) < 2:
        raise OptionError(
            f"{len(videos)} videos; give at least two. The last one is used as a new video.",
            setting="videos",
        )
    training, new = videos[:-1], videos[-1:]
    kept = []

    def expect(held: bool, what: str, seen: object) -> None:
        if not held:
            raise OptionError(f"{type(method).__name__}: {what}; got {seen!r}. See docs/extend.md.")
        kept.append(what)

    settings = method.settings()
    expect(
        isinstance(attempt(json.dumps, settings), str), "settings() returns JSON values", settings
    )
    fitted = method.fit(training)
    expect(fitted is method, "fit() returns the method itself", fitted)
    first = [labels.copy() for labels in method.labels_]
    expect(
        [len(one) for one in first] == [len(one) for one in training],
        "labels_ has one label per row",
        first,
    )
    steps = method.steps_
    valid = all(one.dtype.kind == "i" and one.min() >= -1 and one.max() < steps for one in first)
    expect(valid, "labels are numbers from 0 to steps_ - 1, or -1 for background", first[0])
    method.fit(training)
    same = all(np.array_equal(a, b) for a, b in zip(first, method.labels_, strict=True))
    expect(same, "fit() twice gives the same labels", "other labels")
    (labels,), (shares,) = method.predict(new), method.probabilities(new)
    (novelty,), (place,) = method.novelty(new), method.embed(new)
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
    expect(place.ndim == 2 and len(place) == len(new[0]), "embed() gives (T, D)", place.shape)
    offered = method.suggest(training, [0], 2)
    held = all(0 < place < len(training) and reason for place, reason in offered)
    expect(held, "suggest() gives unlabelled videos with reasons", offered)
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
    if isinstance(method, Method):
        # Use copies, as `learn` does, so that the caller's method does not change.
        constraints = [Constraint(labels=first[0]), *[None] * (len(training) - 1)]
        taught = attempt(partial(copy.copy(method).fit, constraints=constraints), training)
        if "labels" in method.learns_from:
            held = isinstance(taught, Method) and np.array_equal(taught.labels_[0], first[0])
            expect(held, "annotated labels do not change", taught)
        else:
            held = isinstance(taught, OptionError)
            expect(held, "a method that cannot learn from labels refuses them", taught)
        if not method.chooses_steps:
            free = copy.copy(method)
            free.steps = "auto"
            chosen = attempt(free.fit, training)
            what = "a method that cannot choose the number of steps refuses steps='auto'"
            expect(isinstance(chosen, OptionError), what, chosen)
    return kept


def made_up_videos(videos: int = 5, steps: int = 3, seed: int = 0) -> list[Array]:
    """Return synthetic features (T, 8) of `videos` with `steps` steps of 15 to 25 rows each."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(videos):
        labels = np.repeat(np.arange(steps), random.integers(15, 26, size=steps))
        made.append(np.eye(steps, 8)[labels] + 0.1 * random.normal(size=(len(labels), 8)))
    return made
