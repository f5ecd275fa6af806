"""What docs/api.md lists: every public name of the reference, with the sections of its docstring."""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
ENTRY = re.compile(r"^::: ([\w.]+)\n((?: {4}.*\n)*)", flags=re.MULTILINE)
TITLE = re.compile(r"^(Parameters|Returns|Raises|Examples)\n-+$", flags=re.MULTILINE)


def entries():
    listed = {}
    for name, options in ENTRY.findall(PAGE.read_text(encoding="utf-8") + "\n"):
        members = re.search(r"\bmembers: \[([^]]*)\]", options)
        only = None if members is None else re.findall(r"\w+", members[1])
        listed[name] = {"members": only, "inherited": "inherited_members: true" in options}
    return listed


def resolve(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        return getattr(resolve(home), last)


def public():
    found = {}
    for name, options in entries().items():
        found.update(_walk(name, resolve(name), options))
    return found


def _walk(name, thing, options):
    only = options.get("members")
    if inspect.ismodule(thing):
        for each in only if only is not None else thing.__all__:
            yield from _walk(f"{name}.{each}", getattr(thing, each), {})
        return
    if not inspect.isclass(thing):
        if callable(thing):
            yield name, thing
        return
    yield name, thing
    kinds = thing.__mro__[:-1] if options.get("inherited") else [thing]
    for each, part in {k: v for kind in reversed(kinds) for k, v in vars(kind).items()}.items():
        part = getattr(part, "__func__", part)
        shown = not each.startswith("_") if only is None else each in only
        if shown and inspect.isfunction(part) and "." in part.__qualname__:
            yield f"{name}.{each}", part


def sections(thing):
    return set(TITLE.findall(inspect.getdoc(thing) or ""))


def needed(thing):
    """The sections that a docstring needs; a method whose summary says it all needs none."""
    doc = inspect.getdoc(thing) or ""
    member = "." in thing.__qualname__
    if member and doc and "\n\n" not in doc:
        return set()
    if inspect.isclass(thing):
        return set() if issubclass(thing, Exception) else {"Examples"}
    signature = inspect.signature(thing)
    titles = {"Examples"}
    if signature.parameters.keys() - {"self", "cls"}:
        titles.add("Parameters")
    if signature.return_annotation not in (None, "None"):
        titles.add("Returns")
    code = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    if any(isinstance(node, ast.Raise) for node in ast.walk(code)):
        titles.add("Raises")
    return titles


def has_example(thing, names):
    doc = inspect.getdoc(thing) or ""
    seen = re.search(r"See `(\w+)`", doc)
    return ">>> " in doc or (seen is not None and seen[1] in names)
