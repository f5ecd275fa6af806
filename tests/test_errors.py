"""The error tree and the sentence for an unknown name."""

from __future__ import annotations

import pytest

from stepcut import errors


def test_every_error_is_in_the_tree_and_drawn_at_the_top() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    for kind in kinds:
        assert issubclass(kind, errors.StepcutError)
        assert kind.__name__ in str(errors.__doc__)


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list() -> None:
    with pytest.raises(errors.OptionError) as caught:
        errors.choose("segmenter", "procutt", {"procut": 1, "kmeans": 2})
    assert (
        str(caught.value)
        == "segmenter='procutt' is unknown; did you mean 'procut'? Choose from procut, kmeans."
    )


def test_nothing_near_gives_the_list_alone() -> None:
    assert errors.unknown("loss", "zzz", ["tcc"]) == "loss='zzz' is unknown. Choose from tcc."


def test_of_many_names_some_are_listed() -> None:
    said = errors.unknown("video", "v7", [f"video {number}" for number in range(900)])
    assert "video 39 ... (900 in all)." in said
    assert len(said) < 600
