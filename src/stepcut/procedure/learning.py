"""Learn a procedure from videos; load it, teach it in its folder, ask it on workers."""

import copy
import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.checking.check import check_labels
from stepcut.checking.rules import RULES_FILE, parse_rules, read_sentences
from stepcut.errors import NotLearned, OptionError, OutputError, ProcedureError, as_items, wrong
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.runtime import Backbone, choose_device
from stepcut.features.cycles import check_apart
from stepcut.features.extract import Source, read_source
from stepcut.features.features import Failure, Features
from stepcut.features.find import find_inputs
from stepcut.features.spec import VECTORS, FeatureSpec, as_spec
from stepcut.files import Address, AnyPath, as_path, cache_dir
from stepcut.files.names import Fragment, match_videos, plain
from stepcut.formats import read_folder
from stepcut.methods import METHODS, find_method
from stepcut.methods.arithmetic import best_pairs
from stepcut.methods.inputs import StepCount, as_step_count, as_whole_count, plain_numbers
from stepcut.methods.method import Method
from stepcut.order.orders import find_alike
from stepcut.parallel.engine import Engine, open_engine
from stepcut.plugins import name_of
from stepcut.procedure import fitting, store
from stepcut.procedure.folder import check_output, damaged, is_procedure
from stepcut.procedure.labels import (
    LabelSource,
    Recipe,
    TranscriptSource,
    Videos,
    first_annotations,
    read_given,
)
from stepcut.procedure.learned import Config
from stepcut.procedure.lengths import check_features
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook, default_hook, silent
from stepcut.settings import Rate, Setting, build, check_fields, check_number, setting, settings_of
from stepcut.timeline import Timeline
from stepcut.version import versions

FEWEST_ROWS = 3


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """Further settings of `learn`, which accepts each of them as a keyword argument.

    Examples
    --------
    >>> sc.learn(videos, steps=3, restarts=2, names=["cut", "butter", "jam"], false_alarms=0.2).steps
    ['cut', 'butter', 'jam']
    """

    names: Sequence[str] | None = setting(
        None, "Names for the steps, in the order of their numbers."
    )
    namer: fitting.Namer | None = setting(
        None,
        "Function from pictures (H, W, 3) of a step to name suggestions; they do not rename steps.",
    )
    device: str = setting(
        "auto", "Where the backbone runs, and a method that has a `device`: auto, cpu or cuda."
    )
    cache: AnyPath | None = setting(None, "The folder for computed features.")
    strict: bool = setting(False, "Stop at the first unusable video instead of skipping it.")
    false_alarms: float = setting(
        0.05, "The accepted false-alarm rate of `check`; a small rate needs many videos."
    )
    engine: str | Engine | None = setting(
        None, 'Where features are computed: "local" (this machine) or "ray" (a cluster).'
    )
    workers: int | None = setting(
        None, "Number of parallel processes; by default the engine chooses.", 1
    )
    address: str | None = setting(None, "The address of the cluster.")

    def __post_init__(self) -> None:
        check_fields(self)
        check_number("false_alarms", self.false_alarms, 0, 1, above=True)
        if self.namer is not None and not callable(self.namer):
            raise wrong("namer", self.namer, "is not a function from pictures to words; give one.")


def described_settings() -> dict[str, Mapping[str, Setting]]:
    groups = {"learn": settings_of(LearnOptions), "features": settings_of(FeatureSpec)}
    return groups | {name: METHODS[name].described() for name in METHODS}


