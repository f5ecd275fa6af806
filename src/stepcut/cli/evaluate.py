"""`stepcut evaluate`: a table of scores for a procedure, under a named protocol."""

from __future__ import annotations

import argparse
import json

from stepcut.cli.common import add_engine, add_seed, open_engine

EXAMPLES = """examples:
  stepcut evaluate sandwich.proc --truth annotations/
  stepcut evaluate sandwich.proc --truth annotations/ --protocol paper --format latex
  stepcut evaluate seed0.proc seed1.proc seed2.proc --truth annotations/     mean and standard deviation
  stepcut evaluate ours=a.proc theirs=b.proc --truth captaincook4d:DIR       a row each, and whether they differ
  stepcut evaluate predictions/ --truth annotations/ --per-step              timelines of another program
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "found",
        nargs="+",
        metavar="P",
        help="a procedure or a folder of timeline files; several are seeds of one method, NAME=P a row each",
    )
    parser.add_argument(
        "--truth", required=True, metavar="DIR", help="annotation files named after their videos, or DATASET:DIR"
    )
    parser.add_argument(
        "--protocol",
        default="strict",
        help="strict (default), named, paper, paper-per-video, framewise or framewise-steps",
    )
    parser.add_argument("--background", default="count", help="frames of true background: count (default) or drop")
    parser.add_argument("--seeds", type=int, default=5, help="how often the random row is drawn (default 5)")
    parser.add_argument("--clock", type=float, default=2.0, help="ticks a second for comparing (default 2)")
    parser.add_argument("--format", default="text", help="text (default), csv, latex, json or markdown")
    parser.add_argument("--per-step", action="store_true", help="the figures of every step, and what it was found as")
    parser.add_argument("--per-video", action="store_true", help="the figures of every video")
    parser.add_argument("--confusion", action="store_true", help="which true step was given to which found one")
    parser.add_argument(
        "--matching", action="store_true", help="say which found step is which true step (json always does)"
    )
    add_engine(parser)
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from stepcut.evaluation import evaluate

    found = named_rows(args.found) or (args.found[0] if len(args.found) == 1 else args.found)
    settings = (args.protocol, args.seeds, args.background, args.clock, args.seed)
    with open_engine(args) as engine:
        table = evaluate(found, args.truth, *settings, engine=engine)
    more = {}
    if args.per_step:
        more["per_step"] = table.per_step()
    if args.per_video:
        more["per_video"] = table.per_video()
    if args.confusion:
        more["confusion"] = table.confusion()
    if args.format == "json":  # one document, with the breakdowns inside
        record = json.loads(table.json())
        record.update({name: json.loads(part.json()) for name, part in more.items()})
        print(json.dumps(record, indent=1, ensure_ascii=False))
        return 0
    text = [part.format(args.format).rstrip("\n") for part in (table, *more.values())]
    if args.matching:
        text.append(table.matching)
    print("\n\n".join(text))
    return 0


def named_rows(words: list[str]) -> dict[str, list[str]]:
    """`A=P1 B=P2 B=P3` as rows of paths; nothing where no word has that form.

    >>> named_rows(["A=one.proc", "B=two.proc", "B=three.proc"])
    {'A': ['one.proc'], 'B': ['two.proc', 'three.proc']}
    """
    pairs = [word.partition("=") for word in words]
    if not all(name and equals and path for name, equals, path in pairs):
        return {}
    rows: dict[str, list[str]] = {}
    for name, _, path in pairs:
        rows.setdefault(name, []).append(path)
    return rows
