"""Imports between the folders of stepcut, transitively reduced."""

import ast
import functools
from pathlib import Path

import stepcut

ROOT = Path(stepcut.__file__).parent


@functools.cache
def tree_of(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def folders():
    """The folders of the package, and annotations.py, which counts as one."""
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"annotations"}


def imports():
    """Folder -> imported folders, except notebook drawing, which `show` imports late."""
    names = folders()
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in ROOT.rglob("*.py"):
        mine = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if mine in names:
            found[mine] |= (_imported(tree_of(path)) & names) - {mine}
    return found


def _imported(tree):
    """Names below `stepcut` that a file imports."""
    late = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "_repr_html_"
        for inner in ast.walk(node)
    }
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in late:
            modules += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import) and node not in late:
            modules += [one.name for one in node.names]
    return {name.split(".")[1] for name in modules if name.startswith("stepcut.")}


def reduced(graph):
    """The edges of an acyclic graph without those that longer paths imply."""

    @functools.cache
    def reach(name):
        return graph[name].union(*(reach(other) for other in graph[name]))

    return {
        (name, other)
        for name, others in graph.items()
        for other in others
        if not any(other in reach(between) for between in others - {other})
    }