def learn(
    source: Source,
    steps: StepCount = "auto",
    seed: int = 0,
    rate: Rate = 1,
    *,
    method: str | Method = "stepcut",
    backbone: str | FeatureSpec | Backbone = "efficientnet-lite0",
    labels: LabelSource | None = None,
    transcripts: TranscriptSource | None = None,
    recipe: Recipe | None = None,
    output: AnyPath | None = None,
    progress: Hook | None = None,
    **options: Any,
) -> Procedure:
    """Learn a procedure from videos of one task.

    Parameters
    ----------
    source
        A folder, files or globs of videos; feature files; or arrays (T, d) as a list or by name.
    steps
        The number of steps; "auto" chooses it, (8, 14) chooses it from this range.
    seed
        The random seed; the result on one machine depends only on it and the input.
    rate
        Rows per second, for feature files and arrays that do not state it.
    method
        "stepcut" (the default), "cnc" (the paper's), or a custom method.
    backbone
        The feature extractor: the name of a network, a `FeatureSpec`, or a custom object.
    labels
        Annotations of some videos: a folder or file of labels in any format, timelines by video,
        or arrays (T,) of step numbers by video (-1 background, -2 open). The names in labels
        become the steps. `Segment(t, t, name)` is a click.
    transcripts
        The steps of some videos in order, without times: a dict by video, or a text file with one
        line per video.
    recipe
        The steps of all videos in order: a text file or lines such as "stir; 40 s", "toast;
        optional" or "wipe; any time".
    output
        The folder to save the procedure to. If it already contains the result of these inputs and
        settings, `learn` loads it.
    progress
        Called with an `Event` as work advances; by default a notebook shows a bar.
    **options
        The fields of `LearnOptions` (names, device, cache, engine ...), and settings of the method.

    Returns
    -------
    Procedure
        The learned procedure.

    Raises
    ------
    OptionError
        A setting is wrong, or there are too few videos.
    AnnotationError
        The annotations contradict each other, the videos or the steps.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> video = lambda: np.repeat(np.eye(3, 8), 20, axis=0) + 0.1 * rng.normal(size=(60, 8))
    >>> learn([video(), video(), video()], steps=3).labels["0"].shape
    (60,)
    """
    # Everything that needs no video is checked before any work.
    progress = default_hook() if progress is None else progress
    run = _take_options(options)
    part = _check_method(method, output, run.device)
    steps = _check_steps(steps, run.names, part)
    given = read_given(labels, transcripts, recipe)
    _try_settings(part, seed, options)
    if isinstance(part, type) and not part.chooses_steps and not given:
        as_whole_count(steps, part.__name__)
    if (given.transcripts or given.recipe) and "transcript" not in part.learns_from:
        fitting.refuse_transcripts(method if isinstance(method, str) else type(method).__name__)
    if given.recipe and run.names is not None:
        raise OptionError("recipe and names are both set; give one of the two.", setting="names")
    custom = None if isinstance(backbone, str | FeatureSpec) else load_backbone(backbone)
    inputs, spec = find_inputs(source), as_spec(backbone)

    with open_engine(run.engine, run.workers, run.address) as where:
        how: Any = {"device": run.device, "backbone": custom}
        features, failures = read_source(
            inputs, rate, spec, run.cache, run.strict, progress, where, **how
        )
    check_features(features, inputs.places)
    _check_amount(features, steps, failures)
    annotations, names = None, run.names
    if given:
        count = steps if isinstance(steps, int) else None
        annotations, names = first_annotations(Videos.of(features), given, count, names)
        steps = len(names)

    made = _make_method(part, steps, float(features[0].rate), seed, options)
    if hasattr(made, "device"):
        vars(made)["device"] = run.device
    config = Config(
        method=name_of("method", made, METHODS),
        rate=str(features[0].rate),
        settings=plain_numbers(made.settings()),
        seed=plain_numbers(seed),
        backbone=features[0].spec.to_json() if features[0].spec else {"name": VECTORS},
        shape=list(features[0].rows.shape[1:]),
        false_alarms=run.false_alarms,
        source=inputs.places,
        skipped={failure.name: str(failure.error) for failure in failures},
        versions=versions(),
    )
    config = fitting.with_fingerprint(config, features, names, annotations)
    # The caller passed any custom method or backbone, so it is trusted.
    trusted = features[0].spec is None or features[0].spec.trusted
    if output is not None and _is_there(output, config.fingerprint):
        return replace(load(output, type(made), trusted), at_hand=list(features))

    # Checkpoints are written often, so they are always on this machine.
    cache = None if run.cache is None else as_path(run.cache)
    folder = cache if isinstance(cache, Path) else cache_dir()
    checkpoint = folder / "training" / f"{config.fingerprint}.safetensors"
    learned = fitting.fit(
        features, made, config, names, annotations, None, run.namer, progress, checkpoint
    )
    procedure = Procedure(learned, at_hand=list(features), trusted=trusted)
    if output is not None:
        procedure.save(output)
    checkpoint.unlink(missing_ok=True)
    return procedure


# ---------- checks before the work


def _take_options(options: dict[str, Any]) -> LearnOptions:
    for name in ("fps", "weights", "layer", "family"):
        if name in options:
            why = f"is a setting of the features; use backbone=stepcut.FeatureSpec({name}=...)."
            raise wrong(name, options[name], why)
    chosen = {one.name for one in fields(LearnOptions)} & options.keys()
    return LearnOptions(**{name: options.pop(name) for name in chosen})


def _check_method(
    method: str | Method, output: AnyPath | None, device: str
) -> Method | type[Method]:
    if output is not None:
        check_output(output)
    choose_device(device)
    part: Method | type[Method] = find_method(method)
    if output is not None and not isinstance(part, type):
        store.check_keepable(part, output)
    return part


