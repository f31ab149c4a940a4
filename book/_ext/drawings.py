"""Draw the logo, the favicon, the maps of the landing page and the axes of multi-head attention as SVG, from numbers.

    python book/_ext/drawings.py

writes them into book/_static. The maps belong to one table of random scores (N = 5, seed 0).
"""

from pathlib import Path

import numpy as np
from matplotlib import colormaps, colors

STATIC = Path(__file__).parent.parent / "_static"
INK = {"": "#1f2328", "_dark": "#e6edf3"}  # text on a light and on a dark page


def weights_over(axis: int, size: int = 5) -> np.ndarray:
    """Return the softmax of one table of random scores over its keys (axis 1) or its queries (axis 0)."""
    scores = 1.3 * np.random.default_rng(0).normal(size=(size, size))
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


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
    """Return an attention map with the sum of each row and each column beside it."""
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
    exponentials = np.exp(scores)
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)  # (B, H, N, N)

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
