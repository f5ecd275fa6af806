"""Check before any work that a command can write its outputs."""

import argparse

from stepcut.files.atomic import check_place
from stepcut.files.figures import check_picture
from stepcut.tables import check_table

OUTPUTS = ("output", "out", "budget", "plot", "table")


def check_outputs(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    for action in parser._actions:
        if action.dest in OUTPUTS and (place := getattr(args, action.dest)) is not None:
            if action.dest == "plot":
                check_picture(place)
            if action.metavar == "TABLE":
                check_table(place)
            check_place(place, folder=action.metavar in ("DIR", "P"))
