"""What a person demands of every video: the severity of steps, and rules as sentences."""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, permutations, product
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from stepcut.checking.report import NEVER, UNSEEN, Finding
from stepcut.errors import OptionError, unknown
from stepcut.files import Address, read_bytes, write_bytes
from stepcut.files.names import spell
from stepcut.order.learn import Occurrence, find_occurrences
from stepcut.order.orders import Labels, grouped, name_of
from stepcut.timeline import clock

# Such as `{"critical": ["turn off the stove"], "optional": [...], "free": [...], "alarm_at":
# {"wash hands": 0.9}}`, and `rules = ["cut before eat", "eat is last"]`
SEVERITY_FILE, RULES_FILE = "severity.json", "rules.toml"
SEVERITIES = ("optional", "critical", "free")
FORMS = (
    "A before B; A is first; A is last; A once; A never; A never twice; A at least 10 s; "
    "A at most 40 s; A at least 10 s, at most 40 s"
)
NAME, SECONDS = r"""("[^"]+"|'[^']+'|.+?)""", r"(\d+(?:\.\d+)?) ?s"
FORM = re.compile(
    rf"{NAME} (?:before {NAME}|is (first|last)|(once|never twice|never)|"
    rf"(?:at least {SECONDS})?(?:, )?(?:at most {SECONDS})?)"
)
WORDS = re.compile(r"""\b(before|is|once|never|at)\b|["']""")
# Comments, and strings with their commas, in the file.
ITEM = re.compile(r"""(#[^\n]*)|("(?:\\.|[^"\\\n])*"|'[^'\n]*')(?:\s*,)?""")
NONE: Mapping[str, int] = MappingProxyType({})
ENOUGH, MOST = 5, 6  # least videos and most rules of a proposal


@dataclass(frozen=True)
class Severity:
    optional: frozenset[int] = frozenset()  # may be missing
    critical: frozenset[int] = frozenset()  # raise an alarm whenever they are not seen
    free: frozenset[int] = frozenset()  # may be done at any time
    # Probability of being missing at which a step raises an alarm.
    alarm_at: Mapping[int, float] = field(default_factory=dict)

    def alarm_limit(self, step: int, alarm_at: float | None) -> float:
        """The limit of the step comes first, then that of critical steps, then `alarm_at`."""
        if step in self.alarm_at:
            return self.alarm_at[step]
        if step in self.optional or (alarm_at is None and step not in self.critical):
            return NEVER
        return min(1 - UNSEEN if step in self.critical else NEVER, alarm_at or NEVER)

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        kinds = {key: [names[s] for s in sorted(getattr(self, key))] for key in SEVERITIES}
        limits = {names[step]: share for step, share in sorted(self.alarm_at.items())}
        return kinds | ({"alarm_at": limits} if limits else {})

    def of(self, step: int) -> list[str]:
        return [kind for kind in SEVERITIES if step in getattr(self, kind)]

    def moved(self, names: Sequence[str], others: Sequence[str]) -> "Severity":
        record, former = self.to_json(names), dict.fromkeys(names, -1)
        return parse_severity(record, others, former=former)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    optional: list[int | str] = []
    critical: list[int | str] = []
    free: list[int | str] = []
    alarm_at: dict[str, Annotated[float, msgspec.Meta(gt=0, le=1)]] = {}


def read_severity(
    path: Path | Address, names: Sequence[str], former: Mapping[str, int]
) -> Severity:
    if not path.exists():
        return Severity()
    try:
        record = json.loads(read_bytes(path))
    except (ValueError, OSError) as error:
        raise _unreadable(path, "JSON", error) from error
    return parse_severity(record, names, str(path), former)


def parse_severity(
    record: Any, names: Sequence[str], where: str = SEVERITY_FILE, former: Mapping[str, int] = NONE
) -> Severity:
    """Parse step numbers and names, also `former` ones; steps that are gone are passed over."""

    def number(step: int | str) -> int:
        found = _number(step, names, former) if isinstance(step, str) else None
        if found is None and str(step).isdecimal() and int(step) < len(names):  # keys are strings
            return int(step)
        if found is None:
            hint = f"Or give a number from 0 to {len(names) - 1}."
            raise unknown("step", str(step), names, where, hint)
        return found

    try:
        form = msgspec.convert(record, _File)
    except msgspec.ValidationError as error:
        raise OptionError(
            f"{where}: {error}. Give an object with lists of step names ({', '.join(SEVERITIES)}), "
            "and alarm_at with a share above 0 up to 1 for each step.",
            path=where,
            value=record,
        ) from error
    kinds = {key: frozenset(map(number, getattr(form, key))) - {-1} for key in SEVERITIES}
    if both := kinds["optional"] & kinds["critical"]:
        why = f"{where}: {names[min(both)]!r} is both optional and critical; choose one."
        raise OptionError(why, path=where, value=names[min(both)])
    limits = {number(step): at for step, at in form.alarm_at.items()}
    return Severity(**kinds, alarm_at={step: at for step, at in limits.items() if step >= 0})


