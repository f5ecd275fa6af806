"""A Ray that starts for one command: on the loopback interface alone, with a token, and nothing of it stays."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CODE = """
import json, os, psutil
from stepcut.parallel.ray import Ray
engine = Ray(workers=1)
assert engine.map(abs, [-3]) == [3]
me = psutil.Process()
all_of_it = [c for p in [me, *me.children(recursive=True)] for c in p.net_connections("tcp")]
listening = {c.laddr.ip for c in all_of_it if c.status == "LISTEN"}
folder = engine._files
engine.close()
print(json.dumps([sorted(listening), os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]), folder]))
"""


@pytest.mark.ray
def test_nobody_else_can_reach_it_and_nothing_stays():
    pytest.importorskip("psutil")
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    listening, mode, token, folder = json.loads(run.stdout.splitlines()[-1])
    assert listening
    assert all(address.endswith("127.0.0.1") or address == "::1" for address in listening)
    assert (mode, token) == ("token", 64)
    assert folder.startswith(tempfile.gettempdir())
    assert not Path(folder).exists()
