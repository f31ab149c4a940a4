"""Add widgets, and links to the repository and to Colab.

    :::{widget} attention                  the place of book/_static/widget_attention.js; readers without scripts
    :::                                    see the text between these two lines
    {colab}`Try it <book/softmax.ipynb>`   a link that opens a notebook of the repository on Colab
    {repo}`the README <README.md>`         a link to a file of the repository
    {repository}`the repository </>`       a link to the repository itself
    {published}`a PDF <book.pdf>`          a link to a file that is published next to the book, and is not one of its pages

The pages load nothing from other hosts.
"""

import re
from pathlib import Path
from typing import ClassVar
from zlib import crc32

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

FORMULA_AND_STOP = re.compile(r'(<span class="math [^>]*><math(?:(?!</math>).)*</math></span>)([.,;:?!)\]]+)', re.S)
HEAD_WITH_FORMULA = re.compile(r'<th class="head([^"]*)">((?:(?!</th>).)*<math(?:(?!</th>).)*)</th>', re.S)


class Widget(SphinxDirective):
    """Reserve a place for a widget, `book/_static/widget_NAME.js`. Without scripts, the content is shown."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"with": directives.unchanged}  # scripts that several widgets share

    def run(self) -> list[nodes.Node]:
        [name] = self.arguments
        place = nodes.container(ids=[f"widget-{name}"], classes=["widget"])
        self.state.nested_parse(self.content, self.content_offset, place)
        # A browser builds the widget before it reads the rest of the page, so the text below never jumps.
        loaded = self.env.temp_data.setdefault("scripts", set())
        for script in ("widgets", *self.options.get("with", "").split(), f"widget_{name}"):
            path = Path(self.env.srcdir, "book", "_static", f"{script}.js")
            if not path.exists():
                raise self.error(f"{path} does not exist: write the widget, or correct its name")
            if script not in loaded:
                loaded.add(script)
                self.env.note_dependency(str(path))
                source = f"{'../' * self.env.docname.count('/')}_static/{script}.js?v={crc32(path.read_bytes()):08x}"
                place += nodes.raw("", f'<script class="in-place" src="{source}"></script>', format="html")
        return [place]


def name_links(app: Sphinx, config: Config) -> None:
    """Let roles link to the published book, to the repository that `_config.yml` names, and to its notebooks on Colab."""
    theme = config.html_theme_options
    address, branch = theme.get("repository_url", ""), theme.get("repository_branch", "")
    files = f"{address}/blob/{branch}/%s"
    colab = theme.get("launch_buttons", {}).get("colab_url", "")
    on_colab = files.replace("https://github.com", f"{colab}/github")
    config.extlinks = {
        "repo": (files, "%s"),
        "repository": (f"{address}%s", "%s"),
        "colab": (on_colab, "%s"),
        "published": (f"{config.html_baseurl}%s", "%s"),
    }


def leave_out_thebe(app: Sphinx, config: object) -> None:
    """Remove what Jupyter Book loads on every page to run cells in the page, because this book does not run them."""
    for listeners in app.events.listeners.values():
        listeners[:] = [listener for listener in listeners if listener.handler.__module__ != "sphinx_thebe"]
    app.registry.css_files[:] = [entry for entry in app.registry.css_files if entry[0] != "sphinx-thebe.css"]


def prepare(app: Sphinx) -> None:
    """Make the folder of scripts and pictures.

    After a build that fails early, the theme copies its logo into this folder. Without the folder, the logo would
    become a file with the folder's name, which breaks every later build.
    """
    Path(app.outdir, "_static").mkdir(parents=True, exist_ok=True)


def say_head(head: re.Match) -> str:
    """Return the head of a column, with its formula also in words."""
    words = re.sub(r"<[^>]*>", "", head[2]).strip()
    return f'<th class="head{head[1]}"><span class="visually-hidden">{words}</span><div aria-hidden="true">{head[2]}</div></th>'


def change_page(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Fix problems of screen readers, and keep a full stop on the line of its formula.

    A screen reader expects list items in a list, and words at the head of a column.
    """
    if "body" in context:
        body = context["body"].replace('<div role="list" class="citation-list">', '<div class="citation-list">')
        body = body.replace(' role="doc-biblioentry"', "")
        body = re.sub(r'<th class="head([^"]*)">(<p></p>)?</th>', r'<td class="head\1"></td>', body)
        body = HEAD_WITH_FORMULA.sub(say_head, body)
        context["body"] = FORMULA_AND_STOP.sub(r'<span class="unbroken">\1\2</span>', body)


def setup(app: Sphinx) -> dict[str, int]:
    """Register what this extension adds, and the other extensions in this folder."""
    for other in ("drawings", "equations", "highlighting", "mistake_list", "pages", "progress"):
        app.setup_extension(other)
    app.add_directive("widget", Widget)
    app.setup_extension("sphinx.ext.extlinks")
    app.connect("config-inited", name_links)
    app.connect("config-inited", leave_out_thebe, priority=1000)
    app.connect("builder-inited", prepare)
    app.connect("html-page-context", change_page)
    ours = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    # After a change of these extensions every page is read again.
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": crc32(ours)}
