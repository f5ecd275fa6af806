"""The cut can be imported, and fuzzy c-means run on a GPU, where compilers and solvers are absent."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_cut_loads_nothing_heavy() -> None:
    heavy = ("numba", "scipy", "sklearn", "torch")
    code = f"import sys, stepcut.methods.segmenters; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_torch_needs_no_numba() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import numpy as np\n"
        "from stepcut.methods.cnc.fuzzy.engine import Frames\n"
        "from stepcut.methods.cnc.fuzzy.gpu import TorchEngine\n"
        "frames = Frames(np.eye(4))\n"
        "print(TorchEngine(frames, 'cpu').turn(frames.rows[:2], 2.0)[1].shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(2, 4)"
