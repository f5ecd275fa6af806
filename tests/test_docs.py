"""The docs: code runs, commands are understood, links lead somewhere, and the pages stay short and complete."""

import ast
import builtins
import contextlib
import importlib
import inspect
import re
import runpy
import shlex
import shutil
from fractions import Fraction
from pathlib import Path

import attacks
import import_graph
import numpy as np
import pytest
import reference

import stepcut
from stepcut import errors
from stepcut.cli.main import COMMANDS, main, make_parser
from stepcut.features.extract import export
from stepcut.features.features import Features
from stepcut.formats import write_folder
from stepcut.toy import toy_features

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
REPORTS = sorted((ROOT / "benchmarks" / "reports").glob("*.md"))
APPENDIX = ROOT / "docs" / "appendix" / "method.md"
WITH_CODE = ["start", "learn", "teach", "check", "guide", "evaluate", "method", "api", "gallery"]
"""Pages whose Python blocks run on toy features; tests of their own run those of the others."""


def read(page):
    return page.read_text(encoding="utf-8")


def blocks(text, language=""):
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [code for kind, code in found if language in ("", kind)]


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    rows, timelines = toy_features(videos=5, seed=3, dim=8)
    named = [
        stepcut.Timeline(line.segments, line.duration, video=f"video{number}")
        for number, line in enumerate(timelines, start=1)
    ]
    with contextlib.chdir(folder):
        Path("sandwich").mkdir()
        for line, video in zip(named[:4], rows[:4], strict=True):
            np.save(f"sandwich/{line.video}.npy", video)
        np.save("new.npy", rows[4])
        write_folder("annotations", named[:4], "csv")
        write_folder("corrected", named[:2], "csv")
        proc = stepcut.learn("sandwich/", steps=6, restarts=2, names=sorted(named[0].steps))
        proc.save("sandwich.proc")
    return folder


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_examples_of_a_page_run(kitchen, name, tmp_path):
    code = blocks(read(ROOT / "docs" / f"{name}.md"), "python")
    assert code
    shared = {"__name__": name}
    shutil.copytree(kitchen, tmp_path, dirs_exist_ok=True)
    with contextlib.chdir(tmp_path):
        for block in code:
            exec(compile(block.replace("new.mp4", "new.npy"), f"docs/{name}.md", "exec"), shared)


def test_the_page_on_extending_runs():
    shared = {"__name__": "extend"}
    code = blocks(read(ROOT / "docs" / "extend.md"), "python")
    assert len(code) >= 5
    for block in code:
        exec(compile(block, "docs/extend.md", "exec"), shared)
    assert len(shared["labels"]) == 5


