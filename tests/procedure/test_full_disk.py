"""`learn -o` on a full disk: a clear error, no partial files, and a later run works."""

import ast
import os
import sys

import full_disk
import numpy as np
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("free", [0, 24])
def test_learn_on_a_full_disk(free, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "features").mkdir()
    for name in "abc":
        rows = (
            np.repeat(np.eye(3), 20, axis=0) @ rng.normal(size=(3, 400)) * 3
            + rng.normal(size=(60, 400)) * 0.1
        )
        np.save(tmp_path / "features" / f"{name}.npy", rows.astype(np.float32))
    disk = tmp_path / "disk"
    disk.mkdir()
    learn = ["learn", str(tmp_path / "features"), "-k", "3", "-o", str(disk / "task.proc")]
    learn += ["--quiet"]
    words = [sys.executable, full_disk.__file__, str(disk), str(free), sys.executable, "-m"]
    words += ["stepcut", *learn]
    environment = {**os.environ, "STEPCUT_CACHE": str(tmp_path / "cache")}
    ran = full_disk.run_as_root(words, environment)
    assert ran.returncode == 0, ran.stderr
    code, left, again, *said = ran.stdout.splitlines()
    assert code == "2"
    assert "no space left on the disk" in said[0]
    assert "Traceback" not in ran.stdout
    assert ast.literal_eval(left) == ["filler"]  # no procedure and no partial files
    assert again == "0", ran.stdout
