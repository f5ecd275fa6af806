"""The examples in docstrings give what they show, and the notebooks of examples/ run to their last cell."""

import contextlib
import copy
import doctest
import importlib
import os
import re
from pathlib import Path

import pytest

import stepcut

ROOT = Path(stepcut.__file__).parent
API = Path(__file__).resolve().parents[1] / "docs" / "api.md"
SHOWN = sorted(path for path in ROOT.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sandwich():
    section = API.read_text(encoding="utf-8").split("## Data of the examples")[1]
    found = re.search(r"^```python\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)
    assert found
    names = {}
    exec(compile(found[1], "docs/api.md", "exec"), names)
    return {name: value for name, value in names.items() if not name.startswith("__")}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples(path, sandwich, tmp_path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert tests
    runner = doctest.DocTestRunner()
    # An example may change a procedure, so each one gets a copy.
    data = ("proc", "videos", "new", "labels")
    with contextlib.chdir(tmp_path):
        for test in tests:
            own = {name: copy.deepcopy(sandwich[name]) for name in data}
            test.globs = {**sandwich, **own, **test.globs}
            runner.run(test)
    assert not runner.failures


NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs stepcut[docs]")
    nbclient = pytest.importorskip("nbclient", reason="needs stepcut[docs]")
    source = str(Path(__file__).resolve().parents[1] / "src")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
