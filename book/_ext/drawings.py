"""Draw what the book shows as SVG: logo, favicon, maps, axes, and drawings that come back with "you are here".

    python book/_ext/drawings.py

writes logo, favicon and the two attention maps of the landing page into book/_static. The maps belong to one table of
random scores (N = 5, seed 0).

    :::{drawing} attention      queries, keys and values on their way through attention; or `vit`, from image to answer
    :here: softmax              the parts that the chapter is about, of those in RECURRING
    :::
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib import colormaps, colors
from scipy.special import softmax
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

STATIC = Path(__file__).parent.parent / "_static"
INK = {"": "#1f2328", "_dark": "#e6edf3"}  # text on a light and on a dark page


def weights_over(axis: int, size: int = 5) -> np.ndarray:
    """Return the softmax of one table of random scores over its keys (axis 1) or its queries (axis 0)."""
    scores = 1.3 * np.random.default_rng(0).normal(size=(size, size))
    return softmax(scores, axis)


def cells(weights: np.ndarray, step: float, gap: float, left: float = 0, top: float = 0) -> list[str]:
    """Return one square per weight; dark is 0, bright is the largest."""
    shades = colormaps["viridis"](0.02 + 0.98 * weights / weights.max())
    return [
        f'<rect x="{left + column * step:g}" y="{top + row * step:g}" width="{step - gap:g}" '
        f'height="{step - gap:g}" rx="{step / 9:.3g}" fill="{colors.to_hex(shades[row, column])}"/>'
        for row in range(len(weights))
        for column in range(len(weights))
    ]


def svg(width: float, height: float, parts: list[str]) -> str:
    """Return an SVG document."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, *parts, "</svg>\n"])


def draw_logo(size: int, ink: str) -> str:
    """Return a small attention map with a frame around one row: the row that sums to 1."""
    weights = weights_over(axis=1, size=size)
    step, gap, margin = 20, 3, 4
    row = size // 2
    frame = (
        f'<rect x="{margin - 2.5}" y="{margin + row * step - 2.5}" width="{size * step - gap + 5}" '
        f'height="{step - gap + 5}" rx="4" fill="none" stroke="{ink}" stroke-width="2.5"/>'
    )
    side = size * step - gap + 2 * margin
    return svg(side, side, [*cells(weights, step, gap, margin, margin), frame])


def draw_map(axis: int, ink: str) -> str:
    """Return an attention map with the sum of each row and each column next to it."""
    weights = weights_over(axis)
    size, step, gap, left, top = len(weights), 44, 4, 34, 34
    edge = left + size * step
    text = f'font-family="system-ui, sans-serif" font-size="14" fill="{ink}"'
    mono = f'{text} style="font-variant-numeric: tabular-nums"'
    parts = cells(weights, step, gap, left, top)
    parts.append(f'<text x="{left + size * step / 2:g}" y="20" text-anchor="middle" {text}>keys</text>')
    middle = top + size * step / 2
    parts.append(f'<text transform="translate(20 {middle:g}) rotate(-90)" text-anchor="middle" {text}>queries</text>')
    for index in range(size):
        centre = index * step + (step - gap) / 2
        bold = ["", ' font-weight="700"']
        parts.append(
            f'<text x="{edge + 6}" y="{top + centre + 5:g}" {mono}{bold[axis == 1]}>{weights[index].sum():.2f}</text>'
        )
        parts.append(
            f'<text x="{left + centre:g}" y="{top + size * step + 16:g}" text-anchor="middle" {mono}{bold[axis == 0]}>'
            f"{weights[:, index].sum():.2f}</text>"
        )
    return svg(edge + 44, top + size * step + 24, parts)


