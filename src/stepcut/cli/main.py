"""The command `stepcut`: parse its words, run it, and turn errors into one line.

The parser of a command is made from its text in `words/`: summary, examples, one line per word.

    PROCEDURE  [LABELS]  VIDEO...  [VIDEOS...]   required, or optional in brackets; ... repeats
    --json                                       a flag
    -o, --output FILE!                           an option with a value; ! makes it required
    --check VIDEO*                               an option that may be repeated
    --videos DIR...  --pair A B                  an option with several values, with two values
    --log bar|json                               one of these values
    + device engine                              the words of these sections of words/common.txt

The value N is an integer and S a number, both at least 0; SHARE is any number. "(default X)" at
the end of the help sets the default.
"""

import argparse
import difflib
import importlib
import io
import keyword
import math
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from stepcut.cli import say
from stepcut.errors import OptionError, StepcutError, choose, unknown
from stepcut.parallel import wait_passively
from stepcut.plugins import WING, registered
from stepcut.version import __version__

HOMES = {
    "demo": "demo",
    "pages": "app view",
    "learning": "learn teach add remove replace features cycles history",
    "checking": "segment check watch guide",
    "labels": "compare times evaluate agree report instructions clips convert",
    "doctor": "doctor completion",
}
PLACES = {name: f"stepcut.cli.{home}:{name}" for home in HOMES for name in HOMES[home].split()}
LONGEST = 1_000_000_000


def whole(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {LONGEST:,}")
    return number


TYPES = {"N": whole, "S": seconds, "SHARE": float, "HZ": float}
GONE = {
    "budget": "use stepcut times, which counts and times every step.",
    "compare --budget": "it is called --times now.",
    "clips --contact-sheet": "the pictures of a step are in its folder.",
    "learn --tasks": 'learn one folder after the other: for d in ROOT/*/; do stepcut learn "$d"; done',
}
"""Commands and options that version 0.4 removed, with what replaces them."""
FLAG = re.compile(r"(?<!\S)(--?[\w-]+),? ?")


class Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if args is not None and "--set" in _options(self):
            args = _spread_settings(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        words = message.partition("unrecognized arguments:")[2]
        if found := re.search(r"(?<![\w-])--?[a-zA-Z][\w-]*", words):
            message = f"unknown option {found[0]}; {self._advice(found[0])}"
        name, end = self.prog.rpartition(" ")[2], "?" if message[-1:] == "?" else "."
        self.exit(2, f"{self.prog}: {message.rstrip('.?')}{end} See: stepcut help {name}\n")

    def _advice(self, option: str) -> str:
        if gone := GONE.get(f"{self.prog.rpartition(' ')[2]} {option}"):
            return gone
        mine = _options(self)
        if others := [name for name in COMMANDS if option in _options(make_parser(name))]:
            return f"it is an option of stepcut {', stepcut '.join(others)}."
        if near := difflib.get_close_matches(option, mine, n=1):
            return f"did you mean {near[0]}?"
        return f"the options are {', '.join(word for word in mine if word[:2] == '--')}."

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown(action.dest, value, action.choices)


def _spread_settings(words: Sequence[str]) -> list[str]:
    """
    >>> _spread_settings(["videos/", "--set", "a=1", "b=2", "-k", "3"])
    ['videos/', '--set', 'a=1', '--set', 'b=2', '-k', '3']
    """
    spread: list[str] = []
    for word in words:
        after = len(spread) > 1 and spread[-2] == "--set"
        if after and re.match(r"[A-Za-z_][\w.]*=", word) and not Path(word).exists():
            spread.append("--set")
        spread.append(word)
    return spread


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [word for action in parser._actions for word in action.option_strings]


def read_words(name: str) -> str:
    folder = resources.files("stepcut.cli") / "words"
    if not (folder / f"{name}.txt").is_file():
        folder = resources.files(find_command(name).rpartition(".")[0])
    return (folder / f"{name}.txt").read_text(encoding="utf-8")


COMMANDS = (*read_words("stepcut").partition("commands:")[2].split(), *WING["command"])


def all_commands() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*COMMANDS, *registered("command"))))


def find_command(name: str) -> str:
    place = PLACES.get(name) or WING["command"].get(name)
    return place or choose("command", name, registered("command"))


def summary(name: str) -> str:
    return read_words(name).partition("\n")[0]


