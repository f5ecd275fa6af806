"""The command `stepcut`: run the chosen command, and turn errors into one line."""

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence

from stepcut.cli import say
from stepcut.cli.parser import (
    COMMANDS,
    all_commands,
    find_command,
    make_parser,
    read_words,
    summary,
)
from stepcut.compute import wait_passively
from stepcut.errors import StepcutError, unknown
from stepcut.version import __version__


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
