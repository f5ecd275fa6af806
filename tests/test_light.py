"""The plain install: the default path loads neither torch nor the paper's method, and says what is missing."""

import os
import subprocess
import sys

import pytest
from features_films import make_film

from stepcut.parallel import compiled_later

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent}:
            raise ModuleNotFoundError("No module named " + name, name=name.split(".")[0])
sys.meta_path.insert(0, Block())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {absent} else real(name, *rest)
"""


def run(code, *absent, **environment):
    given = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    code = BLOCK.format(absent=absent) + code
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given)


def test_everyday_commands_load_neither_torch_nor_the_papers_wing(tmp_path):
    done = run(
        f"""
import numpy as np, stepcut as sc
from stepcut.cli.main import main
from stepcut.app import routes
rng = np.random.default_rng(0)
videos = [np.repeat(np.eye(3, 8), 20, axis=0) + 0.1 * rng.normal(size=(60, 8)) for _ in range(3)]
proc = sc.learn(videos, steps=3, restarts=2, output={str(tmp_path / "p.proc")!r})
proc = sc.load({str(tmp_path / "p.proc")!r})
proc.check(videos[0]); proc.segment(videos[0]); proc.teach({{"0": proc.timelines["0"]}}, source=videos)
guide = proc.guide()
for number, row in enumerate(videos[0]):
    guide.push(float(number), row)
np.save({str(tmp_path / "v.npy")!r}, videos[0])
assert main(["check", {str(tmp_path / "p.proc")!r}, {str(tmp_path / "v.npy")!r}, "--quiet"]) in (0, 1)
words = ["learn", {str(tmp_path)!r}, "--rate", "1", "-k", "1", "--quiet", "-o", {str(tmp_path / "q.proc")!r}]
np.save({str(tmp_path / "w.npy")!r}, videos[1])
assert main(words) == 0
heavy = [name for name in sys.modules if name == "torch" or name.startswith("stepcut.paper")]
print("loaded", heavy)
"""
    )
    assert done.stdout.strip().endswith("loaded []"), done.stdout + done.stderr


@pytest.mark.slow
def test_videos_are_learned_without_torch(tmp_path):
    for number in range(2):
        make_film(tmp_path / f"v{number}.mp4", frames=30, rate=10)
    words = ["learn", str(tmp_path), "-k", "2", "-o", str(tmp_path / "p.proc"), "--quiet"]
    code = f"from stepcut.cli.main import main; sys.exit(main({words!r}))"
    done = run(code, "torch", STEPCUT_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    code = f"from stepcut.cli.main import main; sys.exit(main({[*words, '--fps', '1']!r}))"
    done = run(code, "torch", "openvino", STEPCUT_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "needs openvino, which is not installed. Run: " in done.stderr
    assert "pip install openvino" in done.stderr


@pytest.mark.slow
def test_the_papers_method_names_its_extra():
    done = run("import stepcut, numpy\nstepcut.learn([numpy.eye(9)] * 2, 2, method='cnc')", "torch")
    assert "ExtraNeeded: cnc needs torch" in done.stderr
    assert "pip install -e '.[cnc]'" in done.stderr  # the tests run from a checkout


def test_a_loop_that_cannot_be_kept_on_disk_runs_all_the_same():
    scope = {}
    exec("def double(x):\n    return 2 * x", scope)
    double = scope["double"]
    assert callable(double)
    assert compiled_later(double)(3) == 6
