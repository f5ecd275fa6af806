"""Procedure: what was learned from the videos of one task, and what can be done with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from stepcut.errors import OptionError, unknown
from stepcut.progress import Hook, silent
from stepcut.timeline import Timeline

if TYPE_CHECKING:
    from stepcut.checking.calibrate import Expectations
    from stepcut.checking.check import Report
    from stepcut.features.contract import Features
    from stepcut.files.addresses import AnyPath
    from stepcut.guidance.guide import Guide
    from stepcut.methods.contract import Array, Labels, Method
    from stepcut.order import Orders, ProcedureGraph

    Video = str | os.PathLike[str] | Array | Features


@dataclass(eq=False)
class Procedure:
    """The steps of a task, where they lie in every video, and the model that finds them in a new one.

    `learn` makes it, `save` keeps it as a folder, `stepcut.load` brings it back.
    """

    steps: list[str]
    """The names of the steps; a step's number is its place in this list."""
    timelines: dict[str, Timeline]
    """Which step is done when, in seconds, for every video that was learned from."""
    samples: dict[str, int]
    """How many rows of features each of those videos has."""
    videos: dict[str, str | None]
    """Where each video lies; None where only features were given."""
    rate: Fraction
    """Rows of features per second."""
    method: Method
    """The fitted method, from features to steps."""
    expectations: Expectations
    """What a normal video looks like: the thresholds of `check`."""
    config: dict[str, Any] = field(default_factory=dict)
    """Every setting, seed and version that made this procedure."""

    # ------------------------------------------------------------------ what was learned

    @property
    def labels(self) -> dict[str, Labels]:
        """The step number at each sampled time of each video, (T,), -1 for none."""
        return {name: self._numbers(name) for name in self.timelines}

    def _numbers(self, name: str) -> Labels:
        return self.timelines[name].labels(np.arange(self.samples[name]) / float(self.rate))

    @property
    def orders(self) -> Orders:
        """The orders in which people do the steps: distinct ones, the most followed first."""
        from stepcut.order import rank_orders, video_order

        return rank_orders({name: video_order(labels) for name, labels in self.labels.items()}, names=self.steps)

    @property
    def graph(self) -> ProcedureGraph:
        """What must precede what, what is optional, what repeats, and what comes next."""
        return self.expectations.usual.graph.renamed(self.steps)

    def rename(self, names: Mapping[int | str, str]) -> Procedure:
        """Give steps the names a person would use, by number or by present name. Changes this procedure and returns it.

        `proc.rename({0: "butter bread", "step 1": "add jam"})`
        """
        renamed = list(self.steps)
        for step, name in names.items():
            renamed[self._number(step)] = name
        if len(set(renamed)) != len(renamed):
            twice = next(name for name in renamed if renamed.count(name) > 1)
            raise OptionError(
                f"two steps would be called {twice!r}; names must differ. To merge steps, use stepcut view."
            )
        change = dict(zip(self.steps, renamed, strict=True))
        self.timelines = {name: timeline.rename(change) for name, timeline in self.timelines.items()}
        self.steps = renamed
        return self

    def _number(self, step: int | str) -> int:
        if isinstance(step, str) and step in self.steps:
            return self.steps.index(step)
        if isinstance(step, int) and 0 <= step < len(self.steps):
            return step
        raise OptionError(unknown("step", step, self.steps) + f" Or give a number from 0 to {len(self.steps) - 1}.")

    # ------------------------------------------------------------------ a new video

    def features(self, video: Video, progress: Hook = silent) -> Features:
        """The features of a video as this procedure sees it: same backbone, same rate. `progress` counts its frames."""
        from stepcut.features.read import read_like

        return read_like(self.config, self.rate, video, progress)

    def segment(self, video: Video, progress: Hook = silent) -> Timeline:
        """Cut a new video (a path, a feature file or an array) into the steps, without learning anything anew."""
        features = self.features(video, progress)
        rows = [features.rows]
        labels, memberships = self.method.predict(rows)[0], self.method.memberships(rows)[0]
        return timeline_of(labels, memberships, self.rate, self.steps, features)

    def check(self, video: Video, progress: Hook = silent) -> Report:
        """What a new video misses, repeats, does out of order, too quickly or slowly, and what matches no step."""
        from stepcut.checking.check import check_labels

        features = self.features(video, progress)
        rows = [features.rows]
        return check_labels(
            self.method.predict(rows)[0],
            rate=float(self.rate),
            memberships=self.method.memberships(rows)[0],
            novelty=self.method.novelty(rows)[0],
            expectations=self.expectations,
            names=self.steps,
            video=features.name,
        )

    def guide(self) -> Guide:
        """Follow somebody frame by frame: the step now, what is done, what may come next. Sees the past only."""
        from stepcut.guidance.guide import Guide

        return Guide(self.method.online(), float(self.rate), self.graph, self.expectations, self.steps)

    def plan(self) -> dict[str, Any]:
        """The procedure for planners and robots: steps, preconditions, durations, alternatives. JSON-able."""
        from stepcut.order.plan import make_plan

        return make_plan(self.graph, self.orders, self.steps)

    # ------------------------------------------------------------------ keeping and comparing

    def save(self, path: AnyPath) -> None:
        """Keep it as a folder; a procedure that is there already is replaced, anything else is left alone."""
        from stepcut.procedure.storage import save

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


def timeline_of(labels: Labels, memberships: Array, rate: Fraction, steps: list[str], features: Features) -> Timeline:
    """The timeline of one cut video; a segment's confidence is the mean membership of its frames in its step."""
    chosen = memberships[np.arange(len(labels)), np.maximum(labels, 0)]
    # The last row stands for some time too, even where a file says it ends right there.
    duration = max(features.duration, (len(labels) - 0.5) / float(rate))
    return Timeline.from_labels(labels, float(rate), steps, duration, confidence=chosen, video=features.name)
