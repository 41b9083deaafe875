"""The page in a real browser: type, choose, ask, undo."""

from __future__ import annotations

import pytest
from browser import Browser, find_chromium, poor_contrast, too_wide
from report_examples import NASTY, QUOTES
from server import ServerInThread

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium or Chrome: install one, or set CHROMIUM to its path"
)
READY = "document.querySelector('#answers').getAttribute('aria-busy') === 'false'"


@pytest.fixture(scope="module")
def browser():
    browser = Browser(CHROMIUM, offline=False)
    yield browser
    browser.close()


@pytest.fixture
def page(browser, server):
    """The page, opened anew; afterwards no complaint and no request to anybody else."""

    def show(fragment: str = "", **size) -> Browser:
        browser.open("about:blank")
        browser.open(server.address + fragment, **size)
        browser.wait_for(READY)
        return browser

    yield show
    browser.settle()
    assert browser.complaints == []
    assert all(url.startswith((server.address, "about:")) for url in browser.requests)


def names(browser: Browser, place: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll('{place} .name')].map((e) => e.innerText)")


def add(browser: Browser, text: str, shift: bool = False) -> None:
    browser.click("#add")
    browser.type(text)
    browser.wait_for(f"document.querySelector('#offers li')?.innerText.includes({text!r})")
    browser.press("Enter", shift=shift)
    browser.wait_for(READY)


def test_type_a_finding_and_see_its_causes(page):
    browser = page()
    assert "Nothing is known yet" in browser.text("#lead")
    add(browser, "ras")
    assert names(browser, "#list") == ["rash"]
    assert names(browser, "#causes")[0] == "measles"
    assert "rash" in browser.text("#causes .told")
    assert "red eyes" in names(browser, "#likely")[:2]
    assert browser.run("location.hash") == "#present=3"
    add(browser, "fev", shift=True)
    assert browser.run("location.hash") == "#present=3&absent=0"
    assert browser.run("document.querySelectorAll('.finding.absent').length") == 1
    browser.run("history.back()")
    browser.wait_for("document.querySelectorAll('.finding').length === 1")
    browser.wait_for(READY)
    browser.click(".finding button[aria-label='rash: absent']")
    browser.wait_for(READY)
    assert browser.run("location.hash") == "#absent=3"
    browser.click("#clear")
    browser.wait_for(READY)
    assert names(browser, "#list") == []


def test_answer_a_question_and_suppose(page):
    browser = page("#present=0")
    first = names(browser, "#questions")[0]
    browser.click("#questions .segments button")
    browser.wait_for(READY)
    assert first in names(browser, "#list")
    browser.click("#list .finding .quiet")
    browser.wait_for("document.querySelector('#suppose-body .shift')")
    assert "If it were unknown (now present)" in browser.text("#suppose-body")
    browser.click("#by-rise")
    assert browser.run("document.querySelector('#by-rise').getAttribute('aria-pressed')") == "true"


def test_names_are_shown_and_not_run(page):
    browser = page()
    add(browser, "<script>")
    assert names(browser, "#list") == [NASTY]
    assert "<b>asthma</b>" in names(browser, "#causes")
    add(browser, "</script>")
    assert set(names(browser, "#list")) >= {NASTY}
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert QUOTES in browser.text("body")


def test_completion_by_keyboard(page):
    browser = page()
    browser.click("#add")
    browser.type("ee")
    browser.wait_for("document.querySelectorAll('#offers li').length === 2")
    assert browser.run("document.querySelector('#add').getAttribute('aria-expanded')") == "true"
    browser.press("ArrowDown")
    chosen = browser.text("#offers [aria-selected=true]")
    browser.press("Enter")
    browser.wait_for(READY)
    assert names(browser, "#list") == [chosen]
    browser.type("zzz")
    browser.wait_for("document.querySelector('#offers .none')")
    browser.press("Escape")
    assert browser.run("document.querySelector('#offers').hidden")


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False)])
def test_it_fits_the_screen_and_can_be_read(page, server, width, dark):
    for fragment in ("#present=0,3,6&absent=7", "api"):
        browser = page(fragment, width=width, dark=dark) if fragment != "api" else page()
        if fragment == "api":
            browser.open(server.address + "api", width=width, dark=dark)
            browser.wait_for("document.querySelectorAll('.route').length === 6")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert too_wide(browser, width) == []
        assert poor_contrast(browser) == []


def test_paint_on_an_image(browser, models):
    running = ServerInThread(models.image)
    try:
        browser.open(running.address)
        browser.wait_for(READY)
        browser.click("#image")
        browser.wait_for(f"location.hash && {READY}")
        assert browser.run("location.hash") == "#present=24"  # the middle of 6 x 7
        browser.press("ArrowUp")
        browser.press(" ")
        browser.wait_for(READY)
        assert browser.run("location.hash") == "#present=24,17"
        assert "Pixel 2,3: present" in browser.text("#image-help")
        assert names(browser, "#causes")
        assert browser.complaints == []
    finally:
        running.stop()
