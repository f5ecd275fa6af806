"""learn(): from videos to a procedure, in one call; every stage leaves its file, so a second call resumes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stepcut.errors import OptionError, OutputError, choose
from stepcut.files.addresses import AnyPath, as_path, whole_path
from stepcut.procedure.folder import check_output, read_config
from stepcut.progress import Hook, Stage, silent
from stepcut.version import __version__

if TYPE_CHECKING:
    from stepcut.features.backbones import Backbone
    from stepcut.features.contract import Failure, Features
    from stepcut.features.read import Source
    from stepcut.features.spec import FeatureSpec
    from stepcut.methods.contract import Method
    from stepcut.parallel.contract import Engine
    from stepcut.procedure.procedure import Procedure


def learn(
    source: Source,
    steps: int | Literal["auto"] = "auto",
    seed: int = 0,
    rate: float | Fraction = 1.0,
    *,
    method: str | Method = "stepcut",
    backbone: str | FeatureSpec | Backbone = "efficientnet-lite0",
    fps: float | str | Fraction | None = None,
    weights: str | None = None,
    layer: str | None = None,
    family: str | None = None,
    device: str = "auto",
    names: Sequence[str] | None = None,
    cache: AnyPath | None = None,
    output: AnyPath | None = None,
    strict: bool = False,
    false_alarms: float = 0.05,
    progress: Hook = silent,
    engine: str | Engine | None = None,
    workers: int | None = None,
    address: str | None = None,
    **options: Any,
) -> Procedure:
    """Learn a procedure from videos of one task.

    source   a folder, files or globs of videos; feature files; or arrays `(T, d)` as a list or by name
    steps    how many steps there are; "auto" chooses the number
    rate     rows per second of features that do not say it themselves
    seed     same seed, same result on one machine
    method   "stepcut" (the default), "cnc" (the paper's), or an object of your own
    backbone the network that makes features of videos: a name, a `FeatureSpec`, or an object of your own
    fps      rows of features per second of video (2 unless the spec says it)
    weights, layer, family   of the backbone, see `FeatureSpec`
    device   where the backbone runs: auto, cpu or cuda
    names    names for the steps, in the order of their numbers
    cache    where features are kept
    output   where to keep the procedure; when the same one is there already, it is read and nothing is done again
    strict   stop at the first video that cannot be used, instead of leaving it out
    progress hears how far the work is
    engine   where features are computed: "local" (this machine) or "ray" (a cluster, at `address`), by `workers`
    false_alarms  the share of normal videos that `check` may call wrong; few videos cannot vouch for a small one
    options  settings of the method, such as `loss="tcc"` for cnc

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> video = lambda: np.repeat(np.eye(3, 8), 20, axis=0) + 0.1 * rng.normal(size=(60, 8))
    >>> learn([video(), video(), video()], steps=3).labels["0"].shape
    (60,)
    """
    from stepcut.features.read import read_source
    from stepcut.features.spec import FeatureSpec, as_spec
    from stepcut.methods import METHODS
    from stepcut.methods.cnc.ddp import first_process_first
    from stepcut.parallel import open_engine

    if output is not None:
        check_output(output)
    if isinstance(method, str):
        choose("method", method, METHODS)
    check_steps(steps, names)
    spec = as_spec(backbone, fps=fps, weights=weights, layer=layer, family=family)
    own = None if isinstance(backbone, str | FeatureSpec) else backbone
    with open_engine(engine, workers, address) as where, first_process_first():
        features, failures = read_source(
            source, rate, spec, cache, strict, progress, where, device=device, backbone=own
        )
    return learn_features(
        features,
        failures,
        steps,
        seed,
        method,
        names,
        cache=cache,
        output=output,
        false_alarms=false_alarms,
        progress=progress,
        **options,
    )


def learn_features(
    features: Sequence[Features],
    failures: Sequence[Failure] = (),
    steps: int | Literal["auto"] = "auto",
    seed: int = 0,
    method: str | Method = "stepcut",
    names: Sequence[str] | None = None,
    *,
    cache: AnyPath | None = None,
    output: AnyPath | None = None,
    false_alarms: float = 0.05,
    progress: Hook = silent,
    **options: Any,
) -> Procedure:
    """The second half of `learn`: from features to a procedure, with the same settings."""
    from stepcut.features.spec import VECTORS
    from stepcut.files.cache import cache_dir
    from stepcut.methods import METHODS
    from stepcut.methods.cnc.ddp import is_first_process
    from stepcut.methods.contract import build, complete
    from stepcut.procedure.procedure import load

    per_second = features[0].rate
    check_amount(features, steps)
    if isinstance(method, str):
        maker = choose("method", method, METHODS)
        method = build(maker, {"steps": steps, "rate": float(per_second), "seed": seed, **options})
    elif options:
        raise OptionError(f"settings {', '.join(options)} were given beside a method object; set them on the object.")

    config: dict[str, Any] = {
        "method": next((name for name, kind in METHODS.items() if type(method) is kind), None),
        "settings": method.settings(),
        "seed": seed,
        "rate": str(per_second),
        "backbone": features[0].spec.to_json() if features[0].spec else {"name": VECTORS},
        "shape": list(features[0].rows.shape[1:]),
        "false_alarms": false_alarms,
        "skipped": {failure.name: str(failure.error) for failure in failures},
        "versions": versions(),
    }
    config["fingerprint"] = fingerprint(features, config, names)
    if output is not None and already_there(output, config["fingerprint"]):
        return load(output)

    # Beside the features; where those are at an address, on this machine: it is read and written again and again.
    kept = None if cache is None else as_path(cache)
    folder = kept if isinstance(kept, Path) else cache_dir()
    checkpoint = folder / "training" / f"{config['fingerprint']}.safetensors"
    method = complete(method.fit([one.rows for one in features], progress=progress, checkpoint=checkpoint))
    config["settings"] = method.settings()
    procedure = assemble(method, features, config, names, progress)
    if output is not None and is_first_process():
        _keep(procedure, output)
    checkpoint.unlink(missing_ok=True)
    return procedure


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


def assemble(
    method: Method,
    features: Sequence[Features],
    config: dict[str, Any],
    names: Sequence[str] | None = None,
    progress: Hook = silent,
) -> Procedure:
    """A procedure from a fitted method: name the steps, cut the timelines, learn what a normal video looks like."""
    from stepcut.checking.calibrate import learn_expectations
    from stepcut.methods import leave_one_out_novelty
    from stepcut.procedure.procedure import Procedure, timeline_of

    with Stage(progress, "order", total=len(features), unit="videos") as stage:
        rows = [one.rows for one in features]
        memberships = method.memberships(rows)
        steps = list(names) if names else [f"step {number}" for number in range(method.steps_)]
        labels = {one.name: cut for one, cut in zip(features, method.labels_, strict=True)}
        per_second = features[0].rate
        expectations = learn_expectations(
            list(labels.values()),
            float(per_second),
            memberships=memberships,
            novelty=leave_one_out_novelty(method, rows),
            false_alarms=config["false_alarms"],
        )
        stage.advance(len(features))
    return Procedure(
        learned_steps=steps,
        learned_timelines={
            one.name: timeline_of(cut, share[np.arange(len(cut)), np.maximum(cut, 0)], per_second, steps, one)
            for one, cut, share in zip(features, method.labels_, memberships, strict=True)
        },
        samples={one.name: len(one.rows) for one in features},
        videos={one.name: None if one.path is None else whole_path(one.path) for one in features},
        rate=per_second,
        method=method,
        expectations=expectations,
        config=config,
    )


def check_steps(steps: int | str, names: Sequence[str] | None) -> None:
    """The number of steps must make sense, and so must the names."""
    if steps != "auto" and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        raise OptionError(f"steps={steps!r}; give a whole number from 1 up, or 'auto'.")
    if names is not None:
        if steps == "auto":
            raise OptionError("names were given but not steps; say how many steps there are.")
        if len(names) != steps or len(set(names)) != len(names):
            raise OptionError(f"{len(names)} names for {steps} steps; give one name for each, all different.")


def check_amount(features: Sequence[Features], steps: int | str) -> None:
    """There must be two videos, and more rows than steps."""
    if len(features) < 2:
        raise OptionError(
            f"only {len(features)} video ({features[0].name}); steps are found by what videos share. Give at least two."
        )
    rows = sum(len(one.rows) for one in features)
    if isinstance(steps, int) and steps > rows:
        raise OptionError(
            f"steps={steps}, but all videos together have {rows} sampled frames. Use fewer steps or a higher --fps."
        )


def fingerprint(features: Sequence[Features], config: dict[str, Any], names: Sequence[str] | None) -> str:
    """A short name for exactly this work: the features, the settings and the version."""
    digest = hashlib.blake2b(digest_size=16)
    relevant = {key: config[key] for key in ("method", "settings", "seed", "rate", "backbone", "false_alarms")}
    digest.update(json.dumps([relevant, names, __version__], sort_keys=True, default=str).encode())
    for one in features:
        digest.update(f"{one.name} {one.rows.dtype} {one.rows.shape} {one.duration}".encode())
        for first in range(0, len(one.rows), 1024):
            digest.update(np.ascontiguousarray(one.rows[first : first + 1024]).data)
    return digest.hexdigest()


def already_there(output: AnyPath, wanted: str) -> bool:
    """Whether this very procedure stands at `output`; one that a person has corrected is never written over."""
    folder = as_path(output)
    if not folder.exists():
        return False
    there = read_config(folder).get("fingerprint")
    if there == wanted:
        return True
    if (folder / "edits.json").exists():
        raise OutputError(
            f"{folder}: it holds corrections made by hand, which a new procedure would lose. Choose another name with "
            f"-o, or let it learn from them with: stepcut teach {folder}"
        )
    return False


def versions() -> dict[str, str]:
    """What this ran on."""
    import torch

    return {
        "stepcut": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
