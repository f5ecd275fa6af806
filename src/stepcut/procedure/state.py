"""ProcedureState: the steps, timelines and annotations of a procedure, learned and corrected."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import resources
from string import Template
from typing import Any, Self

import msgspec

from stepcut.annotations import Annotations, middles
from stepcut.checking.expectations import Expectations
from stepcut.errors import OptionError, ProcedureError, check_kind
from stepcut.features.features import Features
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import Labels
from stepcut.methods.method import Method
from stepcut.methods.quality import Quality
from stepcut.order import (
    Orders,
    ProcedureGraph,
    graph_of_labels,
    orders_of_labels,
    rank_orders,
    video_order,
)
from stepcut.order.orders import number_of
from stepcut.order.plan import make_plan
from stepcut.plugins import drawing
from stepcut.procedure.content import Digest, changed_videos
from stepcut.procedure.corrections.document import Document, document_of
from stepcut.procedure.corrections.log import Corrections, apply_severity
from stepcut.procedure.corrections.verbs import Edit, correct
from stepcut.procedure.labels import find_labelled
from stepcut.timeline import Timeline, is_unnamed
from stepcut.version import __version__

SAME_STEPS = (
    "rename", "colour", "confirm", "cut", "severity", "mistake", "click", "move_click",
    "remove_click", "clicks_complete", "fine",
)  # fmt: skip
"""Corrections that change neither the set of steps nor their order."""


class _Unread:
    """Placeholder for a model that was not read; viewing timelines does not need one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own inspection
            raise AttributeError(name)
        raise ProcedureError(
            "this procedure has timelines but no model; learn one with: stepcut learn"
        )


UNREAD: Any = _Unread()
UNEDITED: Any = None
"""Stands for no corrections of the learned steps and timelines."""


