"""check_method: it passes what keeps the contract, ours too, and names what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepcut as sc
from stepcut.errors import OptionError, OutputError
from stepcut.methods import METHODS
from stepcut.methods.base import BaseMethod
from stepcut.testing import check_method, made_up_videos


def test_the_default_method_keeps_the_contract() -> None:
    kept = check_method(METHODS["stepcut"](steps=3, restarts=4))
    assert any("restore" in line for line in kept)


class Wrong:
    """The default method with one verb spoiled."""

    def __init__(self, spoil: str) -> None:
        self._spoil, self._inner = spoil, METHODS["stepcut"](steps=3, restarts=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def fit(self, features: Any, **options: Any) -> Any:
        self._inner.fit(features, **options)
        return None if self._spoil == "fit" else self

    def probabilities(self, features: Any) -> Any:
        shares = self._inner.probabilities(features)
        return [2 * share for share in shares] if self._spoil == "probabilities" else shares

    def novelty(self, features: Any) -> Any:
        far = self._inner.novelty(features)
        return [-1 - one for one in far] if self._spoil == "novelty" else far

    def state(self) -> Any:
        return {"all": np.array([object()])} if self._spoil == "state" else self._inner.state()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("fit", "returns the method itself"),
        ("probabilities", "sum to 1"),
        ("novelty", "0 or more"),
        ("state", "arrays"),
    ],
)
def test_what_is_not_kept_is_named(spoil: str, said: str) -> None:
    method: Any = Wrong(spoil)
    with pytest.raises(OptionError, match=said):
        check_method(method)


class Given(BaseMethod):
    """A method of one's own whose probabilities are what a test says."""

    def __init__(
        self, steps: int = 3, rate: float = 1.0, seed: int = 0, what: str = "right"
    ) -> None:
        super().__init__(steps, rate, seed)
        self.what = what

    def learn(self, videos: Any) -> None:
        """Nothing is learned."""

    def shares(self, rows: Any) -> Any:
        right = np.full((len(rows), self.steps), 1 / self.steps)
        wrong = {
            "list": right.tolist(),
            "wide": np.ones((len(rows), 5)) / 5,
            "flat": right[:, 0],
            "none": None,
        }
        return {**wrong, "right": right, "nan": right * np.nan, "double": 2 * right}[self.what]


class Repeated(Given):
    """A method of one's own that has restarts, and no seed."""

    def __init__(self, steps: int = 3, rate: float = 1.0, restarts: int = 2) -> None:
        super().__init__(steps, rate)
        self.restarts = restarts


def test_quality_is_not_measured_of_a_method_that_cannot_start_elsewhere() -> None:
    assert sc.learn(made_up_videos(), steps=3, method=Repeated()).quality.shared == ()


def test_a_method_that_chooses_no_number_is_given_one() -> None:
    with pytest.raises(OptionError, match=r"steps=\(2, 5\): method 'Given' needs a number"):
        sc.learn(made_up_videos(), steps=(2, 5), method=Given())


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "wide",
            r"Given: probabilities of a video of \d+ rows are \(\d+, 5\); they must be \(\d+, 3\)",
        ),
        ("flat", r"Given: probabilities of a video of \d+ rows are \(\d+,\); they must be"),
        ("none", r"Given: probabilities of a video of \d+ rows are \(\); they must be"),
        ("nan", "Given: probabilities of row 0 sum to nan"),
        ("double", "Given: probabilities of row 0 sum to 2"),
    ],
)
def test_probabilities_that_make_no_sense_are_told_wherever_the_method_is_used(
    what: str, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        check_method(Given(what=what))
    with pytest.raises(OptionError, match=said):
        sc.learn(made_up_videos(), method=Given(what=what))


def test_probabilities_may_be_a_list() -> None:
    assert check_method(Given(what="list")) == check_method(Given())


class Forgetful(Given):
    """It takes a setting and does not store it."""

    def __init__(self, steps: int = 3, rate: float = 1.0, seed: int = 0, width: int = 2) -> None:
        super().__init__(steps, rate, seed)
        self.wide = width


class Careless(Given):
    """What it learns has no name that ends in `_`."""

    def learn(self, videos: Any) -> None:
        """Keep it where nobody looks."""
        self.kept = len(videos)

    def shares(self, rows: Any) -> Any:
        return super().shares(rows) * (self.kept / self.kept)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Given, "method=Given is a class; hand over an object of it, Given"),
        (
            3,
            "method=3 has no fit, embed, probabilities, predict, novelty, online, settings, state, restore",
        ),
        (
            Forgetful(),
            "Forgetful: __init__ takes width and does not store it; write self.width = width",
        ),
        (Careless(), "restore.settings, state. predicts the same; got .*no attribute 'kept'"),
    ],
)
def test_what_a_method_lacks_is_told(method: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        check_method(method)


def test_a_setting_that_cannot_be_written_down_is_told_before_the_work(tmp_path: Path) -> None:
    odd = Given()
    vars(odd)["what"] = print
    with pytest.raises(
        OutputError, match=r"own.proc: a setting of method Given .*not JSON serializable"
    ):
        sc.learn(made_up_videos(), method=odd, output=tmp_path / "own.proc")


def test_one_video_to_learn_and_one_to_try_are_needed() -> None:
    with pytest.raises(OptionError, match="1 videos; give at least two"):
        check_method(Given(), made_up_videos(1))
