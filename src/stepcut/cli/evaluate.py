"""`stepcut evaluate`: score a procedure against annotations, under a named protocol."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from stepcut.cli.common import label_options
from stepcut.errors import OptionError
from stepcut.evaluation import evaluate


def run(args: argparse.Namespace) -> int:
    found: Any = named_rows(args.found) or args.found
    table = evaluate(
        found[0] if len(args.found) == 1 and isinstance(found, list) else found,
        args.truth,
        *(args.protocol, args.seeds, args.background, args.clock, args.seed),
        ignore_lengths=args.ignore_lengths,
        per_activity=args.per_activity,
        reading=label_options(args),
    )
    parts = ("per_activity", "per_step", "per_video", "confusion")
    more = {name: getattr(table, name)() for name in parts if getattr(args, name)}
    if args.output:
        table.save(args.output)
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
    """Group `A=P1 B=P2 B=P3` by name; return an empty dict if no word has a name.

    >>> named_rows(["A=one.proc", "B=two.proc", "B=three.proc"])
    {'A': ['one.proc'], 'B': ['two.proc', 'three.proc']}
    """
    plain = [word for word in words if not re.match("[^=]+=.", word) or Path(word).exists()]
    if plain and len(plain) < len(words):
        raise OptionError(
            f"{plain[0]} has no name, but others have. Name every row, as in NAME={plain[0]}, "
            "or none.",
            setting="rows",
            value=plain[0],
        )
    rows: dict[str, list[str]] = {}
    for word in words if not plain else ():
        name, _, path = word.partition("=")
        rows.setdefault(name, []).append(path)
    return rows
