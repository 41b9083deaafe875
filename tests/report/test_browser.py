"""The report in a real browser: it loads, it is quiet, and people can use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser, find_chromium, poor_contrast, too_wide
from report_examples import NASTY, QUOTES

from noisyor.report.page import write_report

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium or Chrome: install one, or set CHROMIUM to its path"
)
SELECTED = "#tree [aria-selected=true]"


@pytest.fixture(scope="module")
def browser():
    browser = Browser(CHROMIUM)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(topics, factors, features, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    result = {}
    for name, example in (("topics", topics), ("factors", factors), ("features", features)):
        result[name] = folder / f"{name}.html"
        write_report(example.model, example.data, result[name])
    result["alone"] = folder / "alone.html"
    write_report(topics.model, out=result["alone"])
    return result


@pytest.fixture
def quiet(browser):
    """No complaint and no request, whatever the test did."""
    yield
    browser.settle()
    assert browser.complaints == []
    assert browser.requests == []


def focused(browser: Browser, what: str = "id") -> str:
    return str(browser.run(f"document.activeElement.getAttribute('{what}')"))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["topics", "factors", "features", "alone"])
def test_it_fits_the_screen(browser, pages, name, width):
    browser.open(pages[name], width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert too_wide(browser, width) == []


def test_the_browser_notices_errors_and_requests(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<script>fetch('http://localhost:9/x'); nothing.here</script>")
    browser.open(page)
    assert browser.complaints
    assert browser.requests == ["http://localhost:9/x"]


@pytest.mark.usefixtures("quiet")
class TestTopics:
    def test_a_click_on_a_topic_shows_its_words(self, browser, pages):
        browser.open(pages["topics"])
        browser.click("#tree > li[data-cause='4'] > .line .title")
        assert "goal" in browser.text("#detail")
        browser.click("#tree li[data-cause='1'] > .line .title")
        assert browser.text("#detail h3") == "coach, orbit, moon"
        shown = browser.text("#detail .bars")
        assert [word in shown for word in ("coach", "orbit", "moon", "vote")] == [True] * 3 + [
            False
        ]
        assert browser.text("#detail .chips").count("0.") == 2
        assert "explains" in browser.text("#detail .documents")
        assert browser.run("location.hash") == "#cause-1"
        browser.run("history.back()")
        browser.settle()
        assert browser.text("#detail h3") != "coach, orbit, moon"

    @pytest.mark.parametrize("width", [390, 1280])
    def test_the_map_leads_to_a_topic(self, browser, pages, width):
        browser.open(pages["topics"], width=width)
        shown = "svg.map.narrow" if width == 390 else "svg.map.wide"
        hidden = "svg.map.wide" if width == 390 else "svg.map.narrow"
        assert (
            browser.run(f"getComputedStyle(document.querySelector('{hidden}')).display") == "none"
        )
        top = browser.run(f"document.querySelector('{shown}').getBoundingClientRect().top")
        assert 0 < top < 700  # on the first screen
        browser.click(f"{shown} a[href='#cause-1'] text")
        assert browser.text("#detail h3") == "coach, orbit, moon"
        assert browser.run("location.hash") == "#cause-1"
        assert (
            abs(browser.run("document.querySelector('#explore').getBoundingClientRect().top")) < 40
        )
        assert (
            browser.run("document.querySelector('.region.chosen').getAttribute('href')")
            == "#cause-1"
        )

    def test_the_map_by_keyboard(self, browser, pages):
        browser.open(pages["topics"])
        browser.press("Tab")
        browser.press("Tab")
        first = focused(browser, "href")
        assert first.startswith("#cause-")
        browser.press("ArrowRight")
        other = focused(browser, "href")
        assert other != first
        browser.press("Enter")
        assert browser.run("location.hash") == other

    def test_words_by_strength_or_by_lift(self, browser, pages):
        browser.open(pages["topics"])
        browser.click("svg.map.wide a[href='#cause-1'] text")
        bars = "[...document.querySelectorAll('#detail .measured.lifted')].map((e) =>"
        title = browser.text("#detail h3").split(", ")
        words = browser.run(bars + " e.querySelector('button').innerText)")
        assert words[0] in title  # the most telling first, as in the title
        browser.click("#detail .orders button:nth-child(2)")
        strength = browser.run(bars + " Number(e.querySelector('.number').innerText))")
        assert strength == sorted(strength, reverse=True)
        widths = browser.run(bars + " parseFloat(e.querySelector('.bar span').style.width))")
        assert widths == sorted(widths, reverse=True)  # bars and numbers agree
        browser.click("#detail .orders button:nth-child(3)")
        lifts = browser.run(bars + " Number(e.querySelector('.lift').innerText.slice(1)))")
        assert lifts == sorted(lifts, reverse=True)
        assert min(lifts) > 1

    def test_search_finds_a_word_and_its_topics(self, browser, pages):
        browser.open(pages["topics"])
        browser.click("#search")
        browser.type("ORB")
        assert browser.text("#found h4") == "orbit"
        assert "1 word found" in browser.text("#found-status")
        browser.press("Enter")
        assert browser.text("#detail h3") == "coach, orbit, moon"
        browser.press("Escape")
        assert browser.run("document.querySelector('#found').childElementCount") == 0
        browser.type("zzz")
        assert "Nothing matches" in browser.text("#found-status")

    def test_names_are_shown_and_not_run(self, browser, pages):
        browser.open(pages["topics"])
        for name in (NASTY, QUOTES):
            browser.run("document.querySelector('#search').value = ''")
            browser.click("#search")
            browser.type(name)
            assert browser.text("#found h4") == name
        assert browser.run("document.querySelectorAll('script').length") == 2

    def test_the_tree_by_keyboard(self, browser, pages):
        browser.open(pages["topics"])
        browser.run("document.querySelector('#search').focus()")
        browser.press("Tab")
        assert focused(browser, "role") == "treeitem"
        browser.press("Home")
        first = focused(browser, "data-cause")
        browser.press("ArrowLeft")
        browser.press("ArrowRight")
        browser.press("ArrowRight")
        assert focused(browser, "aria-level") == "2"
        child = focused(browser, "data-cause")
        browser.press("Enter")
        assert browser.run(f"document.querySelector('{SELECTED}').dataset.cause") == child
        browser.press("ArrowLeft")
        assert focused(browser, "data-cause") == first
        browser.press("ArrowDown")
        browser.press("ArrowUp")
        assert focused(browser, "data-cause") == first
        browser.press("End")
        browser.press(" ")
        last = focused(browser, "data-cause")
        assert browser.run(f"document.querySelector('{SELECTED}').dataset.cause") == last
        browser.press("Tab")
        assert focused(browser) == "detail"

    def test_everything_is_reached_by_tab(self, browser, pages):
        browser.open(pages["topics"])
        seen = []
        for _ in range(14):
            browser.press("Tab")
            seen.append(
                browser.run(
                    "document.activeElement.id || document.activeElement.getAttribute('role') ||"
                    " document.activeElement.getAttribute('href')"
                )
            )
        assert seen[0] == "#main"
        for wanted in ("#explore", "#fit", "#origin", "search", "treeitem", "detail"):
            assert wanted in seen

    def test_on_a_phone_a_tap_leads_to_the_words(self, browser, pages):
        browser.open(pages["topics"], width=390, height=700)
        browser.click("#tree > li[data-cause='5'] > .line .title")
        top = browser.run("document.querySelector('#detail h3').getBoundingClientRect().top")
        assert -5 <= top < 300
        assert focused(browser) == "detail-title"

    def test_a_link_to_a_topic(self, browser, pages):
        browser.open(pages["topics"])
        browser.run("location.hash = '#cause-2'")
        browser.settle()
        assert browser.text("#detail p.soft").startswith("layer1-2")


@pytest.mark.usefixtures("quiet")
class TestFactors:
    def test_the_matrix_is_drawn_and_read(self, browser, pages):
        browser.open(pages["factors"])
        colours = (
            "(() => { const c = document.querySelector('#matrix');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "const s = new Set(); for (let i = 0; i < d.length; i += 4)"
            " s.add(d.slice(i, i + 3).join()); return s.size; })()"
        )
        assert browser.run(colours) > 3
        browser.run("document.querySelector('#matrix').focus()")
        browser.press("ArrowRight")
        first = browser.text("#matrix-cell")
        assert first.startswith("animal ")
        assert "cause" in first
        browser.press("ArrowDown")
        assert browser.text("#matrix-cell") != first

    def test_orders_and_factors_can_be_chosen(self, browser, pages):
        browser.open(pages["factors"])
        picture = "document.querySelector('#matrix').toDataURL()"
        by_factor = browser.run(picture)
        browser.click("input[value=file]")
        as_given = browser.run(picture)
        assert as_given != by_factor
        browser.run(
            "(() => { const s = document.querySelector('#matrix-cause'); s.value = '0';"
            " s.dispatchEvent(new Event('change')); })()"
        )
        assert browser.run(picture) not in (by_factor, as_given)
        browser.open(pages["factors"], dark=True)
        assert browser.run(picture) != by_factor


@pytest.mark.usefixtures("quiet")
class TestFeatures:
    def test_a_feature_stands_out(self, browser, pages):
        browser.open(pages["features"])
        shown = "[...document.querySelectorAll('[data-image-features]')].filter(e => !e.hidden)"
        assert browser.run(f"{shown}.length") == 24
        browser.click("button[data-show-feature='1']")
        assert 0 < browser.run(f"{shown}.length") < 24
        assert browser.run(f"{shown}.every(e => e.dataset.imageFeatures.includes('1'))")
        assert browser.run(
            "[...document.querySelectorAll('.stamp.dim')].every(e => e.dataset.feature === '0')"
        )
        assert "Feature 1 lies in" in browser.text("#feature-status")
        browser.press("Enter")  # the button has the focus: pressed again, all is as before
        assert browser.run(f"{shown}.length") == 24


@pytest.mark.usefixtures("quiet")
class TestCharts:
    READ = "[...document.querySelectorAll('.plot .readout')].map(e => e.textContent)"

    def test_points_are_read_by_keyboard(self, browser, pages):
        browser.open(pages["factors"])
        browser.run("document.querySelector('.plot').focus()")
        browser.press("End")
        assert browser.run(self.READ)[0] == "8 causes: −20.90 nats"
        browser.press("Home")
        assert browser.run(self.READ)[0] == "2 causes: −24.00 nats"

    def test_points_are_read_by_pointer(self, browser, pages):
        browser.open(pages["factors"])
        browser.point_at(".plot circle.chosen")
        assert browser.run(self.READ)[0].endswith("4 causes: −21.00 nats")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(browser, pages, dark):
    browser.open(pages["factors"], dark=dark)
    assert poor_contrast(browser) == []
