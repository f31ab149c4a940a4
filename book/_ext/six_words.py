"""Draw the six words of the running example, "the cat sat on the mat", once for each chapter of Parts 1 to 3.

A word has the same colour in every drawing, and is written on it. All numbers are computed here, from small vectors
that we chose by hand: `QUERIES` and `KEYS` have a row for each word. `:::{drawing} words_softmax` shows a drawing.
"""

import numpy as np

WORDS = ("the", "cat", "sat", "on", "the", "mat")
COLOURS = ("#f2b54a", "#7cc4ee", "#5cc9a0", "#f2e96b", "#f29b82", "#c3b1f2")  # all bright enough for black letters
SAT, CAT = 2, 1  # the query that the drawings follow, and the key that fits it best
LEFT, STEP = 98, 64  # where the column of the first word begins, and the distance of two columns
# How fast the loss falls if the output of "sat" moves towards the value of a word.
BENEFIT = np.array([0, 2, 1, 0, 0, 1])
QUERIES = np.array(  # (head, word, d)
    [
        [[2, 0, 0, 0], [0, 0, 0, 2], [1, 1, 0, 0], [1, 0, 1, 0], [2, 0, 0, 0], [0, 0, 0, 2]],  # a verb asks who does it
        [[0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 2, 0], [0, 0, 2, 0], [0, 0, 0, 1], [0, 0, 0, 2]],  # or where it happens
    ]
)
KEYS = np.array(
    [
        [[0, 0, 0, 2], [2, 2, 0, 0], [0, 2, 0, 0], [0, 0, 0, 1], [0, 0, 0, 2], [2, 0, 0, 0]],
        [[0, 0, 0, 1], [1, 1, 0, 0], [0, 2, 0, 0], [0, 0, 1, 2], [0, 0, 0, 1], [1, 0, 2, 0]],
    ]
)


def attend(head=0, order=range(6), positions=0):
    """Return queries, keys, scaled scores and weights of the words in an order. Codes of positions are added to both vectors."""
    q, k = (table[head][[*order]] + positions for table in (QUERIES, KEYS))
    scores = q @ k.T / np.sqrt(q.shape[-1])
    powers = np.exp(scores)
    return q, k, scores, powers / powers.sum(axis=-1, keepdims=True)


# ---- parts of a drawing ---------------------------------------------------------------------------------------------


def text(x, y, words, style="", kind=""):
    """Return letters around x."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" style="{style}">{words}</text>'


def label(y, words):
    """Return the name of a row of the drawing, at its left end."""
    return text(0, y, words, "text-anchor: start", "shape")


def box(x, y, width, height, style="", rx=3):
    """Return a rectangle, in the page's colours if the style has no others."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{rx}" style="{style}"/>'


def chip(x, y, j, width=54, word=""):
    """Return word j on its colour, in a box of height 26."""
    size = "" if width > 35 else "; font-size: 14px; font-weight: 400"
    letters = text(x + width / 2, y + 18, word or WORDS[j], f"fill: #1f2328; font-weight: 600{size}")
    return f'<g data-word="{j}">{box(x, y, width, 26, fill(j))}{letters}</g>'


def fill(j):
    """Return the style of a part that belongs to word j."""
    return f"fill: {COLOURS[j]}"


def line(x, y, to_x, to_y, width=1.5, colour=""):
    """Return a line."""
    look = f"stroke-width: {width:g}" + (f"; stroke: {colour}" if colour else "")
    return f'<path class="arrow" d="M{x:g} {y:g}L{to_x:g} {to_y:g}" style="{look}"/>'


def across(y, cells):
    """Return a number or a word below each of the six columns."""
    return "".join(text(column(j) + 27, y, cell) for j, cell in enumerate(cells))


def column(j):
    """Return where the column of word j begins."""
    return LEFT + STEP * j


def chips(y):
    """Return the six words."""
    return "".join(chip(column(j), y, j) for j in range(6))


