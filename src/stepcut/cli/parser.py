"""The parser of one command: its usage, its examples, and mistakes answered in one line with the nearest option."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from types import ModuleType
from typing import NoReturn

# name -> (module under stepcut.cli, one line of help). Only the module that is asked for is imported.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "everything below on an embedded example, offline"),
    "learn": ("learn", "learn a procedure from videos (resumes)"),
    "teach": ("teach", "learn again from labels, or from what was corrected in the viewer"),
    "segment": ("segment", "cut one more video with a learned procedure"),
    "check": ("check", "say what a video misses, repeats or does out of order"),
    "watch": ("watch", "check each new video of a folder as it arrives"),
    "guide": ("guide", "follow a video, camera or stream: the step now and what comes next"),
    "compare": ("compare", "how two groups of people differ: durations, orders, steps left out or repeated"),
    "evaluate": ("evaluate", "score a procedure against true timelines"),
    "agree": ("agree", "how far two annotators, or an annotator and a proposal, say the same"),
    "view": ("view", "look at a procedure in the browser, and correct it"),
    "report": ("report", "write a procedure as one HTML file"),
    "clips": ("clips", "write every segment as a clip and a picture, and where the time goes"),
    "convert": ("convert", "turn a timeline file of any format into any other"),
    "data": ("data", "data sets: list, info, check, stats, cite"),
    "experiment": ("experiment", "make a table of the paper, ours beside the published one"),
    "features": ("features", "compute features only (resumes)"),
    "doctor": ("doctor", "versions, device, decoder, weights, cache and disk, with advice"),
    "completion": ("completion", "let bash, zsh or fish complete the words of this command line"),
}

RENAMED: dict[str, str] = {}
"""Options of earlier versions -> what they are called now."""


class Parser(argparse.ArgumentParser):
    """Reads the words of one command."""

    def error(self, message: str) -> NoReturn:
        """One line on standard error, exit code 2; an option that is not there is answered with the nearest."""
        words = re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", message.partition("unrecognized arguments:")[2])
        if words:
            mine, wrong = [word for action in options(self) for word in action.option_strings], words[0]
            near = RENAMED.get(wrong) or next(iter(difflib.get_close_matches(wrong, mine, n=1)), None)
            known = f"did you mean {near}?" if near else f"it has {', '.join(w for w in mine if w[:2] == '--')}."
            message = f"there is no option {wrong}; {known}"
        name = self.prog.rpartition(" ")[2]
        self.exit(
            2, f"{self.prog}: {message.rstrip('.?')}{'?' if message[-1:] == '?' else '.'} See: stepcut help {name}\n"
        )


def make_parser(name: str) -> tuple[Parser, ModuleType]:
    """The parser of a command and the module that runs it."""
    file, summary = COMMANDS[name]
    module = importlib.import_module(f"stepcut.cli.{file}")
    parser = Parser(
        prog=f"stepcut {name}",
        usage=argparse.SUPPRESS,  # help starts with examples
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.description = f"{module.EXAMPLES.rstrip()}\n\n{summary[0].upper()}{summary[1:]}.\n\nusage: {usage(parser)}"
    return parser, module


def usage(parser: argparse.ArgumentParser) -> str:
    """One line: what must be given, and that there is more.

    >>> one = argparse.ArgumentParser(prog="cut")
    >>> _ = one.add_argument("video", nargs="+"), one.add_argument("-o", required=True)
    >>> usage(one)
    'cut [options] -o O VIDEO...'
    """
    parts = [parser.prog, "[options]"]
    for action in parser._actions:
        word = str(action.metavar or (action.dest.upper() if action.nargs != 0 else ""))
        if action.choices is not None and action.metavar is None:
            word = "|".join(map(str, action.choices))
        if action.option_strings and action.required:
            parts.append(f"{action.option_strings[0]} {word}")
        elif not action.option_strings:
            many = "..." if action.nargs in ("+", "*") else ""
            parts.append(f"[{word}{many}]" if action.nargs in ("*", "?") else f"{word}{many}")
    return " ".join(parts)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What can be said with a dash."""
    return [action for action in parser._actions if action.option_strings]
