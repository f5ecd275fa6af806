"""The notebooks of examples/ run from their first cell to their last."""

import os
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs stepcut[docs]")
    nbclient = pytest.importorskip("nbclient", reason="needs stepcut[docs]")
    source = str(Path(__file__).resolve().parents[1] / "src")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
