"""Rules: what a person demands of every video, as sentences such as "boil before brew"."""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, permutations, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from stepcut.checking.report import Finding
from stepcut.errors import OptionError, unknown
from stepcut.files.addresses import Address
from stepcut.files.atomic import read_bytes, write_bytes
from stepcut.files.names import spell
from stepcut.order.learn import Occurrence, find_occurrences
from stepcut.order.orders import Labels, grouped, name_of
from stepcut.timeline import clock

Kind = Literal["before", "first", "last", "once", "never", "never twice", "lasts"]
FILE = "rules.toml"
"""File in the procedure's folder, such as `rules = ["cut bread before add jam", "eat is last"]`."""
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
NONE: Mapping[str, int] = MappingProxyType({})
ENOUGH = 5
"""Rules are proposed from at least this many videos."""
MOST = 6
"""At most this many rules are proposed."""


class Rule(msgspec.Struct, frozen=True):
    """One rule; `str` is its sentence."""

    kind: Kind
    step: str
    other: str = ""
    """The later step of `before`."""
    least: float | None = None
    """Least seconds of `lasts`, over all times that the step is done."""
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

    def renamed(self, steps: Sequence[str], former: Mapping[str, int] = NONE) -> "Rule | None":
        """Return the rule with the current names of its steps, None if one does not exist."""
        step, other = (_find(name, steps, former) for name in (self.step, self.other))
        missing = step is None or (other is None and self.other)
        return None if missing else msgspec.structs.replace(self, step=step, other=other or "")


# ------------------------------------------------------------------ sentences and the file


def parse_rule(text: str, steps: Sequence[str], former: Mapping[str, int] = NONE) -> Rule:
    """Read a sentence about these steps, which may be quoted; `former` names have their places.

    >>> parse_rule("'cut' before add jam", ["cut", "add jam"])
    Rule(kind='before', step='cut', other='add jam', least=None, most=None)
    """
    match = FORM.fullmatch(" ".join(text.split())) if isinstance(text, str) else None
    if match is None or not any(match.groups()[1:]):
        raise OptionError(f"rule {text!r} has no known form. Forms: {FORMS}.", value=text)
    step, other, edge, often, *limits = match.groups()
    kind: Any = "before" if other else edge or often or "lasts"
    rule = Rule(kind, step, other or "", *(float(one) if one else None for one in limits))
    if found := rule.renamed(steps, former):
        return found
    missing = other if _find(step, steps, former) else step
    raise unknown("step", _bare(missing), steps, f"rule {text!r}", f"Forms: {FORMS}.")


def parse_rules(
    texts: Sequence[str], steps: Sequence[str], former: Mapping[str, int] = NONE
) -> tuple[Rule, ...]:
    """Read several sentences; refuse contradictions."""
    rules = tuple(dict.fromkeys(parse_rule(text, steps, former) for text in texts))
    check_rules(rules)
    return rules


def read_sentences(path: Path | Address) -> list[str]:
    """Read the sentences in the file at `path`; none if it does not exist."""
    if not path.exists():
        return []
    try:
        record = tomllib.loads(read_bytes(path).decode())
    except (ValueError, OSError) as error:
        raise OptionError(
            f"{path}: not readable as TOML ({error}). Correct or delete the file.", path=path
        ) from error
    texts = record.get("rules")
    if not isinstance(texts, list) or len(record) > 1:
        raise OptionError(
            f'{path}: write one list, such as rules = ["A before B", "B is last"].', path=path
        )
    return texts


def write_rules(path: Path | Address, rules: Sequence[Rule]) -> None:
    """Write the rules to the file at `path`, atomically."""
    check_rules(rules)
    lines = [f"  {json.dumps(str(rule), ensure_ascii=False)},\n" for rule in rules]
    write_bytes(path, f"rules = [\n{''.join(lines)}]\n".encode(), follow=False)


