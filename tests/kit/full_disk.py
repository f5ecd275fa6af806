"""A command on a full disk of its own: `python full_disk.py DISK FREE_KB stepcut ...`, as root of a namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