def draw_axes(ink: str) -> str:
    """Return multi-head attention by its four axes: tokens split into heads, a map per image and head, and one map."""
    images, heads, tokens, head_width, step = 2, 3, 4, 2, 17
    shades = ["#3b528b", "#21918c", "#5ec962"]
    scores = 1.3 * np.random.default_rng(3).normal(size=(images, heads, tokens, tokens))
    weights = softmax(scores, axis=-1)  # (B, H, N, N)

    def say(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
        text = f'font-family="system-ui, sans-serif" font-size="15" fill="{ink}"'
        return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {text} {more}>{words}</text>'

    def table(x: float, y: float, columns: list[int]) -> list[str]:
        """Return a table of tokens; columns: the head that each column belongs to."""
        return [
            f'<rect x="{x + place * step:g}" y="{y + row * step:g}" width="{step - 2}" height="{step - 2}" rx="2" '
            f'fill="{shades[head]}"/>'
            for row in range(tokens)
            for place, head in enumerate(columns)
        ]

    def arrow(x: float, y: float, across: float, down: float) -> str:
        tip = f"{x + across:g} {y + down:g}"
        side = "l -7 -5 v 10 z" if across else "l -5 -7 h 10 z"
        return f'<path d="M {x:g} {y:g} L {tip} M {tip} {side}" stroke="{ink}" stroke-width="2" fill="{ink}"/>'

    parts = [say(8, 22, "queries of one image", "start"), say(66, 42, "(N, D)")]
    parts += table(15, 54, [head for head in range(heads) for _ in range(head_width)])
    parts += [say(178, 70, "split"), arrow(140, 80, 76, 0), say(178, 122, "merge"), arrow(216, 102, -76, 0)]
    parts[-1] = parts[-1].replace("l -7 -5 v 10 z", "l 7 -5 v 10 z")
    parts.append(say(368, 22, "each head: all tokens, d columns"))
    parts.append(say(368, 42, "(H, N, d)"))
    for head in range(heads):
        parts += table(248 + 96 * head, 54, [head] * head_width)
        parts.append(say(264 + 96 * head, 142, f"head {head + 1}"))

    left, top = 76, 214  # of the maps: a row for each image, a column for each head
    parts.append(say(left + 113, 178, "a map for each image and head"))
    parts.append(say(left + 113, 200, "(B, H, N, N)"))
    for image in range(images):
        parts.append(say(left - 8, top + 38 + 88 * image, f"image {image + 1}", "end"))
        for head in range(heads):
            parts += cells(weights[image, head], step, 2, left + 80 * head, top + 88 * image)
    for head in range(heads):
        bar = f'<rect x="{left + 80 * head}" y="{top + 172}" width="66" height="5" rx="2" fill="{shades[head]}"/>'
        parts += [bar, say(left + 33 + 80 * head, top + 196, f"head {head + 1}")]

    wide, x, y = 31, 368, 236  # one of the maps, enlarged
    parts += [say(x + 61, 198, "key", more='font-weight="700"'), arrow(x + 4, 208, 114, 0)]
    middle = y + 2 * wide
    turned = f'transform="rotate(-90 {x - 28} {middle})" font-weight="700"'
    parts += [say(x - 28, middle, "query", more=turned), arrow(x - 16, y + 4, 0, 114)]
    parts += cells(weights[0, 1], wide, 3, x, y)
    frame = f'x="{x - 4}" y="{y + wide - 4}" width="{4 * wide + 5}" height="{wide + 5}" rx="4"'
    parts.append(f'<rect {frame} fill="none" stroke="{ink}" stroke-width="2.5"/>')
    parts.append(say(x + 61, y + 4 * wide + 22, "a row sums to 1"))
    parts.append(say(x + 61, y + 4 * wide + 42, "image 1, head 2"))
    return svg(540, 424, parts)


@dataclass(frozen=True)
class Part:
    """A box of a recurring drawing: its place, its name and what is below it."""

    left: float
    top: float
    width: float
    height: float
    name: str
    shape: str = ""
    pointed: bool = True  # at, where it is what the chapter is about: there is room above it

    def draw(self, here: bool) -> str:
        """Return the box, with a heavier frame and a pointer if the chapter is about it."""
        middle = self.left + self.width / 2
        size = f'x="{self.left:g}" y="{self.top:g}" width="{self.width:g}" height="{self.height:g}"'
        base = self.top + self.height / 2 + (-3 if self.shape else 6)
        lines = [f'<rect {size} rx="8"/>', f'<text x="{middle:g}" y="{base:g}">{self.name}</text>']
        if self.shape:
            lines.append(f'<text class="shape" x="{middle:g}" y="{base + 20:g}">{self.shape}</text>')
        if here and self.pointed:
            lines.append(f'<path class="pointer" d="M{middle:g} {self.top - 4:g}l-8 -12h16z"/>')
        return f'<g class="part{" here" * here}">{"".join(lines)}</g>'


@dataclass(frozen=True)
class Recurring:
    """A drawing that comes back from chapter to chapter.

    Attributes:
        says: What it shows, in words, for readers who do not see it.
        size: Width and height.
        parts: The boxes, by the name that a chapter gives.
        arrows: Paths; one with a name is drawn where that is what the chapter is about.
    """

    says: str
    size: tuple[float, float]
    parts: dict[str, Part]
    arrows: tuple[tuple[str, str], ...]

    def draw(self, here: set[str]) -> str:
        """Return the drawing, in the colours of the page that it is on."""
        width, height = self.size
        named = ", ".join(self.parts[name].name if name in self.parts else name for name in sorted(here))
        head = f'<svg class="recurring" role="img" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        head += f'aria-label="{self.says}{f" This chapter: {named}." if here else ""}">'
        tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        arrows = [
            f'<path class="arrow{" here" * bool(name)}" d="{path}" marker-end="url(#tip)"/>'
            for path, name in self.arrows
            if not name or name in here
        ]
        parts = [part.draw(name in here) for name, part in self.parts.items()]
        return "".join([head, f'<defs>{tip}<path d="M0 0l8 4l-8 4z"/></marker></defs>', *arrows, *parts, "</svg>"])


RECURRING = {
    "attention": Recurring(
        "Tokens are projected to queries, keys and values; queries and keys make scores, the softmax makes weights of them, "
        "and the weights mix the values.",
        (620, 216),
        {
            "tokens": Part(2, 82, 74, 48, "tokens", "(N, D)"),
            "queries": Part(116, 22, 80, 48, "queries", "(N, d)"),
            "keys": Part(116, 82, 80, 48, "keys", "(N, d)"),
            "values": Part(116, 142, 80, 48, "values", "(N, d)"),
            "scores": Part(238, 52, 94, 48, "scores", "QKᵀ / √d"),
            "softmax": Part(374, 52, 94, 48, "softmax", "(N, N)"),
            "mix": Part(510, 82, 108, 48, "mix", "weights · V"),
        },
        (
            ("M76 100 C96 96 96 46 114 46", ""),
            ("M76 106 L114 106", ""),
            ("M76 112 C96 116 96 166 114 166", ""),
            ("M196 46 C216 46 216 70 236 70", ""),
            ("M196 106 C216 106 216 84 236 84", ""),
            ("M332 76 L372 76", ""),
            ("M468 76 C490 76 490 100 508 100", ""),
            ("M196 166 L470 166 C492 166 492 112 508 112", ""),
            ("M560 140 C556 208 520 206 480 206 L60 206 C40 206 38 180 38 136", "gradient"),
        ),
    ),
    "vit": Recurring(
        "An image is cut into patches, which become tokens; positions are added; blocks of attention and feed-forward "
        "network follow, and the classifier reads one token. The loss compares its answer with the label.",
        (624, 140),
        {
            "image": Part(2, 62, 68, 48, "image", "28 × 28"),
            "patches": Part(98, 62, 78, 48, "patches", "N tokens"),
            "positions": Part(204, 62, 86, 48, "positions", "1 + N"),
            "attention": Part(316, 24, 128, 40, "attention"),
            "feed-forward": Part(316, 78, 128, 52, "feed-forward", "both L times", pointed=False),
            "classifier": Part(472, 62, 84, 48, "classifier", "10 logits"),
            "loss": Part(580, 62, 42, 48, "loss"),
        },
        (
            ("M70 86 L96 86", ""),
            ("M176 86 L202 86", ""),
            ("M290 86 C304 86 302 44 314 44", ""),
            ("M380 64 L380 76", ""),
            ("M444 104 C460 104 456 86 470 86", ""),
            ("M556 86 L578 86", ""),
        ),
    ),
}


class RecurringDrawing(SphinxDirective):
    """Show a drawing of RECURRING, with the parts marked that the chapter is about."""

    required_arguments = 1
    option_spec: ClassVar = {"here": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        [name] = self.arguments
        here = set((self.options.get("here") or "").replace(",", " ").split())
        if name not in RECURRING:
            raise self.error(f"there is no drawing {name!r}; there is: {', '.join(RECURRING)}")
        known = {*RECURRING[name].parts, *(part for _, part in RECURRING[name].arrows if part)}
        if here - known:
            raise self.error(f"{name} has no part {', '.join(here - known)}; it has: {', '.join(sorted(known))}")
        return [nodes.raw("", RECURRING[name].draw(here), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what this extension adds."""
    app.add_directive("drawing", RecurringDrawing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def drawings() -> dict[str, str]:
    """Return file name and content of everything that this file draws."""
    files = {"favicon.svg": draw_logo(3, "#f2a541")}
    for theme, ink in INK.items():
        files[f"logo{theme}.svg"] = draw_logo(4, ink)
        files[f"map_keys{theme}.svg"] = draw_map(1, ink)
        files[f"map_queries{theme}.svg"] = draw_map(0, ink)
        files[f"axes{theme}.svg"] = draw_axes(ink)
    return files


if __name__ == "__main__":
    for name, content in drawings().items():
        (STATIC / name).write_text(content, encoding="utf-8")
