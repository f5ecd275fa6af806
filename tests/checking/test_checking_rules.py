"""Rules: sentences are read and written, contradictions refused, broken rules found at their time."""

import numpy as np
import pytest

from stepcut.checking.rules import (
    RULES_FILE,
    Rule,
    broken_rules,
    change_rule,
    check_rules,
    parse_rule,
    parse_rules,
    propose_rules,
    read_sentences,
    write_rules,
)
from stepcut.errors import OptionError
from stepcut.order.learn import Occurrence

STEPS = ["cut bread", "add jam", "eat", "cut before eat", 'the "big" one']

SENTENCES = [
    ("cut bread before add jam", Rule("before", "cut bread", "add jam")),
    ("'cut bread' before \"add jam\"", Rule("before", "cut bread", "add jam")),
    ('"cut before eat" before eat', Rule("before", "cut before eat", "eat")),
    ("Add  Jam is first", Rule("first", "add jam")),
    ("eat is last", Rule("last", "eat")),
    ("eat once", Rule("once", "eat")),
    ("eat never twice", Rule("never twice", "eat")),
    ('the "big" one never', Rule("never", 'the "big" one')),
    ("eat at least 10 s", Rule("lasts", "eat", least=10)),
    ("eat at most 2.5 s", Rule("lasts", "eat", most=2.5)),
    ("eat at least 10 s, at most 40 s", Rule("lasts", "eat", least=10, most=40)),
    ("old name once", Rule("once", "add jam")),
]


@pytest.mark.parametrize(("text", "rule"), SENTENCES)
def test_a_sentence_becomes_a_rule_and_the_rule_that_sentence(text, rule):
    assert parse_rule(text, STEPS, {"old name": 1}) == rule
    assert parse_rule(str(rule), STEPS) == rule


@pytest.mark.parametrize(("text", "words"), [
    ("cut bred before eat", "step='cut bred' is unknown; did you mean 'cut bread'?"),
    ("eat before jam", "step='jam' is unknown; did you mean 'add jam'?"),
    ("'eet' once", "step='eet' is unknown; did you mean 'eat'?"),
    ("eat", "has no known form. Forms: A before B; A is first"),
    ("eat at least long", "has no known form"),
    (7, "rule 7 has no known form"),
])  # fmt: skip
def test_what_is_no_rule_is_refused_with_the_nearest_step_and_the_forms(text, words):
    with pytest.raises(OptionError, match="Forms: ") as refused:
        parse_rule(text, STEPS)
    assert words in str(refused.value)


CLASHES = [
    ("cut bread before eat", "eat before cut bread"),
    ("cut bread before eat", "eat before add jam", "add jam before cut bread"),
    ("eat is last", "add jam is last"),
    ("eat is first", "add jam is first"),
    ("eat is first", "cut bread before eat"),
    ("eat never", "eat once"),
    ("eat never", "eat at least 2 s"),
    ("eat at least 10 s", "eat at most 4 s"),
    ("eat before eat",),
    ("eat at least 10 s, at most 4 s",),
]


@pytest.mark.parametrize("clash", CLASHES, ids=" + ".join)
def test_contradictions_are_refused_with_their_sentences(clash, tmp_path):
    rules = [parse_rule(text, STEPS) for text in ("cut bread never twice", *clash)]
    for each in (rules, rules[::-1]):
        with pytest.raises(OptionError, match="no video can keep the rules") as refused:
            check_rules(each)
        assert all(repr(text) in str(refused.value) for text in clash)
        assert "twice" not in str(refused.value)
    write_rules(tmp_path / RULES_FILE, rules[:-1])
    before = (tmp_path / RULES_FILE).read_text()
    with pytest.raises(OptionError, match="no video can keep"):
        change_rule(tmp_path / RULES_FILE, clash[-1], True, STEPS)
    assert (tmp_path / RULES_FILE).read_text() == before


def test_the_file_is_written_and_read_and_refused_by_its_name(tmp_path):
    kinds = ("before", "last", "never twice", "never")
    chosen = (r for _, r in SENTENCES if r.step != "cut before eat" and r.kind in kinds)
    rules = tuple(dict.fromkeys(chosen))
    for written in (rules, ()):
        write_rules(tmp_path / RULES_FILE, written)
        assert parse_rules(read_sentences(tmp_path / RULES_FILE), STEPS) == written
    for text, words in [
        ("rules = [", "not readable as TOML"),
        ("rule = ['eat once']", "write one list"),
        ("rules = 'eat once'", "write one list"),
        ("rules = [3]", "rule 3 has no known form"),
        ("rules = ['eet once']", "did you mean 'eat'"),
        ("rules = ['eat once', 'eat never']", "no video can keep"),
    ]:
        (tmp_path / RULES_FILE).write_text(text)
        with pytest.raises(OptionError, match=words):
            parse_rules(read_sentences(tmp_path / RULES_FILE), STEPS)


