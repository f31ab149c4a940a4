"""The list of mistakes: an entry opens, has an address (mistakes.html#m6), and the search finds it.

    ::::{mistake} M6 the softmax runs over the wrong axis
    :exercises: softmax, attention      the exercises with this mistake; none if no test names it
    :symptoms: another shape            how the mistake shows, the most frequent first

    The question to a student with this mistake.
    ::::

If there is a folder `solutions/`, an entry ends with the line that makes the mistake. The student version has no such folder
and no such line, because the line holds a part of the answer. `book/_static/mistakes.js` filters the list.

    :::{wrong_lines}                    riddles made of the mistakes, as data for book/_static/widget_wrong_lines.js
    :::
"""

import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.domains import ObjType
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator


class mistake_entry(nodes.General, nodes.Element):
    """One mistake."""


class MistakeEntry(SphinxDirective):
    """Show one mistake, folded away under its title."""

    required_arguments = 2
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {"exercises": directives.unchanged, "symptoms": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        name, title = self.arguments
        self.env.get_domain("std").note_object("mistake", f"{name}: {title}", name.lower(), self.get_location())
        exercises, symptoms = ((self.options.get(key) or "").strip() for key in ("exercises", "symptoms"))
        where = [f"`{exercise}`" for exercise in exercises.split(", ") if exercise]
        text = "\n".join(self.content)
        if where:
            text += f"\n\nMade in {', '.join(where)}."
        if symptoms:
            text += f" Symptoms: {symptoms.replace(', ', '; ')}."
        if where and (line := self.line(name, exercises.split(", ")[0])):
            box = f":::{{dropdown}} The wrong line (a part of the answer)\n```python\n{line}\n```\n:::"
            text += f"\n\n<!-- not for students -->\n\n{box}\n\n<!-- to here -->"
        node = mistake_entry(ids=[name.lower()], name=name, title=title, exercises=exercises, symptoms=symptoms)
        self.state.nested_parse(StringList(text.splitlines(), self.get_source_info()[0]), self.content_offset, node)
        return [node]

    def line(self, name: str, exercise: str) -> str:
        """Return the line that the first variant of a mistake writes; "" in a version without answers."""
        answers = Path(self.env.srcdir, "solutions")
        if not answers.is_dir():
            return ""
        from autograder.judge.catalogue import STEMS, checks_of, mistakes_of  # these do not import PyTorch
        from autograder.judge.mistake import changed_lines, variants_of

        for stem in STEMS:
            if variant := variants_of(exercise, (m for m in mistakes_of(stem) if m.name == name)).get(name):
                files = (answers / f"{stem}.py", answers / "programs.py")
                path = next(f for f in files if re.search(rf"^(def|class) {exercise}\b", f.read_text("utf-8"), re.M))
                for source in (str(path), checks_of(stem, "mistakes").__file__):
                    self.env.note_dependency(source)
                lines = changed_lines(path, exercise, variant)
                return "\n".join(re.sub(r"  # .*", "", line) for line in lines) or "# a line of the answer is missing"
        raise self.error(f"no variant of {name} in {exercise} is known")


class WrongLines(SphinxDirective):
    """Put the riddles into the page. They show answers, so the student version has no such page."""

    def run(self) -> list[nodes.Node]:
        from autograder.publish.wrong_lines import as_element, files_of_riddles, riddles  # imports PyTorch

        for path in files_of_riddles():
            self.env.note_dependency(str(path))
        return [nodes.raw("", as_element(riddles()), format="html")]


def visit_entry(page: HTML5Translator, node: mistake_entry) -> None:
    """Begin the box of a mistake."""
    facts = {f"data-{key}": node[key] for key in ("exercises", "symptoms")}
    page.body.append(page.starttag(node, "details", CLASS="mistake", **facts))
    page.body.append(f"<summary><b>{node['name']}</b> {page.encode(node['title'])}</summary>\n")


def depart_entry(page: HTML5Translator, node: mistake_entry) -> None:
    """End the box of a mistake."""
    page.body.append("</details>\n")


def load_filter(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Let a page that lists mistakes load the script that filters them."""
    if doctree and next(doctree.findall(mistake_entry), None):
        app.add_js_file("mistakes.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_node(mistake_entry, html=(visit_entry, depart_entry))
    # The search finds a mistake if every word of a query matches, at any place in the title; 0 puts it first.
    app.registry.domain_object_types.setdefault("std", {})["mistake"] = ObjType("known mistake", searchprio=0)
    app.add_directive("mistake", MistakeEntry)
    app.add_directive("wrong_lines", WrongLines)
    app.connect("html-page-context", load_filter)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
