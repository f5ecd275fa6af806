"""Clips: duration, copying near key frames, and errors in single videos."""

import math
import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film, number_of
from store_kit import change_saved, saved

from stepcut.cli.common import find_moved
from stepcut.cli.main import main
from stepcut.errors import OptionError, VideoError
from stepcut.features.video.container import key_times, probe
from stepcut.features.video.sample import sample_frames
from stepcut.show.clips import BEGINNING, cut_clip, make_proxy, write_clips
from stepcut.timeline import Segment, Timeline

KEYS = {
    True: None,
    False: [Fraction(0)],
}  # those of the video, so that packets are copied, or none near


def test_a_clip_is_copied_where_a_key_frame_is_near(films, tmp_path):
    video, target = films / "v3.mp4", tmp_path / "a.mp4"
    key = float(key_times(video)[4])
    assert cut_clip(video, key, key + 2, target)
    assert probe(target).duration == pytest.approx(2, abs=0.3)
    ours = next(sample_frames(target, 10))[1].astype(int)
    theirs = next(sample_frames(video, 10, start=key))[1].astype(int)
    assert np.abs(ours - theirs).mean() < 2  # identical frames
    # No key frame near: re-encoded.
    assert not cut_clip(video, key + 0.2, key + 1.2, target, keys=[Fraction(0)])
    assert probe(target).duration == pytest.approx(1, abs=0.3)
    ours = next(sample_frames(target, 10))[1].astype(int)
    theirs = next(sample_frames(video, 10, start=key + 0.2))[1].astype(int)
    assert np.abs(ours - theirs).mean() < 12


def test_the_beginning_of_a_long_video_is_copied_first(tmp_path):
    video = make_film(tmp_path / "film.mp4", frames=300, sound=True, g="20")
    made = make_proxy(video, beginning=True)
    lasts = float(probe(made).duration)
    assert lasts == pytest.approx(BEGINNING, abs=0.2)
    assert lasts < probe(video).duration - 4
    assert made != make_proxy(video)
    whole = float(probe(make_proxy(video)).duration)
    assert whole == pytest.approx(float(probe(video).duration), abs=0.2)


@pytest.mark.parametrize("copied", [True, False])
def test_a_clip_keeps_its_sound(copied, tmp_path):
    video = make_film(tmp_path / "film.mp4", frames=200, sound=True, g="20")
    assert cut_clip(video, 4.0, 6.0, tmp_path / "a.mp4", KEYS[copied]) == copied
    with av.open(str(tmp_path / "a.mp4")) as clip:
        heard = list(clip.decode(clip.streams.audio[0]))
        clip.seek(0)
        seen = [frame.time for frame in clip.decode(clip.streams.video[0])]
    assert sum(frame.samples / frame.sample_rate for frame in heard) == pytest.approx(2, abs=0.2)
    assert max(seen) == pytest.approx(2, abs=0.3)
    silent = make_film(tmp_path / "silent.mp4", frames=60, g="20")
    cut_clip(silent, 0.0, 1.0, tmp_path / "b.mp4")
    with av.open(str(tmp_path / "b.mp4")) as clip:
        assert not clip.streams.audio


@pytest.mark.parametrize("copied", [True, False])
def test_an_instant_is_a_short_clip(copied, tmp_path):
    video = make_film(tmp_path / "film.mp4", frames=60, g="20", bf="0")
    at, target = float(key_times(video)[1]), tmp_path / "a.mp4"
    assert cut_clip(video, at, at, target, KEYS[copied]) == copied
    assert 0 < probe(target).duration < 0.5


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("start", [1.93, 1.99, 2.0])
def test_a_clip_of_the_very_end_has_a_picture(start, copied, tmp_path):
    # 2 s; the last key frame is at 1.6 s.
    video = make_film(tmp_path / "film.mp4", frames=40, rate=20, g="8", bf="0")
    assert cut_clip(video, start, 2.0, tmp_path / "a.mp4", KEYS[copied]) == copied
    assert len(list(sample_frames(tmp_path / "a.mp4", 20))) >= 1


@pytest.mark.parametrize("start", [0.5, 3.9, 9.85])
@pytest.mark.parametrize("bf", ["0", "3"])
def test_a_copied_clip_of_matroska_begins_with_its_key_frame(bf, start, tmp_path):
    video = make_film(tmp_path / "film.mkv", frames=199, rate=20, g="18", bf=bf, preset="medium")
    key = max(time for time in key_times(video) if time <= start)
    assert cut_clip(video, start, start + 0.6, tmp_path / "a.mp4")
    seen = [number_of(picture) for _, picture in sample_frames(tmp_path / "a.mp4", 20)]
    assert seen[0] == key * 20
    assert seen[-1] >= min(198, math.floor((start + 0.6) * 20) - 1)
    assert seen == list(range(seen[0], seen[-1] + 1))


