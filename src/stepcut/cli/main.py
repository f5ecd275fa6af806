"""The command `stepcut`: finds the file of the command that was asked for, runs it, and turns errors into one line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from stepcut.errors import StepcutError, unknown
from stepcut.version import __version__

# name -> (module under stepcut.cli, one line of help). Only the module that is asked for is imported.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "everything below on an embedded example, offline"),
    "learn": ("learn", "learn a procedure from videos (resumes)"),
    "segment": ("segment", "cut one more video with a learned procedure"),
    "check": ("check", "say what a video misses, repeats or does out of order"),
    "guide": ("guide", "follow a video, camera or stream: the step now and what comes next"),
    "evaluate": ("evaluate", "score a procedure against true timelines"),
    "view": ("view", "look at a procedure in the browser, and correct it"),
    "report": ("report", "write a procedure as one HTML file"),
    "convert": ("convert", "turn a timeline file of any format into any other"),
    "data": ("data", "data sets: list, info, check, stats, cite"),
    "experiment": ("experiment", "make a table of the paper, ours beside the published one"),
    "features": ("features", "compute features only (resumes)"),
    "doctor": ("doctor", "versions, device, decoder, weights, cache and disk, with advice"),
}

EXAMPLES = """examples:
  stepcut demo                              see everything at work on an embedded example
  stepcut learn sandwich/ -k 7 -o s.proc    learn a procedure from a folder of videos
  stepcut check s.proc new.mp4              is it done right?
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0
    if words[0] == "--version":
        print(f"stepcut {__version__}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        print(f"stepcut: {unknown('command', name, COMMANDS)}", file=sys.stderr)
        return 2
    try:
        return run_command(name, words[1:])
    except KeyboardInterrupt:
        print("\nstepcut: interrupted. Finished work is kept; run the same command again to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as in `stepcut ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except StepcutError as error:
        if os.environ.get("STEPCUT_DEBUG"):
            raise
        print(f"stepcut: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def run_command(name: str, words: Sequence[str]) -> int:
    """Import the file of one command, read its words and run it."""
    module_name, summary = COMMANDS[name]
    module = importlib.import_module(f"stepcut.cli.{module_name}")
    parser = argparse.ArgumentParser(
        prog=f"stepcut {name}",
        usage=argparse.SUPPRESS,  # help starts with examples
        description=f"{module.EXAMPLES.rstrip()}\n\n{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    code: int = module.run(parser.parse_args(words))
    return code


def overview() -> str:
    """What `stepcut -h` prints: examples first, then the commands."""
    lines = [EXAMPLES, "commands:"]
    lines += [f"  {name:<11} {summary}" for name, (_, summary) in COMMANDS.items()]
    lines += [
        "",
        "stepcut COMMAND --help tells more; stepcut --version; STEPCUT_DEBUG=1 shows the traceback of an error.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