def bars(y, sizes, height):
    """Return a bar on the line y for each word; a negative one hangs from it."""
    return "".join(
        box(column(j) + 14, min(y, y - height * size), 26, height * abs(size), fill(j)) for j, size in enumerate(sizes)
    )


def mixture(y, weights):
    """Return a bar whose six parts are as wide as the weights of the words, and the middles of the parts."""
    widths = weights * (STEP * 5 + 54)
    starts = LEFT + np.cumsum(widths) - widths
    parts = [chip(x, y, j, width, WORDS[j] if width > 35 else " ") for j, (x, width) in enumerate(zip(starts, widths))]
    return "".join(parts), starts + widths / 2


def digits(numbers, places=3):
    """Return numbers as text."""
    return [f"{number + 0.0:.{places}f}".replace("-", "−") for number in numbers]


# ---- one drawing for each chapter -----------------------------------------------------------------------------------


def draw_softmax():
    """Scores, their exponentials and the weights."""
    _, _, scores, weights = attend()
    alt = (
        "The word sat has scores 0, 2, 1, 0, 0, 1 with the six words; the softmax makes weights of them that sum to 1, "
        "and cat, which has the highest score, gets nearly half."
    )
    parts = [label(18, "one word"), chip(LEFT, 0, SAT), label(58, "six words"), chips(40)]
    parts += [label(92, "score"), across(92, digits(scores[SAT], 0))]
    parts += [label(120, "exp(score)"), across(120, digits(np.exp(scores[SAT]), 2))]
    parts += [label(194, "weight"), bars(194, weights[SAT], 120), across(214, digits(weights[SAT]))]
    return 222, alt, *parts


def draw_attention():
    """A look-up: query, keys, weights, values and output."""
    weights = attend()[3][SAT]
    alt = (
        "The query of sat fits the key of cat best; so nearly half of the output of sat is the value of cat, "
        "and every word has a part that is as large as its weight."
    )
    bar, middles = mixture(206, weights)
    parts = [label(18, "query"), label(90, "keys"), label(120, "weights"), across(120, digits(weights))]
    parts += [label(152, "values"), label(224, "output")]
    for j in range(6):
        parts.append(line(column(SAT) + 27, 26, column(j) + 27, 72, 1 + 12 * weights[j], COLOURS[j]))
        parts.append(line(column(j) + 27, 160, middles[j], 206, 1 + 12 * weights[j], COLOURS[j]))
    return 232, alt, *parts, chip(column(SAT), 0, SAT), chips(72), chips(134), bar


def draw_attention_gradient():
    """From the error of an output back to the scores."""
    weights = attend()[3][SAT]
    slopes = -weights * (BENEFIT - weights @ BENEFIT)
    alt = (
        "The gradient of the loss with respect to the score is negative for cat alone, whose value lowers the loss more "
        "than the mean of the values does; the six gradients sum to 0."
    )
    parts = [label(18, "values"), chips(0), label(50, "lowers loss"), across(50, digits(BENEFIT, 0))]
    parts += [label(76, "weight"), across(76, digits(weights)), label(124, "gradient")]
    parts += [bars(118, slopes, 120), line(LEFT, 118, 480, 118), across(178, digits(slopes, 2))]
    return 186, alt, *parts


def table(x, y, heading, numbers, size, marked, heads=True):
    """Return a table of numbers with a word at each row and, with `heads`, at each column; `marked` cells have a frame."""
    x, top = x + 42, y + 28 * heads
    parts = [text(x + size * numbers.shape[1] / 2, y - 7, heading, "font-weight: 600")]
    parts += [chip(x - 42, top + 1 + 28 * i, i, 40) for i in range(6)]
    parts += [chip(x + size * j, y, j, size) for j in range(6) if heads]
    for i, j in sorted(np.ndindex(numbers.shape), key=lambda cell: cell in marked):  # frames are above other cells
        parts.append(box(x + size * j, top + 28 * i, size, 28, "stroke-width: 3.5" if (i, j) in marked else ""))
        style = f"font-size: 14px; font-weight: {700 if (i, j) in marked else 400}"
        parts.append(text(x + size * (j + 0.5), top + 19 + 28 * i, numbers[i, j], style))
    return "".join(parts)


