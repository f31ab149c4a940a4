"""Make the built pages light, and their figures fit both themes.

Of the theme's style sheet and icons a page fetches what some page needs; the search's index is fetched by the page of the
search; a figure is fetched when it comes into view, in the theme's colours.
"""

import logging
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from textwrap import shorten
from zlib import crc32

import numpy as np
import tinycss2
from docutils import nodes
from fontTools import subset
from matplotlib.colors import to_hex, to_rgb
from sphinx import search
from sphinx.application import Sphinx
from tinycss2.ast import Node

# Colours that `chapter_figures.py` gives to letters and axes, and to what hides lines behind letters, and theirs in the dark.
IN_THE_DARK = {"#1f2328": "#dfe5eb", "#fefefe": "#11161c"}
FIGURE = re.compile(
    r'<img\b(?P<before>[^>]*?) src="(?P<folder>[./]*_images/)(?P<name>[\w-]+)\.svg"(?P<after>[^>]*?)/?>'
)
SIZE = re.compile(
    r'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"|<svg [^>]*?height="([\d.]+)pt"[^>]*?width="([\d.]+)pt"'
)
WIDTH = re.compile(r'\bwidth="\d+" height="\d+"')
PATH, NUMBER = re.compile(r' d="[^"]*"'), re.compile(r"\d+\.\d{3,}")
# Names of classes and ids: in a page, in a script, and in a selector.
NAMED, NAME = re.compile(r'\b(?:class|id)="([^"]*)"'), re.compile(r"[A-Za-z_][\w-]*")
SELECTED = re.compile(rf"[.#]({NAME.pattern})")
COMMA, IN_BRACKETS = re.compile(r",(?![^(]*\))"), re.compile(r"\([^()]*\)|\[[^]]*\]")
CONTENT = re.compile(r'content:"(\\[0-9a-f]+|[^"\\])"')
TWO_FORMATS = re.compile(r"url\((\S+?)\.woff2\) format\(\"woff2\"\),url\(\S+?\.ttf\) format\(\"truetype\"\)")
SHEET = re.compile(r'\s*<link (?=[^>]*\brel="stylesheet")[^>]*href="[./]*_static/([^"?]+)[^>]*>')
SHEET_OF_ALL = "styles/all.css"
CHARSET, IMPORT = re.compile(r'@charset "[^"]*";', re.I), re.compile(r'@import "([^"]+)";')
OF_FOLDER = re.compile(r"""url\(["']?(?!["']|data:|https?:|/|\.\./)""")
OF_SEARCH = re.compile(r"\s*<script [^>]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>")
# What the theme makes a page wait for. A line of the page itself asks for the options; a widget is built where it stands.
WAITED_FOR = re.compile(r"<script(?![^>]*(?:defer|async|documentation_options|in-place))((?: [\w-]+=\"[^\"]*\")* src=)")
# The theme asks of all that may scroll sideways whether it does, one by one: a browser lays the page out for each.
TAB_STOPS = re.compile(
    r'(document\.querySelectorAll\(\["pre",[^]]*\]\.join\(", "\)\))\.forEach\(e=>\{e\.tabIndex=([^?]*)\?0:-1\}\)'
)
ALL_AT_ONCE = (
    r'[...\1].filter(e=>!e.closest("details:not([open])")).map(e=>[e,\2])'
    r".forEach(([e,scrolls])=>{e.tabIndex=scrolls?0:-1})"
)
# The theme's scripts choose its colours and scroll the list of chapters after the first paint; a line in the page does so before.
THEME = 'localStorage.getItem("theme") || "auto"'
THEME_OF_SYSTEM = (
    'localStorage.getItem("mode")?.match(/^(light|dark)$/)?.[0]'
    ' || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
)
MAIN = '<main id="main-content"'
SCROLL_LIST = """<script>{
  const list = document.querySelector("div.bd-sidebar"), here = [...list.querySelectorAll(".bd-docs-nav .active")].pop();
  const kept = parseInt(sessionStorage.getItem("sidebar-scroll-top"), 10), y = here ? here.getBoundingClientRect().y : 0;
  if (!isNaN(kept)) list.scrollTop = kept;
  else if (y > innerHeight / 2) list.scrollTop = y - list.getBoundingClientRect().y - list.clientHeight / 4;
}</script>
"""
SIDE = re.compile(r'<div id="pst-primary-sidebar"(?! role)')  # a screen reader is told of it as a place of its own
OF_ICONS = re.compile(r"\s*<script [^>]*scripts/fontawesome\.js[^>]*></script>")


