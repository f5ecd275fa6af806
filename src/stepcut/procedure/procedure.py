"""Procedure: learn again, segment, check and guide with the model of one task."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib import resources
from string import Template
from typing import Any

import msgspec
import numpy as np

from stepcut import order
from stepcut.annotations import Annotations, Origin, middles
from stepcut.checking.check import check_labels
from stepcut.checking.expectations import Expectations
from stepcut.checking.gate import look
from stepcut.checking.guide import Guide
from stepcut.checking.report import Report, without_accepted
from stepcut.checking.rules import parse_rules
from stepcut.colours import colour
from stepcut.errors import OptionError, ProcedureError, VideoError, check_kind
from stepcut.features.extract import Source, read_like, read_source
from stepcut.features.features import Failure, Features
from stepcut.features.find import Inputs, as_list, find_inputs
from stepcut.features.spec import FeatureSpec
from stepcut.files import AnyPath, is_address, whole_path
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import Array, Labels
from stepcut.methods.method import Method
from stepcut.methods.quality import Quality
from stepcut.methods.similar import suggest
from stepcut.order.graph import make_plan
from stepcut.order.orders import number_of
from stepcut.plugins import drawing
from stepcut.procedure.corrections import Corrections, carry
from stepcut.procedure.document import Document
from stepcut.procedure.fitting import fit, timeline_of, with_fingerprint
from stepcut.procedure.labels import (
    LabelSource,
    Recipe,
    TranscriptSource,
    Videos,
    find_labelled,
    next_annotations,
    read_given,
)
from stepcut.procedure.learned import (
    Config,
    Digest,
    Learned,
    check_unchanged,
    find_learned,
    has_content,
    video_digest,
)
from stepcut.procedure.members import new_videos, with_videos, without_videos
from stepcut.procedure.old import first_corrections
from stepcut.procedure.store import Change, save
from stepcut.procedure.verbs import Edit, correct
from stepcut.progress import Hook, default_hook, silent, warn_once
from stepcut.settings import build, check_number
from stepcut.timeline import BACKGROUND, Timeline, is_unnamed
from stepcut.version import __version__

Video = str | os.PathLike[str] | Array | Features
UNEDITED: Any = None
NO_MODEL = "this procedure has timelines but no model; learn one with: stepcut learn"


@dataclass(frozen=True, eq=False, repr=False)
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

    learned: Learned
    """The steps, timelines and model before corrections."""
    corrections: Corrections = UNEDITED
    """Corrections made since learning, with the documents that they make; by default none."""
    revision: str = ""
    """The name of the revision on disk that this was read from or saved to."""
    taught_from: tuple[str, Corrections] | None = None
    """The revision and the corrections that `teach` used."""
    at_hand: list[Features] | None = None
    """The training features, if they are in memory."""
    trusted: bool = True
    """Whether code and addresses named in the config may be used, such as a custom backbone."""

    def __post_init__(self) -> None:
        if self.corrections is UNEDITED:
            object.__setattr__(self, "corrections", first_corrections(self.learned))

    # ---------- learned and corrected state

    @property
    def samples(self) -> dict[str, int]:
        """The number of feature rows of each training video."""
        return self.learned.samples

    @property
    def videos(self) -> dict[str, str | None]:
        """The path of each video; None if the procedure was learned from features only."""
        return self.learned.videos

    @property
    def rate(self) -> Fraction:
        """Rows of features per second."""
        return self.learned.rate

    @property
    def config(self) -> Config:
        """Every setting, seed and version that produced this procedure."""
        return self.learned.config

    @property
    def method(self) -> Method:
        """The fitted method, from features to steps."""
        if self.learned.method is None:
            raise ProcedureError(NO_MODEL)
        return self.learned.method

    @property
    def document(self) -> Document:
        """The learned steps and timelines with corrections applied, as the viewer shows them."""
        return self.corrections.document

    @cached_property
    def annotations(self) -> Annotations:
        """All current annotations: labels, clicks, transcripts, names and mistakes."""
        current = self.document.annotations
        if self.learned.expectations is None:
            return current
        marked = self.expectations.severity
        severities = {
            name: kinds
            for number, name in enumerate(self.model_steps)
            if (kinds := tuple(marked.of(number)))
        }
        return msgspec.structs.replace(current, severities=severities)

    @property
    def steps(self) -> list[str]:
        """The current step names; the index in this list is the step number in `labels`."""
        return [step.name for step in self.document.steps]

    @cached_property
    def colours(self) -> dict[str, str]:
        """The colour of each step by name, #rrggbb; the viewer, the report and plots use it."""
        return {step.name: step.colour for step in self.document.steps}

    @property
    def timelines(self) -> dict[str, Timeline]:
        """The timeline of every training video, in seconds, with corrections applied."""
        return self.document.timelines if self.corrections.done else self.learned.timelines

    @cached_property
    def labels(self) -> dict[str, Labels]:
        """The step number of each feature row of each video, (T,); -1 is background.

        A row takes the label at the middle of its interval.
        """
        return {name: self._rows(timeline) for name, timeline in self.timelines.items()}

    def _rows(self, timeline: Timeline) -> Labels:
        return timeline.labels(middles(self.samples[timeline.video], self.rate, timeline.end))

    @property
    def model_steps(self) -> list[str]:
        """The names of the model's steps; a step that still exists has its current name."""
        return self.document.model_steps

    @property
    def untaught(self) -> str:
        """A warning about corrected steps that `check` and `guide` ignore until `teach`, or ""."""
        return self.document.untaught

    @property
    def quality(self) -> Quality:
        """How much of the time is right, measured on labelled videos; `str` is a sentence."""
        return self.config.quality

    def hierarchy(self) -> Hierarchy:
        """Return the tree of steps over all videos: which steps merge for a smaller count."""
        kept = self.config.hierarchy
        if kept is None:
            raise ProcedureError(
                "the version that learned this procedure did not store a hierarchy; learn it again."
            )
        return Hierarchy.from_json(kept, self.model_steps)

    def changed_videos(self, videos: Mapping[str, str | None] | None = None) -> list[str]:
        """Return the videos whose file has changed since learning; `videos` has their paths now."""
        digests, now = self.learned.digests, self.videos if videos is None else videos
        known = {name: one.video for name, one in digests.items() if one.video}
        return [name for name in known if video_digest(now.get(name)) not in (None, known[name])]

    @property
    def suggestions(self) -> dict[int, list[str]]:
        """Suggested names for unnamed steps, by step number; they apply only after `rename`."""
        offered = self.config.suggestions
        return {
            place: list(offered[str(step.number)])
            for place, step in enumerate(self.document.steps)
            if str(step.number) in offered and is_unnamed(step.name)
        }

    @cached_property
    def expectations(self) -> Expectations:
        """The reference statistics of `check`, from the videos without a marked mistake."""
        learned = self.learned.expectations
        if learned is None:
            raise ProcedureError(NO_MODEL)
        now = self.document
        severity, names = now.severity(learned.severity), (now.model_steps, now.former_names)
        rules = tuple(rule.renamed(*names) for rule in learned.rules)
        normal = replace(learned, severity=severity, rules=rules)
        removed = {*learned.videos} - {*self.samples}
        return normal.with_marks(now.said.mistakes | removed, now.said.normal)

    @cached_property
    def orders(self) -> order.Orders:
        """The distinct orders of the steps, most frequent first.

        Steps are ordered by their mean time, repeated steps by their first start. The paper's
        method always uses the mean time.
        """
        if self.method.orders_by_mean:
            return order.rank_orders(
                {name: order.video_order(labels) for name, labels in self.labels.items()},
                names=self.steps,
            )
        return order.orders_of_labels(self.labels, float(self.rate), self.steps)

    @cached_property
    def graph(self) -> order.ProcedureGraph:
        """The graph of steps: prerequisites, optional steps, repetitions and successors."""
        learned = self.learned
        same = self.document.now == tuple(range(len(learned.steps))) and all(
            np.array_equal(self.labels[name], self._rows(timeline))
            for name, timeline in learned.timelines.items()
        )
        graph = (
            self.expectations.graph.renamed(self.steps)
            if same
            else order.graph_of_labels(self.labels, float(self.rate), self.steps)
        )
        return replace(graph, colours=tuple(self.colours.values()))

    def card(self) -> str:
        """Return the model card that `save` writes as README.md."""
        config, labelled = self.config, len(self.learned.annotations.annotated)
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
            method=config.method,
            seed=config.seed,
            backbone=config.backbone["name"],
            rate=self.rate,
            settings=json.dumps(config.settings, indent=1),
        )

    # ---------- annotations and corrections

    def rename(self, names: Mapping[int | str, str]) -> "Procedure":
        """Return the procedure with new `names` of steps by number or current name, such as
        `proc.rename({0: "butter bread", "step 1": "add jam"})`.
        """
        check_kind("names", names, Mapping, "a dict from steps, by number or name, to names")
        shown = self.document.steps
        wanted = {shown[number_of(step, self.steps)]: name for step, name in names.items()}
        changed = {str(step.number): name for step, name in wanted.items() if step.name != name}
        return self.corrected({"do": "rename", "names": changed}) if changed else self

    def mark_mistakes(self, *videos: str, holds: bool = True) -> "Procedure":
        """Return the procedure with `videos` marked as containing a mistake: `check` excludes them
        from its reference set. If `holds` is false, they become normal ones.
        """
        if not self.expectations.videos:
            raise OptionError(
                "the version that learned this procedure stored no statistics per video; "
                "learn it again."
            )
        edits = [
            {"do": "mistake", "video": find_labelled([video], self.samples)[video], "holds": holds}
            for video in videos
        ]
        return self.corrected(*edits)

    def moved(self, videos: Mapping[str, str | None]) -> "Procedure":
        """Return the procedure with new paths of videos, by name."""
        paths = {**self.videos, **videos}
        return replace(self, learned=replace(self.learned, videos=paths))

    def corrected(self, *edits: Edit) -> "Procedure":
        """Return the procedure after more edits; `stepcut.procedure.verbs` has the verbs."""
        made = self.corrections
        for edit in edits:
            made = made.do(edit, correct)
        return replace(self, corrections=made)

    def plan(self) -> dict[str, Any]:
        """Return the procedure for planners and robots, as JSON values."""
        return make_plan(self.graph, self.orders, self.steps)

    # ---------- training videos

    def teach(
        self,
        labels: LabelSource | None = None,
        steps: int | None = None,
        source: Source | None = None,
        progress: Hook | None = None,
        *,
        transcripts: TranscriptSource | None = None,
        recipe: Recipe | None = None,
        origin: Origin | None = None,
        keep: Sequence[str] = (),
    ) -> "Procedure":
        """Learn again from all videos, with annotations of some of them, and earlier ones.

        Parameters
        ----------
        labels, transcripts, recipe
            As for `learn`: annotations of some videos, orders of some videos, the order of all.
        steps
            The number of steps. More than the named steps leaves room for unnamed ones.
        source
            The videos, feature files or arrays, if they have moved or were arrays.
        progress
            Called with an `Event` as work advances; by default a notebook shows a bar.
        origin
            The source of the annotations, if it is not the file in `labels`.
        keep
            Videos whose timeline stays, as far as it has steps that still exist.

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
        given = read_given(labels, transcripts, recipe, origin)
        ends = {name: timeline.end for name, timeline in self.learned.timelines.items()}
        annotations, names = next_annotations(
            Videos(self.samples, ends, self.rate),
            given,
            None if steps is None else int(steps),
            steps=self.steps,
            shown=self.labels,
            before=self.annotations,
            taught=bool(self.learned.annotations.annotated),
        )
        features = self.learned_features(source, progress)
        # New annotations may name other steps than the current ones.
        same = names == self.steps and not given
        return self._learn_again(features, names, annotations, same, keep, progress)

    def _learn_again(
        self,
        features: list[Features],
        names: list[str],
        annotations: Annotations | None,
        same: bool,
        keep: Sequence[str],
        progress: Hook,
    ) -> "Procedure":
        settings = {**self.method.settings(), "steps": len(names)}
        config = msgspec.structs.replace(self.config, settings=settings)
        config = with_fingerprint(config, features, names, annotations)
        place = {name: number for number, name in enumerate(names)}
        translate = np.array([*(place.get(name, -1) for name in self.steps), -1])
        before = {name: translate[numbers] for name, numbers in self.labels.items()}
        made = build(type(self.method), settings)
        made.start_from(self.method, [before[one.name] for one in features] if same else None)
        learned = fit(features, made, config, names, annotations, before, progress=progress)
        assert learned.expectations is not None
        severity = self.expectations.severity.moved(self.model_steps, learned.steps)
        rules = self.expectations.rules
        expectations = replace(learned.expectations, severity=severity, rules=rules)
        names = list(learned.steps)
        stay = {
            name: replace(self.timelines[name], steps=tuple(names))
            for name in keep
            if {segment.step for segment in self.timelines[name]} <= {*names}
        }
        timelines = {**learned.timelines, **stay}
        taught = Procedure(
            replace(learned, expectations=expectations, timelines=timelines),
            taught_from=self._origin,
            at_hand=features,
            trusted=self.trusted,
        )
        return taught.corrected(
            *(
                {"do": "colour", "step": learned.steps.index(step.name), "colour": step.colour}
                for step in self.document.steps
                if step.colour != colour(step.number) and step.name in learned.steps
            )
        )

    @property
    def _origin(self) -> tuple[str, Corrections]:
        """The saved revision that this comes from, and its corrections."""
        saved = self.revision, self.corrections
        return saved if self.revision or self.taught_from is None else self.taught_from

    def add(
        self,
        source: Source | None = None,
        learn: bool = False,
        progress: Hook | None = None,
        *,
        replacing: Sequence[str] = (),
    ) -> "Procedure":
        """Return the procedure with more videos; steps, names, labels and rules stay.

        Parameters
        ----------
        source
            New videos, feature files or arrays. Those that the procedure has already are left out.
        learn
            Learn again from all videos. Otherwise the present model segments the new ones, and
            `check` does not compare others with them.
        progress
            As for `teach`.
        replacing
            Videos to remove at the same time.

        Returns
        -------
        Procedure
            A new procedure; this one does not change.

        Raises
        ------
        OptionError
            There is nothing to add, or another video has the name of a new one.

        Examples
        --------
        >>> len(proc.add({"new": new}).timelines) - len(proc.timelines)
        1
        """
        progress = default_hook() if progress is None else progress
        if source is None and not replacing and not learn:
            raise OptionError("no videos to add. Give new videos, or learn=True (--learn).")
        gone = list(find_labelled(replacing, self.samples).values())
        left = [name for name in self.samples if name not in gone]
        inputs = Inputs("arrays") if source is None else find_inputs(source)
        files = dict(zip(inputs.names, map(str, inputs.files), strict=True))
        found, failures = list[Features](), list[Failure]()
        if source is not None:
            found, failures = read_source(inputs, self.rate, self.spec, progress=progress)
        found = [replace(self.features(one), path=files.get(one.name)) for one in found]
        added = new_videos(self.learned, left, found)
        for one in added:
            if self.check(one).other_task:
                warn_once(
                    f"{one.name} seems to show another task. If it does: stepcut remove PROCEDURE "
                    f"{one.name}"
                )
        shorter = without_videos(self.learned, gone)
        made, _ = carry(self.corrections, 0, first_corrections(shorter))
        learned = with_videos(shorter, added)
        made, _ = carry(made, 0, first_corrections(learned))
        skipped = {**learned.config.skipped, **{one.name: str(one.error) for one in failures}}
        learned = replace(learned, config=msgspec.structs.replace(learned.config, skipped=skipped))
        known = [one for one in self.at_hand or () if one.name in left]
        grown = replace(
            self,
            learned=learned,
            corrections=made,
            revision="",
            taught_from=self._origin,
            at_hand=[*known, *added] if self.at_hand else None,
        )
        said = grown.annotations
        if learn and (said.annotated or said.recipe):
            return grown.teach(progress=progress)
        if learn:
            features = grown.learned_features(None, progress)
            return grown._learn_again(features, grown.steps, None, False, (), progress)
        return grown

    def remove(self, *videos: str) -> "Procedure":
        """Return the procedure without `videos`. What people said of them stays in the log of the
        saved procedure; the model stays as it is until it learns again.
        """
        return self.add(replacing=videos)

    def suggest(self, n: int = 3, source: Source | None = None) -> list[str]:
        """Return up to `n` videos to label next, the most useful first.

        Parameters
        ----------
        n
            The number of videos.
        source
            The videos, feature files or arrays, as for `teach`.

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
        return [name for name, _ in self.suggest_why(n, source)]

    def suggest_why(self, n: int = 3, source: Source | None = None) -> list[tuple[str, str]]:
        """Return up to `n` videos to label next, each with the reason; see `suggest` for `source`."""
        check_number("n", n, 0, whole=True)
        features = self.learned_features(source)
        names, videos = list(self.samples), self.annotations.with_onsets().videos
        # Not those that are mostly labelled, completely clicked, or have a transcript.
        done = [
            place
            for place, name in enumerate(names)
            if (one := videos.get(name))
            and (
                (one.clicks and one.complete)
                or one.transcript
                or one.is_open(self.samples[name], self.rate).mean() < 0.5
            )
        ]
        reasons = suggest([self.method.read(one.rows).embedding for one in features], done, int(n))
        return [(names[place], reason) for place, reason in reasons]

    def learned_features(
        self, source: Source | None = None, progress: Hook = silent
    ) -> list[Features]:
        """Read the training features again, from `source` or their earlier paths; call `progress`."""
        if source is None and self.at_hand:
            return self.at_hand
        videos = [path for path in self.videos.values() if path is not None]
        places: Any = source if source is not None else self.config.source or videos
        if not places:
            raise OptionError(
                "this procedure was learned from arrays, which are not stored; "
                "pass them as source=...",
                setting="source",
            )
        remote = any(is_address(str(one)) for one in as_list(places))
        if source is None and not self.trusted and remote:
            raise OptionError(
                "this procedure was learned from network addresses. Pass them as source=... "
                "(--source), or trust the procedure with trust=True (--trust).",
                setting="source",
                value=places,
            )
        try:
            read = read_source(places, self.rate, self.spec, progress=progress)[0]
        except VideoError as error:
            raise OptionError(
                f"{error} Pass the new place as source=... (--source).",
                setting="source",
                value=places,
                video=error.video,
            ) from error
        found = find_learned(read, self.learned)
        features = [self.features(one) for one in found]
        check_unchanged(features, self.learned)
        return features

    # ---------- new videos

    @property
    def spec(self) -> FeatureSpec | None:
        """The feature settings; None if the procedure was learned from features without any."""
        return FeatureSpec.from_json(self.config.backbone, self.trusted)

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
        VideoError, FeatureError, OptionError
            The video cannot be read, its features do not fit those of the training videos, or the
            procedure was learned from features and has no backbone.

        Examples
        --------
        >>> proc.features(new).rows.shape
        (40, 8)
        """
        return read_like(video, self.rate, self.config.shape, self.spec, device, progress)

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
        if self._is_learned(features):
            return self.timelines[features.name]
        read = self.method.read(features.rows)
        blind = look(features, self.expectations.inputs).blind
        labels = np.where(blind, BACKGROUND, read.labels)
        names = self.document.names
        return timeline_of(features, labels, read.probabilities, self.steps, names=names)

    def _is_learned(self, features: Features) -> bool:
        name = features.name
        if name not in self.samples or self.samples[name] != len(features.rows):
            return False
        if not self.document.said.videos[name].annotated:
            return False
        same = has_content(features, self.learned.digests.get(name, Digest()))
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
        must_find: str = "step",
        rules: Sequence[str] | None = None,
    ) -> Report:
        """Check a new video for missing, repeated, misplaced, fast, slow and unknown steps.

        Parameters
        ----------
        video, device, progress
            As for `features`.
        alarm_at
            Raise an alarm for each step that is missing with at least this probability.
        min_detection
            Report "inconclusive" instead of "fine" if the expected detection rate of `must_find`
            is below this share; by default 0.5, and 0 switches it off.
        must_find
            The fault that must be found: step, half, exchange, slow or frozen.
        rules
            Sentences such as "add jam is last", instead of those in the procedure's rules.toml.

        Returns
        -------
        Report
            The findings, with their probabilities.

        Raises
        ------
        VideoError, FeatureError, OptionError
            As for `features`; also if a share or a rule is wrong.

        Examples
        --------
        >>> report = proc.check(new)
        >>> report.verdict, [finding.name for finding in report.missed]
        ('deviations', ['spread butter'])
        """
        expectations, now = self.expectations, self.document
        if rules is not None:
            parsed = parse_rules(rules, now.model_steps, now.former_names)
            expectations = replace(expectations, rules=parsed)
        features = self.features(video, device, progress)
        read = self.method.read(features.rows)
        report = check_labels(
            read.labels,
            seconds=features.end,
            rate=float(self.rate),
            probabilities=read.probabilities,
            novelty=read.novelty,
            embedding=read.embedding,
            expectations=expectations,
            names=now.model_steps,
            video=features.name,
            alarm_at=alarm_at,
            min_detection=min_detection,
            must_find=must_find,
            camera=look(features, expectations.inputs),
        )
        return without_accepted(report, now.fine)

    def guide(self) -> Guide:
        """Return a guide that follows a live recording frame by frame. It reports the current step,
        the completed and the possible next steps, and uses only past frames. See `Guide`.
        """
        return Guide(
            self.method.online,
            float(self.rate),
            self.expectations,
            self.model_steps,
            self.method.read,
            shape=self.config.shape,
        )

    # ---------- saving and comparing

    def save(self, path: AnyPath) -> None:
        """Save the procedure to the folder or address (s3://, gs://) at `path`, as a new revision."""
        mine = Change(self.learned, self.corrections, self.card(), self.revision, self.taught_from)
        on_disk = replace(self, corrections=save(path, mine), revision=mine.name)
        vars(self).clear()  # also cached values
        vars(self).update(vars(on_disk))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Procedure):
            return NotImplemented
        mine, theirs = self.method.state(), other.method.state()
        same_state = mine.keys() == theirs.keys() and all(
            np.array_equal(mine[key], theirs[key]) for key in mine
        )
        # The path of the features does not matter for equality.
        configs = [msgspec.structs.replace(one.config, source=None) for one in (self, other)]
        parts = ("steps", "timelines", "samples", "videos", "rate", "expectations")
        same_parts = all(getattr(self, part) == getattr(other, part) for part in parts)
        return same_state and configs[0] == configs[1] and same_parts

    # ---------- display

    def __repr__(self) -> str:
        hours = sum(timeline.end for timeline in self.timelines.values()) / 3600
        return (
            f"<Procedure {len(self.steps)} steps from {len(self.timelines)} videos, {hours:.2f} h>"
        )

    def __str__(self) -> str:
        names = "\n".join(f"  {name}" for name in self.steps)
        return f"{self!r}\n{names}\n{self.orders}"

    def _repr_html_(self) -> str:
        return drawing("timelines_html")(repr(self), self.timelines, self.colours)
