"""Procedure: what was learned from the videos of one task, and what can be done with it."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from importlib import resources
from string import Template
from typing import Any, Self

import msgspec
import numpy as np

from stepcut.annotations import Annotations, Origin, middles
from stepcut.checking.check import check_labels
from stepcut.checking.expectations import Expectations
from stepcut.checking.report import Report, without_accepted
from stepcut.checking.severity import FILE, KINDS, parse_severity, read_severity
from stepcut.checks import check_number
from stepcut.colours import colour
from stepcut.errors import NotLearned, OptionError, ProcedureError, VideoError, check_kind
from stepcut.features.contract import Features
from stepcut.features.extract import Source, read_like, read_source
from stepcut.features.find import as_list
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import AnyPath, as_path, is_address, whole_path
from stepcut.formats import read_transcripts
from stepcut.guidance.guide import Guide
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import Array, Labels, build
from stepcut.methods.method import Method
from stepcut.methods.quality import Quality, not_measured
from stepcut.methods.stepcut.suggest import suggest
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
from stepcut.procedure.content import Digest, has_content, video_digest
from stepcut.procedure.corrections.document import Document, document_of
from stepcut.procedure.corrections.log import Corrections, apply_severity
from stepcut.procedure.corrections.operations import correct
from stepcut.procedure.fitting import fingerprint, fit, timeline_of
from stepcut.procedure.folder import damaged
from stepcut.procedure.lesson import (
    Given,
    Lesson,
    Transcripts,
    Videos,
    collect,
    count_numbers,
    find_labelled,
    lesson,
    nameless,
    origin_of,
    read_labels,
)
from stepcut.procedure.recipe import Recipe, read_recipe
from stepcut.procedure.storage import read, read_timelines, save
from stepcut.progress import Hook, default_hook, silent, warn_once
from stepcut.timeline import Timeline, is_unnamed
from stepcut.version import __version__

Video = str | os.PathLike[str] | Array | Features

SAME_STEPS = (
    "rename", "colour", "confirm", "cut", "severity", "mistake", "click", "move_click",
    "remove_click", "clicks_complete", "fine",
)  # fmt: skip
"""Corrections after which the same steps are done in the same order."""


class _Unread:
    """Stands for a model that was not read: looking at timelines does not need it."""

    def __getattr__(self, name: str) -> Any:
        raise ProcedureError(
            "the model was not read, or there is none: these are labels to look at. See: stepcut learn"
        )


UNREAD: Any = _Unread()


@dataclass(eq=False, kw_only=True, repr=False)
class Procedure:
    """The steps of a task, where they lie in every video, and the model that finds them in a new one.

    `learn` makes it, `save` keeps it as a folder, `stepcut.load` brings it back.
    """

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
    learned_annotations: Annotations = field(default_factory=Annotations)
    """What people had said when it was learned."""
    digests: dict[str, Digest] = field(default_factory=dict)
    """The content of each video when it was learned from; older versions kept none."""
    method: Method = UNREAD
    """The fitted method, from features to steps."""
    learned_expectations: Expectations = UNREAD
    """What a normal video looks like where all of them count as normal."""
    at_hand: list[Features] | None = None
    """The features that it was learned from, where this program has them."""
    trusted: bool = True
    """Whether code that its config names, such as a custom backbone, may run, and its addresses be asked."""

    def __post_init__(self) -> None:
        if not self.corrections.of:
            self.corrections = replace(self.corrections, of=str(self.config.get("fingerprint", "")))
        self._shown: tuple[Corrections, Document] | None = None
        self._expected: tuple[Expectations, Document, Expectations] | None = None

    # ------------------------------------------------------------------ what was learned and corrected

    @cached_property
    def learned(self) -> Document:
        """What was learned, before anybody corrected it."""
        return document_of(self.learned_steps, self.learned_timelines, self.learned_annotations)

    @property
    def document(self) -> Document:
        """What was learned with the corrections in it: what a person sees."""
        if self._shown is None or self._shown[0] is not self.corrections:
            self._shown = (self.corrections, self.corrections.apply(self.learned))
        return self._shown[1]

    @property
    def annotations(self) -> Annotations:
        """Everything that people have said about the videos by now: labels, clicks, transcripts, names, mistakes."""
        said = self.document.annotations(self.learned_annotations, self.model_steps)
        if self.learned_expectations is UNREAD:
            return said
        kinds = self.expectations.severity.to_json()
        severities = {
            name: tuple(kind for kind in KINDS if number in kinds[kind])
            for number, name in enumerate(self.model_steps)
            if any(number in numbers for numbers in kinds.values())
        }
        return msgspec.structs.replace(said, severities=severities)

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
        """What `check` and `guide` do not know of the corrections, in words: they find the steps that were learned."""
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
        """How much of the time the steps are expected to be right: `.right`, `.now`, `.after`; `str` is a sentence."""
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

    def changed_videos(self, videos: Mapping[str, str | None] | None = None) -> list[str]:
        """The videos whose file is not the one that was learned from: the stored labels belong to another recording.

        `videos`: where they lie now, by name, where not as in `self.videos`.
        """
        places = self.videos if videos is None else videos
        known = {name: digest.video for name, digest in self.digests.items() if digest.video}
        now = {name: video_digest(places.get(name)) for name in known}
        return [name for name in known if now[name] not in (None, known[name])]

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

    @property
    def expectations(self) -> Expectations:
        """What a normal video looks like, by those that contain no mistake: the thresholds of `check`."""
        learned, document = self.learned_expectations, self.document
        # The document is another one whenever the corrections are.
        if (
            self._expected is None
            or self._expected[0] is not learned
            or self._expected[1] is not document
        ):
            severity = apply_severity(learned.severity, self.corrections)
            normal = replace(learned.without(document.mistakes), severity=severity)
            self._expected = (learned, document, normal)
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

    # ------------------------------------------------------------------ what a person says

    def rename(self, names: Mapping[int | str, str]) -> Self:
        """Give steps the names a person would use, by number or by present name. Changes this procedure and returns it.

        `proc.rename({0: "butter bread", "step 1": "add jam"})`
        """
        check_kind("names", names, Mapping, "a dict from steps, by number or name, to names")
        shown = self.document.steps
        given = {shown[number_of(step, self.steps)]: name for step, name in names.items()}
        changed = {str(step.number): name for step, name in given.items() if step.name != name}
        if changed:
            edit = {"do": "rename", "names": changed}
            correct(self.document, edit)
            self.corrections = self.corrections.do(edit)
        return self

    def mark_mistakes(self, *videos: str, holds: bool = True) -> Self:
        """Exclude videos that contain a mistake from what `check` takes for normal; the steps stay as they are.

        Changes this procedure and returns it.

        videos  their names; `proc.expectations.oddest` has those to look at first
        holds   False takes that back
        """
        if not self.learned_expectations.videos:
            raise OptionError(
                "how far each of its videos strays was not kept by an earlier version; learn it again."
            )
        for video in videos:
            edit = {
                "do": "mistake",
                "video": find_labelled([video], self.samples)[video],
                "holds": holds,
            }
            correct(self.document, edit)
            self.corrections = self.corrections.do(edit)
        return self

    def teach(
        self,
        labels: Given | None = None,
        steps: int | None = None,
        source: Source | None = None,
        progress: Hook | None = None,
        *,
        transcripts: Transcripts | str | os.PathLike[str] | None = None,
        recipe: Recipe | None = None,
        origin: Origin | None = None,
    ) -> "Procedure":
        """Learn again from annotations of some videos, and from the others as they are.

        Corrections, and what it was taught before, count too.

        Parameters
        ----------
        labels
            A folder or file of labels in any format, timelines by video, or arrays (T,) of this procedure's step
            numbers by video (-1 background, -2 open). `Segment(t, t, name)` in a timeline is a click.
        steps
            How many steps there are to be; more than are named leaves room for steps without a name.
        source
            Where the features are (videos, feature files or arrays), when this program cannot find them.
        progress
            Hears how far the work is; left out, a notebook shows a bar.
        transcripts
            The steps of some videos in order, without times: by video, or a text file with a line for each.
        recipe
            The steps of all videos in order: a text file, or its lines; see `learn`.
        origin
            Where the annotations come from, where not from the file named by `labels`.

        Returns
        -------
        Procedure
            A new one; this one stays as it is.

        Raises
        ------
        AnnotationError
            The annotations contradict one another, the videos or the steps.
        OptionError
            There is nothing to learn from, or a video has changed since it was learned from.
        """
        progress = default_hook() if progress is None else progress
        if steps is not None:
            check_number("steps", steps, 1, sum(self.samples.values()), whole=True)
        if isinstance(transcripts, str | os.PathLike):
            origin, transcripts = origin or origin_of(transcripts), read_transcripts(transcripts)
        said = self._lesson(
            labels, None if steps is None else int(steps), transcripts, recipe, origin
        )
        features = self.learned_features(source, progress)
        settings = {**self.method.settings(), "steps": len(said.names)}
        place = {name: number for number, name in enumerate(said.names)}
        translate = np.array([*(place.get(name, -1) for name in self.steps), -1])
        config = {**self.config, "settings": settings, "absorbed": self.corrections.revision}
        config["fingerprint"] = fingerprint(features, config, None, said)
        before = {name: translate[numbers] for name, numbers in self.labels.items()}
        made = build(type(self.method), settings)
        # Labels may be of other steps than those shown.
        same = said.names == self.steps and not (labels or transcripts or recipe)
        made.start_from(self.method, [before[one.name] for one in features] if same else None)
        taught = Procedure(**fit(features, made, config, None, said, before, progress=progress))
        taught.trusted = self.trusted
        found = taught.learned_steps
        kept = {
            kind: [name for name, kinds in said.annotations.severities.items() if kind in kinds]
            for kind in KINDS
        }
        severity = parse_severity({k: [n for n in v if n in found] for k, v in kept.items()}, found)
        before_severity = self.learned_expectations.severity.moved(self.model_steps, found)
        severity = replace(severity, alarm_at=before_severity.alarm_at)
        taught.learned_expectations = replace(taught.learned_expectations, severity=severity)
        for step in self.document.steps:
            if step.colour != colour(step.number) and step.name in found:
                edit = {"do": "colour", "step": found.index(step.name), "colour": step.colour}
                taught.corrections = taught.corrections.do(edit)
        return taught

    def _lesson(
        self,
        labels: Given | None,
        count: int | None,
        transcripts: Transcripts | None,
        recipe: Recipe | None,
        origin: Origin | None,
    ) -> Lesson:
        """What `teach` learns from: the annotations so far, and what it is given."""
        ends = {name: timeline.end for name, timeline in self.learned_timelines.items()}
        videos, new = Videos(self.samples, ends, self.rate), None
        read = None if labels is None else read_labels(labels)
        numbers = None if recipe is not None else count_numbers(videos, read, transcripts)
        steps = [*self.steps, *map(nameless, range(len(self.steps), numbers or 0))]
        if read is not None or transcripts or recipe is not None:
            cooked = () if recipe is None else read_recipe(recipe)
            new = collect(videos, read, transcripts, cooked, steps, origin or origin_of(labels))
        taught, fixed = bool(self.learned_annotations.annotated), numbers is not None
        return lesson(videos, self.labels, steps, self.annotations, new, count, fixed, taught)

    def suggest(self, n: int = 3) -> list[str]:
        """The `n` videos whose labels would help most, the most useful first; `suggest_why` has the reasons."""
        return [name for name, _ in self.suggest_why(n)]

    def suggest_why(self, n: int = 3, source: Source | None = None) -> list[tuple[str, str]]:
        """Up to `n` videos to label next, each with the reason in words.

        n       how many to name
        source  where the features are, when this program cannot find them; as for `teach`
        """
        check_number("n", n, 0, whole=True)
        features = self.learned_features(source)
        names, said = list(self.samples), self.annotations.videos
        # A video that is mostly labelled, clicked, or has a transcript, needs no more annotations.
        done = [
            place
            for place, name in enumerate(names)
            if name in said
            and (
                (said[name].clicks and said[name].complete)
                or said[name].transcript
                or said[name].is_open(self.samples[name], self.rate).mean() < 0.5
            )
        ]
        reasons = suggest(self.method.embed([one.rows for one in features]), done, int(n))
        return [(names[place], reason) for place, reason in reasons]

    def learned_features(
        self, source: Source | None = None, progress: Hook = silent
    ) -> list[Features]:
        """Read the features that this was learned from again.

        Parameters
        ----------
        source
            The videos or feature files; left out, where they were.
        progress
            Hears how far the work is.

        Returns
        -------
        list of Features
            In the order of `timelines`.

        Raises
        ------
        OptionError
            They are not there, have changed, or were arrays.
        """
        if source is None and self.at_hand:
            return self.at_hand
        videos = [path for path in self.videos.values() if path is not None]
        given: Any = source if source is not None else self.config.get("source") or videos
        if not given:
            what = "this procedure was learned from arrays, which it does not keep"
            raise OptionError(f"{what}; hand them over as source=...")
        if (
            source is None
            and not self.trusted
            and any(is_address(str(one)) for one in as_list(given))
        ):
            what = "it names addresses as where it was learned from, asked only where you name them as source=..."
            raise OptionError(f"{what} (--source), or trust it with trust=True (--trust).")
        try:
            found = {
                one.name: one
                for one in read_source(given, self.rate, self.spec, progress=progress)[0]
            }
        except VideoError as error:
            raise OptionError(
                f"{error} Where it was learned from is given as source=... (--source)."
            ) from error
        lost = [name for name in self.samples if name not in found]
        if lost:
            raise OptionError(f"{self._describe_lost(lost, found)} (--source).")
        features = [self.features(found[name]) for name in self.samples]
        changed = [
            one.name
            for one in features
            if len(one.rows) != self.samples[one.name]
            or has_content(one, self.digests.get(one.name, Digest())) is False
        ]
        if changed:
            raise OptionError(
                f"{', '.join(changed[:5])}: the content has changed since this procedure was learned, so its labels "
                "belong to another recording. Bring the earlier file back, give its place as source=... (--source), or "
                "learn a new procedure from the files as they are now: stepcut learn",
                video=changed[0],
            )
        return features

    def _describe_lost(self, lost: Sequence[str], found: Mapping[str, Features]) -> str:
        """The videos `lost` are not among those `found`: in words, with the one that has the content of the first."""
        same = [
            one.name
            for one in found.values()
            if has_content(one, self.digests.get(lost[0], Digest()))
            and one.name not in self.samples
        ]
        hint = (
            f" {same[0]} has the content of {lost[0]}: give it its old name back." if same else ""
        )
        return (
            f"the features of {', '.join(lost[:5])} are not where they were.{hint} Give the videos or feature files it "
            "was learned from as source=..."
        )

    # ------------------------------------------------------------------ a new video

    @property
    def spec(self) -> FeatureSpec | None:
        """How features are made of videos; None where it was learned from features of which nothing else is known."""
        return FeatureSpec.from_json(self.config["backbone"], self.trusted)

    def features(self, video: Video, device: str = "auto", progress: Hook = silent) -> Features:
        """The features of a video, made as those that this was learned from: same backbone, same rate.

        video     a path, a feature file, an array, or features
        device    where the backbone runs: auto, cpu or cuda
        progress  hears how far the work is
        """
        return read_like(video, self.rate, self.config["shape"], self.spec, device, progress)

    def segment(self, video: Video, device: str = "auto", progress: Hook = silent) -> Timeline:
        """Cut a new video into the steps, without learning anything anew; `device` and `progress` as for `features`."""
        features = self.features(video, device, progress)
        rows = [features.rows]
        if self._is_learned(features):
            return self.timelines[features.name]
        labels, probabilities = self.method.predict(rows)[0], self.method.probabilities(rows)[0]
        return timeline_of(
            features, labels, self.quality.reliability * probabilities, self.steps, self.shown_steps
        )

    def _is_learned(self, features: Features) -> bool:
        """Whether a person has annotated this very video: then their annotation is shown."""
        name = features.name
        if name not in self.document.annotated or self.samples[name] != len(features.rows):
            return False
        same = has_content(features, self.digests.get(name, Digest()))
        if same is None:  # learned by a version that kept no digests
            here, path = self.videos[name], features.path
            return here is None or path is None or whole_path(path) == here
        if not same:
            warn_once(
                f"{name}: it has the name of a video that was annotated, but other content, so it is segmented as a new "
                "video."
            )
        return same

    def check(
        self,
        video: Video,
        device: str = "auto",
        progress: Hook = silent,
        alarm_at: float | None = None,
        min_detection: float | None = None,
    ) -> Report:
        """What a new video misses, repeats, does out of order, too quickly or slowly, and what matches no step.

        Parameters
        ----------
        video, device, progress
            Those of `features`.
        alarm_at
            Raise an alarm for each step that is missing with at least this probability.
        min_detection
            Call a video inconclusive, not fine, where fewer missing steps than this share would be found.
        """
        features = self.features(video, device, progress)
        rows = [features.rows]
        report = check_labels(
            self.method.predict(rows)[0],
            seconds=features.end,
            rate=float(self.rate),
            probabilities=self.method.probabilities(rows)[0],
            novelty=self.method.novelty(rows)[0],
            embedding=self.method.embed(rows)[0],
            expectations=self.expectations,
            names=self.model_steps,
            video=features.name,
            alarm_at=alarm_at,
            min_detection=min_detection,
        )
        return without_accepted(report, self.document.fine)

    def guide(self) -> Guide:
        """Follow somebody frame by frame: the step now, what is done, what may come next. Sees the past only."""
        return Guide(
            self.method.online,
            float(self.rate),
            self.expectations,
            self.model_steps,
            embed=lambda rows: self.method.embed([rows])[0],
            shape=self.config["shape"],
        )

    def plan(self) -> dict[str, Any]:
        """The procedure for planners and robots: steps, preconditions, durations, alternatives. JSON-able."""
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
        same_state = mine.keys() == theirs.keys() and all(
            np.array_equal(mine[key], theirs[key]) for key in mine
        )
        # Where the features lay is no part of what was learned from them.
        configs = [
            {key: value for key, value in one.config.items() if key != "source"}
            for one in (self, other)
        ]
        parts = ("steps", "timelines", "samples", "videos", "rate", "expectations")
        same_parts = all(getattr(self, part) == getattr(other, part) for part in parts)
        return same_state and configs[0] == configs[1] and same_parts

    # ------------------------------------------------------------------ looking at it

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


def load(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> Procedure:
    """Read a procedure that `save` wrote, with what a person corrected since.

    path    the folder, or an address (s3://, gs://)
    method  the class of a method of your own that it was learned with
    trust   import the code that the procedure names; without it, a procedure is data and runs nothing
    """
    procedure = Procedure(**read(path, method, trust))
    try:
        severity = read_severity(
            as_path(path) / FILE, procedure.model_steps, procedure.learned_steps
        )
    except OptionError as error:
        raise ProcedureError(str(error)) from error
    procedure.learned_expectations = replace(procedure.learned_expectations, severity=severity)
    # The model of an old version can be looked at, corrected and learned again, not used.
    with damaged(path), suppress(NotLearned):
        _try(procedure)
    return procedure


def read_outline(path: AnyPath) -> Procedure:
    """Read the procedure at `path`, a folder or an address, without its model: enough to look at it and correct it."""
    return Procedure(**read_timelines(path))


def _try(procedure: Procedure) -> None:
    """Put two rows of nothing through it: what does not fit together is found here, not in the middle of the work."""
    count, method = len(procedure.learned_steps), procedure.method
    rows = np.zeros((2, *map(int, procedure.config["shape"])), dtype=np.float32)
    shares = method.probabilities([rows])[0]
    if shares.shape != (2, count) or not np.isfinite(shares).all():
        raise ValueError(f"probabilities {shares.shape} for {count} steps")
    if not np.isfinite(method.novelty([rows])[0]).all():
        raise ValueError("novelty is not finite")
    every = np.repeat(np.arange(count), 2)
    check_labels(every, float(procedure.rate), procedure.expectations, names=procedure.model_steps)
    procedure.check(rows)
    procedure.segment(rows)
    procedure.guide().push(0.0, rows[0])
    procedure.plan()
