"""Names of videos: matching different spellings."""

import pytest
from errors_kit import raises

from stepcut.errors import AnnotationError, OptionError
from stepcut.files.names import match_videos, short_names


@pytest.mark.parametrize(
    ("names", "videos", "same"),
    [
        (["a.mp4", "b"], ["B.MOV", "A"], {"a.mp4": "A", "b": "B.MOV"}),
        (["a", "A"], ["A", "a"], {"a": "a", "A": "A"}),  # an exact match comes first
        (["pred/a", "pred/b"], ["truth/b", "truth/a"], {"pred/a": "truth/a", "pred/b": "truth/b"}),
        (["cam1/a", "cam2/a"], ["/x/cam1/a.mp4"], {"cam1/a": "/x/cam1/a.mp4"}),
        (["a", "c2/a"], ["/x/a.mp4", "/x/c2/a.mp4"], {"a": "/x/a.mp4", "c2/a": "/x/c2/a.mp4"}),
        (["a"], ["a.mp4", "cam2/a.mp4"], {"a": "a.mp4"}),
        (["cam3/a", "c"], ["cam1/a", "cam2/a"], {}),
        (["caf\u00e9"], ["cafe\u0301.mkv"], {"caf\u00e9": "cafe\u0301.mkv"}),
    ],
)
def test_names_of_one_video_are_matched(names, videos, same):
    assert match_videos(names, videos) == same


def test_a_name_that_may_be_two_and_two_that_are_one_are_told():
    with raises(AnnotationError, "'cam1/a' or 'cam2/a'"):
        match_videos(["a"], ["cam1/a", "cam2/a"])
    with raises(OptionError, "'a.mp4' and 'A'"):
        match_videos(["a.mp4", "A"], ["a"], OptionError)


def test_a_video_beside_a_folder_with_one_of_its_name_keeps_its_own():
    assert short_names(["a.mp4", "cam2/a.mp4"]) == ["a", "cam2/a"]
