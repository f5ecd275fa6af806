"""Procedure: the model of one task, its timelines, and the operations on them."""

import json
import os
from collections.abc import Mapping
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
from stepcut.checking.severity import KINDS, parse_severity
from stepcut.checks import check_number
from stepcut.colours import colour
from stepcut.errors import OptionError, ProcedureError, VideoError, check_kind
from stepcut.features.extract import Source, read_like, read_source
from stepcut.features.features import Features
from stepcut.features.find import as_list
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import AnyPath, is_address, whole_path
from stepcut.formats import read_transcripts
from stepcut.guidance.guide import Guide
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import Array, Labels, build
from stepcut.methods.method import Method, adapt
from stepcut.methods.quality import Quality, not_measured
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
from stepcut.procedure.collect import (
    LabelSource,
    Transcripts,
    Videos,
    find_labelled,
    origin_of,
    read_labels,
)
from stepcut.procedure.content import (
    Digest,
    changed_videos,
    check_unchanged,
    find_learned,
    has_content,
)
from stepcut.procedure.corrections.document import Document, document_of
from stepcut.procedure.corrections.log import Corrections, apply_severity
from stepcut.procedure.corrections.operations import correct
from stepcut.procedure.fitting import fingerprint, fit, timeline_of
from stepcut.procedure.lesson import next_lesson
from stepcut.procedure.recipe import Recipe, read_recipe
from stepcut.procedure.storage import save
from stepcut.progress import Hook, default_hook, silent, warn_once
from stepcut.timeline import Timeline, is_unnamed
from stepcut.version import __version__

Video = str | os.PathLike[str] | Array | Features

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