# ---------- rules and their file


class Rule(msgspec.Struct, frozen=True):
    kind: Literal["before", "first", "last", "once", "never", "never twice", "lasts"]
    step: str
    other: str = ""  # the later step of `before`
    least: float | None = None  # seconds of `lasts`, over all times that the step is done
    most: float | None = None

    def __str__(self) -> str:
        step = _quoted(self.step)
        if self.kind == "before":
            return f"{step} before {_quoted(self.other)}"
        if self.kind in ("first", "last"):
            return f"{step} is {self.kind}"
        limits = {"at least": self.least, "at most": self.most}
        words = [f"{word} {limit:g} s" for word, limit in limits.items() if limit is not None]
        return f"{step} {', '.join(words) or self.kind}"

    def renamed(self, steps: Sequence[str], former: Mapping[str, int] = NONE) -> "Rule":
        """Return the rule with the current names of its steps; unknown names stay."""

        def current(name: str) -> str:
            number = _number(name, steps, former)
            return _bare(name) if number is None or number < 0 else steps[number]

        return Rule(self.kind, current(self.step), current(self.other), self.least, self.most)


def parse_rule(text: str, steps: Sequence[str], former: Mapping[str, int] = NONE) -> Rule:
    """Read a sentence about these steps, which may be quoted; `former` names have their places."""
    match = FORM.fullmatch(" ".join(text.split())) if isinstance(text, str) else None
    if match is None or not any(match.groups()[1:]):
        raise OptionError(f"rule {text!r} has no known form. Forms: {FORMS}.", value=text)
    step, other, edge, often, *limits = match.groups()
    kind: Any = "before" if other else edge or often or "lasts"
    rule = Rule(kind, step, other or "", *(float(one) if one else None for one in limits))
    rule = rule.renamed(steps, former)
    for name in (rule.step, rule.other):
        if name and name not in steps:
            raise unknown("step", name, steps, f"rule {text!r}", f"Forms: {FORMS}.")
    return rule


def parse_rules(
    texts: Sequence[str], steps: Sequence[str], former: Mapping[str, int] = NONE
) -> tuple[Rule, ...]:
    rules = tuple(dict.fromkeys(parse_rule(text, steps, former) for text in texts))
    check_rules(rules)
    return rules


def read_sentences(path: Path | Address) -> list[str]:
    if not path.exists():
        return []
    try:
        record = tomllib.loads(read_bytes(path).decode())
    except (ValueError, OSError) as error:
        raise _unreadable(path, "TOML", error) from error
    texts = record.get("rules")
    if not isinstance(texts, list) or len(record) > 1:
        why = f'{path}: write one list, such as rules = ["A before B", "B is last"].'
        raise OptionError(why, path=path)
    return texts


def write_rules(path: Path | Address, rules: Sequence[Rule]) -> None:
    lines = [f"  {json.dumps(str(rule), ensure_ascii=False)},\n" for rule in rules]
    write_bytes(path, f"rules = [\n{''.join(lines)}]\n".encode(), follow=False)


def change_rule(
    path: Path | Address,
    sentence: str,
    holds: bool,
    steps: Sequence[str],
    former: Mapping[str, int] = NONE,
) -> Rule:
    """Comments and other rules in the file stay as they are."""
    rule, texts = parse_rule(sentence, steps, former), read_sentences(path)
    others = [text for text in texts if parse_rule(text, steps, former) != rule]
    if holds and len(others) < len(texts):
        return rule
    wanted = [*others, str(rule)] if holds else others
    rules = parse_rules(wanted, steps, former)
    content = read_bytes(path).decode() if path.exists() else "rules = [\n]\n"

    def item(match: re.Match[str]) -> str:
        comment, literal = match.groups()
        kept = comment or tomllib.loads(f"x = {literal}")["x"] in others
        return comment or (f"{literal}," if kept else "")

    content = re.sub(r"(?m)^ +\n", "", ITEM.sub(item, content))
    if holds:
        head, _, tail = content.rpartition("]")
        content = f"{head}  {json.dumps(str(rule), ensure_ascii=False)},\n]{tail}"
    with suppress(ValueError):  # such as a bracket in the last comment
        if tomllib.loads(content) == {"rules": wanted}:
            write_bytes(path, content.encode(), follow=False)
            return rule
    write_rules(path, rules)
    return rule


def check_rules(rules: Sequence[Rule]) -> None:
    pairs = (pair for pair in product(rules, rules) if _contradict(*pair))
    clash: Sequence[Rule] = next(pairs, ())
    before = grouped((rule.other, rule.step) for rule in rules if rule.kind == "before")
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        clash = [Rule("before", *pair) for pair in pairwise(error.args[1])]
    if clash:
        sentences = " and ".join(dict.fromkeys(repr(str(rule)) for rule in clash))
        raise OptionError(f"no video can keep the rules {sentences}. Remove one.", value=clash)


