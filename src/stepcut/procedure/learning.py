"""learn(): from videos to a procedure, in one call; every stage leaves its file, so a second call resumes."""

import copy
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from stepcut.checking.calibrate import check_false_alarms
from stepcut.checks import check_limits
from stepcut.errors import OptionError, OutputError, as_items
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.contract import Backbone
from stepcut.features.contract import Features
from stepcut.features.extract import Source, read_source
from stepcut.features.find import find_inputs
from stepcut.features.spec import VECTORS, FeatureSpec, as_spec
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.cache import cache_dir
from stepcut.files.names import plain
from stepcut.methods import METHODS
from stepcut.methods.inputs import StepCount, as_step_count, build, plain_numbers
from stepcut.methods.method import NEEDED, Method
from stepcut.parallel import open_engine
from stepcut.parallel.contract import Engine
from stepcut.plugins import check_part, find, name_of
from stepcut.procedure.fitting import fingerprint, fit
from stepcut.procedure.folder import check_output, read_config
from stepcut.procedure.lengths import check_features
from stepcut.procedure.lesson import Given, find_alike, first_lesson, read_labels
from stepcut.procedure.naming import Namer, read_recipe
from stepcut.procedure.procedure import Procedure, load
from stepcut.procedure.storage import check_keepable
from stepcut.progress import Hook, default_hook
from stepcut.rate import Rate
from stepcut.version import versions


def learn(
    source: Source,
    steps: StepCount = "auto",
    seed: int = 0,
    rate: Rate = 1,
    *,
    method: str | Method = "stepcut",
    backbone: str | FeatureSpec | Backbone = "efficientnet-lite0",
    fps: Rate | None = None,
    weights: str | None = None,
    layer: str | None = None,
    family: str | None = None,
    device: str = "auto",
    names: Sequence[str] | None = None,
    labels: Given | None = None,
    recipe: str | os.PathLike[str] | Sequence[str] | None = None,
    namer: Namer | None = None,
    cache: AnyPath | None = None,
    output: AnyPath | None = None,
    strict: bool = False,
    false_alarms: float = 0.05,
    progress: Hook | None = None,
    engine: str | Engine | None = None,
    workers: int | None = None,
    address: str | None = None,
    **options: Any,
) -> Procedure:
    """Learn a procedure from videos of one task.

    source   a folder, files or globs of videos; feature files; or arrays `(T, d)` as a list or by name
    steps    how many steps there are; "auto" chooses the number, (8, 14) chooses it between these
    rate     rows per second of features that do not say it themselves
    seed     same seed, same result on one machine
    method   "stepcut" (the default), "cnc" (the paper's), or an object of your own
    backbone the network that makes features of videos: a name, a `FeatureSpec`, or an object of your own
    fps      rows of features per second of video (2 unless the spec says it)
    weights, layer, family   of the backbone, see `FeatureSpec`
    device   where the backbone runs: auto, cpu or cuda
    names    names for the steps, in the order of their numbers
    labels   what a person says of some of the videos: a folder or file of labels in any format, timelines by video, or
             arrays (T,) by video with a step number, -1 for background and -2 for open; label names become the steps
    recipe   the steps as a person knows them, in order: a text file or lines such as "stir; 40 s" or "wipe; any time".
             It names the steps found where that decides it, and offers names for the others
    namer    from pictures (H, W, 3) of a step to words for it; suggestions, never written as names by themselves
    cache    where features are kept
    output   where to keep the procedure; when the same one is there already, it is read and nothing is done again
    strict   stop at the first video that cannot be used, instead of leaving it out
    progress hears how far the work is; left out, a notebook shows a bar
    engine   where features are computed: "local" (this machine) or "ray" (a cluster, at `address`), by `workers`
    false_alarms  the share of normal videos that `check` may call wrong; few videos cannot vouch for a small one
    options  settings of the method, such as `loss="tcc"` for cnc

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> video = lambda: np.repeat(np.eye(3, 8), 20, axis=0) + 0.1 * rng.normal(size=(60, 8))
    >>> learn([video(), video(), video()], steps=3).labels["0"].shape
    (60,)
    """
    progress = default_hook() if progress is None else progress
    if output is not None:
        check_output(output)
    part: Method | type[Method] = (
        find("method", method, METHODS) if isinstance(method, str) else method
    )
    check_part("method", method, part, NEEDED, METHODS)
    if output is not None and not isinstance(part, type):
        check_keepable(part, output)
    steps = check_steps(
        steps, names, None if isinstance(part, type) else part.settings().get("steps")
    )
    said = None if labels is None else read_labels(labels)
    known = None if recipe is None else read_recipe(recipe)
    check_false_alarms(false_alarms)
    check_settings(part, seed, options)
    if known is not None and (names is not None or said is not None):
        raise OptionError("a recipe was given beside names or labels; give one of them.")
    if namer is not None and not callable(namer):
        raise OptionError(
            f"namer={namer!r} is no function; give one from a list of pictures to words."
        )
    own = None if isinstance(backbone, str | FeatureSpec) else load_backbone(backbone)
    spec = as_spec(backbone, fps=fps, weights=weights, layer=layer, family=family)
    inputs = find_inputs(source)
    with open_engine(engine, workers, address) as where:
        features, failures = read_source(
            inputs, rate, spec, cache, strict, progress, where, device=device, backbone=own
        )
    check_features(features, inputs.places)
    if known is not None and steps == "auto":
        steps = len(known)
    check_amount(features, steps)
    lesson = None
    if said is not None:
        lesson = first_lesson(said, features, steps if isinstance(steps, int) else None, names)
        steps = len(lesson.names)
    made = make_method(part, steps, float(features[0].rate), seed, options)
    config: dict[str, Any] = {
        "method": name_of("method", made, METHODS),
        "settings": plain_numbers(made.settings()),
        "seed": plain_numbers(seed),
        "rate": str(features[0].rate),
        "backbone": features[0].spec.to_json() if features[0].spec else {"name": VECTORS},
        "shape": list(features[0].rows.shape[1:]),
        "false_alarms": false_alarms,
        "skipped": {failure.name: str(failure.error) for failure in failures},
        "source": inputs.places,
        "versions": versions(),
    }
    told = names if known is None else [str(line) for line in known]
    config["fingerprint"] = fingerprint(features, config, told, lesson)
    if output is not None and already_there(output, config["fingerprint"]):
        # Whoever asks for it with a method or backbone of their own trusts that one.
        found = load(output, type(made), features[0].spec is None or features[0].spec.trusted)
        found.at_hand = list(features)
        return found

    # Beside the features; where those are at an address, on this machine: it is read and written again and again.
    kept = None if cache is None else as_path(cache)
    folder = kept if isinstance(kept, Path) else cache_dir()
    checkpoint = folder / "training" / f"{config['fingerprint']}.safetensors"
    procedure = Procedure.grown(
        fit(features, made, config, names, lesson, None, known, namer, progress, checkpoint)
    )
    if output is not None:
        _keep(procedure, output)
    checkpoint.unlink(missing_ok=True)
    return procedure


