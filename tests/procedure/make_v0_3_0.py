"""Make the folders in v0_3_0 and what is in them, with stepcut 0.3.0: PYTHONPATH=OLD/src python FILE.

Each folder is a state that people can have: every verb done and undone, a procedure taught from
corrections, the copy for taking it back, and the two states that 0.3.0 wrote and could not read.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent / "v0_3_0"
EVERY_VERB = (
    {"do": "rename", "step": 0, "name": "pour water"},
    {"do": "rename", "names": {"1": "stir", "2": "serve tea"}},
    {"do": "colour", "step": 1, "colour": "#123456"},
    {"do": "add", "name": "taste"},
    {"do": "mark", "video": "v0", "start": 30.0, "end": 33.25, "step": 4},
    {"do": "cut", "video": "v1", "time": 3.5},
    {"do": "split", "video": "v0", "time": 2.0, "everywhere": True},
    {"do": "split", "video": "v1", "time": 12.0, "everywhere": False},
    {"do": "move", "video": "v2", "part": 0, "edge": "end", "time": 5.4321},
    {"do": "merge", "step": 3, "into": 2},
    {"do": "mark", "video": "v2", "start": 0, "end": 1.5, "step": None},
    {"do": "confirm", "video": "v3"},
    {"do": "severity", "step": 2, "severity": "critical"},
    {"do": "severity", "step": 0, "severity": "optional"},
    {"do": "mistake", "video": "v1", "holds": True},
    {"do": "mistake", "video": "v2", "holds": True},
    {"do": "mistake", "video": "v2", "holds": False},
    {"do": "click", "video": "v4", "time": 7.0, "step": 0},
    {"do": "click", "video": "v4", "time": 20.0, "step": 2},
    {"do": "click", "video": "v4", "time": 25.0, "step": 1},
    {"do": "move_click", "video": "v4", "click": 0, "time": 1.0},
    {"do": "remove_click", "video": "v4", "click": 2},
    {"do": "clicks_complete", "video": "v4", "complete": True},
    {"do": "fine", "kind": "missed", "step": 1, "video": "new", "fine": True},
    {"do": "fine", "kind": "unusual", "step": None, "video": "new", "fine": True},
)


def content(procedure):
    """All that people see of a procedure, as JSON values."""
    document = procedure.document
    merged = getattr(document, "merged", None)
    if merged is None:  # since 0.4
        merged = {number: now for number, now in enumerate(document.now) if now != number}
    return {
        "steps": [[step.name, step.colour] for step in document.steps],
        "timelines": {
            name: [[s.start, s.end, s.step, s.confidence] for s in timeline if s.end > s.start]
            for name, timeline in procedure.timelines.items()
        },
        "ends": {name: timeline.end for name, timeline in procedure.timelines.items()},
        "annotations": procedure.annotations.to_json(),
        "labels": {name: labels.tolist() for name, labels in procedure.labels.items()},
        "samples": dict(procedure.samples),
        "merged": {str(number): into for number, into in merged.items()},
    }


def main():
    """Write all folders; the only argument is the version that stepcut must have."""
    os.environ["STEPCUT_CACHE"] = tempfile.mkdtemp()
    import stepcut as sc
    from stepcut.files.cache import cache_dir
    from stepcut.procedure.edits import Edits
    from stepcut.procedure.loading import teach_folder
    from stepcut.version import __version__

    if __version__ != (sys.argv[1:] or ["0.3.0"])[0]:
        raise SystemExit(f"stepcut {__version__} is on the path, not 0.3.0")
    rng = np.random.default_rng(0)
    rows = {
        f"v{number}": np.concatenate(
            [np.eye(4, 5)[step] + 0.1 * rng.normal(size=(length, 5)) for step, length in order]
        ).astype(np.float32)
        for number, order in enumerate(
            [tuple((step, int(rng.integers(7, 13))) for step in range(4)) for _ in range(5)]
        )
    }
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    np.savez_compressed(HERE / "videos.npz", **rows)
    work, expected = Path(tempfile.mkdtemp()), {}

    def keep(name, procedure, folder=None):
        for file in sorted((folder or work / f"{name}.proc").iterdir()):
            (HERE / f"{name}.proc").mkdir(exist_ok=True)
            shutil.copyfile(file, HERE / f"{name}.proc" / file.name)
        expected[name] = content(procedure)

    place = work / "edited.proc"
    keep("plain", sc.learn(rows, steps=4, output=place, restarts=2), place)
    edits = Edits(place)
    for edit in EVERY_VERB:
        edits.do(edit)
    for _ in range(3):
        edits.undo()
    (place / "severity.json").write_text(
        '{"free": ["stir"], "alarm_at": {"serve tea": 0.9}}', encoding="utf-8"
    )
    (place / "notes.md").write_text("my notes\n")
    keep("edited", sc.load(place))

    shutil.copytree(place, work / "taught.proc")
    place = work / "taught.proc"
    _, taught = teach_folder(place, {"v1": sc.load(place).timelines["v1"]}, source=rows)
    fingerprint = taught.config["fingerprint"]
    copy = next((cache_dir() / "before").glob(f"{fingerprint}-*.proc"))
    keep("before_taught", sc.load(copy), copy)
    last = sc.load(place).timelines["v2"].end
    edits = Edits(place)
    edits.do({"do": "mark", "video": "v2", "start": last - 2, "end": last, "step": 0})
    edits.do({"do": "click", "video": "v2", "time": 3.0, "step": 1})
    keep("taught", sc.load(place))

    for name in ("beyond", "tapped"):  # two states that 0.3.0 damaged by teaching
        place = work / f"{name}.proc"
        sc.learn(rows, steps=4, output=place, restarts=2)
        saved = json.loads((place / "timelines.json").read_text())
        saved["v0"]["duration"] -= 0.0000583
        saved["v0"]["segments"][-1]["end"] = saved["v0"]["duration"]
        (place / "timelines.json").write_text(json.dumps(saved))
        edits = Edits(place)
        start = edits.document.parts["v0"][-1].start
        end = edits.document.durations["v0"]
        if name == "beyond":
            edits.do({"do": "mark", "video": "v0", "start": start, "end": end, "step": 0})
        else:
            edits.do({"do": "mark", "video": "v0", "start": 2.0, "end": 8.0, "step": 0})
            edits.do({"do": "click", "video": "v0", "time": 5.0, "step": 0})
        taught = sc.load(place).teach(source=rows)
        taught.save(place)
        keep(name, taught)
    from stepcut.show.viewer.server import kept, outline_of

    from stepcut.procedure.loading import read_outline

    place = kept(outline_of(sc.load(work / "taught.proc").timelines, {}, "labels"))
    Edits(place).do({"do": "mark", "video": "v0", "start": 1.0, "end": 2.0, "step": 1})
    keep("labels", read_outline(place), place)
    text = json.dumps(expected, indent=0, default=str)
    (HERE / "expected.json").write_text(text.replace("\n", " ") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
