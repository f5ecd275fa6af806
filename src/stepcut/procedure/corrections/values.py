"""Values of an edit, which come from JSON: read each from its key, and refuse wrong ones."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from stepcut.errors import OptionError, check_kind, unknown
from stepcut.procedure.corrections.document import Document

Edit = Mapping[str, Any]

LONGEST_NAME = 200
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f"))
"""Invisible characters that are allowed in names: joiners (Persian, 👩‍🍳) and direction marks."""


def is_place(value: object, count: int) -> TypeGuard[int]:
    """Whether a value is a whole number from 0 to `count` - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def step_in(document: Document, edit: Edit, key: str = "step") -> int:
    """The number of a step that is not merged."""
    value = edit.get(key)
    if is_place(value, document.fresh) and document.step(value) is not None:
        return value
    raise OptionError(
        f"{key}={value!r} is not a step. Choose from {[step.number for step in document.steps]}.",
        setting=key,
        value=value,
    )


def learned_step_in(document: Document, edit: Edit) -> int:
    """The number of a step, which may be merged."""
    value = edit.get("step")
    if is_place(value, document.fresh):
        return value
    raise OptionError(
        f"step={value!r} is not a step; give a number from 0 to {document.fresh - 1}."
    )


def name_in(value: object) -> str:
    """The name of a step, without superfluous spaces."""
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not (seen := name.translate(JOINERS)) or len(name) > LONGEST_NAME or not seen.isprintable():
        raise OptionError(
            f"name={value!r} is not allowed; give 1 to {LONGEST_NAME} printable characters.",
            setting="name",
            value=value,
        )
    return name


def video_in(document: Document, edit: Edit) -> str:
    """The name of a video."""
    value = edit.get("video")
    if isinstance(value, str) and value in document.parts:
        return value
    raise unknown("video", value, document.parts)


def time_in(document: Document, edit: Edit, key: str = "time") -> float:
    """Seconds, clipped to the video."""
    value, end = edit.get(key), document.durations[video_in(document, edit)]
    if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12:
        return rounded(min(max(value, 0.0), end))
    raise OptionError(
        f"{key}={str(value)[:40]!r} is not a time; give seconds from 0 to {end:g}.",
        setting=key,
        value=value,
    )


def click_in(document: Document, video: str, edit: Edit) -> int:
    """The place of a click of the video."""
    place, count = edit.get("click"), len(document.clicks.get(video, ()))
    if is_place(place, count):
        return place
    raise OptionError(f"click={place!r} is not a click of {video}; it has {count}, from 0.")


def flag_in(edit: Edit, key: str) -> bool:
    """True or false; true by default."""
    value = edit.get(key, True)
    check_kind(key, value, bool, "true or false")
    return bool(value)


def rounded(seconds: float) -> float:
    """Round to a millisecond."""
    return round(seconds, 3)
