"""The programs `stepcut` and `python -m stepcut`: Ctrl-C ends them quietly at any time."""

import importlib
import os
import sys

# The module behind `signal`, which imports more: Ctrl-C must be handled as soon as possible.
signal = importlib.import_module("_signal")


def main() -> int:
    """Run the command line and return the exit code."""
    # Until the command line is imported, leave Ctrl-C to the system to avoid a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    code: int = importlib.import_module("stepcut.cli.main").main()
    return code


if __name__ == "__main__":
    # `python -m` finds modules in the current folder, which may contain files of strangers.
    if not sys.flags.safe_path and __file__ != os.path.join(sys.path[0], "stepcut", "__main__.py"):
        del sys.path[0]
    sys.exit(main())
