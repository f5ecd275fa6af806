"""The programs `stepcut` and `python -m stepcut`: ended quietly by Ctrl-C from the first moment on."""

import importlib
import signal
import sys


def main() -> int:
    """Run the command line; gives the exit code."""
    # Until the command line is imported, Ctrl-C is left to the system: Python would print a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    code: int = importlib.import_module("stepcut.cli.main").main()
    return code


if __name__ == "__main__":
    sys.exit(main())