def check_rules(rules: Sequence[Rule]) -> None:
    """Refuse rules that no video can keep together."""
    pairs = (pair for pair in product(rules, rules) if _contradict(*pair))
    clash: Sequence[Rule] = next(pairs, ())
    before = [rule for rule in rules if rule.kind == "before"]
    try:
        TopologicalSorter(grouped((rule.other, rule.step) for rule in before)).prepare()
    except CycleError as error:
        clash = [Rule("before", *pair) for pair in pairwise(error.args[1])]
    if clash:
        sentences = " and ".join(dict.fromkeys(repr(str(rule)) for rule in clash))
        raise OptionError(f"no video can keep the rules {sentences}. Remove one.", value=clash)


def _find(name: str, steps: Sequence[str], former: Mapping[str, int]) -> str | None:
    """The current name of a step that is written as `name`."""
    for written in (name, _bare(name)):
        for names in (steps, list(former)):
            found = spell([written], names)[written]
            if found in names:
                return found if found in steps else steps[former[found]]
    return None


def _quoted(name: str) -> str:
    """A name, in quotes if a sentence could be read in two ways."""
    quote = "'" if '"' in name else '"'
    return f"{quote}{name}{quote}" if WORDS.search(name) else name


def _bare(name: str) -> str:
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'" else name


def _contradict(one: Rule, other: Rule) -> bool:
    """Whether no video can keep both rules, in this order of the two."""
    kinds = one.kind, other.kind
    if kinds in (("first", "first"), ("last", "last")):
        return one.step != other.step
    if kinds == ("first", "before"):
        return one.step == other.other
    if kinds == ("lasts", "lasts"):
        return one.step == other.step and (one.least or 0) > (other.most or math.inf)
    needs = other.kind in ("first", "last", "once", "before") or other.least
    return one.kind == "never" and one.step == other.step and bool(needs)


# ------------------------------------------------------------------ checking and proposing


def broken_rules(
    rules: Sequence[Rule],
    parts: Sequence[Occurrence],
    steps: Sequence[str],
    end: float,
    ended: bool = True,
) -> list[Finding]:
    """Return a finding for each broken rule, given the parts of a video in order of time.

    While a video goes on (`ended` false), only for those that nothing later can mend.
    """
    named = [(name_of(part.step, steps), part) for part in parts]
    findings = []
    for rule in rules:
        if broken := _broken(rule, named, ended):
            part, how = broken
            start, until, sure = (
                (part.start, min(part.end, end), part.sure) if part else (0, end, 1)
            )
            step = steps.index(rule.step) if rule.step in steps else None
            reason = f"rule: {rule}; {how}"
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
    """Return rules that all videos keep, and the question to ask, the simplest first.

    videos  the step of each row of each reference video, (T,); `rate` rows per second
    """
    parts = [[name_of(part.step, steps) for part in find_occurrences(one, rate)] for one in videos]
    if len(parts) < ENOUGH or not all(parts):
        return {}
    always = [step for step in dict.fromkeys(parts[0]) if all(step in own for own in parts)]
    first, last = ({own[edge] for own in parts} for edge in (0, -1))
    found = {Rule("last", step): f"end with {step}" for step in last if len(last) == 1}
    found |= {Rule("first", step): f"begin with {step}" for step in first if len(first) == 1}
    inner = [step for step in always if {step} not in (first, last)]
    order = [
        pair
        for pair in permutations(inner, 2)
        if all(own.index(pair[0]) < own.index(pair[1]) for own in parts)
    ]
    for a, b in order:
        if not any((a, c) in order and (c, b) in order for c in inner):
            found[Rule("before", a, b)] = f"do {a} before {b}"
    for step in always:
        if all(own.count(step) == 1 for own in parts):
            found[Rule("once", step)] = f"do {step} exactly once"
    fresh = [rule for rule in found if rule not in rules][:MOST]
    return {rule: f"All {len(parts)} videos {found[rule]}: make it a rule?" for rule in fresh}
