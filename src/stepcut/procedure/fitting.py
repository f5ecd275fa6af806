"""Fitting: from features and optional annotations to a learned state."""

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import Annotation, Annotations, gaps
from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.expectations import Expectations
from stepcut.checking.gate import learn_inputs
from stepcut.errors import OptionError
from stepcut.features.features import Features
from stepcut.features.video.sample import frame_at
from stepcut.files import whole_path
from stepcut.files.names import Fragment
from stepcut.methods.arithmetic import best_pairs
from stepcut.methods.constraints import Constraint, as_constraints
from stepcut.methods.hierarchy import build_hierarchy
from stepcut.methods.inputs import Array, Labels, plain_numbers
from stepcut.methods.method import LeftOut, Method, Reading
from stepcut.methods.quality import Quality, measure, warn_of_nothing_shared
from stepcut.parallel import one_blas_thread
from stepcut.procedure.document import join
from stepcut.procedure.labels import nameless
from stepcut.procedure.learned import Config, Digest, Learned, digest_of, find_copies, rows_digest
from stepcut.progress import Hook, Stage, silent
from stepcut.timeline import BACKGROUND, Segment, Timeline, runs, unnamed
from stepcut.version import __version__

Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""From pictures (H, W, 3) of one step to names, best first."""
WORDS, PICTURES = 2, 3


@one_blas_thread()
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

    names are all steps with "" for unnamed ones; before has their rows before teaching.
    """
    rows = [one.rows for one in features]
    said: list[Constraint | None] = []
    annotated = annotations or Annotations()
    heard = annotated.with_onsets()
    if annotations is not None:  # seconds become rows
        samples = {one.name: len(one.rows) for one in features}
        said = heard.constraints(samples, features[0].rate, names or [])
    constraints = None if annotations is None else _accepted(method, said, features)
    method = method.fit(rows, constraints, progress=progress, checkpoint=checkpoint)
    readings = [method.read(one) for one in rows]
    quality = Quality(warning=warn_of_nothing_shared(method.agreement_, method.steps_))
    if annotations is not None and method.left_out_ is not None:
        known = [None if one is None else one.labels for one in said]
        quality = measure(known, method.left_out_.labels, method.steps_)
    numbered = [str(number) for number in range(method.steps_)]
    tree = build_hierarchy([one.embedding for one in readings], method.labels_, numbered)
    labels = {one.name: numbers for one, numbers in zip(features, method.labels_, strict=True)}
    digests = {one.name: digest_of(one) for one in features}
    with Stage(progress, "order", total=len(features), unit="videos") as stage:
        expectations = _expect(features, method, readings, digests, config, annotations is None)
        stage.advance(len(features))
    steps = list(names) if names else [unnamed(number) for number in range(method.steps_)]
    if annotations is not None or before:
        steps = carry_names(names or [], annotated.steps, before or {}, labels)
    videos = {one.name: None if one.path is None else whole_path(one.path) for one in features}
    hints: dict[int, list[str]] = {}
    if namer is not None:
        rate = float(features[0].rate)
        hints = words_of_namer(namer, videos, labels, method.steps_, rate)
    return Learned(
        steps=steps,
        timelines={
            one.name: timeline_of(
                one, labels[one.name], read.probabilities, steps, heard.videos.get(one.name)
            )
            for one, read in zip(features, readings, strict=True)
        },
        samples={one.name: len(one.rows) for one in features},
        videos=videos,
        rate=features[0].rate,
        config=msgspec.structs.replace(
            config,
            settings=plain_numbers(method.settings()),
            quality=quality,
            hierarchy=tree.to_json(),
            suggestions={str(number): words for number, words in sorted(hints.items())},
        ),
        annotations=annotated,
        digests=digests,
        method=method,
        expectations=expectations,
    )


def _expect(
    features: Sequence[Features],
    method: Method,
    readings: Sequence[Reading],
    digests: Mapping[str, Digest],
    config: Config,
    unlabelled: bool,
) -> Expectations:
    # A video without any step is not a normal one, and a copy counts once.
    copies = find_copies(digests)
    pairs = enumerate(zip(features, method.labels_, strict=True))
    normal = [k for k, (one, labels) in pairs if (labels >= 0).any() and one.name not in copies]
    normal = normal or list(range(len(features)))
    probabilities = [one.probabilities for one in readings]
    left_out = method.left_out_ or LeftOut(
        method.labels_, probabilities, [one.novelty for one in readings]
    )
    left_out = left_out.of(normal)
    expectations = learn_expectations(
        # Without annotations, use held-out labels: they are as noisy as those of new videos.
        left_out.labels if unlabelled else [method.labels_[k] for k in normal],
        float(features[0].rate),
        probabilities=[probabilities[k] for k in normal],
        left_out=left_out,
        false_alarms=config.false_alarms,
        embeddings=[readings[k].embedding for k in normal],
        videos=[features[k].name for k in normal],
        labelled=not unlabelled,
    )
    return replace(expectations, inputs=learn_inputs([features[k] for k in normal]))


def refuse_transcripts(method: str) -> NoReturn:
    raise OptionError(
        f"method {method} does not learn from transcripts or recipes. Give labels, clicks or names "
        "instead, or use the default method.",
        setting="transcripts",
    )


