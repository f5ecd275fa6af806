"""Procedure: what was learned from the videos of one task, and what can be done with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from stepcut.errors import OptionError, unknown
from stepcut.files.addresses import whole_path
from stepcut.procedure.corrections.operations import apply
from stepcut.procedure.record import Record
from stepcut.procedure.storage import damaged, read, save
from stepcut.progress import Hook, silent
from stepcut.timeline import Timeline

if TYPE_CHECKING:
    from stepcut.checking.check import Report
    from stepcut.features.contract import Features
    from stepcut.features.spec import FeatureSpec
    from stepcut.files.addresses import AnyPath
    from stepcut.guidance.guide import Guide
    from stepcut.methods.contract import Array, Labels, Method

    Video = str | os.PathLike[str] | Array | Features


class Procedure(Record):
    """The steps of a task, where they lie in every video, and the model that finds them in a new one.

    `learn` makes it, `save` keeps it as a folder, `stepcut.load` brings it back.
    """

    # ------------------------------------------------------------------ what a person says

    def rename(self, names: Mapping[int | str, str]) -> Procedure:
        """Give steps the names a person would use, by number or by present name. Changes this procedure and returns it.

        `proc.rename({0: "butter bread", "step 1": "add jam"})`
        """
        shown = self.document.steps
        given = {shown[self._number(step)]: name for step, name in names.items()}
        changed = {str(step.number): name for step, name in given.items() if step.name != name}
        if changed:
            edit = {"do": "rename", "names": changed}
            apply(self.document, edit)
            self.corrections = self.corrections.do(edit)
        return self

    def _number(self, step: int | str) -> int:
        if isinstance(step, str) and step in self.steps:
            return self.steps.index(step)
        if isinstance(step, int) and 0 <= step < len(self.steps):
            return step
        raise OptionError(unknown("step", step, self.steps) + f" Or give a number from 0 to {len(self.steps) - 1}.")

    # ------------------------------------------------------------------ a new video

    @property
    def spec(self) -> FeatureSpec | None:
        """How features are made of videos; None where it was learned from features of which nothing else is known."""
        from stepcut.features.spec import FeatureSpec

        return FeatureSpec.from_json(self.config["backbone"])

    def features(self, video: Video, device: str = "auto", progress: Hook = silent) -> Features:
        """The features of a video, made as those that this was learned from: same backbone, same rate.

        video     a path, a feature file, an array, or features
        device    where the backbone runs: auto, cpu or cuda
        progress  hears how far the work is
        """
        from stepcut.features.read import read_like

        return read_like(video, self.rate, self.config["shape"], self.spec, device, progress)

    def segment(self, video: Video, device: str = "auto", progress: Hook = silent) -> Timeline:
        """Cut a new video into the steps, without learning anything anew; the settings are those of `features`."""
        features = self.features(video, device, progress)
        rows = [features.rows]
        if features.name in self.document.known and self._is_learned(features):
            return self.timelines[features.name]
        labels, memberships = self.method.predict(rows)[0], self.method.memberships(rows)[0]
        places = {step.number: place for place, step in enumerate(self.document.steps)}
        now = [self.document.stands_for(number) for number in range(len(self.learned_steps))]
        shown = np.array([-1 if number is None else places[number] for number in now] + [-1])
        sure = memberships[np.arange(len(labels)), np.maximum(labels, 0)]
        return timeline_of(shown[labels], sure, self.rate, self.steps, features)

    def _is_learned(self, features: Features) -> bool:
        """Whether these are the features of the video of that name that was learned from."""
        if self.videos[features.name] is not None and features.path is not None:
            return whole_path(features.path) == self.videos[features.name]
        cut = self.method.predict([features.rows])[0]
        return np.array_equal(cut, self.method.labels_[list(self.samples).index(features.name)])

    def check(self, video: Video, device: str = "auto", progress: Hook = silent) -> Report:
        """What a new video misses, repeats, does out of order, too quickly or slowly, and what matches no step.

        The settings are those of `features`.
        """
        from stepcut.checking.check import check_labels

        features = self.features(video, device, progress)
        rows = [features.rows]
        return check_labels(
            self.method.predict(rows)[0],
            rate=float(self.rate),
            memberships=self.method.memberships(rows)[0],
            novelty=self.method.novelty(rows)[0],
            expectations=self.expectations,
            names=self.model_steps,
            video=features.name,
        )

    def guide(self) -> Guide:
        """Follow somebody frame by frame: the step now, what is done, what may come next. Sees the past only."""
        from stepcut.guidance.guide import Guide

        graph = self.expectations.usual.graph.renamed(self.model_steps)
        return Guide(self.method.online(), float(self.rate), graph, self.expectations, self.model_steps)

    def plan(self) -> dict[str, Any]:
        """The procedure for planners and robots: steps, preconditions, durations, alternatives. JSON-able."""
        from stepcut.order.plan import make_plan

        return make_plan(self.graph, self.orders, self.steps)

    # ------------------------------------------------------------------ keeping and comparing

    def save(self, path: AnyPath) -> None:
        """Keep it as a folder at `path`; a procedure that is there already is replaced, anything else is left alone.

        Corrections that were made there since are kept; where they belong to another learned state, it is refused.
        """
        save(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Procedure):
            return NotImplemented
        mine, theirs = self.method.state(), other.method.state()
        same_state = mine.keys() == theirs.keys() and all(np.array_equal(mine[key], theirs[key]) for key in mine)
        return same_state and all(getattr(self, part) == getattr(other, part) for part in _COMPARED)

    # ------------------------------------------------------------------ looking at it

    def __repr__(self) -> str:
        hours = sum(timeline.end for timeline in self.timelines.values()) / 3600
        return f"<Procedure {len(self.steps)} steps from {len(self.timelines)} videos, {hours:.2f} h>"

    def __str__(self) -> str:
        names = "\n".join(f"  {number}  {name}" for number, name in enumerate(self.steps))
        return f"{self!r}\n{names}\n{self.orders}"

    def _repr_html_(self) -> str:
        """The names on their colours, and the timelines of all videos on one scale, for notebooks."""
        from html import escape

        from stepcut.colours import colour
        from stepcut.timeline import draw_axis, legend

        chips = legend({name: colour(number) for number, name in enumerate(self.steps)})
        end = max((timeline.end for timeline in self.timelines.values()), default=0.0)
        bars = "".join(
            f"<div>{escape(name)}</div>{timeline.to_svg(end=end)}" for name, timeline in self.timelines.items()
        )
        return f"<div><p>{escape(repr(self))}</p><p>{chips}</p>{bars}{draw_axis(end)}</div>"


_COMPARED: tuple[str, ...] = ("steps", "timelines", "samples", "videos", "rate", "expectations", "config")


def load(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> Procedure:
    """Read a procedure that `save` wrote, with what a person corrected since.

    path    the folder, or an address (s3://, gs://)
    method  the class of a method of your own that it was learned with
    trust   import the code that the procedure names; without it, a procedure is data and runs nothing
    """
    record = read(path, method, trust)
    procedure = Procedure(**{part.name: getattr(record, part.name) for part in fields(Record)})
    with damaged(path):
        _try(procedure)
    return procedure


def _try(procedure: Procedure) -> None:
    """Put two rows of nothing through it: what does not fit together is found here, not in the middle of the work."""
    from stepcut.checking.check import check_labels

    count, method = len(procedure.learned_steps), procedure.method
    rows = np.zeros((2, *map(int, procedure.config["shape"])), dtype=np.float32)
    shares = method.memberships([rows])[0]
    if shares.shape != (2, count) or not np.isfinite(shares).all():
        raise ValueError(f"memberships {shares.shape} for {count} steps")
    if not np.isfinite(method.novelty([rows])[0]).all():
        raise ValueError("novelty is not finite")
    if [len(cut) for cut in method.labels_] != list(procedure.samples.values()):
        raise ValueError("the model was learned from other videos")
    every = np.repeat(np.arange(count), 2)
    check_labels(every, float(procedure.rate), procedure.expectations, names=procedure.model_steps)
    procedure.check(rows)
    procedure.segment(rows)
    procedure.guide().push(0.0, rows[0])
    procedure.plan()


def timeline_of(labels: Labels, sure: Array, rate: Fraction, steps: Sequence[str], features: Features) -> Timeline:
    """The timeline of one cut video.

    labels    the step number of each row, (T,), -1 for none
    sure      how much each row belongs to its step, (T,); a segment's confidence is the mean of its rows
    rate      rows per second
    steps     the names of the steps
    features  the features that were cut
    """
    # The last row stands for some time too, even where a file says it ends right there.
    duration = max(features.duration, (len(labels) - 0.5) / float(rate))
    return Timeline.from_labels(labels, float(rate), steps, duration, confidence=sure, video=features.name)
