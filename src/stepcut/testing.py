"""Tests of a custom method against the contract: `check_method(MyMethod(steps=3))`."""

import copy
import json
from functools import partial

import numpy as np

from stepcut.errors import OptionError
from stepcut.methods import find_method
from stepcut.methods.constraints import Constraint
from stepcut.methods.inputs import Array
from stepcut.methods.method import Method
from stepcut.parallel.worker import attempt


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
    method = find_method(method)
    *training, new = made_up_videos() if videos is None else videos
    if not training:
        raise OptionError(
            "1 videos; give at least two. The last one is used as a new video.", setting="videos"
        )
    kept = []

    def expect(held: object, what: str, seen: object) -> None:
        if not held:
            raise OptionError(f"{type(method).__name__}: {what}; got {seen!r}. See docs/extend.md.")
        kept.append(what)

    settings = attempt(json.dumps, method.settings())
    expect(isinstance(settings, str), "settings() returns JSON values", method.settings())
    fitted = method.fit(training)
    expect(fitted is method, "fit() returns the method itself", fitted)
    first, steps = [labels.copy() for labels in method.labels_], method.steps_
    lengths = [len(one) for one in first]
    expect(lengths == [*map(len, training)], "labels_ has one label per row", lengths)
    valid = all(one.dtype.kind == "i" and -1 <= one.min() <= one.max() < steps for one in first)
    expect(valid, "labels are numbers from 0 to steps_ - 1, or -1 for background", first[0])
    again = method.fit(training).labels_
    same = all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    expect(same, "fit() twice gives the same labels", "other labels")

    read, rows = method.read(new), len(new)
    shapes = [part.shape for part in read]
    wanted = [(rows,), (rows, steps), (rows,), (rows, *shapes[3][1:2])]
    what = "read() gives labels (T,), probabilities (T, K), novelty (T,) and embedding (T, p)"
    expect(shapes == wanted, what, shapes)
    sums = read.probabilities.sum(axis=1)
    expect(np.allclose(sums, 1, atol=1e-4), "probabilities of a row sum to 1", sums)
    expect((read.novelty >= 0).all(), "novelty is 0 or more", read.novelty)
    online = method.online()
    pushed = [np.shape(online.push(row)) for row in new[:5]]
    expect(pushed == [(steps,)] * len(pushed), "online().push(row) gives (K,)", pushed)

    state = method.state()
    plain = all(isinstance(one, np.ndarray) and one.dtype != object for one in state.values())
    expect(plain, "state() gives plain arrays by name", sorted(state))
    restore = partial(type(method).restore, json.loads(settings))
    back = attempt(lambda rows: restore(state).read(rows).labels.tolist(), new)
    expect(back == read.labels.tolist(), "restore(settings, state) reads the same", back)

    # Use copies, as `learn` does, so that the caller's method does not change.
    constraints = [Constraint(labels=first[0]), *[None] * (len(training) - 1)]
    taught = attempt(partial(copy.copy(method).fit, constraints=constraints), training)
    if "labels" in method.learns_from:
        held = isinstance(taught, Method) and np.array_equal(taught.labels_[0], first[0])
        expect(held, "annotated labels do not change", taught)
    else:
        what = "a method that cannot learn from labels refuses them"
        expect(isinstance(taught, OptionError), what, taught)
    if not method.chooses_steps:
        free = copy.copy(method)
        free.steps = "auto"
        chosen = attempt(free.fit, training)
        what = "a method that cannot choose the number of steps refuses steps='auto'"
        expect(isinstance(chosen, OptionError), what, chosen)
    return kept


def made_up_videos(videos: int = 5, steps: int = 3, seed: int = 0) -> list[Array]:
    """Features (T, 8) of `videos` with `steps` steps of 15 to 25 rows each."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(videos):
        labels = np.repeat(np.arange(steps), random.integers(15, 26, size=steps))
        made.append(np.eye(steps, 8)[labels] + 0.1 * random.normal(size=(len(labels), 8)))
    return made
