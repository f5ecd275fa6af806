"""Run a command on a full disk, as root of a namespace: `python full_disk.py DISK FREE_KB stepcut
...`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_as_root(words, environment=None):
    """Run a command that may mount a private disk; skip the test where that is forbidden."""
    namespace = ["unshare", "--map-root-user", "--mount"]
    may = subprocess.run([*namespace, "true"], capture_output=True, text=True)
    if may.returncode:
        pytest.skip(f"needs a private disk, and this machine forbids mounting one: {may.stderr}")
    return subprocess.run([*namespace, *words], capture_output=True, text=True, env=environment)


if __name__ == "__main__":
    disk, free, command = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "none", disk], check=True)
    state = os.statvfs(disk)
    (disk / "filler").write_bytes(b"\0" * (state.f_bavail * state.f_frsize - free * 1024))
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    left = sorted(path.relative_to(disk).as_posix() for path in disk.rglob("*"))
    (disk / "filler").unlink()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    print(ran.returncode, left, again.returncode, ran.stderr, again.stderr, sep="\n")
