"""learn(): from videos to a procedure in one call. Stages are cached, so a second call resumes."""

import copy
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from stepcut.errors import OptionError, OutputError, as_items
from stepcut.features.backbones import choose_device, load_backbone
from stepcut.features.backbones.backbone import Backbone
from stepcut.features.extract import Source, read_source
from stepcut.features.features import Failure, Features
from stepcut.features.find import find_inputs
from stepcut.features.spec import VECTORS, FeatureSpec, as_spec
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.cache import cache_dir
from stepcut.files.names import plain
from stepcut.methods import METHODS, find_method
from stepcut.methods.inputs import StepCount, as_step_count, as_whole_count, plain_numbers
from stepcut.methods.method import Method
from stepcut.order.orders import find_alike
from stepcut.parallel import open_engine
from stepcut.parallel.engine import Engine
from stepcut.plugins import name_of
from stepcut.procedure.fitting import fingerprint, fit, refuse_transcripts
from stepcut.procedure.folder import check_output
from stepcut.procedure.labels import (
    LabelSource,
    Transcripts,
    Videos,
    first_annotations,
    origin_of,
    read_labels,
    read_orders,
)
from stepcut.procedure.learned import Config
from stepcut.procedure.lengths import check_features
from stepcut.procedure.loading import load
from stepcut.procedure.naming import Namer, Recipe, read_recipe
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import check_keepable, has_work, read_config
from stepcut.progress import Hook, default_hook
from stepcut.rate import Rate
from stepcut.settings import (
    Setting,
    build,
    check_fields,
    check_number,
    setting,
    settings_of,
)
from stepcut.version import versions


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
    namer: Namer | None = setting(
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
            raise OptionError(
                f"namer={self.namer!r} is not a function; give one that maps pictures to words.",
                setting="namer",
                value=self.namer,
            )


def described_settings() -> dict[str, Mapping[str, Setting]]:
    """All settings by group: of `learn`, of features, and of each method."""
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
    transcripts: Transcripts | str | os.PathLike[str] | None = None,
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
    progress = default_hook() if progress is None else progress
    chosen = {one.name for one in fields(LearnOptions)} & options.keys()
    run = LearnOptions(**{name: options.pop(name) for name in chosen})
    if moved := [name for name in ("fps", "weights", "layer", "family") if name in options]:
        raise OptionError(
            f"{moved[0]}={options[moved[0]]!r} is a setting of the features; "
            f"use backbone=stepcut.FeatureSpec({moved[0]}=...).",
            setting=moved[0],
            value=options[moved[0]],
        )
    if output is not None:
        check_output(output)
    choose_device(run.device)  # fail before any work
    part: Method | type[Method] = find_method(method)
    if output is not None and not isinstance(part, type):
        check_keepable(part, output)
    steps = check_steps(
        steps, run.names, None if isinstance(part, type) else part.settings().get("steps")
    )
    read, orders, listed = read_labels(labels), read_orders(transcripts), read_recipe(recipe)
    given = bool(read or orders or listed)
    check_settings(part, seed, options)
    if isinstance(part, type) and not part.chooses_steps and not given:
        as_whole_count(steps, part.__name__)
    if (orders or listed) and "transcript" not in part.learns_from:
        refuse_transcripts(method if isinstance(method, str) else type(method).__name__)
    if listed and run.names is not None:
        raise OptionError("recipe and names are both set; give one of the two.", setting="names")
    custom = None if isinstance(backbone, str | FeatureSpec) else load_backbone(backbone)
    inputs = find_inputs(source)
    with open_engine(run.engine, run.workers, run.address) as where:
        features, failures = read_source(
            inputs,
            rate,
            as_spec(backbone),
            run.cache,
            run.strict,
            progress,
            where,
            device=run.device,
            backbone=custom,
        )
    check_features(features, inputs.places)
    check_amount(features, steps, failures)
    annotations, names = None, run.names
    if given:
        count = steps if isinstance(steps, int) else None
        origin = origin_of(transcripts if labels is None else labels)
        annotations, names = first_annotations(
            Videos.of(features), read, orders, listed, origin, count, names
        )
        steps = len(names)
    made = make_method(part, steps, float(features[0].rate), seed, options)
    if hasattr(made, "device"):
        vars(made)["device"] = run.device
    config = make_config(made, seed, features, failures)
    config = msgspec.structs.replace(config, false_alarms=run.false_alarms, source=inputs.places)
    config = msgspec.structs.replace(
        config, fingerprint=fingerprint(features, config, names, annotations)
    )
    if output is not None and already_there(output, config.fingerprint):
        # The caller passed any custom method or backbone, so it is trusted.
        trusted = features[0].spec is None or features[0].spec.trusted
        return replace(load(output, type(made), trusted), at_hand=list(features))

    # Checkpoints are written often, so they are always on this machine.
    cache = None if run.cache is None else as_path(run.cache)
    folder = cache if isinstance(cache, Path) else cache_dir()
    checkpoint = folder / "training" / f"{config.fingerprint}.safetensors"
    learned = fit(features, made, config, names, annotations, None, run.namer, progress, checkpoint)
    trusted = features[0].spec is None or features[0].spec.trusted
    procedure = Procedure(learned, at_hand=list(features), trusted=trusted)
    if output is not None:
        procedure.save(output)
    checkpoint.unlink(missing_ok=True)
    return procedure


def already_there(output: AnyPath, wanted: str) -> bool:
    """Whether `output` is the procedure of fingerprint `wanted`.

    Refuse another procedure that contains corrections, annotations or severities.
    """
    folder = as_path(output)
    if not folder.exists():
        return False
    config = read_config(folder)
    if config.fingerprint == wanted:
        return True
    if work := has_work(folder):
        raise OutputError(
            f"{folder}: a new procedure would replace the {work} of this one. Choose another "
            f"name with -o, or learn from them: stepcut teach {shlex.quote(str(folder))}",
            path=folder,
        )
    return False


FEWEST_ROWS = 3
"""Feature rows in all videos together that choosing the number of steps needs."""


def make_method(
    part: Method | type[Method],
    steps: StepCount,
    rate: float,
    seed: int,
    options: Mapping[str, Any],
) -> Method:
    """Create a method from its class, or copy a method object and set its `steps`."""
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
            raise OptionError(
                f"steps={steps}: method {type(part).__name__} does not have this setting; omit it.",
                setting="steps",
                value=steps,
            )
        vars(made)["steps"] = steps
    return made


def check_settings(part: Method | type[Method], seed: int, options: Mapping[str, Any]) -> None:
    """Refuse wrong settings of a method before features are computed."""
    tried: Any = make_method(part, 2 if isinstance(part, type) else "auto", 1.0, seed, options)
    if is_dataclass(tried):
        check_fields(tried)


def check_steps(steps: Any, names: Sequence[str] | None, own: Any) -> StepCount:
    """Return the number of `steps` as plain numbers; refuse `names` that do not fit it.

    `own` is the number of steps of a method object; it applies if `steps` is "auto".
    """
    count = as_step_count(steps)
    if names is not None:
        as_items("names", names, str, "a list with one name per step")
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


def check_amount(
    features: Sequence[Features], steps: StepCount, failures: Sequence[Failure]
) -> None:
    """Refuse fewer than two videos, and more `steps` than rows."""
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
    if steps == "auto" and rows < FEWEST_ROWS:
        raise OptionError(
            f"all videos together have {rows} rows of features, too few to choose the number of "
            "steps. Use longer videos or a higher --fps, or set the number with --steps.",
            setting="steps",
            value=steps,
        )
    most = steps[1] if isinstance(steps, tuple) else steps
    if isinstance(most, int) and most > rows:
        raise OptionError(
            f"steps={steps}, but all videos together have {rows} sampled frames. "
            "Use fewer steps or a higher --fps.",
            setting="steps",
            value=steps,
        )


def make_config(
    method: Method, seed: int, features: Sequence[Features], failures: Sequence[Failure]
) -> Config:
    """Return the settings and versions that config.json stores."""
    first = features[0]
    return Config(
        method=name_of("method", method, METHODS),
        rate=str(first.rate),
        settings=plain_numbers(method.settings()),
        seed=plain_numbers(seed),
        backbone=first.spec.to_json() if first.spec else {"name": VECTORS},
        shape=list(first.rows.shape[1:]),
        skipped={failure.name: str(failure.error) for failure in failures},
        versions=versions(),
    )