OURS = "# Ours.\nrules = [\n  \"eat  is last\",  # always\n  'cut bread once' # [never] two\n]\n"


@pytest.mark.parametrize(("before", "added", "removed"), [
    (OURS, OURS.replace("once' # [never] two\n", "once', # [never] two\n  \"add jam never\",\n"),
     '# Ours.\nrules = [\n    # always\n  \'cut bread once\', # [never] two\n]\n'),
    ('rules = ["eat is last"]', 'rules = ["eat is last",  "add jam never",\n]', "rules = []"),
    ("rules = [\n]\n", 'rules = [\n  "add jam never",\n]\n', "rules = [\n]\n"),
    # What cannot be changed in place is written anew.
    ('rules = ["""eat is last"""] # [x]', 'rules = [\n  "eat is last",\n  "add jam never",\n]\n',
     "rules = [] # [x]"),
])  # fmt: skip
def test_a_change_keeps_comments_and_other_rules(before, added, removed, tmp_path):
    file = tmp_path / RULES_FILE
    for rule, holds, after in (("add jam never", True, added), ("eat is last", False, removed)):
        file.write_text(before)
        for _ in range(2):  # once is enough
            change_rule(file, rule, holds, STEPS)
            assert file.read_text() == after


def parts(text):
    """One part of 10 s per letter: c cut bread, a add jam, e eat."""
    places = enumerate("cae".index(letter) for letter in text)
    return [Occurrence(step, 10.0 * n, 10.0 * n + 10, 10.0, 0.9) for n, step in places]


BROKEN = [
    # rule, a video that keeps it, one that breaks it, when, the reason, known before the end
    (
        "cut bread before eat",
        "ca",
        "eac",
        0,
        "eat was done at 00:00:00.0, cut bread only at ",
        True,
    ),
    ("cut bread before eat", "cec", "ae", 10, "cut bread not before it", True),
    ("cut bread is first", "ca", "ac", 0, "the first step here is add jam at 00:00:00.0", True),
    ("eat is last", "eae", "cea", 20, "the last step here is add jam at 00:00:20.0", False),
    ("eat is last", "e", "", 0, "it was not seen", False),
    ("eat once", "ae", "eae", 20, "it was done again at 00:00:20.0", True),
    ("eat once", "e", "ca", 0, "it was not seen", False),
    ("eat never twice", "c", "eae", 20, "it was done again at 00:00:20.0", True),
    ("eat never", "ca", "ce", 10, "it was done at 00:00:10.0", True),
    ("eat at least 15 s", "eae", "ae", 10, "it took 10 s", False),
    ("eat at least 15 s", "eae", "a", 0, "it was not seen", False),
    ("eat at most 15 s", "a", "eae", 20, "it took 20 s", True),
]


@pytest.mark.parametrize(("text", "kept", "breaks", "at", "words", "early"), BROKEN)
def test_a_broken_rule_is_found_with_time_and_reason(text, kept, breaks, at, words, early):
    rule = parse_rule(text, STEPS)
    assert broken_rules([rule], parts(kept), STEPS, 99.0) == []
    [found] = broken_rules([rule], parts(breaks), STEPS, 99.0)
    assert (found.kind, found.start, found.name) == ("rule", at, rule.step)
    assert found.step == STEPS.index(rule.step)
    assert found.reason.startswith(f"rule: {text}; ")
    assert words in found.reason
    assert bool(broken_rules([rule], parts(breaks), STEPS, 99.0, ended=False)) == early


def test_what_all_videos_do_is_proposed_and_nothing_weaker():
    orders = [[0, 1, 2, 3, 4], [0, 1, 3, 2, 4], [0, 1, 2, 3, 1, 4], [0, 1, 3, 2, 4], [0, 1, 2, 4]]
    videos = [np.repeat(order, 5) for order in orders]
    proposed = propose_rules(videos, 1.0, list("abcde"))
    assert [str(rule) for rule in proposed] == [
        "e is last", "a is first", "b before c", "a once", "c once", "e once",
    ]  # fmt: skip
    assert proposed[Rule("last", "e")] == "All 5 videos end with e: make it a rule?"
    assert list(propose_rules(videos, 1.0, list("abcde"), list(proposed)[:5])) == [
        Rule("once", "e")
    ]
    assert propose_rules(videos[:4], 1.0, list("abcde")) == {}
    assert propose_rules([*videos, np.full(3, -1)], 1.0, list("abcde")) == {}
    for video in videos:
        done = [Occurrence(int(s), n, n + 1, 1) for n, s in enumerate(video[::5])]
        assert not broken_rules(list(proposed), done, list("abcde"), 99.0)
