"""What a procedure is made of: what was learned, what a person corrected and labelled, and the model."""

import json
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from importlib import resources
from string import Template
from typing import Any, Self

import numpy as np

from stepcut.checking.expectations import Expectations
from stepcut.errors import ProcedureError
from stepcut.features.contract import Features
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import Labels
from stepcut.methods.method import Method
from stepcut.methods.quality import Quality, not_measured
from stepcut.order import (
    Orders,
    ProcedureGraph,
    graph_of_labels,
    orders_of_labels,
    rank_orders,
    video_order,
)
from stepcut.procedure.corrections.document import (
    Click,
    Document,
    Fine,
    Stretches,
    document_of,
)
from stepcut.procedure.corrections.log import Corrections
from stepcut.procedure.words import middles, stretches_of
from stepcut.timeline import Timeline, is_unnamed
from stepcut.version import __version__

SAME_STEPS = (
    "rename",
    "colour",
    "confirm",
    "cut",
    "severity",
    "mistake",
    "click",
    "move_click",
    "remove_click",
    "clicks_complete",
    "fine",
)
"""Corrections after which the same steps are done in the same order."""


@dataclass(eq=False, kw_only=True)
class Outline:
    """A procedure without its model: quick to read, and enough to look at it and to correct it."""

    learned_steps: list[str]
    """The names of the learned steps; a step's number in the model is its place in this list."""
    learned_timelines: dict[str, Timeline]
    """Which step is done when, in seconds, for every video that was learned from, before anybody corrected it."""
    samples: dict[str, int]
    """How many rows of features each of those videos has."""
    videos: dict[str, str | None]
    """Where each video lies; None where only features were given."""
    rate: Fraction
    """Rows of features per second."""
    config: dict[str, Any] = field(default_factory=dict)
    """Every setting, seed and version that made this procedure."""
    corrections: Corrections = field(default_factory=Corrections)
    """What a person changed since it was learned."""
    given: dict[str, Labels] = field(default_factory=dict)
    """The labels that it was taught: for some videos (T,), -1 for background, -2 where nobody said anything."""
    said: dict[str, Stretches] = field(default_factory=dict)
    """The stretches of those videos that the labels speak of: there the timeline is what a person wrote."""

    def __post_init__(self) -> None:
        rows = {name: rows for name, rows in self.given.items() if name not in self.said}
        self.said |= {
            n: stretches_of(one, self.rate, self.learned_timelines[n].end)
            for n, one in rows.items()
        }
        if not self.corrections.of:
            self.corrections = replace(self.corrections, of=str(self.config.get("fingerprint", "")))
        self._shown: tuple[Corrections, Document] | None = None

    @classmethod
    def grown(cls, part: "Outline", **more: Any) -> Self:
        """A record made of an outline, or a procedure made of a record: all fields of `part`, and `more`."""
        return cls(**{one.name: getattr(part, one.name) for one in fields(part)}, **more)

    @cached_property
    def learned(self) -> Document:
        """What was learned, before anybody corrected it."""
        marked = set(self.config.get("mistakes", ())) & self.samples.keys()
        number = {name: step for step, name in enumerate(self.learned_steps)}
        clicks = {
            video: tuple(Click(float(time), number[name]) for time, name in mine if name in number)
            for video, mine in self.config.get("clicks", {}).items()
            if video in self.samples
        }
        accepted = frozenset(
            Fine(str(kind), None if name is None else number[name], str(video))
            for kind, name, video in self.config.get("accepted", ())
            if name is None or name in number
        )
        return replace(
            document_of(self.learned_steps, self.learned_timelines, self.said, marked),
            clicks=clicks,
            complete=frozenset(self.config.get("complete", ())) & clicks.keys(),
            fine=accepted,
        )

    @property
    def document(self) -> Document:
        """What was learned with the corrections in it: what a person sees."""
        if self._shown is None or self._shown[0] is not self.corrections:
            self._shown = (self.corrections, self.corrections.apply(self.learned))
        return self._shown[1]

    @property
    def steps(self) -> list[str]:
        """The names of the steps as a person sees them; a step's number in `labels` is its place in this list."""
        return [step.name for step in self.document.steps]

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each step by its name, #rrggbb, as a person chose it: in the viewer, the report and plots."""
        return {step.name: step.colour for step in self.document.steps}

    @property
    def timelines(self) -> dict[str, Timeline]:
        """Which step is done when, in seconds, for every video that was learned from, as a person corrected it."""
        return self.document.timelines() if self.corrections.done else self.learned_timelines

    @property
    def labels(self) -> dict[str, Labels]:
        """The step number of each row of features of each video, (T,), -1 for none: what its middle shows."""
        return {
            name: timeline.labels(middles(self.samples[name], self.rate, timeline.end))
            for name, timeline in self.timelines.items()
        }

    @property
    def model_steps(self) -> list[str]:
        """The names of the model's steps: the one that a person gave where the step still stands."""
        given = [self.document.step(number) for number in range(len(self.learned_steps))]
        gone = [
            name if name not in self.steps else f"{name} (merged)" for name in self.learned_steps
        ]
        return [step.name if step else name for step, name in zip(given, gone, strict=True)]

    @property
    def shown_steps(self) -> Labels:
        """For each step of the model its place in `steps`, -1 where it is background by now; at the end -1 again."""
        place = {step.number: number for number, step in enumerate(self.document.steps)}
        now = [self.document.stands_for(number) for number in range(len(self.learned_steps))]
        return np.array([*(-1 if number is None else place[number] for number in now), -1])

    @property
    def untaught(self) -> str:
        """What check and guide do not know of the corrections, in words: they find the steps that were learned."""
        names = [
            step.name for step in self.document.steps if step.number >= len(self.learned_steps)
        ]
        gone = [
            self.learned_steps[number]
            for number in self.document.merged
            if number < len(self.learned_steps)
        ]
        said = [
            f"{what} ({', '.join(some)})"
            for what, some in (("merged", gone), ("new", names))
            if some
        ]
        if not said:
            return ""
        return f"steps were corrected since it was learned, {' and '.join(said)}: check and guide know them after teach."

    @property
    def quality(self) -> Quality:
        """How far to trust the steps: `.grade` is good, doubtful or clock; `.reason` in a sentence."""
        kept = self.config.get("quality")
        return not_measured() if kept is None else Quality.from_json(kept)

    def hierarchy(self) -> Hierarchy:
        """Which steps join when fewer are wanted, and which parts with one more: one tree for all videos."""
        kept = self.config.get("hierarchy")
        if kept is None:
            raise ProcedureError(
                "this procedure was learned by a version that kept no hierarchy; learn it again."
            )
        return Hierarchy.from_json(kept, self.model_steps)

    @property
    def suggestions(self) -> dict[int, list[str]]:
        """Words for steps that nobody has named, by number: what they look like, or what the recipe may call them.
        They become names only when a person says so."""
        offered = self.config.get("suggestions", {})
        return {
            place: list(offered[str(step.number)])
            for place, step in enumerate(self.document.steps)
            if str(step.number) in offered and is_unnamed(step.name)
        }