def test_the_method_of_that_page_works_in_every_command(kitchen, tmp_path, monkeypatch):
    code = blocks(read(ROOT / "docs" / "extend.md"), "python")[0]
    shutil.copytree(kitchen, tmp_path, dirs_exist_ok=True)
    (tmp_path / "own_slices.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    own = ["--method", "own_slices:Slices", "-k", "6", "-o", "own.proc"]
    with contextlib.chdir(tmp_path):
        assert main(["learn", "sandwich/", *own, "--quiet"]) == 0
        trust = ["own.proc", "new.npy", "--trust"]
        assert main(["segment", *trust, "-o", "new.csv", "--quiet"]) == 0
        assert main(["check", *trust, "--quiet"]) in (0, 1, 4)
        procedure = stepcut.load("own.proc", trust=True)
        guide = procedure.guide()
        states = [guide.push(time, row) for time, row in enumerate(np.load("new.npy"))]
    assert type(procedure.method).__name__ == "Slices"
    assert {state.name for state in states} <= {*procedure.steps, "background"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_code_uses_no_name_that_its_page_does_not_make(page):
    tree = ast.parse("\n".join(blocks(read(page), "python")))
    known = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {(each.asname or each.name).split(".")[0] for each in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used <= known, used - known


def commands(page):
    text = read(page)
    lines = [line.strip() for block in blocks(text) for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    lines = [re.split(r"\s+#\s|   +", line)[0] for line in lines if line.startswith("stepcut ")]
    return [shlex.split(line)[1:] for line in lines]


def test_commands_are_understood():
    for words in (words for page in (ROOT / "README.md", *PAGES) for words in commands(page)):
        assert words[0] in {*COMMANDS, "help"}, words
        if words[0] != "help" and not {"...", "NAME", "DIR"} & set(words) and len(words) > 1:
            make_parser(words[0]).parse_args(words[1:])


def slug(heading):
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


def test_links_lead_somewhere_pages_exist_and_commands_are_listed():
    for page in (ROOT / "README.md", *PAGES, *REPORTS):
        text = re.sub(r"```.*?```|`[^`]*`", "", read(page), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), f"{page}: {target}"
            if anchor and file.suffix == ".md":
                heads = re.findall(r"^#+ (.*)$", read(file), flags=re.MULTILINE)
                assert anchor in map(slug, heads), f"{page}: {target}"
    package = Path(stepcut.__file__).parent
    for file in (*package.rglob("*.py"), *package.rglob("*.txt")):
        for page in re.findall(r"(?:docs|benchmarks/reports)/[\w-]+\.md", read(file)):
            assert (ROOT / page).exists(), f"{file}: {page}"
    page = read(ROOT / "docs" / "cli.md")
    assert set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == set(COMMANDS)


def test_promises_name_tests_that_exist():
    files = (ROOT / "tests").rglob("test_*.py")
    there = {name for file in files for name in re.findall(r"^def (test_\w+)", read(file), re.M)}
    for page in (
        ROOT / "SECURITY.md",
        *(ROOT / "docs" / f"{name}.md" for name in ("reliability", "http")),
    ):
        named = set(re.findall(r"`(test_\w+)`", read(page)))
        assert len(named) > 3
        assert named <= there, f"{page}: {named - there}"
    promises = read(ROOT / "SECURITY.md").split("## What stepcut does not")[0].split("\n- ")[1:]
    promises += (
        read(ROOT / "docs" / "reliability.md").split("|---|---|\n")[1].split("\n\n")[0].splitlines()
    )
    assert [one for one in promises if "`test_" not in one] == []
    for place, *parts in map(str.split, attacks.FINDINGS.values()):
        texts = map(read, (ROOT / "tests" / place).rglob("test_*.py"))
        names = re.findall(r"^def (test_\w+)", "\n".join(texts), flags=re.MULTILINE)
        for part in parts:
            assert any(part in name for name in names), f"{place}: {part}"


def test_docs_for_users_are_short_and_the_appendix_has_the_constants():
    nav = read(ROOT / "mkdocs.yml").split("nav:")[1]
    listed = set(re.findall(r"[\w/-]+\.md", nav))
    pages = {page.name for page in PAGES} | {"appendix/method.md"}
    assert pages <= listed <= pages | {f"reports/{page.name}" for page in REPORTS}
    words = {page.name: len(read(page).split()) for page in PAGES}
    assert sum(words.values()) <= 18_000, words
    assert max(words.values()) <= 1_500, words
    assert len(read(ROOT / "README.md").splitlines()) <= 90
    rows = re.findall(r"^\| `(\w+)` \| ([\w.]+) \| (\S+) \|", read(APPENDIX), flags=re.MULTILINE)
    assert len(rows) > 30
    for name, module, value in rows:
        home = f"stepcut.{module if '.' in module else f'methods.stepcut.{module}'}"
        assert float(value) == getattr(importlib.import_module(home), name), name
    for link in re.findall(r"\]\((\.\./[^)#]+)", read(APPENDIX)):
        assert (APPENDIX.parent / link).exists(), link


def test_every_report_has_a_script_and_a_reader(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    made = importlib.import_module("reports")
    assert {report.stem for report in REPORTS} == {*made.TABLE, *made.BY_HAND}
    for name, row in made.TABLE.items():
        script = read(ROOT / "benchmarks" / row.script)
        page = read(ROOT / "benchmarks" / "reports" / f"{name}.md")
        assert f"<!-- table {row.page} -->" in page if row.page else "report" in script, name
    texts = "".join(map(read, (ROOT / "README.md", *PAGES, *REPORTS)))
    linked = {*re.findall(r"\]\((?:[./]*benchmarks/reports/)?([\w-]+)\.md", texts)}
    assert {report.stem for report in REPORTS} <= linked


MODULES_OF_THE_REFERENCE = {
    "stepcut": "__version__", "stepcut.evaluation": "PROTOCOLS",
    "stepcut.formats": "FORMATS Format choose_format format_to_write label_files left_out read_all",
    "stepcut.paper.datasets": "", "stepcut.app": "", "stepcut.show.plots": "",
    "stepcut.toy": "EDGES STEPS Flaw Script write_script",
}  # fmt: skip
"""Modules whose `__all__` is public, with the names that only stepcut itself uses."""


def test_the_reference_is_complete():
    listed = reference.entries()
    shown = {name.rpartition(".")[2] for name in reference.public()}
    for module, internal in MODULES_OF_THE_REFERENCE.items():
        names = set(importlib.import_module(module).__all__) - set(internal.split())
        kinds = {name for name in names if not name.isupper()}
        assert kinds <= shown, f"{module}: {kinds - shown}"
    for module in ("stepcut.paper.datasets", "stepcut.show.plots", "stepcut.errors"):
        assert module in listed
    every = inspect.getmembers(errors, inspect.isclass)
    classes = {name for name, kind in every if issubclass(kind, errors.StepcutError)}
    assert classes <= shown


def test_public_docstrings_have_their_sections():
    public = reference.public()
    assert len(public) > 150
    names = {name.rpartition(".")[2] for name in public}
    lacking = {}
    for name, thing in public.items():
        missing = reference.needed(thing) - reference.sections(thing)
        if "Examples" in reference.needed(thing) and not reference.has_example(thing, names):
            missing.add("Examples")
        if missing or not inspect.getdoc(thing):
            lacking[name] = missing
    assert not lacking


def test_the_diagram_shows_the_imports_and_every_folder_is_explained():
    diagram = blocks(read(ROOT / "docs" / "architecture.md"), "text")[0]
    drawn = set(re.findall(r"(\w+) → (?=(\w+))", diagram))
    assert drawn == import_graph.reduced(import_graph.folder_imports())
    page = read(ROOT / "docs" / "architecture.md")
    for name in import_graph.folders() - {"annotations"}:
        assert re.search(rf"^\|.*`{name}/`", page, flags=re.MULTILINE), name


HOOKS = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "hooks" / "offline.py"))


@pytest.mark.parametrize("script", [
    '<script src="https://cdn.example.org/a.js"></script>',
    "<script async src=http://cdn.example.org/a.js> </script>",
    '<script type="module">\nconst a = (await import("https://cdn.example.org/a.mjs")).default;\n</script>',
    '<script type="module">import a from "https://cdn.example.org/a.mjs"; a()</script>',
    '<script type="module">import "https://cdn.example.org/a.mjs"</script>',
])  # fmt: skip
def test_scripts_from_elsewhere_are_dropped(script):
    own = '<script src="assets/own.js"></script><script>const a = "https://example.org";</script>'
    assert HOOKS["on_post_page"](f"{own}{script}<p>kept</p>") == f"{own}<p>kept</p>"


def test_links_of_the_404_page_start_where_it_lies():
    page = '<a href="/start.html"><img src=/images/a.svg></a><a href="//example.org/">'
    made = HOOKS["on_post_template"](page, template_name="404.html")
    assert made == '<a href="start.html"><img src=images/a.svg></a><a href="//example.org/">'
    assert HOOKS["on_post_template"](page, template_name="sitemap.xml") == page


def test_the_story_of_the_laboratory_and_of_the_clinic(kitchen, tmp_path, run):
    shutil.copytree(kitchen, tmp_path, dirs_exist_ok=True)
    with contextlib.chdir(tmp_path):
        shutil.copytree("annotations", "ann")
        shutil.copytree("corrected", "bob")
        proc = stepcut.load("sandwich.proc").rename({0: "pipette", 5: "wash tips"})
        proc.save("assay.proc")
        for page in ("plan", "clinic"):
            for words in commands(ROOT / "docs" / f"{page}.md"):
                if len(words) > 1 and not {"DIR", "-"} & set(words):
                    if "--by" in words:  # feature files of the toys have no clock time
                        assert "no wall-clock time" in run(*words, code=2).err
                    elif words[0] in ("check", "view"):
                        assert main([*words, "--quiet"]) in (0, 1, 4)
                    else:
                        run(*words)
        assert "pipette at most 40 s" in Path("assay.proc/rules.toml").read_text()
        assert "<h1>Assay 12</h1>" in Path("sop.html").read_text()
        assert Path("times.svg").stat().st_size > 1000


def test_the_story_of_a_line(tmp_path, run):
    rows, _ = toy_features(8, rate=2, offset=0, shuffle=0, skip=0, repeat=0, background=0)
    parts, still = [], np.random.default_rng(0).normal(size=rows[0].shape[1]) / 5
    for place, each in enumerate(rows):  # the first cycle lasts from 12.0 to 48.5 s
        wait = np.tile(still, (24 if place == 0 else 10 + 7 * (place % 3), 1))
        parts += [wait, each[np.linspace(0, len(each) - 1, 73 + place).astype(int)]]
    joined = np.concatenate(parts).astype(np.float32)
    with contextlib.chdir(tmp_path):
        export(Features(joined, Fraction(2), len(joined) / 2, "line"), ".")
        for words in commands(ROOT / "docs" / "line.md"):
            words = [word.replace("line.mp4", "line.safetensors") for word in words]
            if len(words) > 1 and words[0] not in ("view", "features"):
                run(*words, code=(0, 1, 3, 4))
        assert len(stepcut.load("line.proc").timelines) == 8
        starts = [segment.start for segment in stepcut.read("labels/line.eaf")]
        assert starts[0] >= 11
        assert starts[-1] > 300