def _accepted(
    method: Method, constraints: list[Constraint | None], features: Sequence[Features]
) -> list[Constraint | None]:
    """Clicks become one-row labels if the method takes only labels."""
    takes = method.learns_from
    if "transcript" not in takes and any(one and one.transcript for one in constraints):
        refuse_transcripts(type(method).__name__)
    if "clicks" in takes:
        return constraints
    pairs = zip(constraints, features, strict=True)
    return as_constraints(
        [None if one is None else one.as_labels(len(video.rows)) for one, video in pairs]
    )


def timeline_of(
    features: Features,
    labels: Labels,
    probabilities: Array,
    steps: Sequence[str],
    annotation: Annotation | None = None,
    names: Sequence[str | None] | None = None,
) -> Timeline:
    """Return a timeline from `labels` (T,) that are numbers in `names`; the annotation is kept."""
    place: dict[str | None, int] = {name: number for number, name in enumerate(steps)}
    shown = [place.get(name, BACKGROUND) for name in names or steps]
    numbers = np.array([*shown, BACKGROUND])[labels]
    rate = float(features.rate)
    confidence = probabilities[np.arange(len(labels)), np.maximum(labels, 0)]
    annotation = annotation or Annotation(end=features.end)
    edges = row_edges(labels, probabilities) / rate
    segments = annotation.labelled
    for begin, until in gaps(annotation.annotated, features.end):
        first = min(math.ceil(begin * rate - 0.5), len(labels) - 1)  # the row with this middle
        last = len(labels)
        if until < features.end:
            last = max(math.ceil(until * rate - 0.5), first + 1)
        for step, a, b in runs(numbers[first:last]).tolist():
            if step != BACKGROUND:
                start = begin if a == 0 else float(edges[first + a])
                stop = until if first + b == last else min(float(edges[first + b]), features.end)
                mean = float(confidence[first + a : first + b].mean())
                if start < stop:  # rows may continue after the end of the video
                    segments.append(Segment(start, stop, steps[step], mean))
    # A labelled segment that continues in the unlabelled part is one segment.
    joints = {time for one in annotation.annotated for time in one}
    joints -= {time for one in annotation.segments for time in (one.start, one.end)}
    return Timeline(join(sorted(segments), joints), features.end, steps, features.name)


def row_edges(labels: Labels, probabilities: Array) -> NDArray[np.float64]:
    """Where each row begins, and the last one ends, in rows, (T + 1,).

    Between two steps, it is where their log-probabilities, linear between the middles of the rows,
    are equal.
    """
    edges = np.arange(len(labels) + 1, dtype=np.float64)
    rows = 1 + np.flatnonzero((labels[1:] != labels[:-1]) & (labels[1:] >= 0) & (labels[:-1] >= 0))
    logs = np.log(np.maximum(probabilities, 1e-12))
    left, right = labels[rows - 1], labels[rows]
    before = logs[rows - 1, left] - logs[rows - 1, right]
    after = logs[rows, right] - logs[rows, left]
    turns = (before > 0) & (after > 0)
    edges[rows[turns]] += (before / np.maximum(before + after, 1e-12))[turns] - 0.5
    return edges


def with_fingerprint(
    config: Config,
    features: Sequence[Features],
    names: Sequence[str] | None,
    annotations: Annotations | None,
) -> Config:
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
    return msgspec.structs.replace(config, fingerprint=digest.hexdigest())


# ---------- names


def words_of_namer(
    namer: Namer,
    videos: Mapping[str, str | None],
    labels: Mapping[str, Labels],
    count: int,
    rate: float,
) -> dict[int, list[str]]:
    """Names that the namer gives to most steps are dropped."""
    found: dict[int, list[str]] = {}
    for step in range(count):
        rows = {name: np.flatnonzero(numbers == step) for name, numbers in labels.items()}
        frames = (
            frame_at(
                path,
                Fragment.of(name).start + (float(rows[name][len(rows[name]) // 2]) + 0.5) / rate,
            )
            for name, path in videos.items()
            if path and len(rows[name]) and Path(path).is_file()
        )
        pictures = list(islice((frame for frame in frames if frame is not None), PICTURES))
        if pictures:
            names = namer(pictures)
            found[step] = [names] if isinstance(names, str) else [str(name) for name in names]
    words = [word for mine in found.values() for word in set(mine)]
    common = {word for word in words if words.count(word) > max(1, len(found) / 2)}
    return {
        step: [word for word in mine if word not in common][:WORDS] for step, mine in found.items()
    }


def carry_names(
    names: Sequence[str],
    annotated: Collection[str],
    before: Mapping[str, Labels],
    after: Mapping[str, Labels],
) -> list[str]:
    """Annotated names stay; others go to the steps that share most rows with theirs `before`."""
    count = len(names)
    free = [number for number, name in enumerate(names) if name not in annotated]
    old = [number for number in free if names[number]]
    kept = [name if name in annotated else "" for name in names]
    alike = shared_rows(before, after, count, count) + 0.5 * np.eye(count)
    if before:
        for i, j in best_pairs(alike[np.ix_(old, free)], least=-1):
            kept[free[j]] = names[old[i]]
    return [name or nameless(number) for number, name in enumerate(kept)]


def shared_rows(
    before: Mapping[str, Labels], after: Mapping[str, Labels], rows: int, columns: int
) -> Labels:
    """Return (rows, columns)."""
    shared = np.zeros((rows + 1, columns + 1), dtype=np.int64)
    for name in before.keys() & after.keys():
        np.add.at(shared, (before[name], after[name]), 1)  # -1 is the last
    return shared[:-1, :-1]
