"""Edits of a document: apply, check and describe them.

An edit is a JSON object with the verb under "do". `apply` checks every value first.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stepcut.errors import OptionError, choose
from stepcut.files.names import plain
from stepcut.procedure.corrections import verbs
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.values import Edit


class Verb(NamedTuple):
    """A kind of edit."""

    run: Callable[[Document, Edit], Document]
    keys: str
    """The values that it uses."""
    words: str
    """Its description."""
    negated: str = ""
    """The description if the last of its values is false."""


VERBS = {
    "rename": Verb(verbs.rename, "step name names", "rename {step} to {name}"),
    "colour": Verb(verbs.colour, "step colour", "colour {step}"),
    "add": Verb(verbs.add, "name", "add step {name}"),
    "merge": Verb(verbs.merge, "step into", "merge {step} into {into}"),
    "cut": Verb(verbs.cut, "video time", "split a segment in {video}"),
    "split": Verb(verbs.split, "video time everywhere", "split a step in {video}"),
    "move": Verb(verbs.move, "video part edge time", "move a boundary in {video}"),
    "mark": Verb(verbs.mark, "video start end step", "mark {step} in {video}"),
    "confirm": Verb(verbs.confirm, "video", "confirm {video}"),
    "severity": Verb(verbs.severity, "step severity kinds were", "set the severity of {step}"),
    "mistake": Verb(
        verbs.mistake, "video holds", "{video} contains a mistake", "{video} is normal"
    ),
    "click": Verb(verbs.click, "video time step", "click {step} in {video}"),
    "move_click": Verb(verbs.move_click, "video click time", "move a click in {video}"),
    "remove_click": Verb(verbs.remove_click, "video click", "remove a click in {video}"),
    "clicks_complete": Verb(
        verbs.clicks_complete,
        "video complete",
        "clicks in {video} are complete",
        "clicks in {video} are incomplete",
    ),
    "fine": Verb(
        verbs.fine,
        "kind step video fine",
        "accept a finding in {video}",
        "stop accepting a finding in {video}",
    ),
}


def apply(document: Document, edit: Edit) -> Document:
    """Return the document after one edit; refuse an edit that does not fit."""
    if not isinstance(edit, Mapping):
        raise OptionError(f"an edit must be an object with a verb under 'do', not {edit!r}.")
    after = choose("do", str(edit.get("do")), VERBS).run(document, edit)
    names = [step.name for step in after.steps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(
            f"name={twice!r} is already a step. Merge the two instead.", setting="name", value=twice
        )
    return after


def correct(document: Document, edit: Edit) -> Document:
    """Apply a new edit; refuse a name that differs from another one only by capitals or spaces.

    Stored edits skip this check, so that old corrections still load.
    """
    after = apply(document, edit)
    if edit["do"] not in ("rename", "add"):
        return after
    for step in (step for step in after.steps if step not in document.steps):
        same = (o for o in after.steps if o != step and plain(o.name) == plain(step.name))
        if other := next(same, None):
            raise OptionError(
                f"name={step.name!r} is already a step, {other.name!r}. Merge the two instead.",
                setting="name",
                value=step.name,
            )
    return after


def plain_edit(edit: Edit) -> Edit:
    """Return an `edit` with only the values that its verb uses."""
    kept = {key: edit[key] for key in ("do", *VERBS[edit["do"]].keys.split()) if key in edit}
    try:
        json.dumps(kept, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise OptionError(
            f"the edit {edit['do']} cannot be saved as JSON ({error}). Use strings and numbers."
        ) from error
    return kept


def describe(document: Document, edit: Edit) -> str:
    """Return a description of an edit of the `document`."""
    verb, several = VERBS[edit["do"]], edit.get("names")
    if several is not None and edit["do"] == "rename":
        return f"rename {len(several)} steps"
    step, into = (
        document.step(edit[key]) if edit.get(key) is not None else None for key in ("step", "into")
    )
    negated = verb.negated and not edit.get(verb.keys.split()[-1], True)
    return (verb.negated if negated else verb.words).format(
        step=step.name if step else "background",
        into=into.name if into else "background",
        name=edit.get("name"),
        video=edit.get("video", ""),
    )
