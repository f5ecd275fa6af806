"""The site loads nothing from elsewhere, and its 404 page works from a folder."""

import runpy
from pathlib import Path

import pytest

HOOKS = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "hooks" / "offline.py"))


@pytest.mark.parametrize(
    "script",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        "<script async src=http://cdn.example.org/a.js> </script>",
        '<script type="module">\nconst a = (await import("https://cdn.example.org/a.mjs")).default;\n</script>',
        '<script type="module">import a from "https://cdn.example.org/a.mjs"; a()</script>',
        '<script type="module">import "https://cdn.example.org/a.mjs"</script>',
    ],
)
def test_scripts_from_elsewhere_are_dropped(script):
    own = '<script src="assets/own.js"></script><script>const a = "https://example.org";</script>'
    assert HOOKS["on_post_page"](f"{own}{script}<p>kept</p>") == f"{own}<p>kept</p>"


def test_links_of_the_404_page_start_where_it_lies():
    page = '<a href="/start.html"><img src=/images/a.svg></a><a href="//example.org/">'
    made = HOOKS["on_post_template"](page, template_name="404.html")
    assert made == '<a href="start.html"><img src=images/a.svg></a><a href="//example.org/">'
    assert HOOKS["on_post_template"](page, template_name="sitemap.xml") == page
