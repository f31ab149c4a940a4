"""Draw the logo, the favicon and the two attention maps of the landing page as SVG, from numbers.

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


def drawings() -> dict[str, str]:
    """Return file name and content of everything that this file draws."""
    files = {"favicon.svg": draw_logo(3, "#f2a541")}
    for theme, ink in INK.items():
        files[f"logo{theme}.svg"] = draw_logo(4, ink)
        files[f"map_keys{theme}.svg"] = draw_map(1, ink)
        files[f"map_queries{theme}.svg"] = draw_map(0, ink)
    return files


if __name__ == "__main__":
    for name, content in drawings().items():
        (STATIC / name).write_text(content, encoding="utf-8")
