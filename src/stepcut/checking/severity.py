"""Severity: what a user says of the steps: which are optional, which critical, which free in order."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from stepcut.errors import OptionError, unknown
from stepcut.files.addresses import Address
from stepcut.files.atomic import read_json
from stepcut.files.names import spell

FILE = "severity.json"
"""Its name in the folder of a procedure: `{"critical": ["turn off the stove"], "optional": [...], "free": [...]}`."""


@dataclass(frozen=True)
class Severity:
    """Steps by number."""

    optional: frozenset[int] = frozenset()
    """Leaving it out is fine."""
    critical: frozenset[int] = frozenset()
    """Not seeing it is always an alarm."""
    free: frozenset[int] = frozenset()
    """It may be done at any time."""

    def to_json(self) -> dict[str, list[int]]:
        """What the file holds: numbers, which stay when names change."""
        return {key: sorted(steps) for key, steps in asdict(self).items()}


KINDS = tuple(each.name for each in fields(Severity))


def read_severity(path: Path | Address, names: Sequence[str], learned: Sequence[str]) -> Severity:
    """What a user says of the steps in the file at `path`, if there is one, by their `names` as they stand, or by those
    that they were `learned` with."""
    if not path.exists():
        return Severity()
    try:
        record = read_json(path)
    except (ValueError, OSError) as error:
        raise OptionError(
            f"{path}: it is no JSON that can be read ({error}). Mend it, or delete it."
        ) from error
    return parse_severity(record, names, str(path), learned)


def parse_severity(
    record: Mapping[str, Any], names: Sequence[str], where: str = FILE, learned: Sequence[str] = ()
) -> Severity:
    """Which steps are optional, critical or free in order, by the `record` that the file `where` holds: under each of
    these keys a list of step names or numbers; `names` and `learned` as for `read_severity`."""
    if not isinstance(record, Mapping):
        raise OptionError(
            f"{where}: it holds {type(record).__name__}; give an object with {', '.join(KINDS)}."
        )
    for key, value in record.items():
        if key not in KINDS:
            raise unknown("key", key, KINDS, where)
        if not isinstance(value, list):
            raise OptionError(f"{where}: {key} is {value!r}; give a list of step names or numbers.")
    chosen = {
        key: frozenset(_number(step, names, where, learned) for step in record.get(key, ()))
        for key in KINDS
    }
    if both := chosen["optional"] & chosen["critical"]:
        raise OptionError(
            f"{where}: {names[min(both)]!r} is optional and critical; choose one of the two."
        )
    return Severity(**chosen)


def _number(step: Any, names: Sequence[str], where: str, learned: Sequence[str]) -> int:
    for known in (names, learned):
        if isinstance(step, str) and (written := spell([step], known)[step]) in known:
            return list(known).index(written)
    if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < len(names):
        return step
    hint = f"Or give a number from 0 to {len(names) - 1}."
    raise unknown("step", str(step), names, where, hint)
