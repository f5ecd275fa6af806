"""stepcut compare: how two groups of people differ in doing a procedure."""

import argparse
from dataclasses import replace
from pathlib import Path

from stepcut.checking.compare import compare_groups, draw_budget, time_budget
from stepcut.cli.common import ask_procedure
from stepcut.errors import OptionError
from stepcut.features.find import find_inputs
from stepcut.files.atomic import write_text
from stepcut.files.figures import save_figure
from stepcut.order.orders import counted
from stepcut.timeline import Timeline


def run(args: argparse.Namespace) -> int:
    """Cut the videos of both groups and print what differs; 2 when one cannot be cut."""
    folders = (args.first, args.second)
    names = [Path(folder).name or folder for folder in folders]
    names = names if names[0] != names[1] else ["A", "B"]
    groups: dict[str, list[Timeline]] = {}
    failed = False
    for folder in folders:
        if not Path(folder).is_dir():
            raise OptionError(
                f"{folder} is not a folder; give one with the videos, or the features, of each group."
            )
    inputs = [find_inputs(folder).files for folder in folders]
    for name, videos in zip(names, inputs, strict=True):
        answers, some = ask_procedure(args, "segment", list(map(str, videos)))
        groups[name], failed = [timeline for _, timeline in answers], failed or some
    first, second = groups.values()
    steps = list(dict.fromkeys(step for timeline in (*first, *second) for step in timeline.steps))
    caption = (
        f"A is {args.first}, {counted(len(first))}; B is {args.second}, {counted(len(second))}"
    )
    print(replace(compare_groups(first, second, steps), caption=caption).format(args.format))
    if args.budget:
        write_text(args.budget, time_budget(groups, steps).csv())
    if args.plot:
        save_figure(draw_budget(groups, steps).figure, args.plot)
    return 2 if failed else 0
