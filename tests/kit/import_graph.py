"""Imports between the modules of stepcut, and between its folders, transitively reduced."""

import ast
import functools
from pathlib import Path

import stepcut

ROOT = Path(stepcut.__file__).parent


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in ROOT.rglob("*.py")}


def imported_by(nodes):
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{one.name}" for one in node.names]
            names += [name if name in MODULES else str(node.module) for name in inner]
    return names


@functools.cache
def imports(path):
    names = imported_by(ast.walk(tree_of(path)))
    return [name for name in names if name.split(".")[0] == "stepcut"]


def room(module):
    return module.split(".")[1] if "." in module else ""


def folders():
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"annotations"}


def folder_imports():
    """Folder -> imported folders, except notebook drawing, which `show` imports late."""
    found = {name: set() for name in folders()}
    for module, path in MODULES.items():
        if room(module) in found:
            names = imports(path)
            if "_repr_html_" in path.read_text(encoding="utf-8"):
                nodes = ast.walk(tree_of(path))
                late = [node for node in nodes if getattr(node, "name", "") == "_repr_html_"]
                drawing = imported_by(inner for node in late for inner in ast.walk(node))
                names = [name for name in names if names.count(name) > drawing.count(name)]
            found[room(module)] |= {room(name) for name in names} & found.keys() - {room(module)}
    return found


def reduced(graph):
    @functools.cache
    def reach(name):
        return graph[name].union(*(reach(other) for other in graph[name]))

    edges = [(name, other, others - {other}) for name, others in graph.items() for other in others]
    return {(a, b) for a, b, rest in edges if not any(b in reach(between) for between in rest)}