@pytest.mark.parametrize(
    ("start", "end", "shown"), [(12, 18, {1}), (12, 12, {1}), (18, 22, {1, 2})]
)
def test_a_clip_between_frames_shows_the_one_before(start, end, shown, tmp_path):
    times = {"times": [0, 10, 20, 30], "clock": Fraction(1)}
    video = make_film(tmp_path / "film.mp4", frames=4, rate=1, **times)
    assert not cut_clip(video, start, end, tmp_path / "a.mp4")
    assert {number_of(picture) for _, picture in sample_frames(tmp_path / "a.mp4", 5)} == shown
    assert probe(tmp_path / "a.mp4").duration == pytest.approx(max(end - start, 0.2), abs=0.01)


def test_videos_that_moved_are_found_again(learned, kitchen, tmp_path):
    place = Path(shutil.copytree(learned, tmp_path / "a.proc"))
    record = saved(place)
    for one in record["videos"].values():
        one["path"] = None
    change_saved(place, record)
    words = [str(place), "--videos", str(kitchen / "videos"), "--quiet", "-o"]
    assert main(["clips", *words, str(tmp_path / "clips"), "--step", "STEP 1"]) == 0
    assert [one.name for one in (tmp_path / "clips").iterdir() if one.is_dir()] == ["step 1"]
    assert main(["report", *words, str(tmp_path / "r.html"), "--pictures", "1"]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "data:image/jpeg" in page
    assert "<h1>a</h1>" in page  # the procedure's own name, since no title is given
    for more in ([], ["--videos", str(learned.parent)]):
        assert main(["clips", str(place), "--quiet", "-o", str(tmp_path / "none"), *more]) == 2


def test_a_video_that_may_be_two_is_not_chosen(films, tmp_path):
    for name in ("cam1/a.mp4", "cam2/a.mp4", "b.mp4", "b.avi"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(films / "v3.mp4", tmp_path / name)
    (tmp_path / "link.mp4").symlink_to(tmp_path / "cam1" / "a.mp4")  # the same video again
    for name in ("a", "b"):
        with raises(OptionError, f"'{name}'"):
            find_moved({name: None}, [str(tmp_path)])
    known = {"cam1/a": None, "cam2/a": None}
    places = {name: str(tmp_path / f"{name}.mp4") for name in known}
    assert find_moved(known, [str(tmp_path)]) == places
    assert find_moved({"a": None}, [str(tmp_path / "cam2")]) == {"a": places["cam2/a"]}


def test_a_folder_of_clips(films, tmp_path):
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    one = Timeline([Segment(0.5, 1.5, "pour")], 5.0)
    two = Timeline([Segment(0, 1.5, "pour"), Segment(1.5, 4, "add jam/honey")], 5.0)
    timelines = {"v3": two, "broken": one, "gone": one, "v2": one}
    videos = {"v3": str(films / "v3.mp4"), "broken": str(tmp_path / "broken.mp4"), "gone": None}
    videos["v2"] = str(films / "v2.mp4")
    out = tmp_path / "clips"
    done = list(write_clips(timelines, videos, out))
    assert [name for name, clip in done if isinstance(clip, VideoError)] == ["broken", "gone"]
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert names == [
        "add jam_honey/v3-02.jpg", "add jam_honey/v3-02.mp4",
        "pour/v2-01.jpg", "pour/v2-01.mp4", "pour/v3-01.jpg", "pour/v3-01.mp4",
        "times.csv",
    ]  # fmt: skip
    assert "v3,pour,1,1.5,1.5,1.5,30.0,100.0" in (out / "times.csv").read_text()
    list(write_clips(timelines, videos, tmp_path / "one", step="pour"))
    assert [path.name for path in (tmp_path / "one").iterdir() if path.is_dir()] == ["pour"]


def test_clips_of_two_videos_never_share_a_name(films, tmp_path):
    one, video = Timeline([Segment(0, 1, "pour")], 5.0), str(films / "v3.mp4")
    dotted = ["01.tent.a", "01.tent.b"]
    places = dict.fromkeys(dotted, video)
    done = list(write_clips(dict.fromkeys(dotted, one), places, tmp_path / "clips"))
    assert [Path(str(clip)).name for _, clip in done] == [f"{name}-01.mp4" for name in dotted]
    assert {path.name for path in (tmp_path / "clips" / "pour").iterdir()} == {
        f"{name}-01{suffix}" for name in dotted for suffix in (".mp4", ".jpg")
    }
    # Some disks know no case, and some one Unicode form.
    for names in (["a/b", "a_b"], ["Tea", "tea"], ["caf\u00e9", "cafe\u0301"]):
        with raises(OptionError, names[0]):
            list(write_clips(dict.fromkeys(names, one), {}, tmp_path / "none"))
    steps = Timeline([Segment(0, 1, "jam/honey"), Segment(1, 2, "jam_honey")])
    with raises(OptionError, "same names"):
        list(write_clips({"a": steps}, {}, tmp_path / "none"))
    assert not (tmp_path / "none").exists()
