"""Procedure: learn again, segment, check and guide with the model of one task."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepcut.annotations import Origin
from stepcut.checking.check import check_labels
from stepcut.checking.inputs import check_inputs, unchecked_inputs, without_blind
from stepcut.checking.report import Report, without_accepted
from stepcut.checking.rules import parse_rules
from stepcut.colours import colour
from stepcut.errors import OptionError, VideoError
from stepcut.features.extract import Source, read_like, read_source
from stepcut.features.features import Features
from stepcut.features.find import as_list
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import AnyPath, is_address, whole_path
from stepcut.guidance.guide import Guide
from stepcut.methods.inputs import Array
from stepcut.methods.suggest import suggest
from stepcut.procedure.content import Digest, check_unchanged, find_learned, has_content
from stepcut.procedure.fitting import fingerprint, fit, timeline_of
from stepcut.procedure.labels import (
    LabelSource,
    Transcripts,
    Videos,
    next_annotations,
    origin_of,
    read_labels,
    read_orders,
)
from stepcut.procedure.naming import Recipe, read_recipe
from stepcut.procedure.state import ProcedureState
from stepcut.procedure.store import save
from stepcut.progress import Hook, default_hook, silent, warn_once
from stepcut.settings import build, check_number
from stepcut.timeline import Timeline

Video = str | os.PathLike[str] | Array | Features


@dataclass(eq=False, kw_only=True, repr=False)
class Procedure(ProcedureState):
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

    # ------------------------------------------------------------------ training videos

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
        read, orders, listed = read_labels(labels), read_orders(transcripts), read_recipe(recipe)
        count = None if steps is None else int(steps)
        ends = {name: timeline.end for name, timeline in self.learned_timelines.items()}
        annotations, names = next_annotations(
            Videos(self.samples, ends, self.rate),
            read,
            orders,
            listed,
            origin or origin_of(transcripts if labels is None else labels),
            count,
            steps=self.steps,
            shown=self.labels,
            before=self.annotations,
            taught=bool(self.learned_annotations.annotated),
        )
        features = self.learned_features(source, progress)
        settings = {**self.method.settings(), "steps": len(names)}
        place = {name: number for number, name in enumerate(names)}
        translate = np.array([*(place.get(name, -1) for name in self.steps), -1])
        config = {**self.config, "settings": settings}
        config["fingerprint"] = fingerprint(features, config, names, annotations)
        before = {name: translate[numbers] for name, numbers in self.labels.items()}
        made = build(type(self.method), settings)
        # New annotations may name other steps than the current ones.
        same = names == self.steps and not (read or orders or listed)
        made.start_from(self.method, [before[one.name] for one in features] if same else None)
        taught = Procedure(
            **fit(features, made, config, names, annotations, before, progress=progress)
        )
        taught.trusted, taught.taught_from = self.trusted, (self.revision, self.corrections)
        learned = taught.learned_steps
        severity = self.expectations.severity.moved(self.model_steps, learned)
        taught.learned_expectations = replace(
            taught.learned_expectations, severity=severity, rules=self.expectations.rules
        )
        for step in self.document.steps:
            if step.colour != colour(step.number) and step.name in learned:
                edit = {"do": "colour", "step": learned.index(step.name), "colour": step.colour}
                taught.corrections = taught.corrections.do(edit)
        return taught

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
        reasons = suggest([self.method.read(one.rows).embedding for one in features], done, int(n))
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
        if self._is_learned(features):
            return self.timelines[features.name]
        read = self.method.read(features.rows)
        labels = without_blind(read.labels, features, self.expectations.inputs)
        return timeline_of(features, labels, read.probabilities, self.steps, self.shown_steps)

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
            As for `features`; also if `alarm_at` or `min_detection` is not a share.

        Examples
        --------
        >>> report = proc.check(new)
        >>> report.verdict, [finding.name for finding in report.missed]
        ('deviations', ['spread butter'])
        """
        expectations, names = self.expectations, self.model_steps
        if rules is not None:
            expectations = replace(expectations, rules=parse_rules(rules, names, self.former_names))
        features = self.features(video, device, progress)
        read = self.method.read(features.rows)
        report = check_labels(
            without_blind(read.labels, features, expectations.inputs),
            seconds=features.end,
            rate=float(self.rate),
            probabilities=read.probabilities,
            novelty=read.novelty,
            embedding=read.embedding,
            expectations=expectations,
            names=names,
            video=features.name,
            alarm_at=alarm_at,
            min_detection=min_detection,
            must_find=must_find,
            blind=check_inputs(features, expectations.inputs),
            unchecked=unchecked_inputs(features, expectations.inputs),
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
            self.method.read,
            shape=self.config["shape"],
        )

    # ------------------------------------------------------------------ saving and comparing

    def save(self, path: AnyPath) -> None:
        """Save the procedure to a folder.

        In the folder of a procedure, this is a new revision of it; earlier ones stay, and
        `stepcut history` lists them. Other files in the folder stay.

        Parameters
        ----------
        path
            The folder, or an address (s3://, gs://).

        Raises
        ------
        ProcedureError
            The procedure in the folder is damaged.
        OutputError
            The folder cannot be written, or others have changed this procedure since it was loaded.

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