@dataclass(eq=False, kw_only=True)
class Record(Outline):
    """The steps of a task, where they lie in every video, and the model that finds them in a new one."""

    method: Method
    """The fitted method, from features to steps."""
    learned_expectations: Expectations
    """What a normal video looks like where all of them count as normal."""
    at_hand: list[Features] | None = None
    """The features that it was learned from, where this program has them."""
    trusted: bool = True
    """Whether code that its config names, such as a backbone of somebody's own, may run, and its addresses be asked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._expected: tuple[Expectations, Document, Expectations] | None = None

    @property
    def expectations(self) -> Expectations:
        """What a normal video looks like, by those that hold no mistakes: the thresholds of `check`."""
        learned, document = self.learned_expectations, self.document
        if (
            self._expected is None
            or self._expected[0] is not learned
            or self._expected[1] is not document
        ):
            self._expected = (learned, document, learned.without(document.mistakes))
        return self._expected[2]

    @property
    def orders(self) -> Orders:
        """The orders in which people do the steps: distinct ones, the most followed first. By mean times; where steps
        come again, by when each is first done, but for the paper's method."""
        if self.method.orders_by_mean:
            return rank_orders(
                {name: video_order(labels) for name, labels in self.labels.items()},
                names=self.steps,
            )
        return orders_of_labels(self.labels, float(self.rate), self.steps)

    @property
    def graph(self) -> ProcedureGraph:
        """What must precede what, what is optional, what repeats, and what comes next."""
        if any(edit["do"] not in SAME_STEPS for edit in self.corrections.done):
            graph = graph_of_labels(self.labels, float(self.rate), self.steps)
        else:
            graph = self.expectations.usual.graph.renamed(self.steps)
        return replace(graph, colours=tuple(self.colours.values()))

    def card(self) -> str:
        """README.md: what this is, in the form of a model card."""
        config, labelled = self.config, len(self.given)
        template = (resources.files("stepcut.procedure") / "card.md").read_text(encoding="utf-8")
        return Template(template).substitute(
            version=__version__,
            count=len(self.steps),
            amount=len(self.timelines),
            steps="\n".join(f"{k}. {name}" for k, name in enumerate(self.steps, start=1)),
            videos="\n".join(
                f"- {name} ({timeline.end:.0f} s)" for name, timeline in self.timelines.items()
            ),
            labels=f"{labelled} of them with labels from a person"
            if labelled
            else "without labels",
            found="The steps are those that a person labelled; the other videos were not looked at by anybody."
            if labelled
            else "The steps were found by what the videos share; nobody has named or confirmed them.",
            method=config["method"],
            seed=config["seed"],
            backbone=config["backbone"]["name"],
            rate=self.rate,
            settings=json.dumps(config["settings"], indent=1),
        )
