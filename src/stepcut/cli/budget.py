"""`stepcut budget`: count and time every step, from labels alone."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from stepcut.cli.common import label_options, read_timelines, show_table
from stepcut.evaluation.budget import time_budget
from stepcut.features.find import unique_names


def run(args: argparse.Namespace) -> int:
    groups = {
        name: read_timelines(place, annotator=args.annotator, confirmed=True, **label_options(args))
        for name, place in zip(group_names(args.labels), args.labels, strict=True)
    }
    table = time_budget(groups, per_video=args.per_video, confirmed_only=args.confirmed_only)
    show_table(table, args.format, args.output)
    return 0


def group_names(places: Sequence[str]) -> list[str]:
    """Return a name for each of several folders or files; a single one has an empty name.

    >>> group_names(["novices/", "experts/labels.csv"]), group_names(["novices/"])
    (['novices', 'labels'], [''])
    """
    if len(places) == 1:
        return [""]
    paths = [Path(place) for place in places]
    return unique_names([[path.stem for path in paths], [str(path) for path in paths]])
