"""The files in the folder of a procedure, for tests that read or change them."""

import json

from stepcut.files import read_json, write_json
from stepcut.procedure.edits import Edits
from stepcut.procedure.folder import digest, seal


def revision(place):
    return place / "revisions" / (place / "CURRENT").read_text().strip()


def config_of(place):
    return read_json(revision(place) / "config.json")


def change_config(place, **changes):
    """Change settings of the current revision, as if it had been written like this."""
    config = {**config_of(place), **changes}
    write_json(revision(place) / "config.json", {**config, "digest": seal(config)})


def change_file(place, name, text):
    """Replace a file of the current revision, as if it had been written like this."""
    data = text.encode() if isinstance(text, str) else text
    (revision(place) / name).write_bytes(data)
    change_config(place, files={**config_of(place)["files"], name: digest(data)})


def saved(place):
    return read_json(revision(place) / "procedure.json")


def change_saved(place, record):
    change_file(place, "procedure.json", json.dumps(record))


def events(place):
    path = place / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def edit(verb, video=None, **values):
    return {"do": verb, **({} if video is None else {"video": video}), **values}


def do(place, *edits):
    made = Edits(place)
    for one in edits:
        made.do(one)
    return made


def content(procedure):
    document = procedure.document
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
