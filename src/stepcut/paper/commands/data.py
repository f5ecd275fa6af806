"""`stepcut data`: list, describe, check, count and cite data sets; published results."""

import argparse
from pathlib import Path

from stepcut.cli import say
from stepcut.cli.common import chosen_options, show_table
from stepcut.errors import DataError, OptionError
from stepcut.paper.datasets import DATASETS, DataSet, all_datasets, find_dataset
from stepcut.paper.datasets.dataset import Loaded, leaderboard, plot_statistics, statistics
from stepcut.paper.datasets.egoprocel import convert
from stepcut.tables import Cell, Table


def run(args: argparse.Namespace) -> int:
    action, name = args.action, args.name
    if args.output and action not in ("list", "stats", "leaderboard"):
        what = f"data {action} has no table; use -o with list, stats or leaderboard."
        raise OptionError(f"-o {args.output}: {what}", setting="output", value=args.output)
    if action == "list":
        every = all_datasets().values()
        rows: list[list[Cell]] = [[d.name, d.title, len(d.tasks) or None, d.licence] for d in every]
        show_table(Table(["name", "title", "tasks", "licence"], rows), args.format, args.output)
        return 0
    if name is None:
        what = f"data {action} needs the name of a data set: {', '.join(DATASETS)}."
        raise OptionError(what, setting="name", allowed=list(DATASETS))
    data_set, only = find_dataset(name), ""
    if data_set.name != "egoprocel" and action in ("leaderboard", "convert"):
        only = "only egoprocel has features that need conversion."
        if action == "leaderboard":
            only = "only egoprocel has one. Run: stepcut data leaderboard egoprocel"
    if only:
        message = f"data {action} {name}: {only}"
        raise OptionError(message, setting="name", value=name, allowed=["egoprocel"])
    if action == "info":
        print(_info(data_set))
    elif action == "leaderboard":
        show_table(leaderboard(), args.format, args.output)
    elif action == "cite":
        print(data_set.citation or f"% {data_set.title} has no citation.")
    elif args.root is None:
        raise OptionError(
            f"data {action} {name} needs --root DIR, the folder of the data set.", setting="root"
        )
    else:
        options = ("view",) if action == "convert" else ("view", "rate")
        loaded = data_set.examine(args.root, **chosen_options(args, *options))
        return {"convert": _convert, "check": _check, "stats": _stats}[action](
            data_set, loaded, args
        )
    return 0


def _convert(_: DataSet, loaded: Loaded, args: argparse.Namespace) -> int:
    before = len(loaded.problems)
    made = convert(Path(args.root), loaded, args.rate)
    for line in loaded.problems[before:]:
        say(line)
    say(f"{len(made)} feature files below {Path(args.root) / 'features'}.")
    return 0 if len(loaded.problems) == before else 1


def _info(data_set: DataSet) -> str:
    tasks = []
    for name, info in data_set.tasks.items():
        counts = ((info.videos, "videos"), (info.steps, "steps"))
        tasks.append(", ".join([f"  {name}", *(f"{n} {what}" for n, what in counts if n)]))
    sources = [f"  {what}: {where}" for what, where in data_set.sources.items()]
    parts = [
        f"{data_set.title} ({data_set.name})\n{data_set.about}",
        f"Licence: {data_set.licence}",
        f"Frame rate: {data_set.rate}",
        "\n".join([f"How to obtain it: {data_set.obtain}", *sources]),
        f"Folder tree:\n{data_set.tree}",
        "\n".join([f"Tasks ({len(tasks)}):", *tasks] if tasks else []),
        data_set.citation,
    ]
    return "\n\n".join(filter(None, parts))


def _check(data_set: DataSet, loaded: Loaded, args: argparse.Namespace) -> int:
    videos = [video for task in loaded.tasks for video in task]
    annotated = sum(video.timeline is not None for video in videos)
    files = sum(video.path is not None for video in videos)
    features = sum(bool(video.features) for video in videos)
    count, every = len(loaded.tasks), len(data_set.tasks) or len(loaded.tasks)
    print(f"{data_set.title} in {args.root}:")
    print(f"  {count} of {every} tasks, {len(videos)} recordings:")
    print(f"  {annotated} with a timeline, {files} with a video, {features} with features")
    known = [f"{task.name}: {defect}." for task in loaded.tasks for defect in task.defects]
    told = (("known defect", known), ("missing", loaded.missing), ("problem", loaded.problems))
    for what, lines in told:
        for line in lines:
            print(f"  {what}: {line}")
    if loaded.missing or loaded.problems:
        return 1
    print("  complete.")
    return 0


def _stats(data_set: DataSet, loaded: Loaded, args: argparse.Namespace) -> int:
    if not any(task.timelines for task in loaded.tasks):
        absent = " ".join(loaded.missing[:3]) or "No timelines found."
        run = f"stepcut data check {data_set.name} --root {args.root}"
        raise DataError(f"{args.root}: nothing to count. {absent} Run: {run}", path=args.root)
    table = statistics(loaded.tasks, f"{data_set.title}, {args.root}", args.all, data_set)
    show_table(table, args.format, args.output)
    for note in table.notes if args.format == "csv" else ():  # CSV has no notes
        say(note)
    if loaded.problems:
        say(f"{len(loaded.problems)} problems; 'stepcut data check' lists them.")
    if args.plot:
        plot_statistics(table, args.plot)
    return 0
