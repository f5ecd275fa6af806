"""Every command of docs/annotate.md: learn, export, correct, read back, evaluate."""

import contextlib
import json
import re
import xml.etree.ElementTree as etree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepcut.cli.main import main
from stepcut.formats import read, read_folder
from stepcut.toy import toy_features

DOC = (Path(__file__).parents[2] / "docs" / "annotate.md").read_text(encoding="utf-8")
# A short training is enough: this tests the round trip of labels, not their quality.
QUICK = ["--quiet", "--method", "cnc", "--set", 'train={"iterations": 2}']


def correct_in_elan(path, truth):
    """Simulate ELAN: replace every annotation of the tier and save."""
    tree = etree.parse(path)
    root = tree.getroot()
    order, tier = root.find("TIME_ORDER"), root.find("TIER")
    assert order is not None
    assert tier is not None
    for element in (order, tier):
        for child in list(element):
            element.remove(child)
    for number, segment in enumerate(truth):
        for end, time in enumerate((segment.start, segment.end)):
            slot = {"TIME_SLOT_ID": f"ts{2 * number + end}", "TIME_VALUE": str(round(time * 1000))}
            etree.SubElement(order, "TIME_SLOT", slot)
        ends = {"TIME_SLOT_REF1": f"ts{2 * number}", "TIME_SLOT_REF2": f"ts{2 * number + 1}"}
        annotation = etree.SubElement(etree.SubElement(tier, "ANNOTATION"), "ALIGNABLE_ANNOTATION")
        annotation.attrib.update({"ANNOTATION_ID": f"a{number}", **ends})
        etree.SubElement(annotation, "ANNOTATION_VALUE").text = segment.step
    tree.write(path, encoding="UTF-8", xml_declaration=True)


def correct_in_label_studio(tasks, export, truth):
    """A Label Studio export with corrected predictions for every task."""
    record: list[dict[str, Any]] = json.loads(tasks.read_text())
    for task in record:
        rate = task["data"]["fps"]
        regions = []
        for s in truth[task["data"]["name"]]:
            span = {"start": round(s.start * rate) + 1, "end": round(s.end * rate)}
            value = {"ranges": [span], "timelinelabels": [s.step]}
            regions.append(
                {"type": "timelinelabels", "from_name": "steps", "to_name": "video", "value": value}
            )
        task["annotations"] = [{"completed_by": 1, "was_cancelled": False, "result": regions}]
        task["data"]["video"] = "/data/upload/1/5fd0-" + task["data"]["video"]
    export.write_text(json.dumps(record))


@pytest.mark.slow
def test_every_step_of_the_page(tmp_path, capsys):
    rows, timelines = toy_features(videos=3, duration=40)
    truth = {timeline.video: timeline for timeline in timelines}
    (tmp_path / "tea").mkdir()
    for features, timeline in zip(rows, timelines, strict=True):
        np.save(tmp_path / "tea" / f"{timeline.video}.npy", features)
    done = []
    with contextlib.chdir(tmp_path):
        for kind, block in re.findall(r"```(sh|python)\n(.*?)```", DOC, flags=re.DOTALL):
            if kind == "python":
                exec(block, {})
                continue
            for line in block.splitlines():
                words = line.split()
                assert words[0] == "stepcut"
                capsys.readouterr()
                extra = [*QUICK] if words[1] == "learn" else []
                extra += ["--rate", "30"] if "label-studio" in words else []
                assert main([*words[1:], *extra]) == 0, capsys.readouterr().err
                done.append(line)
                if line == "stepcut convert tea.proc eaf/ --to elan":
                    found = read("eaf/" + timelines[0].video + ".eaf")
                    assert found.steps[:2] == ("boil water", "pour")
                    for name, timeline in truth.items():
                        correct_in_elan(Path("eaf") / f"{name}.eaf", timeline)
                if line.startswith("stepcut convert tea.proc tasks.json"):
                    correct_in_label_studio(Path("tasks.json"), Path("export.json"), truth)
                if words[1] == "evaluate":
                    assert "uniform" in capsys.readouterr().out
        # Both ways return the corrections.
        for folder, slack in (("truth", 0.002), ("corrected", 0.04)):
            again = read_folder(folder)
            assert set(again) == set(truth)
            for name, timeline in truth.items():
                assert again[name].sequence() == timeline.sequence()
                for found, true in zip(again[name], timeline, strict=True):
                    expected = pytest.approx((true.start, true.end), abs=slack)
                    assert (found.start, found.end) == expected
    assert len(done) == 7
