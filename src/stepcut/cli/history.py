"""`stepcut history`: who changed what in a procedure, going back, and repairing a damaged one."""

import argparse
import shlex

from stepcut.cli.common import this_program
from stepcut.errors import OptionError
from stepcut.procedure.history import diagnose, go_back, history_table, restore


def run(args: argparse.Namespace) -> int:
    if args.restore and args.to is not None:
        raise OptionError("--restore and --to are both set; give one of them.", setting="to")
    command = f"{this_program()} history {shlex.quote(args.procedure)}"
    if args.restore:
        found = restore(args.procedure)
        lost = "; ".join(found.lost) or "nothing"
        print(f"restored {args.procedure}\ndamaged: {'; '.join(found.what)}\nlost: {lost}")
    elif args.to is not None:
        go_back(args.procedure, args.to)
        print(f"{args.procedure} is as it was after change {args.to}")
    elif damage := diagnose(args.procedure):
        print(f"{args.procedure} is {damage}")
        if damage.to is None:
            print("no learned state can be read; restore the folder from a backup")
        else:
            print(f"restore it:  {command} --restore")
        return 1
    else:
        print(history_table(args.procedure).format(args.format).rstrip("\n"))
    return 0
