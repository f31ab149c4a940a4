"""Record the messages of exercise 1's notebook: for a softmax along the wrong axis, and for the fixed line.

    python -m autograder.publish.moving_picture      writes book/_static/named.gif, which the README shows

The messages are those of the notebook: its tests run here.
"""

import contextlib
import io
import textwrap
from pathlib import Path

import matplotlib
import numpy as np
from attention_tests.run import silent_tests_of
from PIL import Image, ImageDraw, ImageFont

from autograder.imports import ROOT

TARGET = ROOT / "book" / "_static" / "named.gif"
WRONG, RIGHT = "axis=-2", "axis=-1"
ANSWER = """\
def attention(queries, keys, values, mask=None):
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(queries.shape[-1])
    if mask is not None:
        if not mask.any(axis=-1).all():
            raise ValueError("the mask hides all keys from a query")
        scores = np.where(mask, scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-2, keepdims=True)
    return weights @ values, weights"""
HEAD, *_, SUM, RETURN = ANSWER.splitlines()
SHOWN = "\n".join([HEAD, "    …", SUM, RETURN])  # a picture does not show a whole answer
CALL = 'run_tests("attention", attention)'
WIDTH, LINE, COLUMNS = 820, 21, 92
INK, GREY, RED, GREEN, PAGE, CELL = "#1f2328", "#515b66", "#a4262c", "#1a6b37", "#ffffff", "#f4f6f8"


def notebook_output(answer: str) -> str:
    """Return what the notebook prints when an answer is tested, or the message of its error."""
    namespace = {"np": np, "run_tests": silent_tests_of("attention")[0], "__name__": "__main__"}
    exec(answer, namespace)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(CALL, namespace)
        except AssertionError as error:
            return f"AssertionError: {error}"
    return printed.getvalue().strip()


def wrapped(text: str) -> list[str]:
    """Return the lines of a text, wrapped to the width of the picture."""
    return [part for line in text.splitlines() for part in textwrap.wrap(line, COLUMNS) or [""]]


def frame(code: list[str], coloured: str, output: list[str], colour: str, height: int) -> Image.Image:
    """Return a picture of a cell and its output. Code lines that contain `coloured` have the given colour."""
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf", 14)
    picture = Image.new("RGB", (WIDTH, height), PAGE)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, WIDTH, 16 + LINE * (len(SHOWN.splitlines()) + 2)), fill=CELL)
    for number, line in enumerate(code):
        draw.text((14, 10 + LINE * number), line, font=font, fill=colour if coloured and coloured in line else INK)
    top = 30 + LINE * (len(SHOWN.splitlines()) + 2)
    for number, line in enumerate(output):
        draw.text((14, top + LINE * number), line, font=font, fill=colour if number == 0 else GREY)
    return picture


def record() -> list[tuple[Image.Image, int]]:
    """Return the pictures, and how many milliseconds each is shown."""
    takes = [(WRONG, RED), (RIGHT, GREEN)]
    outputs = [wrapped(notebook_output(ANSWER.replace(WRONG, axis))) for axis, _ in takes]
    height = 46 + LINE * (len(SHOWN.splitlines()) + 2 + max(map(len, outputs)))
    typed = [*SHOWN.splitlines(), "", CALL]
    pictures = [(frame(typed[:count], "", [], INK, height), 350) for count in range(1, len(typed) + 1)]
    for (axis, colour), output in zip(takes, outputs, strict=True):
        code = [*SHOWN.replace(WRONG, axis).splitlines(), "", CALL]
        shown = f"powers.sum({axis}"
        pictures.append((frame(code, shown if colour == GREEN else "", [], colour, height), 900))
        pictures.append((frame(code, shown, output, colour, height), 5500))
    colours = Image.new("P", (1, 1))  # all pictures share one palette: the colours of letters on page and cell
    shades = [
        Image.blend(Image.new("RGB", (1, 1), ground), Image.new("RGB", (1, 1), ink), step / 7).getpixel((0, 0))
        for ground in (PAGE, CELL)
        for ink in (INK, GREY, RED, GREEN)
        for step in range(8)
    ]
    colours.putpalette([part for shade in shades for part in shade])
    return [(picture.quantize(palette=colours, dither=Image.Dither.NONE), time) for picture, time in pictures]


def as_gif() -> bytes:
    """Return the moving picture."""
    (first, *others), times = zip(*record(), strict=True)
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    TARGET.write_bytes(as_gif())
    print(f"written  {TARGET}, {TARGET.stat().st_size / 1000:.0f} kB")