def _make_method(
    part: Method | type[Method],
    steps: StepCount,
    rate: float,
    seed: int,
    options: Mapping[str, Any],
) -> Method:
    if isinstance(part, type):
        return build(part, {"steps": steps, "rate": rate, "seed": seed, **plain_numbers(options)})
    if options:
        raise OptionError(
            f"set {', '.join(options)} on the method object, not in learn().",
            setting=next(iter(options)),
        )
    made = copy.copy(part)
    made.rate = rate
    if steps != "auto":
        if made.settings().get("steps") is None:
            why = f": method {type(part).__name__} does not have this setting; omit it."
            raise wrong("steps", steps, why)
        vars(made)["steps"] = steps
    return made


def _try_settings(part: Method | type[Method], seed: int, options: Mapping[str, Any]) -> None:
    tried: Any = _make_method(part, 2 if isinstance(part, type) else "auto", 1.0, seed, options)
    if is_dataclass(tried):
        check_fields(tried)


def _check_steps(steps: Any, names: Sequence[str] | None, part: Method | type[Method]) -> StepCount:
    count = as_step_count(steps)
    if names is not None:
        as_items("names", names, str, "a list with one name per step")
        # The number of steps of a method object applies if `steps` is "auto".
        own = None if isinstance(part, type) else part.settings().get("steps")
        wanted = count if own is None or count != "auto" else as_step_count(own)
        if not isinstance(wanted, int):
            raise OptionError(
                f"{len(names)} names, but steps={wanted}; give steps={len(names)}.",
                setting="steps",
                value=wanted,
            )
        if len(names) != wanted or "" in map(plain, names) or find_alike(names):
            raise OptionError(
                f"{len(names)} names for steps={wanted} ({', '.join(map(repr, names))}); "
                "give one name per step, all different.",
                setting="names",
                value=names,
            )
    return count


def _check_amount(
    features: Sequence[Features], steps: StepCount, failures: Sequence[Failure]
) -> None:
    if len(features) < 2:
        skipped = "".join(f" Skipped: {failure.error}" for failure in failures[:1])
        more = f" (and {len(failures) - 1} more)" * (len(failures) > 1)
        raise OptionError(
            f"only {len(features)} video ({features[0].name}); stepcut compares videos of the "
            f"same task. Give at least two.{skipped}{more}",
            setting="source",
            value=len(features),
        )
    rows = sum(len(one.rows) for one in features)
    most = steps[1] if isinstance(steps, tuple) else steps
    problem = ""
    if steps == "auto" and rows < FEWEST_ROWS:
        problem = (
            f"all videos together have {rows} rows of features, too few to choose the number of "
            "steps. Use longer videos or a higher --fps, or set the number with --steps."
        )
    elif isinstance(most, int) and most > rows:
        problem = (
            f"steps={steps}, but all videos together have {rows} sampled frames. "
            "Use fewer steps or a higher --fps."
        )
    if problem:
        raise OptionError(problem, setting="steps", value=steps)


def _is_there(output: AnyPath, wanted: str) -> bool:
    """Whether `output` has this fingerprint; refuse to replace people's work on another one."""
    folder = as_path(output)
    if not folder.exists():
        return False
    if store.read_config(folder).fingerprint == wanted:
        return True
    if work := store.has_work(folder):
        raise OutputError(
            f"{folder}: a new procedure would replace the {work} of this one. Choose another "
            f"name with -o, or learn from them: stepcut teach {shlex.quote(str(folder))}",
            path=folder,
        )
    return False


def read_cycles(recording: AnyPath, cycles: AnyPath) -> list[str]:
    """Return the cycles of a recording, as a table or its corrected page lists them, for `learn`.

    Examples
    --------
    >>> Path("cycles.csv").write_text("start,end,label\\n0,20,cycle\\n21.5,40,cycle\\n")
    41
    >>> read_cycles("line.mp4", "cycles.csv")
    ['line.mp4#t=0,20', 'line.mp4#t=21.5,40']
    """
    folder = as_path(cycles)
    found = read_folder(str(cycles)) if not is_procedure(folder) else _with_taps(folder)
    name = str(recording)
    if len(found) > 1 and not (found := {n: found[n] for n in match_videos(found, [name])}):
        raise OptionError(f"{cycles}: no cycles of {name}. Name it in the column video.")
    for each in found.values():
        check_apart([(one.start, one.end) for one in each.intervals], str(cycles))
    spans = [span for each in found.values() for span in _spans(each)]
    if len(spans) < 2:
        raise OptionError(
            f"{cycles}: {len(spans)} cycles; learning compares at least two. Find them: "
            f"stepcut cycles {shlex.quote(name)} -o {shlex.quote(str(cycles))}"
        )
    return [str(Fragment(name, start, end)) for start, end in spans]


def _with_taps(folder: Path | Address) -> dict[str, Timeline]:
    shown = read_outline(folder).document
    taps = {name: {*one.clicks} for name, one in shown.said.videos.items()}
    return {
        name: replace(one, segments=tuple(sorted({*one.segments, *taps[name]})))
        for name, one in shown.timelines.items()
    }