@dataclass(eq=False, kw_only=True, repr=False)
class ProcedureState:
    """The steps of a task, their timeline in every video, and their reference statistics."""

    learned_steps: list[str]
    """Names of the learned steps; the index in this list is the model's step number."""
    learned_timelines: dict[str, Timeline]
    """The timeline of every training video, in seconds, before corrections."""
    samples: dict[str, int]
    """The number of feature rows of each training video."""
    videos: dict[str, str | None]
    """The path of each video; None if the procedure was learned from features only."""
    rate: Fraction
    """Rows of features per second."""
    config: dict[str, Any] = field(default_factory=dict)
    """Every setting, seed and version that produced this procedure."""
    learned_annotations: Annotations = field(default_factory=Annotations)
    """The annotations used for learning."""
    corrections: Corrections = UNEDITED
    """Corrections made since learning, with the documents that they make."""
    revision: str = ""
    """The name of the revision on disk that this was read from."""
    taught_from: tuple[str, Corrections] | None = None
    """The revision and the corrections that `teach` used."""
    digests: dict[str, Digest] = field(default_factory=dict)
    """Content hash of each training video; older versions stored none."""
    method: Method = UNREAD
    """The fitted method, from features to steps."""
    learned_expectations: Expectations = UNREAD
    """The reference statistics with every training video counted as normal."""
    at_hand: list[Features] | None = None
    """The training features, if they are in memory."""
    trusted: bool = True
    """Whether code and addresses named in the config may be used, such as a custom backbone."""

    def __post_init__(self) -> None:
        if self.corrections is UNEDITED:
            annotations = self.learned_annotations
            document = document_of(self.learned_steps, self.learned_timelines, annotations)
            self.corrections = Corrections(document)
        self._expected: tuple[Expectations, Document, Expectations] | None = None

    # ------------------------------------------------------------------ learned and corrected state

    @property
    def learned(self) -> Document:
        """The learned steps and timelines, before corrections."""
        return self.corrections.learned

    @property
    def document(self) -> Document:
        """The learned steps and timelines with corrections applied, as the viewer shows them."""
        return self.corrections.document

    @property
    def annotations(self) -> Annotations:
        """All current annotations: labels, clicks, transcripts, names and mistakes."""
        current = self.document.annotations(self.learned_annotations, self.model_steps)
        if self.learned_expectations is UNREAD:
            return current
        severities = self.expectations.severity.by_name(self.model_steps)
        return msgspec.structs.replace(current, severities=severities)

    @property
    def steps(self) -> list[str]:
        """The current step names; the index in this list is the step number in `labels`."""
        return [step.name for step in self.document.steps]

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each step by name, #rrggbb; the viewer, the report and plots use it."""
        return {step.name: step.colour for step in self.document.steps}

    @property
    def timelines(self) -> dict[str, Timeline]:
        """The timeline of every training video, in seconds, with corrections applied."""
        return self.document.timelines() if self.corrections.done else self.learned_timelines

    @property
    def labels(self) -> dict[str, Labels]:
        """The step number of each feature row of each video, (T,); -1 is background.

        A row takes the label at the middle of its interval.
        """
        return {
            name: timeline.labels(middles(self.samples[name], self.rate, timeline.end))
            for name, timeline in self.timelines.items()
        }

    @property
    def model_steps(self) -> list[str]:
        """The names of the model's steps; a step that still exists has its current name."""
        return self.document.model_steps(self.learned_steps)

    @property
    def former_names(self) -> dict[str, int]:
        """The number of the model's step that had each name most recently."""
        numbers, count = self.corrections.former_names, len(self.learned_steps)
        return {name: number for name, number in numbers.items() if number < count}

    @property
    def shown_steps(self) -> Labels:
        """The index in `steps` of each model step, -1 for background; the last entry is -1."""
        return self.document.shown_steps(len(self.learned_steps))

    @property
    def untaught(self) -> str:
        """A warning about corrected steps that `check` and `guide` ignore until `teach`, or ""."""
        return self.document.untaught(self.learned_steps)

    @property
    def quality(self) -> Quality:
        """How much of the time is right, measured on labelled videos; `str` is a sentence."""
        return Quality.from_json(self.config.get("quality", {}))

    def hierarchy(self) -> Hierarchy:
        """Return the tree of steps over all videos: which steps merge for a smaller count.

        Returns
        -------
        Hierarchy
            One tree for all videos, with the current step names.

        Raises
        ------
        ProcedureError
            The version that learned the procedure did not store a hierarchy.

        Examples
        --------
        >>> proc.hierarchy().groups(2)
        [(0, 1), (2,)]
        """
        kept = self.config.get("hierarchy")
        if kept is None:
            raise ProcedureError(
                "the version that learned this procedure did not store a hierarchy; learn it again."
            )
        return Hierarchy.from_json(kept, self.model_steps)

    def changed_videos(self, videos: Mapping[str, str | None] | None = None) -> list[str]:
        """Return the videos whose file has changed since learning.

        The stored labels of such a video belong to another recording.

        Parameters
        ----------
        videos
            Current paths by name; by default `self.videos`.

        Returns
        -------
        list of str
            Names of the videos. A video that cannot be read is not listed.

        Examples
        --------
        >>> proc.changed_videos()
        []
        """
        return changed_videos(self.digests, self.videos if videos is None else videos)

    @property
    def suggestions(self) -> dict[int, list[str]]:
        """Suggested names for unnamed steps, by step number; they apply only after `rename`."""
        offered = self.config.get("suggestions", {})
        return {
            place: list(offered[str(step.number)])
            for place, step in enumerate(self.document.steps)
            if str(step.number) in offered and is_unnamed(step.name)
        }

    @property
    def expectations(self) -> Expectations:
        """The reference statistics of `check`, from the videos without a marked mistake."""
        learned, document = self.learned_expectations, self.document
        # Every correction creates a new document, so identity is enough as a cache key.
        if (
            self._expected is None
            or self._expected[0] is not learned
            or self._expected[1] is not document
        ):
            severity = apply_severity(learned.severity, self.corrections)
            steps, former = self.model_steps, self.former_names
            rules = tuple(rule.renamed(steps, former) or rule for rule in learned.rules)
            normal = replace(learned, severity=severity, rules=rules)
            normal = normal.with_marks(document.mistakes, document.normal)
            self._expected = (learned, document, normal)
        return self._expected[2]

    @property
    def orders(self) -> Orders:
        """The distinct orders of the steps, most frequent first.

        Steps are ordered by their mean time, repeated steps by their first start. The paper's
        method always uses the mean time.
        """
        if self.method.orders_by_mean:
            return rank_orders(
                {name: video_order(labels) for name, labels in self.labels.items()},
                names=self.steps,
            )
        return orders_of_labels(self.labels, float(self.rate), self.steps)

    @property
    def graph(self) -> ProcedureGraph:
        """The graph of steps: prerequisites, optional steps, repetitions and successors."""
        if any(edit["do"] not in SAME_STEPS for edit in self.corrections.done):
            graph = graph_of_labels(self.labels, float(self.rate), self.steps)
        else:
            graph = self.expectations.graph.renamed(self.steps)
        return replace(graph, colours=tuple(self.colours.values()))

    def card(self) -> str:
        """Return the model card that `save` writes as README.md.

        Returns
        -------
        str
            Markdown: steps, videos, method, settings and versions.

        Examples
        --------
        >>> print(proc.card().splitlines()[2])
        3 steps, learned from 6 videos, without labels.
        """
        config, labelled = self.config, len(self.learned_annotations.annotated)
        template = (resources.files("stepcut.procedure") / "card.md").read_text(encoding="utf-8")
        return Template(template).substitute(
            version=__version__,
            count=len(self.steps),
            amount=len(self.timelines),
            steps="\n".join(f"- {k}: {name}" for k, name in enumerate(self.steps)),
            videos="\n".join(
                f"- {name} ({timeline.end:.0f} s)" for name, timeline in self.timelines.items()
            ),
            labels=f"{labelled} of them annotated by a person" if labelled else "without labels",
            found="A person defined the steps on the annotated videos; the others are unchecked."
            if labelled
            else "The steps were discovered without labels; no person has confirmed them.",
            method=config["method"],
            seed=config["seed"],
            backbone=config["backbone"]["name"],
            rate=self.rate,
            settings=json.dumps(config["settings"], indent=1),
        )

    # ------------------------------------------------------------------ annotations and corrections

    def rename(self, names: Mapping[int | str, str]) -> Self:
        """Rename steps, in place.

        Parameters
        ----------
        names
            New names by step number or current name:
            `proc.rename({0: "butter bread", "step 1": "add jam"})`.

        Returns
        -------
        Procedure
            This procedure.

        Raises
        ------
        OptionError
            A step does not exist, or a new name is empty or already in use.

        Examples
        --------
        >>> proc.rename({0: "slice bread", "add jam": "spread jam"}).steps
        ['slice bread', 'spread butter', 'spread jam']
        """
        check_kind("names", names, Mapping, "a dict from steps, by number or name, to names")
        shown = self.document.steps
        wanted = {shown[number_of(step, self.steps)]: name for step, name in names.items()}
        changed = {str(step.number): name for step, name in wanted.items() if step.name != name}
        if changed:
            self._correct({"do": "rename", "names": changed})
        return self

    def mark_mistakes(self, *videos: str, holds: bool = True) -> Self:
        """Exclude videos that contain a mistake from the reference set of `check`, in place.

        Steps and timelines do not change.

        Parameters
        ----------
        *videos
            Names of videos. `proc.expectations.most_unusual` lists the most unusual videos first.
        holds
            False removes the mark; a video without it becomes a normal one, which `check` never
            sets aside.

        Returns
        -------
        Procedure
            This procedure.

        Raises
        ------
        OptionError
            The version that learned the procedure did not store statistics per video.
        AnnotationError
            A video does not exist.

        Examples
        --------
        >>> proc.mark_mistakes("video2").annotations.mistakes
        frozenset({'video2'})
        """
        if not self.learned_expectations.videos:
            raise OptionError(
                "the version that learned this procedure stored no statistics per video; "
                "learn it again."
            )
        for video in videos:
            found = find_labelled([video], self.samples)[video]
            self._correct({"do": "mistake", "video": found, "holds": holds})
        return self

    def _correct(self, edit: Edit) -> None:
        self.corrections = self.corrections.do(edit, correct)

    def plan(self) -> dict[str, Any]:
        """Return the procedure for planners and robots, as JSON values.

        Returns
        -------
        dict
            Steps, preconditions, durations and alternatives.

        Examples
        --------
        >>> [step["name"] for step in proc.plan()["steps"]]
        ['cut bread', 'spread butter', 'add jam']
        """
        return make_plan(self.graph, self.orders, self.steps)

    # ------------------------------------------------------------------ display

    def __repr__(self) -> str:
        hours = sum(timeline.end for timeline in self.timelines.values()) / 3600
        return (
            f"<Procedure {len(self.steps)} steps from {len(self.timelines)} videos, {hours:.2f} h>"
        )

    def __str__(self) -> str:
        names = "\n".join(f"  {name}" for name in self.steps)
        return f"{self!r}\n{names}\n{self.orders}"

    def _repr_html_(self) -> str:
        """Draw the timelines of all videos in a notebook."""
        return drawing("timelines_html")(repr(self), self.timelines, self.colours)
