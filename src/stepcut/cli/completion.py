"""`stepcut completion`: a script that completes commands, options, values and files."""

import argparse

import shtab

from stepcut.cli.parser import all_commands, make_parser, summary
from stepcut.formats import FORMATS


def run(args: argparse.Namespace) -> int:
    whole = argparse.ArgumentParser(prog="stepcut")
    commands = whole.add_subparsers()
    for name in all_commands():
        one = make_parser(name)
        for action in one._actions:
            if action.metavar == "FORMAT":
                action.choices = list(FORMATS)
            if action.choices is None and action.nargs != 0:
                vars(action)["complete"] = shtab.FILE
        about = summary(name).replace("%", "%%")
        commands.add_parser(name, parents=[one], add_help=False, help=about)
    print(shtab.complete(whole, args.shell))
    return 0
