"""From a learned procedure and a new video to the files of other programs, by the commands that a user types."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as etree
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from stepcut.cli.main import main
from stepcut.formats import read
from stepcut.procedure.procedure import load


def test_a_procedure_becomes_an_event_log(learned: Path, tmp_path: Path) -> None:
    assert main(["convert", str(learned), str(tmp_path / "out.xes"), "--quiet"]) == 0
    traces = (
        etree.parse(tmp_path / "out.xes").getroot().findall("{http://www.xes-standard.org/}trace")
    )
    timelines = load(learned).timelines
    assert [trace[0].attrib["value"] for trace in traces] == list(timelines)
    for trace, timeline in zip(traces, timelines.values(), strict=True):
        names = [event[0].attrib["value"] for event in trace[1:]]
        assert sorted(names) == sorted(2 * timeline.sequence())  # each starts and is completed


def test_a_cut_video_is_linked_by_its_eaf(
    learned: Path, kitchen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = min((kitchen / "videos").iterdir())
    (tmp_path / "films").mkdir()
    new = tmp_path / "films" / f"new take{film.suffix}"
    shutil.copy(film, new)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "cache"))
    assert (
        main(["segment", str(learned), "films/" + new.name, "-o", "labels/new.eaf", "--quiet"]) == 0
    )
    media = next(etree.parse("labels/new.eaf").getroot().iter("MEDIA_DESCRIPTOR"))
    assert Path(unquote(urlparse(media.attrib["MEDIA_URL"]).path)) == new.resolve()
    beside = Path("labels", unquote(media.attrib["RELATIVE_MEDIA_URL"]))
    assert beside.resolve() == new.resolve()
    assert read("labels/new.eaf").sequence() == load(learned).segment(new).sequence()