def draw_einsum():
    """Queries times keys, with a letter for each axis."""
    q, k, _, _ = attend()
    alt = (
        "Row sat of the queries, with letters i and d, and row cat of the keys, with letters j and d, give one number, 4, "
        "in row sat and column cat of the scores, with letters i and j; the letter d is summed and gone."
    )
    parts = [table(0, 50, "Q: id", q, 16, {(SAT, d) for d in range(4)}, heads=False)]
    parts += [table(114, 50, "K: jd", k, 16, {(CAT, d) for d in range(4)}, heads=False), text(232, 140, "→")]
    return 222, alt, *parts, table(246, 22, "scores: ij", q @ k.T, 32, {(SAT, CAT)})


def draw_multihead():
    """Two heads with maps of their own."""
    maps = []
    for head, name in enumerate(("head 1: who?", "head 2: where?")):
        weights = attend(head)[3]
        cells = np.vectorize(lambda weight: f"{weight:.2f}"[1:])(weights)
        maps.append(table(246 * head, 22, name, cells, 32, {(SAT, weights[SAT].argmax())}))
    alt = "The six words have two maps of weights: in head 1 the word sat looks most at cat, and in head 2 most at mat."
    return 220, alt, *maps


def draw_encoder():
    """A block: attention connects the words, and the feed-forward network works on each word alone."""
    weights = attend()[3]
    alt = (
        "Each of the six words has a stream of its own from the bottom to the top of the block; attention adds what it "
        "mixes from all six words, and the feed-forward network adds what it computes from one word."
    )
    parts = [label(18, "tokens out"), label(86, "feed-forward"), label(182, "attention"), label(278, "tokens in")]
    for j in range(6):
        x, to = column(j) + 8, column(j) + 37
        parts += [line(x, 260, x, 26, 5, COLOURS[j]), line(x, 240, to, 218), line(x, 114, to, 96), line(to, 66, x, 46)]
        parts += [line(column(k) + 37, 218, to, 150, 8 * weights[j, k], COLOURS[k]) for k in range(6)]
        parts += [line(to, 150, x, 132), box(to - 17, 66, 34, 30), text(to, 86, "ff")]
        for y in (46, 132):  # a plus in a circle
            parts += [box(x - 8, y - 8, 16, 16, rx=8), text(x, y + 5, "+")]
    return 286, alt, *parts, chips(0), chips(260)


def draw_positions():
    """Two sentences of the same words, with and without positions."""
    places = np.arange(6)[:, None] / 10_000 ** (np.arange(0, 4, 2) / 4)  # (N, d / 2)
    codes = np.stack([np.sin(places), np.cos(places)], axis=-1).reshape(6, 4) / 2
    parts = []
    for y, order in ((0, (0, 1, 2, 3, 4, 5)), (120, (0, 5, 2, 3, 4, 1))):
        parts += [chip(column(j), y, k) for j, k in enumerate(order)]
        without, coded = (attend(order=order, positions=given)[3][SAT] for given in (0, codes))
        parts += [label(y + 18, "sat looks at"), label(y + 50, "no positions"), across(y + 50, digits(without))]
        parts += [label(y + 76, "positions"), across(y + 76, digits(coded))]
    alt = (
        "Without positions, sat gives cat and mat the same weights in both sentences; with positions, the weights change "
        "when cat and mat change places."
    )
    return 204, alt, *parts


ALL = (draw_softmax, draw_attention, draw_attention_gradient, draw_einsum, draw_multihead, draw_encoder, draw_positions)
DRAWINGS = {draw.__name__.replace("draw", "words"): draw for draw in ALL}


def draw(name):
    """Return a drawing as SVG."""
    height, alt, *parts = DRAWINGS[name]()
    head = f'class="recurring" style="max-width: 33rem" role="img" viewBox="-2 -2 484 {height + 4}" aria-label="{alt}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>{"".join(parts)}</svg>'
