"""The programs `stepcut` and `python -m stepcut`: Ctrl-C ends them quietly at any time."""

import importlib
import signal
import sys


def main() -> int:
    """Run the command line and return the exit code."""
    # Until the command line is imported, leave Ctrl-C to the system to avoid a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    code: int = importlib.import_module("stepcut.cli.main").main()
    return code


if __name__ == "__main__":
    sys.exit(main())
