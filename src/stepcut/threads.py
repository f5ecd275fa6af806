"""Threads of numerical libraries. They read these settings when they are loaded, so this module must not load numpy."""

import os

PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_NUM_THREADS": "1"}
"""Lets threads sleep while they wait. Those of OpenBLAS spin: beside other work they triple the CPU
time of `learn`, and alone they save a tenth of its time, so there is only one."""


def wait_passively() -> None:
    """Make numerical libraries that are not loaded yet wait passively, unless the user set it."""
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)
