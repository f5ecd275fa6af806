"""The house: imports point down only, and there is no circle between files."""

import ast
import functools

from import_graph import MODULES, imported_by, imports, room, tree_of

LAYERS = [
    {"errors", "version", "plugins", "settings"},
    {"progress", "tables", "colours", "timeline", "files", "parallel"},
    {"features", "order"},
    {"methods", "formats"},
    {"annotations"},
    {"checking"},
    {"procedure"},
    {"toy"},
    {"evaluation"},
    {"show"},
    {"app"},
    {"testing"},
    {"cli", "__main__"},
    {"paper"},
]
"""From the ground up: a folder may import from its own layer's other folders only as far as no circle of files arises,
from every layer below, and from none above."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


HEAVY = {
    "torch", "av", "openvino", "onnxruntime", "ray", "sklearn", "scipy", "numba", "matplotlib", "PIL", "starlette",
    "uvicorn", "triton",
}  # fmt: skip
"""Libraries that load slowly, or may be absent: what needs them may be imported late, inside a function."""


def test_a_late_import_keeps_a_heavy_library_from_loading():
    trees = {module: tree_of(path) for module, path in MODULES.items()}

    first = {module: imported_by(tree.body) for module, tree in trees.items()}

    @functools.cache
    def loaded(module):
        """All that is imported along with a module."""
        seen, waiting = set(), [module]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += first.get(name, [])
                waiting += [name[:at] for at, letter in enumerate(name) if letter == "."]
        return seen

    needless = []
    for module, tree in trees.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for name in set(imported_by(function.body)) & trees.keys():
                    if not (loaded(name) - loaded(module)) & HEAVY:
                        needless.append(f"{module} -> {name}")
    assert not needless, "\n".join(sorted(needless))


def test_imports_point_down():
    pairs = [(module, name) for module, path in MODULES.items() for name in imports(path)]
    inner = [pair for pair in pairs if all(map(room, pair))]
    upward = [pair for pair in inner if LEVEL[room(pair[1])] > LEVEL[room(pair[0])]]
    assert upward == []


def test_no_circle_of_files():
    graph = {module: {*imports(path)} - {module} for module, path in MODULES.items()}
    done = set()
    trail = []

    def follow(module):
        if module in done:
            return
        assert module not in trail, " -> ".join([*trail[trail.index(module) :], module])
        trail.append(module)
        for name in sorted(graph.get(module, ())):
            if "stepcut" not in (module, name):  # whose names are looked up at first use
                follow(name)
        trail.pop()
        done.add(module)

    for module in sorted(graph):
        follow(module)
