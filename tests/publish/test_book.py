"""Is the built book complete? A real browser opens every page: Debian's Chromium, controlled by Playwright."""

import contextlib
import functools
import gzip
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup, Tag
from conftest import ALL, find_violations
from playwright.sync_api import Browser, Page, Response, TimeoutError
from test_equations import equations_in

from autograder.imports import ROOT
from autograder.judge import catalogue
from autograder.judge.exercise import exercises_of
from autograder.publish.book import build_book
from autograder.publish.chapters import build_chapters, read_book

pytestmark = pytest.mark.deep  # the chapters run for two minutes; `make test-book` runs this file alone
HTML = ROOT / "_build" / "html"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
ENTRIES = [entry for part in TOC["parts"] for entry in part["chapters"]]
CHAPTERS = [TOC["root"], *(each["file"] for entry in ENTRIES for each in (entry, *entry.get("sections", ())))]
PAGES = [*CHAPTERS, "search", "genindex"]
TEXTS = {name: (ROOT / f"{name}.md").read_text(encoding="utf-8") for name in CHAPTERS}
EXECUTABLE = [name for name in CHAPTERS if "\nkernelspec:" in TEXTS[name][:400]]
LOCAL = ("data:", "blob:")  # allowed in addition to the site itself
COLAB = (
    CONFIG["repository"]["url"].replace("https://github.com", f"{CONFIG['launch_buttons']['colab_url']}/github")
    + f"/blob/{CONFIG['repository']['branch']}/"
)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Build the book as `make book` does, serve it on loopback, and return its address.

    All pages are written again: otherwise a file that is no longer made would still be there.
    """
    shutil.rmtree(HTML, ignore_errors=True)
    (ROOT / "_build" / ".stamp").unlink(missing_ok=True)
    build_book()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(HTML))) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open an empty page of a desktop's size, with the functions of ask.js."""
    with contextlib.closing(browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")) as page:
        page.add_init_script(path=Path(__file__).parent / "ask.js")
        yield page


def open_page(page: Page, site: str, name: str) -> None:
    """Go to a page of the book, and wait for the font of its equations."""
    page.goto(f"{site}{name}.html")
    page.evaluate("() => document.fonts.ready.then(() => {})")


@functools.cache
def parse(path: Path) -> BeautifulSoup:
    """Return a built page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@functools.cache
def places(path: Path) -> dict[str, Tag]:
    """Return the places of a built page that a link may lead to, by id."""
    return {element["id"]: element for element in parse(path).find_all(id=True)}


@pytest.mark.parametrize("name", PAGES)
def test_page_has_no_fault(name: str, page: Page, site: str) -> None:
    """Does a browser find none of the faults below and in ask.js: on a desktop, on paper, and on a phone?"""
    messages, other_hosts = [], []
    page.on("console", lambda said: messages.append(said.text) if said.type in ("error", "warning") else None)
    page.on("response", lambda response: messages.append(response.url) if response.status >= 400 else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda sent: sent.url.startswith((site, *LOCAL)) or other_hosts.append(sent.url))
    open_page(page, site, name)
    page.evaluate("ask.fetchImages()")
    faults = page.evaluate("ask.faults()")
    faults["unseen equations"] = bool(equations_in(TEXTS.get(name, ""))) > page.evaluate("ask.hasEquations()")
    page.evaluate("ask.openAll()")
    faults["clipped on a desktop"] = page.evaluate("ask.clipped()")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 800})
    faults["clipped on paper"] = page.evaluate("ask.clipped()")
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 390, "height": 800})
    with contextlib.suppress(TimeoutError):  # book.js and the theme need a moment for what is too wide now
        page.wait_for_function("() => Object.values(ask.onPhone()).flat().length === 0", timeout=10_000)
    faults |= page.evaluate("ask.onPhone()")
    faults |= {"messages": messages, "other hosts": other_hosts}
    assert {fault: found for fault, found in faults.items() if found} == {}


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible(name: str, page: Page, site: str) -> None:
    """Does axe find nothing on a page with all folded parts open, in both themes, and is only the dark one dark?"""
    open_page(page, site, name)
    page.evaluate("ask.openAll()")
    page.evaluate("ask.simplify()")  # axe is slow on thousands of tokens, glyphs and rows: one of each kind stays
    # Only the contrast depends on the theme.
    for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        page.evaluate("() => Promise.all(document.getAnimations().map(animation => animation.finished))")
        shade = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        bright = sum(map(int, re.findall(r"\d+", shade)[:3]))
        assert bright > 600 if theme == "light" else bright < 150
        assert find_violations(page, **rules) == [], theme


@pytest.mark.parametrize("name", EXECUTABLE)
def test_page_is_light(name: str, page: Page, site: str) -> None:
    """Does a chapter that is read to its end load at most 500 kB, compressed as servers do?"""
    fetched: dict[str, int] = {}

    def weigh(response: Response) -> None:
        body = response.body()
        packed = response.url.endswith((".png", ".woff", ".woff2", ".jpg"))
        fetched[response.url] = len(body) if packed else len(gzip.compress(body, 6))

    page.on("response", weigh)
    open_page(page, site, name)
    page.evaluate("() => document.querySelectorAll('img:not(.in-dark)').forEach(image => { image.loading = 'eager'; })")
    page.wait_for_load_state("networkidle", timeout=20_000)
    assert not [url for url in fetched if re.search("searchindex|fontawesome", url)]
    assert sum(fetched.values()) < 500_000, sorted(fetched.items(), key=lambda each: -each[1])[:8]


FIGURES = re.compile(r"font: ([\d.]+)px|font-size: ([\d.]+)px")


def test_figures_fit_both_themes_and_a_phone(site: str) -> None:
    """Is every figure there in light and dark, with letters of at least 9 pixels on a phone?"""
    drawn = {image["src"]: image for name in EXECUTABLE for image in parse(HTML / f"{name}.html").select("img.drawn")}
    light = [source for source, image in drawn.items() if "in-light" in image["class"]]
    assert len(light) > 40
    for source in light:
        path = HTML / "book" / source
        text, dark = (path.with_stem(path.stem + end).read_text(encoding="utf-8") for end in ("", "_dark"))
        assert f"{source.removesuffix('.svg')}_dark.svg" in drawn
        assert "#1f2328" not in dark
        shown = 382 / float(re.search(r'width="([\d.]+)pt"', text)[1])  # a phone's pixels per pixel of the drawing
        letters = [float(size) * shown for found in FIGURES.findall(text) for size in found if size]
        small = [size for size in letters if size < 6.2]  # exponents have seven tenths of 9 pixels
        assert small == [], source


@pytest.mark.parametrize("name", PAGES)
def test_page_has_no_broken_link(name: str, site: str) -> None:
    """Does every link, image and anchor within the book lead somewhere?"""
    here = f"{site}{name}.html"
    broken = []
    for element in parse(HTML / f"{name}.html").find_all(["a", "img", "link", "script"]):
        link = element.get("href") or element.get("src")
        if not link or not urljoin(here, link).startswith((site, *LOCAL)):
            continue
        address, anchor = urldefrag(urljoin(here, link))
        path = HTML / unquote(urlsplit(address).path).lstrip("/")
        path = path / "index.html" if path.is_dir() else path
        if not path.exists() or (anchor and unquote(anchor) not in places(path)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_colab_link_opens_a_file_of_the_repository(name: str, site: str) -> None:
    """Has a chapter or an exercise its link to Colab, and does each name a file of the repository, on its branch?"""
    links = [link["href"] for link in parse(HTML / f"{name}.html").find_all("a", href=re.compile("colab.research"))]
    own = {f"{COLAB}{name}.ipynb"} if name in EXECUTABLE else set()
    own |= {f"{COLAB}exercises/{each}/{stem}.ipynb" for each, stem in ALL.items() if name == f"book/{each}_exercise"}
    assert own <= set(links), "the page has no button that opens its notebook"
    for link in links:
        assert link.startswith(COLAB)
        path = link.removeprefix(COLAB)
        assert (ROOT / path).is_file()
        ignored = subprocess.run(["git", "check-ignore", "--quiet", path], cwd=ROOT, check=False, capture_output=True)
        assert ignored.returncode != 0, f"{path} is ignored by git, so that it never reaches Colab"


@pytest.mark.parametrize(("name", "stem"), ALL.items())
def test_exercise_page_ends_with_the_solutions(site: str, name: str, stem: str) -> None:
    """Does the page show every answer, folded?"""
    boxes = parse(HTML / "book" / f"{name}_exercise.html").find_all("details", class_="sd-dropdown")
    shown = [re.search(r"(?:def|class) (\w+)", box.get_text())[1] for box in boxes]
    asked = list(exercises_of(stem))
    assert [name for name in shown if name in asked] == asked
    assert not any(box.has_attr("open") for box in boxes)


def test_page_and_notebook_number_alike(site: str) -> None:
    """Does every equation and figure have the same number on its page and in the chapter's notebook?"""
    labels = read_book(ROOT).labels
    assert labels
    for label, (number, chapter) in labels.items():
        page = places(HTML / "book" / f"{chapter}.html")
        equation, figure = page.get(f"equation-{label}"), page.get(label)
        shown = equation.find(class_="eqno") if equation else figure.find(class_="caption-number")
        assert re.findall(r"\d+\.\d+", shown.get_text()) == [number], label


def test_notebooks_link_to_places_of_the_book(site: str) -> None:
    """Does every link from a chapter's notebook into the published book lead to an existing place?"""
    published = CONFIG["html"]["baseurl"]
    for path, text in build_chapters(ROOT).items():
        links = re.findall(rf"\]\({re.escape(published)}([^)]*)\)", text)
        assert links
        for address, anchor in map(urldefrag, links):
            page = places(HTML / (address or "index.html"))
            assert not anchor or anchor in page, f"{path.name} links to {address}#{anchor}"


def test_search_finds_a_mistake_by_its_words(page: Page, site: str) -> None:
    """Does a search by keyboard for words of M6's title find M6 first, and does the link open it?"""
    open_page(page, site, TOC["root"])
    page.keyboard.press("Control+k")
    page.keyboard.type("softmax wrong axis")
    page.keyboard.press("Enter")
    # This text appears late and moves the results down, so that a click would miss.
    page.get_by_text("Search finished").wait_for()
    first = page.locator("#search-results li a").first
    assert first.get_attribute("href").endswith("book/mistakes.html#m6")
    first.click()
    page.wait_for_selector("details#m6[open]")


def test_widget_of_attention_is_one_screen_of_a_phone(page: Page, site: str) -> None:
    """Does a reader with a phone see inputs, steps and output at once?"""
    page.set_viewport_size({"width": 390, "height": 800})
    open_page(page, site, "book/attention")
    assert page.locator(".widget-box").first.bounding_box()["height"] <= 710


def test_feedback_leads_to_the_mistake(site: str) -> None:
    """Does every mistake that feedback can name, or that is taught, have the address that feedback links to?"""
    template = (ROOT / "autograder" / "report" / "templates" / "feedback.html.j2").read_text(encoding="utf-8")
    assert "book/mistakes.html#{{ mistake.name | lower }}" in template
    entries = {box["id"] for box in parse(HTML / "book" / "mistakes.html").select("details.mistake")}
    assert entries == {name.lower() for name in (*catalogue.TITLES, *(mistake.name for mistake in catalogue.TAUGHT))}


def test_mistakes_are_filtered_by_keyboard(page: Page, site: str) -> None:
    """Can mistakes be filtered by exercise and symptom without a mouse, and does the page say how many are left?"""
    open_page(page, site, "book/mistakes")
    shown, said = page.locator("details.mistake:not([hidden])"), page.locator(".mistake-filter output")
    everything = shown.count()
    page.get_by_label("Made in").press("s")  # softmax, in a list of all exercises
    of_softmax = shown.count()
    page.get_by_label("Symptom").press("N")  # NaN or infinite
    names = shown.locator("summary b").all_text_contents()
    assert everything > 150 > of_softmax > len(names) > 0
    assert "M3" in names and "M6" in names and "M1" not in names
    assert said.text_content() == f"{len(names)} of {everything} mistakes"


def test_keyboard_reaches_everything(page: Page, site: str) -> None:
    """Does the Tab key reach the skip link, search, sidebar, Colab, theme and folded code, with a visible focus?"""
    open_page(page, site, "book/softmax")
    stops = []
    while not page.evaluate("() => document.activeElement.matches('main summary')"):  # the sidebar has a summary too
        page.keyboard.press("Tab")
        stops.append(page.evaluate("ask.focused()"))
        assert len(stops) < 400, "no folded cell was reached"
    unseen = [stop["html"] for stop in stops if not stop["seen"]]
    assert unseen == []
    assert stops[0]["href"] == "#main-content"
    classes = " ".join(stop["classes"] for stop in stops)
    for control in ("search-button", "theme-switch-button", "dropdown-toggle", "primary-toggle"):
        assert control in classes, f"the Tab key does not reach {control}"
    reached = {urljoin(f"{site}book/", stop["href"]) for stop in stops if stop["href"]}
    folded = page.evaluate("() => [...document.querySelectorAll('details:not([open]) a')].map(a => a.href)")
    assert folded and all(
        re.search("/(instructors|attacks|after_|wrong_lines)", link) for link in folded if link.startswith(site)
    )
    others = {f"{site}{name}.html" for name in CHAPTERS if name not in ("book/softmax", TOC["root"])}
    assert others <= reached | set(folded)
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.parentElement.open"), "Enter does not unfold the code"


def test_keyboard_opens_colab(page: Page, site: str) -> None:
    """Can the menu with the Colab link, and the link in it, be opened without a mouse?"""
    open_page(page, site, "book/softmax")
    page.focus(".dropdown-launch-buttons > button")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("() => document.activeElement.href") == f"{COLAB}book/softmax.ipynb"


def test_theme_switch_changes_the_theme(page: Page, site: str) -> None:
    """Does the switch change light to dark, and does the page remember it before the theme's script loads?"""
    open_page(page, site, TOC["root"])
    seen = set()
    for _ in range(3):
        page.focus(".theme-switch-button")
        page.keyboard.press("Enter")
        seen.add(page.evaluate("() => document.documentElement.dataset.mode"))
    assert seen == {"light", "dark", "auto"}
    page.evaluate("localStorage.setItem('mode', 'dark')")
    page.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
    page.reload()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
