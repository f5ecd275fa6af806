"""Fitting: from features, and labels where a person gave some, to everything that a procedure is made of."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.calibrate import learn_expectations
from stepcut.features.contract import Features
from stepcut.files.addresses import whole_path
from stepcut.methods import leave_out
from stepcut.methods.constraints import as_constraints
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy, find_split
from stepcut.methods.inputs import Array, Labels, check_shares, plain_numbers
from stepcut.methods.method import Method, adapt
from stepcut.methods.quality import Quality, grade_taught, measure_quality, refit, shorten
from stepcut.procedure.lesson import StepLabels
from stepcut.procedure.naming import (
    Ingredient,
    Namer,
    carry_names,
    fit_recipe,
    words_of_features,
    words_of_namer,
)
from stepcut.procedure.record import Record
from stepcut.procedure.words import Words, keep_words
from stepcut.progress import Event, Hook, Stage, silent
from stepcut.timeline import Timeline, unnamed
from stepcut.version import __version__


def fit(
    features: Sequence[Features],
    method: Method,
    config: dict[str, Any],
    names: Sequence[str] | None = None,
    lesson: StepLabels | None = None,
    before: Mapping[str, Labels] | None = None,
    recipe: Sequence[Ingredient] | None = None,
    namer: Namer | None = None,
    progress: Hook = silent,
    checkpoint: Path | None = None,
) -> Record:
    """Fit a method, name the steps, cut the timelines, learn what a normal video looks like.

    features    of every video
    method      not yet fitted
    config      settings, seed and versions; the settings of the fitted method are put into it
    names       names for the steps, where no lesson names them
    lesson      the labels that a person gave, and the names of the steps
    before      the steps of every row as they were known before, in the order of the lesson's names
    recipe      the steps as a person knows them: names those found where order and durations decide it
    namer       from pictures of a step to words, for suggestions
    progress    hears how far the work is
    checkpoint  a file where long training keeps its state
    """
    rows = [one.rows for one in features]
    known = None if lesson is None else [lesson.rows.get(one.name) for one in features]
    taught: dict[str, Any] = {}
    if known is not None:
        taught["constraints"] = as_constraints(known)
    method = adapt(method).fit(rows, progress=progress, checkpoint=checkpoint, **taught)
    config["settings"] = plain_numbers(method.settings())
    quality, tree = _assess(method, rows, known, progress)
    config |= {
        "quality": None if quality is None else quality.to_json(),
        "hierarchy": tree.to_json(),
    }
    reliability = 1.0 if quality is None else quality.reliability
    cuts = {one.name: cut for one, cut in zip(features, method.labels_, strict=True)}
    with Stage(progress, "order", total=len(features), unit="videos") as stage:
        pairs = zip(method.probabilities(rows), rows, strict=True)
        probabilities = [
            check_shares(share, len(one), method.steps_, method) for share, one in pairs
        ]
        per_second = features[0].rate
        # A video without any step, of one frame or of something else, is no normal one, and would hide what is not.
        normal = [place for place, cut in enumerate(method.labels_) if (cut >= 0).any()] or list(
            range(len(rows))
        )
        left_out = leave_out(method, rows).of(normal)

        def recut(place: int, kept: NDArray[np.int64]) -> tuple[Labels, Array, Array, Array]:
            """Some rows of a video cut as a new one."""
            one = [rows[normal[place]][kept]]
            return (
                method.predict(one)[0],
                method.probabilities(one)[0],
                method.novelty(one)[0],
                method.embed(one)[0],
            )

        expectations = learn_expectations(
            # What a person said is usual; what was found is taken as it would be found in a new video.
            left_out.labels if lesson is None else [method.labels_[place] for place in normal],
            float(per_second),
            probabilities=[probabilities[place] for place in normal],
            left_out=left_out,
            false_alarms=config["false_alarms"],
            embeddings=method.embed([rows[place] for place in normal]),
            recut=recut
            if method.left_out_ is not None
            else None,  # a method that knows no such thing may be slow
            videos=[features[place].name for place in normal],
        )
        stage.advance(len(features))
    if lesson is not None:
        steps = carry_names(lesson, before or {}, cuts)
    else:
        steps = list(names) if names else [unnamed(number) for number in range(method.steps_)]
    hints: dict[int, list[str]] = {}
    videos = {one.name: None if one.path is None else whole_path(one.path) for one in features}
    if recipe is not None:
        sure, hints = fit_recipe(recipe, cuts, method.steps_, float(per_second))
        steps = [sure.get(number, name) for number, name in enumerate(steps)]
    elif namer is not None:
        hints = words_of_namer(namer, videos, cuts, method.steps_, float(per_second))
    elif names is None:
        hints = words_of_features(features, cuts, method.steps_)
    config["suggestions"] = {str(number): words for number, words in sorted(hints.items())}
    words = {} if lesson is None else lesson.words
    return Record(
        learned_steps=steps,
        learned_timelines={
            one.name: timeline_of(one, cut, reliability * share, steps, words=words.get(one.name))
            for one, cut, share in zip(features, method.labels_, probabilities, strict=True)
        },
        samples={one.name: len(one.rows) for one in features},
        videos=videos,
        rate=per_second,
        method=method,
        learned_expectations=expectations,
        config=config,
        trusted=features[0].spec is None or features[0].spec.trusted,
        given={} if lesson is None else dict(lesson.rows),
        said={name: said.known for name, said in words.items()},
        at_hand=list(features),
    )


def _assess(
    method: Method, rows: Sequence[Array], labels: Sequence[Labels | None] | None, progress: Hook
) -> tuple[Quality | None, Hierarchy]:
    """How far to trust the steps, and which of them join or part at another grain."""
    quality, split = None, None
    with Stage(progress, "quality", unit="runs") as stage:

        def beat(event: Event) -> None:
            """Whoever watches sees every sign of life of a run, and counts it when it has finished."""
            stage.advance(event.finished)

        if labels is not None:
            quality = grade_taught(method.right_, labels, method.steps_)
        elif (quality := measure_quality(method, rows, beat)) is not None:
            few = refit(method, shorten(rows), beat, restarts=3, steps=method.steps_ + 1)
            split = find_split(method.labels_, few.labels_, method.steps_)
        names = [str(number) for number in range(method.steps_)]
        tree = replace(build_hierarchy(method.embed(rows), method.labels_, names), split=split)
    return quality, tree


def timeline_of(
    features: Features,
    labels: Labels,
    sure: Array,
    steps: Sequence[str],
    shown: Labels | None = None,
    words: Words | None = None,
) -> Timeline:
    """The timeline of one video that was cut into `labels` (T,), -1 for none.

    sure      how sure it is that each row belongs to each step, (T, K); a segment's confidence is the mean of its rows
    shown     for each label its place in `steps`, -1 for none, and -1 at the end; left out, the label itself
    words     what a person said of the video: it stands as it is, and what was found reaches up to it
    """
    numbers = labels if shown is None else shown[labels]
    rate, own = float(features.rate), sure[np.arange(len(labels)), np.maximum(labels, 0)]
    if words is None:
        return Timeline.from_labels(
            numbers, rate, steps, features.end, confidence=own, video=features.name
        )
    return keep_words(words, features, numbers, own, steps)


def fingerprint(
    features: Sequence[Features],
    config: Mapping[str, Any],
    names: Sequence[str] | None,
    lesson: StepLabels | None = None,
) -> str:
    """A short name for exactly this work: `features`, settings in `config`, `names`, `lesson` and the version."""
    digest = hashlib.blake2b(digest_size=16)
    relevant = {
        key: config[key]
        for key in ("method", "settings", "seed", "rate", "backbone", "false_alarms")
    }
    digest.update(json.dumps([relevant, names, __version__], sort_keys=True, default=str).encode())
    for one in features:
        digest.update(f"{one.name} {one.rows.dtype} {one.rows.shape} {one.duration}".encode())
        for first in range(0, len(one.rows), 1024):
            digest.update(np.ascontiguousarray(one.rows[first : first + 1024]).data)
    if lesson is not None:
        digest.update(json.dumps(lesson.names).encode())
        for name, rows in sorted(lesson.rows.items()):
            digest.update(name.encode() + rows.astype(np.int64).tobytes())
        for name, words in sorted(lesson.words.items()):
            told = [(float(one.start), float(one.end), one.step) for one in words.spoken()]
            digest.update(json.dumps([name, told, words.known]).encode())
    return digest.hexdigest()
