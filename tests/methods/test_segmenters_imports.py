"""Segmenters can be imported without compilers and solvers."""

import subprocess
import sys


def test_importing_the_cut_loads_nothing_heavy():
    heavy = ("numba", "scipy", "sklearn", "torch")
    code = (
        f"import sys, stepcut.methods; print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
