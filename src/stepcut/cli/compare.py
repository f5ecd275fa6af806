"""`stepcut compare`: test how two groups of people differ in doing a procedure."""

import argparse
from pathlib import Path

from stepcut.cli.common import ask_procedure, show_table
from stepcut.errors import OptionError
from stepcut.evaluation.budget import draw_budget, only_confirmed, time_budget
from stepcut.evaluation.compare import compare_groups
from stepcut.features.find import find_inputs, name_videos
from stepcut.files.figures import save_figure
from stepcut.order.orders import counted
from stepcut.procedure.loading import read_outline
from stepcut.timeline import Timeline


def run(args: argparse.Namespace) -> int:
    """Segment both groups and print the differences; return 2 if a video cannot be segmented."""
    folders = (args.first, args.second)
    for folder in folders:
        if not Path(folder).is_dir():
            raise OptionError(
                f"{folder} is not a folder; name a folder of videos or features for each group.",
                path=folder,
            )
    names = (Path(args.first).name, Path(args.second).name)
    names = names if names[0] != names[1] and all(names) else ("A", "B")
    groups: dict[str, dict[str, Timeline]] = {}
    failed = False
    inputs = [find_inputs(folder).files for folder in folders]
    for name, videos in zip(names, inputs, strict=True):
        answers, some = ask_procedure(args, "segment", list(map(str, videos)))
        failed = failed or some
        found = name_videos([video for video, _ in answers])
        groups[name] = dict(zip(found, (timeline for _, timeline in answers), strict=True))
    if args.confirmed_only:
        groups = only_confirmed(groups)
    first, second = (list(group.values()) for group in groups.values())
    steps = list(dict.fromkeys(step for timeline in (*first, *second) for step in timeline.steps))
    labelled = bool(read_outline(args.procedure).annotations.annotated)
    table = compare_groups(first, second, steps, names, labelled)
    who = f"A is {args.first}, {counted(len(first))}; B is {args.second}, {counted(len(second))}."
    table.notes.insert(0, who)
    show_table(table, args.format, args.output)
    if args.budget:
        time_budget(groups, steps, per_video=True).save(args.budget)
    if args.plot:
        save_figure(draw_budget(groups, steps).figure, args.plot)
    return 2 if failed else 0
