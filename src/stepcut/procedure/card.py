"""README.md of a procedure's folder: what it is, in the form of a model card."""

from __future__ import annotations

import json

from stepcut.procedure.record import Record
from stepcut.version import __version__


def model_card(record: Record) -> str:
    """README.md: what this is, in the form of a model card."""
    config = record.config
    steps = "\n".join(f"- {k}: {name}" for k, name in enumerate(record.steps))
    settings = json.dumps(config["settings"], indent=1)
    videos = "\n".join(f"- {name} ({timeline.end:.0f} s)" for name, timeline in record.timelines.items())
    labels = f"{len(record.given)} of them with labels from a person" if record.given else "without labels"
    found = (
        "The steps are those that a person labelled; the videos without labels were not looked at by anybody."
        if record.given
        else "The steps were found by what the videos share; nobody has named or confirmed them."
    )
    return f"""# A procedure learned by stepcut {__version__}

{len(record.steps)} steps, learned from {len(record.timelines)} videos, {labels}.

## Steps
{steps}

## Use
```
stepcut check THIS_FOLDER new.mp4
stepcut segment THIS_FOLDER new.mp4 -o new.vtt
stepcut view THIS_FOLDER
```

## Learned from
{videos}

## How
Method `{config["method"]}`, seed {config["seed"]}, backbone `{config["backbone"]["name"]}`,
{record.rate} rows of features per second.
```json
{settings}
```

## Limits
{found}
A score against true timelines (`stepcut evaluate`) says how far to trust them, and should be read beside the row
`uniform`.
"""