def make_parser(name: str) -> Parser:
    head, _, words = read_words(name).partition("\nwords:\n")
    about, _, examples = head.partition("\n")
    parser = Parser(
        prog=f"stepcut {name}",
        usage=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_words(parser, words)
    examples, _, parser.epilog = examples.strip("\n").partition("\n\n")
    parser.description = f"{examples}\n\n{about[0].upper()}{about[1:]}.\n\nusage: {usage(parser)}"
    return parser


def _add_words(parser: argparse._ActionsContainer, text: str) -> None:
    for line in re.split(r"\n(?! )", text.strip()):
        spec, _, about = re.sub(r"\n +", " ", line).partition("  ")
        if spec.startswith("+"):
            sections = re.findall(r"\[(\w+)\] ?(.*)\n((?:.+\n)+)", read_words("common"))
            found = {name: (title, words) for name, title, words in sections}
            for title, words in (found[name] for name in spec.split()[1:]):
                _add_words(parser.add_argument_group(title) if title else parser, words)
        else:
            _add_word(parser, spec, about.strip())


def _add_word(parser: argparse._ActionsContainer, spec: str, about: str) -> None:
    flags, value = FLAG.findall(spec), FLAG.sub("", spec)
    more: dict[str, Any] = {"help": about.replace("%", "%%")}
    name = flags[-1].lstrip("-") if flags else value.strip("[.]").split()[0]
    if not value:
        parser.add_argument(*flags, action="store_true", **more)
        return
    plain = re.sub(r"[\[\]*!]|(?<!,)\.\.\.", "", value) if flags else value.partition(" ")[2]
    if "|" in plain:
        more["choices"] = plain.split("|")
    elif flags:
        more["metavar"] = tuple(plain.split()) if " " in plain else plain
        more["type"] = TYPES.get(plain, str)
    if " " in plain:
        more["nargs"] = 2
    elif "..." in value.replace(",...", ""):
        more["nargs"] = "*" if value.startswith("[") else "+"
    elif value.startswith("["):
        more["nargs"] = "?"
    if value.endswith("*"):
        more |= {"action": "append", "default": []}
    if value.endswith("!"):
        more["required"] = True
    if default := re.search(r"\(default (\S+)\)$", about):
        more["default"] = default[1]  # argparse reads it by the type
    dest = name.lower().replace("-", "_")
    if flags:
        parser.add_argument(*flags, dest=dest + "_" * keyword.iskeyword(dest), **more)
    else:
        parser.add_argument(dest, metavar=name, **more)


def usage(parser: argparse.ArgumentParser) -> str:
    """
    >>> usage(make_parser("clips"))
    'stepcut clips [options] PROCEDURE -o DIR'
    """
    parts = [parser.prog, "[options]"]
    for action in parser._actions:
        word = "|".join(map(str, action.choices)) if action.choices else str(action.metavar)
        if action.required and action.option_strings:
            parts.append(f"{action.option_strings[0]} {word}")
        elif not action.option_strings:
            many = "..." if action.nargs in ("+", "*") else ""
            parts.append(f"[{word}{many}]" if action.nargs in ("*", "?") else f"{word}{many}")
    return " ".join(parts)


# ---------- run a command


class Terminated(KeyboardInterrupt):
    """SIGTERM, as schedulers send it: partial files are removed as after Ctrl-C."""


def _terminate(*_: object) -> None:
    raise Terminated


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        signal.signal(signal.SIGTERM, _terminate)
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as __main__.py sets it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Output piped on Windows or under an old locale may not support every letter of a name.
        out = sys.stdout
        if isinstance(out, io.TextIOWrapper) and out.errors in ("strict", "surrogateescape"):
            out.reconfigure(errors="backslashreplace")
    code = 128 + 13  # as after SIGPIPE, if the reader of our output goes away early
    try:
        try:
            code = answer(words)
        finally:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:
        ended = 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)
        print(file=sys.stderr)
        say("interrupted. Finished work is kept; run the same command again to continue.")
        if argv is None:
            # Exit now: threads inside the decoder or the backbone would crash at Python's exit.
            sys.stdout.flush()
            os._exit(ended)
        return ended
    except BrokenPipeError:  # as in `stepcut ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    except Exception as error:
        if os.environ.get("STEPCUT_DEBUG"):
            raise
        say(explain(error))
        return 2


def answer(words: Sequence[str]) -> int:
    if not words and on_desktop():
        return run_command("app", [])
    if not words or words == ["help"] or words[0] in ("-h", "--help"):
        print(overview())
        return 0
    if words[0] == "--version":
        print(f"stepcut {__version__}")
        return 0
    name = words[1] if words[0] == "help" else words[0]
    if name not in COMMANDS and name not in all_commands():
        if gone := GONE.get(name):
            raise OptionError(f"version 0.4 has no command {name}; {gone}", value=name)
        raise unknown("command", name, all_commands())
    if words[0] == "help":
        print(make_parser(name).format_help(), end="")
        return 0
    return run_command(name, words[1:])


def on_desktop() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or "SSH_CONNECTION" in os.environ:
        return False
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return screen or sys.platform in ("darwin", "win32")


def explain(error: Exception) -> str:
    if isinstance(error, StepcutError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory. Use fewer videos at once, a lower --fps, or fewer --workers."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the system'}: {error.strerror}."
    return (
        f"{type(error).__name__}: {error}. This is a bug in stepcut or in a plugin; "
        "run the command again with STEPCUT_DEBUG=1 to see where, and report it."
    )


def run_command(name: str, words: Sequence[str]) -> int:
    """The command is imported after its words are parsed, which keeps help fast."""
    parser = make_parser(name)
    args = parser.parse_args(words)
    wait_passively()  # before numpy is loaded
    importlib.import_module("stepcut.cli.common").check_outputs(parser, args)
    module, _, function = find_command(name).partition(":")
    code: int = getattr(importlib.import_module(module), function or "run")(args)
    return code


def overview() -> str:
    lines = [f"{read_words('stepcut').partition('commands:')[0]}commands:"]
    lines += [f"  {name:<11} {summary(name)}" for name in all_commands()]
    lines += [
        "",
        "stepcut help COMMAND shows its options; STEPCUT_DEBUG=1 shows the traceback of an error.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
