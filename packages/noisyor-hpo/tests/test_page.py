"""The page of a diagnosis: what it says, and that a browser shows it quietly and safely."""

from __future__ import annotations

import pytest
from browser import Browser, find_chromium, poor_contrast, too_wide

from noisyor_hpo.cli import main
from noisyor_hpo.page import percent
from rare_diseases import NASTY, write_annotations, write_ontology, write_patient

CHROMIUM = find_chromium()
in_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium or Chrome: install one, or set CHROMIUM to its path"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of one patient and one of two."""
    folder = tmp_path_factory.mktemp("pages")
    ontology = str(write_ontology(folder / "small.obo"))
    annotations = str(write_annotations(folder / "small.hpoa"))
    (folder / "patients").mkdir()
    write_patient(folder / "patients" / "1.json")
    write_patient(folder / "patients" / "2.json", id='<img src="x"> ' + "long" * 40)
    arguments = ["--annotations", annotations, "--ontology", ontology]
    arguments += ["--model", str(folder / "model.safetensors")]
    for name, patient in (("one", folder / "patients" / "1.json"), ("two", folder / "patients")):
        page = folder / f"{name}.html"
        assert main(["diagnose", str(patient), *arguments, "--html", str(page)]) == 0
        arguments = ["--model", str(folder / "model.safetensors")]
    return {"one": folder / "one.html", "two": folder / "two.html"}


@pytest.fixture(scope="module")
def browser():
    browser = Browser(CHROMIUM)
    yield browser
    browser.close()


@pytest.fixture
def quiet(browser):
    """No complaint and no request, whatever the test did."""
    yield
    browser.settle()
    assert browser.complaints == []
    assert browser.requests == []


def test_everything_is_in_one_file_and_escaped(pages):
    for page in pages.values():
        text = page.read_text()
        assert "default-src 'none'" in text
        assert "<script" not in text
        assert "<img" not in text
        assert "http" not in text.replace("http-equiv", "")
        assert "Not a medical device" in text


@in_a_browser
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen(browser, pages, name, width):
    browser.open(pages[name], width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert too_wide(browser, width) == []


@in_a_browser
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(browser, pages, dark):
    browser.open(pages["one"], dark=dark)
    assert poor_contrast(browser) == []


@in_a_browser
@pytest.mark.usefixtures("quiet")
def test_what_a_reader_sees(browser, pages):
    browser.open(pages["one"])
    assert browser.text("h1") == "anna"
    assert browser.text(".warning").startswith("Not a medical device.")
    assert browser.text(".chips.present").split("\n") == ["Fever", "Sneezing"]
    assert browser.text("summary") == "Absent (1)"
    assert browser.text(".chips.absent") == "Cough"
    assert browser.text(".diseases li h4").startswith("Cold")
    assert "Sneezing" in browser.text(".diseases li dd")
    asked = browser.text(".questions")
    assert NASTY in asked  # shown, not run
    assert "bits" in asked


@in_a_browser
@pytest.mark.usefixtures("quiet")
def test_several_patients_have_links(browser, pages):
    browser.open(pages["two"])
    assert browser.text("h1") == "2 patients"
    browser.click("nav li:nth-child(2) a")
    assert browser.run("location.hash") == "#patient-2"
    assert browser.text("#patient-2-name").startswith('<img src="x">')


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0"), (1e-5, "< 0.1"), (0.012, "1.2"), (0.25, "25"), (0.97, "97.0"), (0.9999, "> 99.9")],
)
def test_percentages(share, text):
    assert percent(share).replace("\u00a0", " ") == f"{text} %"
    assert percent(1.0) == "100\u00a0%"
