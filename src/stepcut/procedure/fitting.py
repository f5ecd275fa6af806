"""Fitting: from features and optional annotations to the fields of a procedure."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np

from stepcut.annotations import Annotation, Annotations, gaps
from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.inputs import learn_inputs
from stepcut.errors import OptionError
from stepcut.features.features import Features
from stepcut.files.addresses import whole_path
from stepcut.methods.constraints import Constraint, as_constraints
from stepcut.methods.hierarchy import build_hierarchy
from stepcut.methods.inputs import Array, Labels, plain_numbers
from stepcut.methods.method import LeftOut, Method
from stepcut.methods.quality import Quality, measure, warn_of_nothing_shared
from stepcut.procedure.document import join
from stepcut.procedure.learned import Config, Learned, digest_of, find_copies, rows_digest
from stepcut.procedure.naming import Namer, carry_names, words_of_namer
from stepcut.progress import Hook, Stage, silent
from stepcut.timeline import BACKGROUND, Segment, Timeline, runs, unnamed
from stepcut.version import __version__


def fit(
    features: Sequence[Features],
    method: Method,
    config: Config,
    names: Sequence[str] | None = None,
    annotations: Annotations | None = None,
    before: Mapping[str, Labels] | None = None,
    namer: Namer | None = None,
    progress: Hook = silent,
    checkpoint: Path | None = None,
) -> Learned:
    """Fit a `method`, name the steps, segment the videos and learn the reference statistics.

    config      settings, seed and versions; `fit` adds the settings of the fitted method
    names       step names; with annotations those of all steps, "" for an unnamed one
    annotations the annotations to learn from
    before      the earlier step numbers of every row, in the order of `names`
    checkpoint  a file for the state of long training
    """
    rows = [one.rows for one in features]
    digests = {one.name: digest_of(one) for one in features}
    constraints: list[Constraint | None] | None = None
    if annotations is not None:  # seconds become rows
        samples = {one.name: len(one.rows) for one in features}
        said = annotations.constraints(samples, features[0].rate, names or [])
        constraints = _accepted(method, said, [*samples.values()])
    method = method.fit(rows, constraints, progress=progress, checkpoint=checkpoint)
    readings = [method.read(one) for one in rows]
    embedded = [one.embedding for one in readings]
    quality = Quality(warning=warn_of_nothing_shared(method.agreement_, method.steps_))
    if annotations is not None and method.left_out_ is not None:
        given = [None if one is None else one.labels for one in said]
        quality = measure(given, method.left_out_.labels, method.steps_)
    numbered = [str(number) for number in range(method.steps_)]
    tree = build_hierarchy(embedded, method.labels_, numbered)
    labels = {one.name: numbers for one, numbers in zip(features, method.labels_, strict=True)}
    with Stage(progress, "order", total=len(features), unit="videos") as stage:
        probabilities = [one.probabilities for one in readings]
        per_second = features[0].rate
        # A video without any step is not a normal one, and a copy counts once.
        copies = find_copies(digests)
        normal = [
            place
            for place, one in enumerate(method.labels_)
            if (one >= 0).any() and features[place].name not in copies
        ]
        normal = normal or list(range(len(rows)))
        left_out = method.left_out_ or LeftOut(
            method.labels_, probabilities, [one.novelty for one in readings]
        )
        left_out = left_out.of(normal)
        expectations = learn_expectations(
            # Without annotations, use held-out labels: they are as noisy as those of new videos.
            left_out.labels if annotations is None else [method.labels_[place] for place in normal],
            float(per_second),
            probabilities=[probabilities[place] for place in normal],
            left_out=left_out,
            false_alarms=config.false_alarms,
            embeddings=[embedded[place] for place in normal],
            videos=[features[place].name for place in normal],
        )
        inputs = learn_inputs([features[place] for place in normal])
        expectations = replace(expectations, inputs=inputs)
        stage.advance(len(features))
    if annotations is not None:
        steps = carry_names(names or [], annotations.steps, before or {}, labels)
    else:
        steps = list(names) if names else [unnamed(number) for number in range(method.steps_)]
    hints: dict[int, list[str]] = {}
    videos = {one.name: None if one.path is None else whole_path(one.path) for one in features}
    if namer is not None:
        hints = words_of_namer(namer, videos, labels, method.steps_, float(per_second))
    annotations = annotations or Annotations()
    return Learned(
        steps=steps,
        timelines={
            one.name: timeline_of(
                one, numbers, share, steps, annotation=annotations.videos.get(one.name)
            )
            for one, numbers, share in zip(features, method.labels_, probabilities, strict=True)
        },
        samples={one.name: len(one.rows) for one in features},
        videos=videos,
        rate=per_second,
        config=msgspec.structs.replace(
            config,
            settings=plain_numbers(method.settings()),
            quality=quality,
            hierarchy=tree.to_json(),
            suggestions={str(number): words for number, words in sorted(hints.items())},
        ),
        annotations=annotations,
        digests=digests,
        method=method,
        expectations=expectations,
    )


def refuse_transcripts(method: str) -> NoReturn:
    """Refuse transcripts and recipes for a `method` that does not learn from them."""
    raise OptionError(
        f"method {method} does not learn from transcripts or recipes. Give labels, clicks or names "
        "instead, or use the default method.",
        setting="transcripts",
    )


def _accepted(
    method: Method, constraints: list[Constraint | None], lengths: Sequence[int]
) -> list[Constraint | None]:
    """The constraints for a `method`; clicks become one-row labels if it takes only labels."""
    takes = method.learns_from
    if "transcript" not in takes and any(one and one.transcript for one in constraints):
        refuse_transcripts(type(method).__name__)
    if "clicks" in takes:
        return constraints
    pairs = zip(constraints, lengths, strict=True)
    return as_constraints([None if one is None else one.as_labels(rows) for one, rows in pairs])


def timeline_of(
    features: Features,
    labels: Labels,
    probabilities: Array,
    steps: Sequence[str],
    names: Sequence[str | None] | None = None,
    annotation: Annotation | None = None,
) -> Timeline:
    """Return the timeline of a video from its `labels` (T,), -1 for background.

    `probabilities` are (T, K); the confidence of a segment is the mean over its rows. `names` are
    those of the labels, by default `steps`. Labels in the `annotation` are kept; predicted segments
    fill the rest.
    """
    place: dict[str | None, int] = {name: number for number, name in enumerate(steps)}
    shown = [place.get(name, BACKGROUND) for name in names or steps]
    numbers = np.array([*shown, BACKGROUND])[labels]
    rate = float(features.rate)
    confidence = probabilities[np.arange(len(labels)), np.maximum(labels, 0)]
    if annotation is None or not annotation.annotated:
        return Timeline.from_labels(
            numbers, rate, steps, features.end, confidence=confidence, video=features.name
        )
    segments = annotation.labelled
    for begin, until in gaps(annotation.annotated, features.end):
        first = min(math.ceil(begin * rate - 0.5), len(labels) - 1)  # the row with this middle
        last = len(labels)
        if until < features.end:
            last = max(math.ceil(until * rate - 0.5), first + 1)
        for step, a, b in runs(numbers[first:last]).tolist():
            if step != BACKGROUND:
                start = begin if a == 0 else (first + a) / rate
                stop = until if first + b == last else min((first + b) / rate, features.end)
                mean = float(confidence[first + a : first + b].mean())
                if start < stop:  # rows may continue after the end of the video
                    segments.append(Segment(start, stop, steps[step], mean))
    # A labelled segment that continues in the unlabelled part is one segment.
    edges = {time for one in annotation.annotated for time in one}
    edges -= {time for one in annotation.segments for time in (one.start, one.end)}
    return Timeline(join(sorted(segments), edges), features.end, steps, features.name)


def fingerprint(
    features: Sequence[Features],
    config: Config,
    names: Sequence[str] | None,
    annotations: Annotations | None = None,
) -> str:
    """Return a hash of the features, settings, names, annotations and version."""
    digest = hashlib.blake2b(digest_size=16)
    relevant = {
        key: getattr(config, key)
        for key in ("method", "settings", "seed", "rate", "backbone", "false_alarms")
    }
    digest.update(json.dumps([relevant, names, __version__], sort_keys=True, default=str).encode())
    for one in features:
        digest.update(f"{one.name} {one.duration} {rows_digest(one.rows)}".encode())
    if annotations is not None:
        videos = {
            name: msgspec.structs.replace(one, origins=())
            for name, one in sorted(annotations.videos.items())
        }
        said = Annotations(videos=videos, recipe=annotations.recipe)
        digest.update(json.dumps(said.to_json()).encode())
    return digest.hexdigest()