def _spans(timeline: Timeline) -> list[tuple[float, float]]:
    """The intervals, and cycles that begin at taps: each ends with its interval or at the next."""
    starts = sorted({one.start for one in timeline})
    usual = float(np.median(np.diff(starts))) if len(starts) > 1 else math.inf
    spans = []
    for start, following in zip(starts, [*starts[1:], math.inf], strict=True):
        here = [one.end for one in timeline.intervals if one.start <= start < one.end]
        if math.isinf(following) and not here:  # nothing shows where the last one ends
            here = [start + usual, timeline.duration or math.inf]
        spans.append((start, min([following, *here])))
    return spans


# ---------- saved procedures


def load(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> Procedure:
    """Load a saved procedure, with its corrections.

    Parameters
    ----------
    path
        The folder, or an address (s3://, gs://).
    method
        The class of a custom method that the procedure was learned with.
    trust
        Import the code that the procedure names. By default, loading runs no foreign code.

    Returns
    -------
    Procedure
        The saved procedure.

    Raises
    ------
    ProcedureError
        The folder is damaged, was written by a newer version, or names code that is not trusted.

    Examples
    --------
    >>> proc.save("sandwich.proc")
    >>> sc.load("sandwich.proc").steps
    ['cut bread', 'spread butter', 'add jam']
    """
    folder = as_path(path)
    opened = store.open_revision(folder)
    with damaged(folder):
        made = store.corrections_in(opened)
    learned, expectations = store.read_model(opened, folder, method, trust)
    now, file = made.document, folder / RULES_FILE
    try:
        severity = store.base_severity(folder, made)
    except OptionError as error:
        raise ProcedureError(str(error)) from error
    try:
        rules = parse_rules(read_sentences(file), now.model_steps, now.former_names)
    except OptionError as error:
        why = str(error) if error.path else f"{file}: {error}"
        raise ProcedureError(why, path=file) from error
    expectations = replace(expectations, severity=severity, rules=rules)
    learned = replace(learned, expectations=expectations)
    procedure = Procedure(learned, made, opened.name, trusted=trust)
    # The model of an old version can be looked at, corrected and learned again, not used.
    with damaged(path), suppress(NotLearned):
        _try(procedure)
    return procedure


def read_outline(path: AnyPath) -> Procedure:
    opened = store.open_revision(path)
    with damaged(path):
        return Procedure(opened.learned, store.corrections_in(opened), opened.name)


def teach_folder(
    path: AnyPath,
    labels: LabelSource | None = None,
    output: AnyPath | None = None,
    steps: int | None = None,
    source: Source | None = None,
    trust: bool = False,
    progress: Hook = silent,
    **more: Any,
) -> tuple[Procedure, Procedure]:
    """Return the procedure before and after; `take_back` restores the one that was replaced."""
    target = path if output is None else output
    before = load(path, trust=trust)
    check_output(target)
    after = before.teach(labels, steps, source, progress, **more)
    after.save(target)
    return before, after


def changes(before: Procedure, after: Procedure) -> dict[str, float]:
    """Return the share of each video that changed its step; steps are matched by shared time."""
    was, now, rows = before.labels, after.labels, len(before.steps)
    match = np.full(rows + 1, -1)
    for one, other in best_pairs(fitting.shared_rows(was, now, rows, len(after.steps)), least=-1):
        match[one] = other
    return {name: float(np.mean(match[was[name]] != now[name])) for name in now}


def ask(
    verb: str,
    procedure: str,
    word: str,
    trust: bool,
    device: str,
    video: str,
    progress: Hook = silent,
    **options: Any,
) -> Any:
    """Ask on a worker, which loads the procedure once per `word`."""
    return getattr(open_once(procedure, word, trust), verb)(video, device, progress, **options)


@lru_cache(maxsize=1)
def open_once(path: str, _word: str, trust: bool) -> Procedure:
    return load(path, trust=trust)


def _try(procedure: Procedure) -> None:
    """Run every operation on two empty rows, to detect inconsistent files on loading."""
    count, method = len(procedure.learned.steps), procedure.method
    rows = np.zeros((2, *map(int, procedure.config.shape)), dtype=np.float32)
    read = method.read(rows)
    if read.probabilities.shape != (2, count) or not np.isfinite(read.probabilities).all():
        raise ValueError(f"probabilities {read.probabilities.shape} for {count} steps")
    if not np.isfinite(read.novelty).all():
        raise ValueError("novelty is not finite")
    every = np.repeat(np.arange(count), 2)
    check_labels(every, float(procedure.rate), procedure.expectations, names=procedure.model_steps)
    procedure.check(rows)
    procedure.segment(rows)
    procedure.guide().push(0.0, rows[0])
    procedure.plan()
