"""The set-up of `learn`: find, check and create the method, and check the number of steps."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from stepcut.checks import check_limits
from stepcut.errors import OptionError, as_items
from stepcut.features.features import Failure, Features
from stepcut.features.spec import VECTORS
from stepcut.files.addresses import AnyPath
from stepcut.files.names import plain
from stepcut.methods import METHODS
from stepcut.methods.inputs import StepCount, as_step_count, build, plain_numbers
from stepcut.methods.method import NEEDED, Method
from stepcut.order.orders import find_alike
from stepcut.plugins import check_part, find, name_of
from stepcut.procedure.storage import check_keepable
from stepcut.version import versions

FEWEST_ROWS = 3
"""Feature rows in all videos together that choosing the number of steps needs."""


def find_method(
    method: str | Method | type[Method], output: AnyPath | None
) -> Method | type[Method]:
    """Find a method by name; refuse a custom one that breaks the contract or cannot be saved."""
    part: Method | type[Method] = (
        find("method", method, METHODS) if isinstance(method, str) else method
    )
    check_part("method", method, part, NEEDED, METHODS)
    if output is not None and not isinstance(part, type):
        check_keepable(part, output)
    return part


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
        check_limits(tried)


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
            f"same task. Give at least two.{skipped}{more}"
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
) -> dict[str, Any]:
    """Return the settings and versions that config.json stores."""
    first = features[0]
    return {
        "method": name_of("method", method, METHODS),
        "settings": plain_numbers(method.settings()),
        "seed": plain_numbers(seed),
        "rate": str(first.rate),
        "backbone": first.spec.to_json() if first.spec else {"name": VECTORS},
        "shape": list(first.rows.shape[1:]),
        "skipped": {failure.name: str(failure.error) for failure in failures},
        "versions": versions(),
    }
