"""Fitting: from features, and annotations where there are some, to everything that a procedure is
made of."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stepcut.annotations import Annotation, Annotations, RecipeStep, gaps
from stepcut.checking.calibrate import learn_expectations
from stepcut.errors import OptionError
from stepcut.features.contract import Features
from stepcut.files.addresses import whole_path
from stepcut.methods import leave_out
from stepcut.methods.constraints import Constraint, as_constraints
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy, find_split
from stepcut.methods.inputs import Array, Labels, check_shares, plain_numbers
from stepcut.methods.method import Method, adapt
from stepcut.methods.quality import (
    Quality,
    cross_validated,
    measure_quality,
    not_measured,
    refit,
    shorten,
)
from stepcut.procedure.content import digest_of, rows_digest
from stepcut.procedure.corrections.document import Part, join
from stepcut.procedure.lesson import Lesson
from stepcut.procedure.naming import Namer, carry_names, fit_recipe, words_of_namer
from stepcut.progress import Event, Hook, Stage, silent
from stepcut.timeline import BACKGROUND, Segment, Timeline, runs, unnamed
from stepcut.version import __version__


def fit(
    features: Sequence[Features],
    method: Method,
    config: dict[str, Any],
    names: Sequence[str] | None = None,
    lesson: Lesson | None = None,
    before: Mapping[str, Labels] | None = None,
    recipe: Sequence[RecipeStep] = (),
    namer: Namer | None = None,
    progress: Hook = silent,
    checkpoint: Path | None = None,
) -> dict[str, Any]:
    """Fit a method, name the steps, segment the videos, learn what a normal video looks like.

    features    of every video
    method      not yet fitted
    config      settings, seed and versions; the settings of the fitted method are put into it
    names       names for the steps, where no lesson names them
    lesson      what people have annotated, and the names of the steps
    before      the steps of every row as they were shown before, in the order of the lesson's names
    recipe      for a method that does not learn from one: names steps where order and durations
                decide it
    namer       from pictures of a step to words, for suggestions
    progress    hears how far the work is
    checkpoint  a file where long training keeps its state

    Returns
    -------
    The fields of a `Procedure`.
    """
    rows = [one.rows for one in features]
    method = adapt(method)
    taught = {} if lesson is None else {"constraints": _constraints(method, lesson)}
    method = method.fit(rows, progress=progress, checkpoint=checkpoint, **taught)
    config["settings"] = plain_numbers(method.settings())
    quality, tree = _assess(method, rows, None if lesson is None else lesson.labels, progress)
    config |= {
        "quality": quality.to_json(),
        "hierarchy": tree.to_json(),
    }
    cuts = {one.name: cut for one, cut in zip(features, method.labels_, strict=True)}
    with Stage(progress, "order", total=len(features), unit="videos") as stage:
        pairs = zip(method.probabilities(rows), rows, strict=True)
        probabilities = [
            check_shares(share, len(one), method.steps_, method) for share, one in pairs
        ]
        per_second = features[0].rate
        # A video without any step, of one frame or of something else, is no normal one, and would
        # hide what is not.
        normal = [place for place, cut in enumerate(method.labels_) if (cut >= 0).any()] or list(
            range(len(rows))
        )
        left_out = leave_out(method, rows).of(normal)

        expectations = learn_expectations(
            # What a person said is usual; what was found is taken as it would be found in a new
            # video.
            left_out.labels if lesson is None else [method.labels_[place] for place in normal],
            float(per_second),
            probabilities=[probabilities[place] for place in normal],
            left_out=left_out,
            false_alarms=config["false_alarms"],
            embeddings=method.embed([rows[place] for place in normal]),
            videos=[features[place].name for place in normal],
        )
        stage.advance(len(features))
    if lesson is not None:
        steps = carry_names(lesson, before or {}, cuts)
    else:
        steps = list(names) if names else [unnamed(number) for number in range(method.steps_)]
    hints: dict[int, list[str]] = {}
    videos = {one.name: None if one.path is None else whole_path(one.path) for one in features}
    if recipe:
        sure, hints = fit_recipe(recipe, cuts, method.steps_, float(per_second))
        steps = [sure.get(number, name) for number, name in enumerate(steps)]
    elif namer is not None:
        hints = words_of_namer(namer, videos, cuts, method.steps_, float(per_second))
    config["suggestions"] = {str(number): words for number, words in sorted(hints.items())}
    annotations = Annotations() if lesson is None else lesson.annotations
    return {
        "learned_steps": steps,
        "learned_timelines": {
            one.name: timeline_of(
                one,
                cut,
                quality.reliability * share,
                steps,
                annotation=annotations.videos.get(one.name),
            )
            for one, cut, share in zip(features, method.labels_, probabilities, strict=True)
        },
        "samples": {one.name: len(one.rows) for one in features},
        "videos": videos,
        "rate": per_second,
        "method": method,
        "learned_expectations": expectations,
        "learned_annotations": annotations,
        "config": config,
        "trusted": features[0].spec is None or features[0].spec.trusted,
        "digests": {one.name: digest_of(one) for one in features},
        "at_hand": list(features),
    }


def _constraints(method: Method, lesson: Lesson) -> list[Constraint | None]:
    """What a `method` is given of the annotations; a click is a label of one row to one that takes
    labels alone."""
    takes = method.learns_from
    if "transcript" not in takes and any(one and one.transcript for one in lesson.constraints):
        raise OptionError(
            f"method {type(method).__name__} does not learn from transcripts. Leave them out, or give labels or clicks."
        )
    return lesson.constraints if "clicks" in takes else as_constraints(lesson.labels)


def _assess(
    method: Method, rows: Sequence[Array], labels: Sequence[Labels | None] | None, progress: Hook
) -> tuple[Quality, Hierarchy]:
    """How far to trust the steps, and which of them join or part at another grain."""
    split = None
    with Stage(progress, "quality", unit="runs") as stage:

        def beat(event: Event) -> None:
            """Whoever watches sees every sign of life of a run, and counts it when it has
            finished."""
            stage.advance(event.finished)

        if labels is not None and any(one is not None for one in labels):
            new = method.left_out_
            quality = not_measured()
            if new is not None:
                quality = cross_validated(labels, new.labels, method.steps_)
        elif (quality := measure_quality(method, rows, beat)).now is not None:
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
    annotation: Annotation | None = None,
) -> Timeline:
    """The timeline of one video that was segmented into `labels` (T,), -1 for background.

    sure        step probabilities, (T, K); a segment's confidence is the mean of its rows
    shown       for each label its place in `steps`, -1 for none, and -1 at the end; left out, the
                label itself
    annotation  what people have said about the video: labels stay as they are, and what was found
                reaches up to them
    """
    numbers = labels if shown is None else shown[labels]
    rate, own = float(features.rate), sure[np.arange(len(labels)), np.maximum(labels, 0)]
    if annotation is None or not annotation.annotated:
        return Timeline.from_labels(
            numbers, rate, steps, features.end, confidence=own, video=features.name
        )
    parts = [Part(one.start, one.end, steps.index(one.step)) for one in annotation.labelled]
    for begin, until in gaps(annotation.annotated, features.end):
        first = min(math.ceil(begin * rate - 0.5), len(labels) - 1)  # its middle lies here
        last = len(labels)
        if until < features.end:
            last = max(math.ceil(until * rate - 0.5), first + 1)
        for step, a, b in runs(numbers[first:last]).tolist():
            if step != BACKGROUND:
                start = begin if a == 0 else (first + a) / rate
                stop = until if first + b == last else (first + b) / rate
                parts.append(Part(start, stop, step, float(own[first + a : first + b].mean())))
    # A segment that goes on where nothing is labelled is one segment.
    edges = {time for one in annotation.annotated for time in one}
    edges -= {time for one in annotation.segments for time in (one.start, one.end)}
    joined = join(sorted(parts, key=lambda part: part[:2]), edges)
    segments = [Segment(part.start, part.end, steps[part.step], part.confidence) for part in joined]
    return Timeline(segments, features.end, steps, features.name)


def fingerprint(
    features: Sequence[Features],
    config: Mapping[str, Any],
    names: Sequence[str] | None,
    lesson: Lesson | None = None,
) -> str:
    """A short name for exactly this work: `features`, settings in `config`, `names`, `lesson` and
    the version."""
    digest = hashlib.blake2b(digest_size=16)
    relevant = {
        key: config[key]
        for key in ("method", "settings", "seed", "rate", "backbone", "false_alarms")
    }
    digest.update(json.dumps([relevant, names, __version__], sort_keys=True, default=str).encode())
    for one in features:
        digest.update(f"{one.name} {one.duration} {rows_digest(one.rows)}".encode())
    if lesson is not None:
        videos = {
            name: msgspec.structs.replace(one, origins=())
            for name, one in sorted(lesson.annotations.videos.items())
        }
        said = Annotations(videos=videos, recipe=lesson.annotations.recipe)
        digest.update(json.dumps([lesson.names, said.to_json()]).encode())
    return digest.hexdigest()