def dark_figure(drawing: str) -> str:
    """Return a chapter's figure in the colours of the dark theme.

    Ink becomes light, and so does what hardly stands out from the dark page, unless it is on a picture.
    """
    for light, dark in IN_THE_DARK.items():
        drawing = drawing.replace(light, dark)
    parts = re.split(r'(?=<g id="(?:axes|legend)_\d+">)', drawing)
    return "".join(part if "<image " in part else _lighten(part) for part in parts)


def _lighten(part: str) -> str:
    """Let white grounds be dark, and whatever else hardly stands out from the dark page become lighter; letters stay."""
    part = re.sub(r"(<path [^>]*style=\")fill: #ffffff", rf"\1fill: {IN_THE_DARK['#fefefe']}", part)
    return re.sub(r"((?:stroke|fill): )(#[0-9a-f]{6})", lambda of: of[1] + readable_in_the_dark(of[2]), part)


def readable_in_the_dark(colour: str) -> str:
    """Return a colour mixed with as much white as it needs to stand out from the dark page, as WCAG measures contrast."""
    page, own = (to_rgb(each) for each in (IN_THE_DARK["#fefefe"], colour))
    if own == page:
        return colour
    mixed = (tuple(part + share * (1 - part) for part in own) for share in np.linspace(0, 1, 21))
    return next(to_hex(each) for each in mixed if (_luminance(each) + 0.05) / (_luminance(page) + 0.05) >= 3)


def _luminance(colour: tuple[float, ...]) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return float(np.dot((0.2126, 0.7152, 0.0722), list(parts)))


def show_figures(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Let each figure be there in both themes' colours, of which a browser fetches one when it comes into view."""
    sources = {Path(copy).stem: source for source, copy in app.builder.images.items()}

    def both(found: re.Match) -> str:
        drawing = Path(app.srcdir, sources[found["name"]]).read_text(encoding="utf-8")
        size = SIZE.search(drawing)
        if size is None:  # not a chapter's figure: a browser that knows its size keeps its place free
            width = WIDTH.search(drawing)
            return found[0].replace(" src=", f" {width[0]} src=") if width and "width=" not in found[0] else found[0]
        width, height = (round(float(number) * 4 / 3) for number in (size[1] or size[4], size[2] or size[3]))
        attributes = re.sub(r'\b(class|style|width|height)="[^"]*"', "", found["before"] + found["after"])
        return "".join(
            f'<img loading="lazy" class="drawn dark-light in-{theme}" src="{found["folder"]}{found["name"]}{suffix}.svg" '
            f'width="{width}" height="{height}" {attributes.strip()}/>'
            for theme, suffix in (("light", ""), ("dark", "_dark"))
        )

    if "body" in context:
        context["body"] = FIGURE.sub(both, context["body"])


def describe(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Let a page say in its head what it is about: its first paragraph."""
    first = next(doctree.findall(nodes.paragraph), None) if doctree else None
    if first is not None:
        text = shorten(first.astext(), 160, placeholder=" …")
        context["metatags"] += f'\n<meta name="description" content="{escape(text)}">'


def write_figures(app: Sphinx, problem: Exception | None) -> None:
    """Write the chapters' figures to a hundredth of a point, which halves them, and their dark twins next to them."""
    if problem is not None or app.builder.format != "html":
        return
    for source, copy in app.builder.images.items():
        path = Path(app.srcdir, source)
        if path.suffix == ".svg" and SIZE.search(drawing := path.read_text(encoding="utf-8")):
            short = PATH.sub(lambda found: NUMBER.sub(lambda number: f"{float(number[0]):.2f}", found[0]), drawing)
            light = Path(app.outdir, "_images", copy)
            light.write_text(short, encoding="utf-8")
            light.with_name(f"{light.stem}_dark.svg").write_text(dark_figure(short), encoding="utf-8")


def take_out_what_is_not_used(app: Sphinx, problem: Exception | None) -> None:
    """Leave of the theme's style sheets and icons what pages show, and the search's index to the page of the search."""
    if problem is not None or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(Path(app.outdir).rglob("*.html"))}
    new = {path: text for path, text in pages.items() if SHEET_OF_ALL not in text}
    sheets = dict.fromkeys(name for text in new.values() for name in SHEET.findall(text))
    if not sheets:  # no page changed since the last build, which left nothing but what is used
        return
    used = {name for text in pages.values() for names in NAMED.findall(text) for name in names.split()}
    for path in static.glob("scripts/fontawesome.js*"):
        path.unlink()
    for path in static.rglob("*.js"):  # scripts give names too
        used |= set(NAME.findall(path.read_text(encoding="utf-8")))
    text = "".join(read_sheet(static / name) for name in sheets)  # as one: a browser asks once, and paints sooner
    rules = rules_for(used, tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True))
    for path in static.rglob("*.css*"):
        path.unlink()
    (static / "styles").mkdir(exist_ok=True)
    (static / SHEET_OF_ALL).write_text(TWO_FORMATS.sub(r"url(\1.woff)", rules), encoding="utf-8")
    for path, text in new.items():
        source = f"{'../' * (len(path.relative_to(app.outdir).parts) - 1)}_static/{SHEET_OF_ALL}?v={crc32(rules.encode()):08x}"
        link = f'</title>\n    <link rel="stylesheet" href="{source}" />'
        fixed = SHEET.sub("", lighter(text, searches=path.stem == "search")).replace("</title>", link, 1)
        path.write_text(fixed, encoding="utf-8")
    for script in static.glob("scripts/pydata-sphinx-theme.js"):
        script.write_text(TAB_STOPS.sub(ALL_AT_ONCE, script.read_text(encoding="utf-8")), encoding="utf-8")
    for path in static.glob("vendor/fontawesome/webfonts/*.ttf"):
        cut_font(path, path.with_suffix(".woff"), (letter_of(content) for content in CONTENT.findall(rules)))
        path.unlink()
        path.with_suffix(".woff2").unlink()


