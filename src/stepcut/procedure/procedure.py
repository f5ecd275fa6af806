"""Procedure: what was learned from the videos of one task, and what can be done with it."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from stepcut.checking.accepted import without_accepted
from stepcut.checking.check import check_labels
from stepcut.checking.report import Report
from stepcut.checking.severity import parse_severity
from stepcut.checks import check_number
from stepcut.colours import colour
from stepcut.errors import OptionError, VideoError, check_kind
from stepcut.features.contract import Features
from stepcut.features.extract import Source, read_like, read_source
from stepcut.features.find import as_list
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import AnyPath, is_address, whole_path
from stepcut.guidance.guide import Guide
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Array, build
from stepcut.methods.method import Method
from stepcut.methods.stepcut.suggest import suggest
from stepcut.order.orders import number_of
from stepcut.order.plan import make_plan
from stepcut.procedure.corrections.operations import correct
from stepcut.procedure.fitting import fingerprint, fit, timeline_of
from stepcut.procedure.folder import damaged
from stepcut.procedure.lesson import Given, find_labelled, known_rows, lesson
from stepcut.procedure.record import Record
from stepcut.procedure.storage import read, save
from stepcut.progress import Hook, default_hook, silent
from stepcut.timeline import Timeline

Video = str | os.PathLike[str] | Array | Features


class Procedure(Record):
    """The steps of a task, where they lie in every video, and the model that finds them in a new one.

    `learn` makes it, `save` keeps it as a folder, `stepcut.load` brings it back.
    """

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
        """Say which of the videos learned from hold mistakes: `check` takes them for normal ones no more, and the steps
        stay as they are. Changes this procedure and returns it.

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
    ) -> "Procedure":
        """Learn again from what a person says of some videos, and from the others as they are; gives a new procedure.

        labels    a folder or file of labels in any format, timelines by video, or arrays (T,) of this procedure's step
                  numbers by video (-1 background, -2 open); left out, the corrections alone. Corrections and
                  labels that it was taught before count, too
        steps     how many steps there are to be; more than are named leaves room for steps without a name
        source    where the features are (videos, feature files or arrays), when this program cannot find them
        progress  hears how far the work is; left out, a notebook shows a bar
        """
        progress = default_hook() if progress is None else progress
        if steps is not None:
            check_number("steps", steps, 1, sum(self.samples.values()), whole=True)
        said = lesson(self, labels, None if steps is None else int(steps))
        features = self.learned_features(source, progress)
        settings = {**self.method.settings(), "steps": len(said.names)}
        place = {name: number for number, name in enumerate(said.names)}
        translate = np.array([*(place.get(name, -1) for name in self.steps), -1])
        marked = sorted(self.document.mistakes)
        config = {
            **self.config,
            "settings": settings,
            "absorbed": self.corrections.revision,
            "mistakes": marked,
            **self._by_name(),
        }
        config["fingerprint"] = fingerprint(features, config, None, said)
        before = {name: translate[numbers] for name, numbers in self.labels.items()}
        made = build(type(self.method), settings)
        # Labels may be of other steps than those shown.
        same = labels is None and len(said.names) == len(self.steps)
        made.start_from(self.method, [before[one.name] for one in features] if same else None)
        taught = Procedure.grown(fit(features, made, config, None, said, before, progress=progress))
        taught.trusted = self.trusted
        mine, found, severity = (
            self.model_steps,
            taught.learned_steps,
            self.learned_expectations.severity,
        )
        kept = {
            kind: [mine[n] for n in steps if mine[n] in found]
            for kind, steps in vars(severity).items()
        }
        taught.learned_expectations = replace(
            taught.learned_expectations, severity=parse_severity(kept, found)
        )
        for step in self.document.steps:
            if step.colour != colour(step.number) and step.name in taught.steps:
                edit = {
                    "do": "colour",
                    "step": taught.steps.index(step.name),
                    "colour": step.colour,
                }
                taught.corrections = taught.corrections.do(edit)
        return taught

    def _by_name(self) -> dict[str, Any]:
        """Clicks and accepted findings, with the names of their steps: numbers change when it is taught."""
        document, named = self.document, {step.number: step.name for step in self.document.steps}
        models = dict(enumerate(self.model_steps))
        clicks = {
            video: [[one.time, named[one.step]] for one in mine]
            for video, mine in document.clicks.items()
            if mine
        }
        accepted = [
            [one.kind, None if one.step is None else models.get(one.step), one.video]
            for one in sorted(document.fine, key=str)
        ]
        return {"clicks": clicks, "complete": sorted(document.complete), "accepted": accepted}

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
        names, known = list(self.samples), known_rows(self)
        # A video of which most is known needs no more labels.
        done = [
            place
            for place, name in enumerate(names)
            if name in known and np.mean(known[name] != OPEN) > 0.5
        ]
        told = suggest(self.method.embed([one.rows for one in features]), done, int(n))
        return [(names[place], reason) for place, reason in told]

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
        lost = [
            name
            for name in self.samples
            if name not in found or len(found[name].rows) != self.samples[name]
        ]
        if lost:
            raise OptionError(
                f"the features of {', '.join(lost[:5])} are not where they were, or have changed. Give the videos or "
                "feature files it was learned from as source=... (--source)."
            )
        return [self.features(found[name]) for name in self.samples]

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
        """Whether a person has said something of this very video: then that is what is shown."""
        name = features.name
        if name not in self.document.known or self.samples[name] != len(features.rows):
            return False
        here, path = self.videos[name], features.path
        return here is None or path is None or whole_path(path) == here

    def check(self, video: Video, device: str = "auto", progress: Hook = silent) -> Report:
        """What a new video misses, repeats, does out of order, too quickly or slowly, and what matches no step.

        `video`, `device` and `progress` are those of `features`.
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
        from stepcut.show.bars import timelines_html

        return timelines_html(repr(self), self.timelines, self.colours)


def load(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> Procedure:
    """Read a procedure that `save` wrote, with what a person corrected since.

    path    the folder, or an address (s3://, gs://)
    method  the class of a method of your own that it was learned with
    trust   import the code that the procedure names; without it, a procedure is data and runs nothing
    """
    procedure = Procedure.grown(read(path, method, trust))
    with damaged(path):
        _try(procedure)
    return procedure


def _try(procedure: Procedure) -> None:
    """Put two rows of nothing through it: what does not fit together is found here, not in the middle of the work."""
    count, method = len(procedure.learned_steps), procedure.method
    rows = np.zeros((2, *map(int, procedure.config["shape"])), dtype=np.float32)
    shares = method.probabilities([rows])[0]
    if shares.shape != (2, count) or not np.isfinite(shares).all():
        raise ValueError(f"probabilities {shares.shape} for {count} steps")
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