@dataclass(eq=False, kw_only=True, repr=False)
class Procedure:
    """The steps of a task, their timeline in every video, and the model that segments new videos.

    `stepcut.learn` creates a procedure, `save` writes it to a folder and `stepcut.load` reads it.

    Examples
    --------
    >>> import numpy as np
    >>> import stepcut as sc
    >>> rng = np.random.default_rng(0)
    >>> video = lambda: np.repeat(np.eye(3, 8), 20, axis=0) + 0.1 * rng.normal(size=(60, 8))
    >>> proc = sc.learn([video() for _ in range(5)], steps=3)
    >>> [round(segment.start) for segment in proc.segment(video())]
    [0, 20, 40]
    >>> len(proc.suggest(2))
    2
    >>> proc.teach({"0": np.repeat([0, 1, 2], 20)}).annotations.labels.keys()
    dict_keys(['0'])
    """

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
    corrections: Corrections = field(default_factory=Corrections)
    """Corrections made since learning."""
    learned_annotations: Annotations = field(default_factory=Annotations)
    """The annotations used for learning."""
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
        if not self.corrections.of:
            self.corrections = replace(self.corrections, of=str(self.config.get("fingerprint", "")))
        self._shown: tuple[Corrections, Document] | None = None
        self._expected: tuple[Expectations, Document, Expectations] | None = None

    # ------------------------------------------------------------------ learned and corrected state

    @cached_property
    def learned(self) -> Document:
        """The learned steps and timelines, before corrections."""
        return document_of(self.learned_steps, self.learned_timelines, self.learned_annotations)

    @property
    def document(self) -> Document:
        """The learned steps and timelines with corrections applied, as the viewer shows them."""
        if self._shown is None or self._shown[0] is not self.corrections:
            self._shown = (self.corrections, self.corrections.apply(self.learned))
        return self._shown[1]

    @property
    def annotations(self) -> Annotations:
        """All current annotations: labels, clicks, transcripts, names and mistakes."""
        current = self.document.annotations(self.learned_annotations, self.model_steps)
        if self.learned_expectations is UNREAD:
            return current
        kinds = self.expectations.severity.to_json()
        severities = {
            name: tuple(kind for kind in KINDS if number in kinds[kind])
            for number, name in enumerate(self.model_steps)
            if any(number in numbers for numbers in kinds.values())
        }
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
    def shown_steps(self) -> Labels:
        """The index in `steps` of each model step, -1 for background; the last entry is -1."""
        return self.document.shown_steps(len(self.learned_steps))

    @property
    def untaught(self) -> str:
        """A warning about corrected steps that `check` and `guide` ignore until `teach`, or ""."""
        return self.document.untaught(self.learned_steps)

    @property
    def quality(self) -> Quality:
        """The expected share of correct time: `.right`, `.now`, `.after`; `str` is a sentence."""
        kept = self.config.get("quality")
        return not_measured() if kept is None else Quality.from_json(kept)

    def hierarchy(self) -> Hierarchy:
        """Return the tree of steps over all videos: which steps merge or split for another count.

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
            normal = replace(learned.without(document.mistakes), severity=severity)
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
            graph = self.expectations.usual.graph.renamed(self.steps)
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
            edit = {"do": "rename", "names": changed}
            correct(self.document, edit)
            self.corrections = self.corrections.do(edit)
        return self

    def mark_mistakes(self, *videos: str, holds: bool = True) -> Self:
        """Exclude videos that contain a mistake from the reference set of `check`, in place.

        Steps and timelines do not change.

        Parameters
        ----------
        *videos
            Names of videos. `proc.expectations.most_unusual` lists the most unusual videos first.
        holds
            False puts the videos back into the reference set.

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
        labels: LabelSource | None = None,
        steps: int | None = None,
        source: Source | None = None,
        progress: Hook | None = None,
        *,
        transcripts: Transcripts | str | os.PathLike[str] | None = None,
        recipe: Recipe | None = None,
        origin: Origin | None = None,
    ) -> "Procedure":
        """Learn again from all videos, with annotations of some of them.

        Corrections and earlier annotations are used as well.

        Parameters
        ----------
        labels
            A folder or file of labels in any format, timelines by video, or arrays (T,) of step
            numbers by video (-1 background, -2 open). `Segment(t, t, name)` is a click.
        steps
            The number of steps. More than the named steps leaves room for unnamed ones.
        source
            The videos, feature files or arrays, if they have moved or were arrays.
        progress
            Called with an `Event` as work advances; by default a notebook shows a bar.
        transcripts
            The steps of some videos in order, without times: a dict by video, or a text file with
            one line per video.
        recipe
            The steps of all videos in order: a text file, or its lines; see `learn`.
        origin
            The source of the annotations, if it is not the file in `labels`.

        Returns
        -------
        Procedure
            A new procedure; this one does not change.

        Raises
        ------
        AnnotationError
            The annotations contradict each other, the videos or the steps.
        OptionError
            There is nothing to learn from, or a video has changed since learning.

        Examples
        --------
        >>> taught = proc.teach({"video1": labels})
        >>> taught.annotations.annotated
        ['video1']
        """
        progress = default_hook() if progress is None else progress
        if steps is not None:
            check_number("steps", steps, 1, sum(self.samples.values()), whole=True)
        if isinstance(transcripts, str | os.PathLike):
            origin, transcripts = origin or origin_of(transcripts), read_transcripts(transcripts)
        count = None if steps is None else int(steps)
        ends = {name: timeline.end for name, timeline in self.learned_timelines.items()}
        task = next_lesson(
            Videos(self.samples, ends, self.rate),
            None if labels is None else read_labels(labels),
            transcripts,
            () if recipe is None else read_recipe(recipe),
            count,
            origin or origin_of(labels),
            steps=self.steps,
            shown=self.labels,
            before=self.annotations,
            taught=bool(self.learned_annotations.annotated),
        )
        features = self.learned_features(source, progress)
        settings = {**self.method.settings(), "steps": len(task.names)}
        place = {name: number for number, name in enumerate(task.names)}
        translate = np.array([*(place.get(name, -1) for name in self.steps), -1])
        config = {**self.config, "settings": settings, "absorbed": self.corrections.revision}
        config["fingerprint"] = fingerprint(features, config, None, task)
        before = {name: translate[numbers] for name, numbers in self.labels.items()}
        made = adapt(build(type(self.method), settings))
        # New annotations may name other steps than the current ones.
        same = task.names == self.steps and not (labels or transcripts or recipe)
        made.start_from(self.method, [before[one.name] for one in features] if same else None)
        taught = Procedure(**fit(features, made, config, None, task, before, progress=progress))
        taught.trusted = self.trusted
        learned = taught.learned_steps
        severities = task.annotations.severities.items()
        kept = {
            kind: [name for name, kinds in severities if kind in kinds and name in learned]
            for kind in KINDS
        }
        severity = parse_severity(kept, learned)
        before_severity = self.learned_expectations.severity.moved(self.model_steps, learned)
        severity = replace(severity, alarm_at=before_severity.alarm_at)
        taught.learned_expectations = replace(taught.learned_expectations, severity=severity)
        for step in self.document.steps:
            if step.colour != colour(step.number) and step.name in learned:
                edit = {"do": "colour", "step": learned.index(step.name), "colour": step.colour}
                taught.corrections = taught.corrections.do(edit)
        return taught

    def suggest(self, n: int = 3) -> list[str]:
        """Return up to `n` videos to label next, the most useful first.

        Parameters
        ----------
        n
            The number of videos.

        Returns
        -------
        list of str
            Names of videos.

        Raises
        ------
        OptionError
            `n` is not a whole number, or the training data cannot be read again.

        Examples
        --------
        >>> len(proc.suggest(2))
        2
        """
        return [name for name, _ in self.suggest_why(n)]

    def suggest_why(self, n: int = 3, source: Source | None = None) -> list[tuple[str, str]]:
        """Return up to `n` videos to label next, each with the reason.

        Parameters
        ----------
        n
            The number of videos.
        source
            The videos, feature files or arrays, as for `teach`.

        Returns
        -------
        list of tuple
            (video, reason), the most useful first.

        Raises
        ------
        OptionError
            `n` is not a whole number, or the training data cannot be read again.

        Examples
        --------
        >>> video, reason = proc.suggest_why(1)[0]
        >>> reason
        'the most typical of all videos'
        """
        check_number("n", n, 0, whole=True)
        features = self.learned_features(source)
        names, videos = list(self.samples), self.annotations.videos

        def is_done(name: str) -> bool:
            """Whether a video is mostly labelled, completely clicked, or has a transcript."""
            one = videos[name]
            return bool(
                (one.clicks and one.complete)
                or one.transcript
                or one.is_open(self.samples[name], self.rate).mean() < 0.5
            )

        done = [place for place, name in enumerate(names) if name in videos and is_done(name)]
        reasons = self.method.suggest([one.rows for one in features], done, int(n))
        return [(names[place], reason) for place, reason in reasons]

    def learned_features(
        self, source: Source | None = None, progress: Hook = silent
    ) -> list[Features]:
        """Read the training features again.

        Parameters
        ----------
        source
            The videos or feature files; by default their paths at learning time.
        progress
            Called with an `Event` as work advances.

        Returns
        -------
        list of Features
            In the order of `timelines`.

        Raises
        ------
        OptionError
            The files are missing or have changed, or the training data were arrays.

        Examples
        --------
        >>> proc.learned_features()[0]
        <Features video1: 60 x 8, 1 rows per second, 60.0 s>
        """
        if source is None and self.at_hand:
            return self.at_hand
        videos = [path for path in self.videos.values() if path is not None]
        places: Any = source if source is not None else self.config.get("source") or videos
        if not places:
            raise OptionError(
                "this procedure was learned from arrays, which are not stored; "
                "pass them as source=..."
            )
        remote = any(is_address(str(one)) for one in as_list(places))
        if source is None and not self.trusted and remote:
            raise OptionError(
                "this procedure was learned from network addresses. Pass them as source=... "
                "(--source), or trust the procedure with trust=True (--trust)."
            )
        try:
            read = read_source(places, self.rate, self.spec, progress=progress)[0]
        except VideoError as error:
            raise OptionError(f"{error} Pass the new place as source=... (--source).") from error
        found = find_learned(read, self.samples, self.digests)
        features = [self.features(one) for one in found]
        check_unchanged(features, self.samples, self.digests)
        return features

    # ------------------------------------------------------------------ new videos

    @property
    def spec(self) -> FeatureSpec | None:
        """The feature settings; None if the procedure was learned from features without any."""
        return FeatureSpec.from_json(self.config["backbone"], self.trusted)

    def features(self, video: Video, device: str = "auto", progress: Hook = silent) -> Features:
        """Compute the features of a video with the backbone and rate of the training videos.

        Parameters
        ----------
        video
            A path, a feature file, an array, or features.
        device
            Where the backbone runs: auto, cpu or cuda.
        progress
            Called with an `Event` as work advances.

        Returns
        -------
        Features
            Rows (T, d) of the video.

        Raises
        ------
        VideoError
            The video cannot be read.
        FeatureError
            The features have another dimension than the training videos, or contain NaN.
        OptionError
            The procedure was learned from features, so it cannot compute those of a video.

        Examples
        --------
        >>> proc.features(new).rows.shape
        (40, 8)
        """
        return read_like(video, self.rate, self.config["shape"], self.spec, device, progress)

    def segment(self, video: Video, device: str = "auto", progress: Hook = silent) -> Timeline:
        """Segment a new video into the learned steps, without learning.

        Parameters
        ----------
        video, device, progress
            As for `features`.

        Returns
        -------
        Timeline
            The segments with their confidence. For an annotated training video, its annotation.

        Raises
        ------
        VideoError, FeatureError, OptionError
            As for `features`.

        Examples
        --------
        >>> [segment.step for segment in proc.segment(new)]
        ['cut bread', 'add jam']
        """
        features = self.features(video, device, progress)
        rows = [features.rows]
        if self._is_learned(features):
            return self.timelines[features.name]
        labels, probabilities = self.method.predict(rows)[0], self.method.probabilities(rows)[0]
        return timeline_of(
            features, labels, self.quality.reliability * probabilities, self.steps, self.shown_steps
        )

    def _is_learned(self, features: Features) -> bool:
        """Whether a person has annotated this video, so that `segment` returns the annotation."""
        name = features.name
        if name not in self.document.annotated or self.samples[name] != len(features.rows):
            return False
        same = has_content(features, self.digests.get(name, Digest()))
        if same is None:  # learned by a version without digests
            here, path = self.videos[name], features.path
            return here is None or path is None or whole_path(path) == here
        if not same:
            warn_once(
                f"{name}: an annotated video has this name but other content, so stepcut segments "
                "this one as a new video."
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
        """Check a new video for missing, repeated, misplaced, fast, slow and unknown steps.

        Parameters
        ----------
        video, device, progress
            As for `features`.
        alarm_at
            Raise an alarm for each step that is missing with at least this probability.
        min_detection
            Report "inconclusive" instead of "fine" if the expected detection rate of a missing
            step is below this share.

        Returns
        -------
        Report
            The findings, with their probabilities.

        Raises
        ------
        VideoError, FeatureError, OptionError
            As for `features`; also if `alarm_at` or `min_detection` is not above 0 and up to 1.

        Examples
        --------
        >>> report = proc.check(new)
        >>> report.verdict, [finding.name for finding in report.missed]
        ('deviations', ['spread butter'])
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
        """Return a guide that follows a live recording frame by frame.

        Returns
        -------
        Guide
            Reports the current step, the completed steps and the possible next steps. It uses only
            past frames.

        Examples
        --------
        >>> guide = proc.guide()
        >>> for second, row in enumerate(new[:15]):
        ...     state = guide.push(second, row)
        >>> state.name, state.next[0][0]
        ('cut bread', 1)
        """
        return Guide(
            self.method.online,
            float(self.rate),
            self.expectations,
            self.model_steps,
            embed=lambda rows: self.method.embed([rows])[0],
            shape=self.config["shape"],
        )

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

    # ------------------------------------------------------------------ saving and comparing

    def save(self, path: AnyPath) -> None:
        """Save the procedure to a folder.

        An existing procedure is replaced; other files in the folder stay. Corrections made there
        in the meantime are kept.

        Parameters
        ----------
        path
            The folder, or an address (s3://, gs://).

        Raises
        ------
        ProcedureError
            The folder contains corrections of another learned state.
        OutputError
            The folder cannot be written.

        Examples
        --------
        >>> proc.save("sandwich.proc")
        >>> sc.load("sandwich.proc") == proc
        True
        """
        save(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Procedure):
            return NotImplemented
        mine, theirs = self.method.state(), other.method.state()
        same_state = mine.keys() == theirs.keys() and all(
            np.array_equal(mine[key], theirs[key]) for key in mine
        )
        # The path of the features does not matter for equality.
        configs = [
            {key: value for key, value in one.config.items() if key != "source"}
            for one in (self, other)
        ]
        parts = ("steps", "timelines", "samples", "videos", "rate", "expectations")
        same_parts = all(getattr(self, part) == getattr(other, part) for part in parts)
        return same_state and configs[0] == configs[1] and same_parts

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
