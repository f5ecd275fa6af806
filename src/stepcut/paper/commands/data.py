"""`stepcut data`: list, describe, check, count and cite data sets; published features and results."""

import argparse
from pathlib import Path

from stepcut.cli import say
from stepcut.cli.common import chosen_options, show_table
from stepcut.errors import DataError, OptionError
from stepcut.paper.datasets import DATASETS, DataSet, all_datasets, find_dataset
from stepcut.paper.datasets.dataset import Loaded
from stepcut.paper.datasets.hiero import convert
from stepcut.paper.datasets.statistics import leaderboard, plot_statistics, statistics
from stepcut.tables import Cell, Table


def run(args: argparse.Namespace) -> int:
    if args.output and args.action not in ("list", "stats", "leaderboard"):
        raise OptionError(
            f"-o {args.output}: data {args.action} has no table; use -o with list, stats or "
            "leaderboard.",
            setting="output",
            value=args.output,
        )
    if args.action == "list":
        rows: list[list[Cell]] = [
            [d.name, d.title, len(d.tasks) or None, d.licence] for d in all_datasets().values()
        ]
        show_table(Table(["name", "title", "tasks", "licence"], rows), args.format, args.output)
        return 0
    if args.name is None:
        raise OptionError(
            f"data {args.action} needs the name of a data set: {', '.join(DATASETS)}.",
            setting="name",
            allowed=list(DATASETS),
        )
    data_set = find_dataset(args.name)
    if args.action == "info":
        print(_info(data_set))
        return 0
    if args.action == "leaderboard":
        if data_set.name != "egoprocel":
            raise OptionError(
                f"data leaderboard {args.name}: only egoprocel has one. Run: stepcut data "
                "leaderboard egoprocel",
                setting="name",
                value=args.name,
                allowed=["egoprocel"],
            )
        show_table(leaderboard(), args.format, args.output)
        return 0
    if args.action == "cite":
        print(data_set.citation or f"% {data_set.title} has no citation.")
        return 0
    if args.root is None:
        raise OptionError(
            f"data {args.action} {args.name} needs --root DIR, the folder of the data set.",
            setting="root",
        )
    if args.action == "convert":
        return _convert(data_set, args)
    loaded = data_set.examine(args.root, **chosen_options(args, "view", "rate"))
    return (
        _check(data_set, loaded, args) if args.action == "check" else _stats(data_set, loaded, args)
    )


def _convert(data_set: DataSet, args: argparse.Namespace) -> int:
    if data_set.name != "egoprocel":
        raise OptionError(
            f"data convert {args.name}: only egoprocel has features that need conversion.",
            setting="name",
            value=args.name,
            allowed=["egoprocel"],
        )
    loaded = data_set.examine(args.root, **chosen_options(args, "view"))
    before = len(loaded.problems)
    made = convert(Path(args.root), loaded, args.rate)
    for line in loaded.problems[before:]:
        say(line)
    say(f"{len(made)} feature files below {Path(args.root) / 'features'}.")
    return 0 if len(loaded.problems) == before else 1


def _info(data_set: DataSet) -> str:
    tasks = [
        f"  {name}"
        + "".join(
            f", {number} {what}"
            for number, what in ((info.videos, "videos"), (info.steps, "steps"))
            if number
        )
        for name, info in data_set.tasks.items()
    ]
    sources = [f"  {what}: {where}" for what, where in data_set.sources.items()]
    parts = [
        f"{data_set.title} ({data_set.name})\n{data_set.about}",
        f"Licence: {data_set.licence}",
        f"Frame rate: {data_set.rate}",
        "\n".join([f"How to obtain it: {data_set.obtain}", *sources]),
        f"Folder tree:\n{data_set.tree}",
    ]
    if tasks:
        parts.append("\n".join([f"Tasks ({len(tasks)}):", *tasks]))
    if data_set.citation:
        parts.append(data_set.citation)
    return "\n\n".join(parts)


def _check(data_set: DataSet, loaded: Loaded, args: argparse.Namespace) -> int:
    videos = [video for task in loaded.tasks for video in task]
    print(f"{data_set.title} in {args.root}:")
    annotated = sum(video.timeline is not None for video in videos)
    files = sum(video.path is not None for video in videos)
    features = sum(bool(video.features) for video in videos)
    print(
        f"  {len(loaded.tasks)} of {len(data_set.tasks) or len(loaded.tasks)} tasks, "
        f"{len(videos)} recordings:"
    )
    print(f"  {annotated} with a timeline, {files} with a video, {features} with features")
    for task in loaded.tasks:
        for defect in task.defects:
            print(f"  known defect: {task.name}: {defect}.")
    for what, lines in (("missing", loaded.missing), ("problem", loaded.problems)):
        for line in lines:
            print(f"  {what}: {line}")
    if loaded.missing or loaded.problems:
        return 1
    print("  complete.")
    return 0


def _stats(data_set: DataSet, loaded: Loaded, args: argparse.Namespace) -> int:
    if not any(task.timelines for task in loaded.tasks):
        absent = " ".join(loaded.missing[:3]) or "No timelines found."
        raise DataError(
            f"{args.root}: nothing to count. {absent} Run: stepcut data check {data_set.name} "
            f"--root {args.root}",
            path=args.root,
        )
    table = statistics(loaded.tasks, f"{data_set.title}, {args.root}", args.all, data_set)
    show_table(table, args.format, args.output)
    if args.format == "csv":  # CSV has no notes
        for note in table.notes:
            say(note)
    if loaded.problems:
        say(f"{len(loaded.problems)} problems; 'stepcut data check' lists them.")
    if args.plot:
        plot_statistics(table, args.plot)
    return 0