def lighter(page: str, searches: bool) -> str:
    """Return a page that waits for no script of the theme, and looks from the first paint on as it will."""
    page = OF_ICONS.sub("", page)
    if not searches:
        page = WAITED_FOR.sub(r"<script defer\1", OF_SEARCH.sub("", page))
    page = page.replace('<img alt="Colab logo"', '<img loading="lazy" alt="Colab logo"')  # in a closed menu
    page = page.replace(THEME, THEME_OF_SYSTEM).replace(MAIN, SCROLL_LIST + MAIN)
    return SIDE.sub(r'\g<0> role="region" aria-label="The book"', page)


def read_sheet(path: Path) -> str:
    """Return a style sheet as it is in the folder `styles`, with what it imports, without its word on the encoding."""
    text = CHARSET.sub("", path.read_text(encoding="utf-8"))
    if path.parent.name != "styles":
        text = OF_FOLDER.sub(r"\g<0>../", text)
    return IMPORT.sub(lambda found: read_sheet(path.parent / found[1]), text)


def rules_for(used: set[str], rules: list[Node]) -> str:
    """Return the rules of a style sheet that can concern a page.

    Args:
        used: The classes and ids that pages have.
        rules: As parsed.
    """
    kept = []
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = COMMA.split(tinycss2.serialize(rule.prelude))
            # What is in brackets, as in :not(.this), asks for no name.
            there = [each for each in selectors if used.issuperset(SELECTED.findall(IN_BRACKETS.sub("", each)))]
            kept += [f"{','.join(there)}{{{tinycss2.serialize(rule.content)}}}"] if there else []
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inner = rules_for(used, tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True))
            kept += [f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}"] if inner else []
        else:
            kept.append(rule.serialize())
    return "".join(kept)


def letter_of(content: str) -> int:
    """Return the number of the letter that a style sheet puts before an element: itself, or written by its number."""
    return int(content[1:], 16) if content.startswith("\\") else ord(content)


def cut_font(path: Path, target: Path, letters: Iterable[int], **options: object) -> set[int]:
    """Keep some letters of a font, without hints for screens of few pixels, an eighth of its bytes.

    Args:
        path: Of the font.
        target: Where to, as WOFF.
        letters: Their numbers in Unicode.
        options: More of fontTools' options.

    Returns:
        The letters that the font lacks.
    """
    settings = subset.Options(flavor="woff", hinting=False, **options)
    settings.drop_tables += ["FFTM"]  # FontForge's note of when it was made
    font = subset.load_font(path, settings)
    wanted, held = set(letters), font.getBestCmap().keys()
    cutter = subset.Subsetter(settings)
    cutter.populate(unicodes=wanted & held)
    cutter.subset(font)
    subset.save_font(font, target, settings)
    return wanted - held


class Index(search.IndexBuilder):
    """The search's index of all but the code that draws figures, which is folded away."""

    def feed(self, docname: str, filename: str, title: str, doctree: nodes.document) -> None:
        """Take in a page. (From Sphinx 8.2 on, a class "no-search" would do the same.)"""
        doctree = doctree.deepcopy()
        for cell in doctree.findall(nodes.container):
            if "tag_hide-input" in cell["classes"]:
                for code in [part for part in cell.findall(nodes.container) if "cell_input" in part["classes"]]:
                    code.parent.remove(code)
        super().feed(docname, filename, title, doctree)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    search.IndexBuilder = Index
    app.connect("html-page-context", show_figures)
    app.connect("html-page-context", describe)
    app.connect("build-finished", write_figures)
    app.connect("build-finished", take_out_what_is_not_used, priority=900)  # when all is there
    return {"parallel_read_safe": True, "parallel_write_safe": True}