def make_method(
    part: Method | type[Method],
    steps: StepCount,
    rate: float,
    seed: int,
    options: Mapping[str, Any],
) -> Method:
    """The method of a class, with this `seed` and these `options`, or a copy of an object, of so many `steps`."""
    if isinstance(part, type):
        return build(part, {"steps": steps, "rate": rate, "seed": seed, **plain_numbers(options)})
    if options:
        raise OptionError(
            f"settings {', '.join(options)} were given beside a method object; set them on the object."
        )
    made = copy.copy(part)
    made.rate = rate
    if steps != "auto":
        if made.settings().get("steps") is None:
            raise OptionError(
                f"steps={steps}: method {type(part).__name__} has no such setting; leave steps out."
            )
        vars(made)["steps"] = steps
    return made


def check_settings(part: Method | type[Method], seed: int, options: Mapping[str, Any]) -> None:
    """Refuse wrong settings of a method before hours of extraction; `part`, `seed`, `options`: as for `make_method`."""
    tried: Any = make_method(part, 2 if isinstance(part, type) else "auto", 1.0, seed, options)
    if is_dataclass(tried):
        check_limits(tried)


def _keep(procedure: Procedure, output: AnyPath) -> None:
    """Save what was learned; where somebody has corrected what lies there meanwhile, beside it."""
    try:
        procedure.save(output)
    except OutputError as error:
        wanted = as_path(output)
        beside = wanted.with_name(f"{wanted.stem}.new{wanted.suffix}")
        if not wanted.exists() or beside.exists():
            raise
        procedure.save(beside)
        raise OutputError(f"{error} What was learned now is in {beside}.") from error


def check_steps(steps: Any, names: Sequence[str] | None, own: Any) -> StepCount:
    """The number of `steps` in plain numbers; it must make sense, and so must the `names`.

    `own`: the number of steps that a method object is set to, which holds where none is given.
    """
    count = as_step_count(steps)
    if names is not None:
        as_items("names", names, str, "one name for each step, as a list of words")
        wanted = count if own is None or count != "auto" else as_step_count(own)
        if not isinstance(wanted, int):
            raise OptionError(
                f"{len(names)} names, but steps={wanted}; say how many steps there are, as one number."
            )
        if len(names) != wanted or "" in map(plain, names) or find_alike(names):
            raise OptionError(
                f"{len(names)} names for steps={wanted}, {', '.join(map(repr, names))}; give one name for each, all "
                "different."
            )
    return count


def check_amount(features: Sequence[Features], steps: StepCount) -> None:
    """There must be `features` of two videos, and more rows than `steps`."""
    if len(features) < 2:
        raise OptionError(
            f"only {len(features)} video ({features[0].name}); steps are found by what videos share. Give at least two."
        )
    rows = sum(len(one.rows) for one in features)
    most = steps[1] if isinstance(steps, tuple) else steps
    if isinstance(most, int) and most > rows:
        raise OptionError(
            f"steps={steps}, but all videos together have {rows} sampled frames. Use fewer steps or a higher --fps."
        )


def already_there(output: AnyPath, wanted: str) -> bool:
    """Whether the procedure of fingerprint `wanted` is at `output`; one with a person's work in it is not replaced."""
    folder = as_path(output)
    if not folder.exists():
        return False
    config = read_config(folder)
    if config.get("fingerprint") == wanted:
        return True
    if (folder / "edits.json").exists():
        raise OutputError(
            f"{folder}: it holds corrections made by hand, which a new procedure would lose. Choose another name with "
            f"-o, or let it learn from them with: stepcut teach {shlex.quote(str(folder))}"
        )
    if "absorbed" in config or (folder / "severity.json").exists():
        work = "was taught" if "absorbed" in config else "holds severity.json"
        raise OutputError(
            f"{folder}: it {work}, which a new procedure would lose. Choose another name with -o."
        )
    return False