def _number(name: str, steps: Sequence[str], former: Mapping[str, int]) -> int | None:
    """The number of the step that is, or was, written as `name`."""
    for written in (name, _bare(name)):
        for numbers in ({step: number for number, step in enumerate(steps)}, former):
            if (found := spell([written], list(numbers))[written]) in numbers:
                return numbers[found]
    return None


def _unreadable(path: Path | Address, form: str, error: Exception) -> OptionError:
    why = f"{path}: not readable as {form} ({error}). Correct or delete the file."
    return OptionError(why, path=path)


def _quoted(name: str) -> str:
    # In quotes if a sentence could be read in two ways.
    quote = "'" if '"' in name else '"'
    return f"{quote}{name}{quote}" if WORDS.search(name) else name


def _bare(name: str) -> str:
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'" else name


def _contradict(one: Rule, other: Rule) -> bool:
    kinds = one.kind, other.kind
    if kinds in (("first", "first"), ("last", "last")):
        return one.step != other.step
    if kinds == ("first", "before"):
        return one.step == other.other
    if kinds == ("lasts", "lasts"):
        return one.step == other.step and (one.least or 0) > (other.most or math.inf)
    needs = other.kind in ("first", "last", "once", "before") or other.least
    return one.kind == "never" and one.step == other.step and bool(needs)


# ---------- checking and proposing


def broken_rules(
    rules: Sequence[Rule],
    parts: Sequence[Occurrence],
    steps: Sequence[str],
    end: float,
    ended: bool = True,
) -> list[Finding]:
    """Find broken rules; while a video goes on, only those that nothing later can mend."""
    named = [(name_of(part.step, steps), part) for part in parts]
    findings = []
    for rule in rules:
        if broken := _broken(rule, named, ended):
            part, how = broken
            start, until = (part.start, min(part.end, end)) if part else (0, end)
            step = steps.index(rule.step) if rule.step in steps else None
            reason, sure = f"rule: {rule}; {how}", part.sure if part else 1
            findings.append(Finding("rule", start, until, step, rule.step, sure, reason))
    return findings


def _broken(
    rule: Rule, parts: Sequence[tuple[str, Occurrence]], ended: bool
) -> tuple[Occurrence | None, str] | None:
    """The part that breaks a rule, or None if one is missing; and how."""
    done = [part for name, part in parts if name == rule.step]
    if rule.kind == "before":
        later = next((part for name, part in parts if name == rule.other), None)
        if later and not (done and done[0].start < later.start):
            when = f"only at {clock(done[0].start)}" if done else "not before it"
            return later, f"{rule.other} was done at {clock(later.start)}, {rule.step} {when}"
    elif rule.kind in ("first", "last"):
        if parts and (ended or rule.kind == "first"):
            name, part = parts[0 if rule.kind == "first" else -1]
            how = f"the {rule.kind} step here is {name} at {clock(part.start)}"
            return None if name == rule.step else (part, how)
    elif rule.kind == "lasts":
        spent = sum(part.spent for part in done)
        beyond = rule.most is not None and spent > rule.most
        if done and (beyond or (ended and spent < (rule.least or 0))):
            return done[-1], f"it took {spent:.3g} s"
    elif len(done) > (often := int(rule.kind != "never")):
        return done[often], f"it was done {'again ' * often}at {clock(done[often].start)}"
    required = rule.kind in ("first", "last", "once") or rule.least
    return (None, "it was not seen") if ended and required and not done else None


def propose_rules(
    videos: Sequence[Labels], rate: float, steps: Sequence[str], rules: Sequence[Rule] = ()
) -> dict[Rule, str]:
    """Rules that all videos (T,) keep, and the question to ask, the simplest first."""
    parts = [[name_of(part.step, steps) for part in find_occurrences(one, rate)] for one in videos]
    if len(parts) < ENOUGH or not all(parts):
        return {}
    always = [step for step in dict.fromkeys(parts[0]) if all(step in own for own in parts)]
    first, last = ({own[edge] for own in parts} for edge in (0, -1))
    found = {Rule("last", step): f"end with {step}" for step in last if len(last) == 1}
    found |= {Rule("first", step): f"begin with {step}" for step in first if len(first) == 1}
    inner = [step for step in always if {step} not in (first, last)]
    order = {
        (a, b)
        for a, b in permutations(inner, 2)
        if all(own.index(a) < own.index(b) for own in parts)
    }
    for a, b in permutations(inner, 2):
        if (a, b) in order and not any({(a, c), (c, b)} <= order for c in inner):
            found[Rule("before", a, b)] = f"do {a} before {b}"
    for step in always:
        if all(own.count(step) == 1 for own in parts):
            found[Rule("once", step)] = f"do {step} exactly once"
    fresh = [rule for rule in found if rule not in rules][:MOST]
    return {rule: f"All {len(parts)} videos {found[rule]}: make it a rule?" for rule in fresh}
