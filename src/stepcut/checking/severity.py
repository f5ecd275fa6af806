"""Severity: which steps are optional, critical or free in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from stepcut.checking.presence import UNSEEN
from stepcut.errors import OptionError, unknown
from stepcut.files.addresses import Address
from stepcut.files.atomic import read_json
from stepcut.files.names import spell

FILE = "severity.json"
"""File in the procedure's folder, such as `{"critical": ["turn off the stove"], "optional": [...],
"free": [...], "alarm_at": {"wash hands": 0.9}}`.
"""
KINDS = ("optional", "critical", "free")
NEVER = 2.0
MIN_DETECTION = 0.5
"""Least detection rate for the verdict `fine`."""


@dataclass(frozen=True)
class Severity:
    """Severity of steps, by step number."""

    optional: frozenset[int] = frozenset()
    """Steps that may be missing."""
    critical: frozenset[int] = frozenset()
    """Steps that raise an alarm whenever they are not seen."""
    free: frozenset[int] = frozenset()
    """Steps that may be done at any time."""
    alarm_at: Mapping[int, float] = field(default_factory=dict)
    """Probability of being missing at which a step raises an alarm."""

    def alarm_limit(self, step: int, alarm_at: float | None) -> float:
        """Probability of being missing at which a step raises an alarm; `NEVER` if it does not.

        The limit of the step comes first, then that of critical steps, then `alarm_at`.
        """
        if step in self.alarm_at:
            return self.alarm_at[step]
        if step in self.optional or (alarm_at is None and step not in self.critical):
            return NEVER
        return min(1 - UNSEEN if step in self.critical else NEVER, alarm_at or NEVER)

    def moved(self, names: Sequence[str], others: Sequence[str]) -> "Severity":
        """Translate step numbers from the list `names` to the list `others`."""
        place = {n: others.index(name) for n, name in enumerate(names) if name in others}
        kinds = {
            key: frozenset(place[n] for n in getattr(self, key) if n in place) for key in KINDS
        }
        limits = {place[n]: share for n, share in self.alarm_at.items() if n in place}
        return Severity(**kinds, alarm_at=limits)

    def by_name(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the kinds of each step that has one, by its name in the list `names`."""
        kinds = {
            name: tuple(kind for kind in KINDS if number in getattr(self, kind))
            for number, name in enumerate(names)
        }
        return {name: found for name, found in kinds.items() if found}

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the content of `severity.json`, with `names` for the numbers."""
        limits = {"alarm_at": {names[s]: share for s, share in sorted(self.alarm_at.items())}}
        kept = {key: [names[s] for s in sorted(getattr(self, key))] for key in KINDS}
        return kept | (limits if self.alarm_at else {})


class _File(msgspec.Struct):
    """The form of `severity.json`: steps are names or numbers."""

    optional: list[int | str] = []
    critical: list[int | str] = []
    free: list[int | str] = []
    alarm_at: dict[str, Annotated[float, msgspec.Meta(gt=0, le=1)]] = {}


def read_severity(
    path: Path | Address, names: Sequence[str], former: Mapping[str, int]
) -> Severity:
    """Read the file at `path`, if it exists; steps have current or `former` names.

    A former name with a negative number is passed over: its step does not exist now.
    """
    if not path.exists():
        return Severity()
    try:
        record = read_json(path)
    except (ValueError, OSError) as error:
        raise OptionError(
            f"{path}: not readable as JSON ({error}). Correct or delete the file.", path=path
        ) from error
    return parse_severity(record, names, str(path), former)


def parse_severity(
    record: Any,
    names: Sequence[str],
    where: str = FILE,
    former: Mapping[str, int] = MappingProxyType({}),
) -> Severity:
    """Parse the content of `severity.json`: lists of step names or numbers; see `read_severity`."""
    for key in record if isinstance(record, dict) else ():
        if key not in _File.__struct_fields__:
            raise unknown("key", key, _File.__struct_fields__, where)
    try:
        form = msgspec.convert(record, _File)
    except msgspec.ValidationError as error:
        raise OptionError(
            f"{where}: {error}. Give an object with lists of step names ({', '.join(KINDS)}), "
            "and alarm_at with a share above 0 up to 1 for each step.",
            path=where,
            value=record,
        ) from error
    chosen = {
        key: frozenset(_number(step, names, where, former) for step in getattr(form, key)) - {-1}
        for key in KINDS
    }
    if both := chosen["optional"] & chosen["critical"]:
        raise OptionError(
            f"{where}: {names[min(both)]!r} is both optional and critical; choose one.",
            path=where,
            value=names[min(both)],
        )
    limits = {_number(step, names, where, former): at for step, at in form.alarm_at.items()}
    limits.pop(-1, None)
    return Severity(**chosen, alarm_at=limits)


def _number(step: int | str, names: Sequence[str], where: str, former: Mapping[str, int]) -> int:
    for numbers in ({name: number for number, name in enumerate(names)}, former):
        if isinstance(step, str) and (name := spell([step], list(numbers))[step]) in numbers:
            return numbers[name]
    number = int(step) if isinstance(step, int) or step.isdecimal() else -1  # keys are strings
    if 0 <= number < len(names):
        return number
    hint = f"Or give a number from 0 to {len(names) - 1}."
    raise unknown("step", str(step), names, where, hint)
