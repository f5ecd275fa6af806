"""A headless Chromium for page tests."""

import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip


@contextmanager
def launched():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright: pip install 'stepcut[browser]'"
    )
    found = map(shutil.which, ("chromium", "google-chrome", "chrome"))
    program = next(filter(None, found), None)
    if program is None:
        pytest.skip("needs Chromium, which is not installed: apt install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


class Browser:
    def __init__(self, browser):
        self.browser = browser
        self.complaints = []

    def open(self, address, size):
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]})
        tab = context.new_page()
        tab.set_default_timeout(120_000)  # busy machines are slow
        host = address.split("/")[2]

        def heard(request):
            if not request.url.startswith((f"http://{host}/", "blob:", "data:")):
                self.complaints.append(f"asked {request.url}")

        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("request", heard)
        tab.goto(address)
        tab.wait_for_selector("body.ready")
        return tab


def shows(element, text):
    """Wait until an element shows this text; pages follow a click in their own time."""
    from playwright.sync_api import expect  # optional: `launched` skips without it

    expect(element).to_have_text(text, use_inner_text=True, timeout=120_000)


def counts(elements, number):
    from playwright.sync_api import expect

    expect(elements).to_have_count(number, timeout=120_000)


def until(page, expression):
    """Wait for a condition; the page's security policy forbids wait_for_function."""
    for _ in range(1200):  # busy machines are slow
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"this never became true: {expression}")
