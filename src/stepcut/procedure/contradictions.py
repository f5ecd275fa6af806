"""Contradictions between the annotations of one video: labels, clicks, transcript and recipe."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from stepcut.annotations import Annotation, RecipeStep, label_around
from stepcut.errors import AnnotationError
from stepcut.timeline import Timeline


def refuse_contradictions(
    annotation: Annotation, video: str, recipe: Sequence[RecipeStep] = ()
) -> None:
    """Refuse contradictory annotations; the `recipe` applies to a video without a transcript.

    Raises
    ------
    AnnotationError
        Labels overlap, or labels, clicks and transcript contradict each other (`video`).
    """
    refuse_overlaps(annotation.timeline, video)
    for one, other in pairwise(annotation.clicks):
        if one.start == other.start and one.step != other.step:
            raise AnnotationError(
                f"{video}: two clicks are at {one.start:g} s, {one.step!r} and {other.step!r}. "
                "Move or remove one of them.",
                video=video,
            )
    labels = annotation.timeline.intervals
    for one in annotation.segments:
        label = label_around(labels, one)
        if label is not None and label.step != one.step:
            raise AnnotationError(
                f"{video}: the click {one.step!r} at {one.start:g} s is inside the label "
                f"{label.step!r}, {label.start:g} to {label.end:g} s. Correct one of the two.",
                video=video,
            )
    if annotation.transcript:
        order = [RecipeStep(step) for step in annotation.transcript]
        _refuse_order(annotation, video, order, "transcript")
    else:
        _refuse_order(annotation, video, recipe, "recipe")


def refuse_overlaps(timeline: Timeline, video: str) -> None:
    """Refuse labels that overlap, in annotations or in labels to show."""
    if pairs := timeline.overlapping():
        one, other = pairs[0]
        raise AnnotationError(
            f"{video}: the labels {one.step!r} and {other.step!r} overlap at "
            f"{max(one.start, other.start):g} s. Shorten one of them. If labels overlap by one "
            "frame at most, run: stepcut convert LABELS FOLDER --to json --rate 30",
            video=video,
        )


def _refuse_order(
    annotation: Annotation, video: str, order: Sequence[RecipeStep], what: str
) -> None:
    """Refuse labels and clicks in an order that the transcript or the recipe rules out."""
    anytime = {one.name for one in order if one.any_time}
    shown = [one for one in annotation.segments if one.step not in anytime]
    fixed = [one for one in order if not one.any_time]
    if not fixed:
        return
    listed = ", ".join(one.name for one in fixed)
    # One step may be labelled in several parts.
    fixed = [next(same) for _, same in groupby(fixed, key=lambda one: one.name)]
    places = {0}  # how much of the order may be done
    for one in (next(same) for _, same in groupby(sorted(shown), key=lambda one: one.step)):
        places = {
            last + 1
            for first in places
            for last in range(first, len(fixed))
            if fixed[last].name == one.step
            and (not annotation.whole or all(each.optional for each in fixed[first:last]))
        }
        if not places:
            kind = "click" if one.start == one.end else "label"
            raise AnnotationError(
                f"{video}: the {kind} {one.step!r} at {one.start:g} s contradicts the {what} "
                f"({listed}). Correct one of the two.",
                video=video,
            )
    left = [[one.name for one in fixed[place:] if not one.optional] for place in places]
    if annotation.whole and all(left):
        raise AnnotationError(
            f"{video}: the labels of the whole video lack {left[0][0]!r} of the {what} ({listed}). "
            "Correct one of the two.",
            video=video,
        )
