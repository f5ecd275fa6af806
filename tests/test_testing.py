"""check_method: accepts methods that follow the contract, and names the violated rule of others."""

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.errors import OptionError, OutputError
from stepcut.methods import METHODS
from stepcut.methods.method import Method
from stepcut.methods.stepcut.method import StepCut
from stepcut.testing import check_method, made_up_videos

SMALL = {"stepcut": {"restarts": 4}, "cnc": {"dim": 4, "train": {"iterations": 5, "components": 4}}}


@pytest.mark.parametrize("name", list(METHODS))
def test_our_methods_keep_the_contract(name):
    kept = check_method(METHODS[name](steps=3, **SMALL.get(name, {})))
    assert any("restore" in line for line in kept)
    assert any("annotated labels" in line for line in kept) == (name == "stepcut")


def test_a_method_with_neither_shares_nor_segment_is_told():
    class Empty(Method):
        pass

    with raises(OptionError, "Empty"):
        check_method(Empty(steps=3))


class Wrong(StepCut):
    spoil, count_ = "nothing", 0

    def fit(self, *args, **options):
        super().fit(*args, **options)
        return None if self.spoil == "fit" else self

    def read(self, features):
        self.count_ += 1
        read = super().read(features)
        broken = {"labels": read.labels[1:], "probabilities": 2 * read.probabilities}
        broken["novelty"] = -1 - read.novelty
        return read._replace(**{name: broken[name] for name in broken if name == self.spoil})

    def state(self):
        return {"all": np.array([object()])} if self.spoil == "state" else super().state()


@pytest.mark.parametrize(("spoil", "said"), [
    ("fit", "returns the method itself"),
    ("labels", "labels (T,)"),
    ("probabilities", "sum to 1"),
    ("novelty", "0 or more"),
    ("state", "arrays"),
])  # fmt: skip
def test_what_is_not_kept_is_named(spoil, said):
    method = Wrong(steps=3, restarts=2)
    method.spoil = spoil
    with raises(OptionError, said):
        check_method(method)


def test_segment_and_check_read_a_video_once():
    *videos, new = made_up_videos()
    procedure = sc.learn(videos, steps=3, method=Wrong(steps=3, restarts=2))
    for use in (procedure.segment, procedure.check):
        procedure.method.count_ = 0
        use(new)
        assert procedure.method.count_ == 1


class Given(Method):
    def __init__(self, steps=3, rate=1.0, seed=0, what="right"):
        super().__init__(steps, rate, seed)
        self.what = what

    def learn(self, videos):
        """Nothing is learned."""

    def shares(self, rows):
        right = np.full((len(rows), self.steps), 1 / self.steps)
        return {
            "right": right, "list": right.tolist(), "wide": np.ones((len(rows), 5)) / 5,
            "flat": right[:, 0], "none": None, "nan": right * np.nan, "double": 2 * right,
        }[self.what]  # fmt: skip


def test_what_a_custom_method_needs_and_may_return():
    with raises(OptionError, "steps=(2, 5)", "'Given'"):
        sc.learn(made_up_videos(), steps=(2, 5), method=Given())
    assert check_method(Given(what="list")) == check_method(Given())
    with raises(OptionError, "1 videos"):
        check_method(Given(), made_up_videos(1))


@pytest.mark.parametrize(("what", "said"), [
    ("wide", ", 5); they must be"),
    ("flat", ",); they must be"),
    ("none", "(); they must be"),
    ("nan", "row 0 sum to nan"),
    ("double", "row 0 sum to 2"),
])  # fmt: skip
def test_probabilities_that_make_no_sense_are_told_wherever_the_method_is_used(what, said):
    with raises(OptionError, said):
        check_method(Given(what=what))
    with raises(OptionError, said):
        sc.learn(made_up_videos(), method=Given(what=what))


class Forgetful(Given):
    def __init__(self, steps=3, rate=1.0, seed=0, width=2):
        super().__init__(steps, rate, seed)
        self.wide = width


class Careless(Given):
    def learn(self, videos):
        """Keep it where nobody looks."""
        self.kept = len(videos)

    def shares(self, rows):
        return super().shares(rows) * (self.kept / self.kept)


@pytest.mark.parametrize(("method", "said"), [
    (Given, "Given is a class"),
    (3, "not a method"),
    (Forgetful(), "width"),
    (Careless(), "'kept'"),
])  # fmt: skip
def test_what_a_method_lacks_is_told(method, said):
    with raises(OptionError, said):
        check_method(method)


def test_a_setting_that_cannot_be_written_down_is_told_before_the_work(tmp_path):
    odd = Given()
    vars(odd)["what"] = print
    with raises(OutputError, "own.proc", "Given"):
        sc.learn(made_up_videos(), method=odd, output=tmp_path / "own.proc")
