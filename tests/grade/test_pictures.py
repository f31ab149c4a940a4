"""Is a picture in a written answer shown to the person who grades and to the student, and is a hostile one harmless?"""

import base64
import io
import re
import struct
import zlib

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import NAME, SEED, repaired
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.server_extensions.formgrader.handlers import template_path
from PIL import Image, ImageDraw
from sample_class import answer

from autograder.course.course import Assignment
from autograder.grade.job import grade_one
from autograder.grade.pictures import show_pictures
from autograder.grade.task import Job, Task
from autograder.report.feedback import cells_of
from autograder.sandbox.host.limits import Limits

WORDS = "The variance grows with the width, as the drawing shows."
GPS = "48.1374 N"


def encoded(image: Image.Image, kind: str, **options: object) -> str:
    """Return an image as a file in base64."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def drawing(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Return a drawing whose left half is red and whose right half is transparent, or white."""
    image = Image.new(mode, (width, height), (255, 255, 255, 0)[: len(mode)])
    ImageDraw.Draw(image).rectangle((0, 0, width // 2, height), fill=(200, 0, 0, 255)[: len(mode)])
    return image


def photo(width: int, height: int) -> str:
    """Return a phone's photo: noise, which hardly compresses, lying on its side, with a place in its metadata."""
    image = Image.effect_noise((width, height), 90).convert("RGB")
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, GPS  # the camera was turned by 90 degrees
    return encoded(image, "JPEG", exif=exif, quality=95)


def png_of_size(width: int, height: int) -> str:
    """Return a file of few bytes that claims to be a picture of any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")
    )
    return base64.b64encode(data).decode()


def shown(perfect: NotebookNode, assignment: Assignment) -> NotebookNode:
    """Return a submitted notebook as the person who grades gets it, but not executed."""
    made = repaired(perfect, assignment)
    show_pictures(made.notebook, made.pictures, Limits(), True)
    return made.notebook


def pages_of(notebook: NotebookNode, assignment: Assignment) -> dict[str, BeautifulSoup]:
    """Return the answer why_scale as feedback shows it, and the page on which formgrader shows it."""
    cells = cells_of(notebook, assignment, {}, {}, False)
    feedback = "".join(cell["html"] for cell in cells if cell["id"] == "why_scale")
    exporter = HTMLExporter(template_name="formgrade", extra_template_basedirs=[template_path])
    formgrader = exporter.from_notebook_node(notebook, {"index": 0, "total": 1})[0]
    return {
        name: BeautifulSoup(page, "html.parser") for name, page in (("feedback", feedback), ("formgrader", formgrader))
    }


def pictures_on(page: BeautifulSoup) -> list[Image.Image]:
    """Return the pictures of a page."""
    found = []
    for tag in page.find_all("img", src=re.compile("^data:image/(png|jpeg);base64,")):
        found.append(Image.open(io.BytesIO(base64.b64decode(tag["src"].partition(",")[2]))))
    return found


def put(perfect: NotebookNode, how: str, data: str, kind: str = "image/png") -> NotebookNode:
    """Put a picture into an answer as Colab, Jupyter or a person with HTML does."""
    cell, address = answer(perfect, "why_scale"), f"data:{kind};base64,{data}"
    if how == "colab":
        cell.source = f"{WORDS}\n\n![image.png]({address})\n\nThat is all."
    elif how == "html":
        cell.source = f'{WORDS}\n\n<img src="{address}" width="300"/>'
    elif how == "defined":
        cell.source = f"{WORDS}\n\n![image][photo]\n\n[photo]: <{address}>"
    else:
        cell.source = f"{WORDS}\n\n![image.png](attachment:my.png)" if how == "attachment" else WORDS
        cell.attachments = {"my.png": {kind: data}}
    return perfect


@pytest.mark.parametrize("how", ["colab", "attachment", "attached only", "html", "defined"])
def test_picture_in_an_answer_is_shown(how: str, perfect: NotebookNode, assignment: Assignment) -> None:
    """Do formgrader and the feedback show a drawing next to the words of the answer, on white?"""
    notebook = shown(put(perfect, how, encoded(drawing(300, 200, "RGBA"), "PNG")), assignment)
    for name, page in pages_of(notebook, assignment).items():
        assert WORDS in page.get_text(), name
        [picture] = pictures_on(page)
        assert picture.size == (300, 200), name
        assert [picture.convert("RGB").getpixel((x, 100)) for x in (10, 290)] == [(200, 0, 0), (255, 255, 255)]


def test_graded_notebook_has_the_picture(perfect: NotebookNode, assignment: Assignment) -> None:
    """Is the picture in the notebook that grading gives?"""
    put(perfect, "colab", encoded(drawing(300, 200), "PNG"))
    texts = nbformat.writes(assignment.instructor), nbformat.writes(assignment.release)
    done = grade_one(Task(NAME, *texts, SEED), Job(nbformat.writes(perfect).encode()))
    for page in pages_of(nbformat.reads(done["notebook"], 4), assignment).values():
        assert (300, 200) in [picture.size for picture in pictures_on(page)]


def test_photo_is_small_upright_and_without_its_place(perfect: NotebookNode, assignment: Assignment) -> None:
    """Is a large photo made smaller, turned as the camera was, and is its metadata gone?"""
    notebook = shown(put(perfect, "colab", photo(4000, 3000), "image/jpeg"), assignment)
    for page in pages_of(notebook, assignment).values():
        [picture] = pictures_on(page)
        assert picture.height > picture.width >= 300 and picture.height <= 1600
        assert not picture.getexif() and GPS not in str(page)
    assert len(nbformat.writes(notebook)) < 1_000_000


@pytest.mark.parametrize(
    ("kind", "file"),
    [("GIF", "gif"), ("WEBP", "webp"), ("BMP", "bmp"), ("TIFF", "tiff"), ("JPEG", "png")],
    ids=lambda value: value,
)
def test_picture_of_another_kind_is_shown(kind: str, file: str, perfect: NotebookNode, assignment: Assignment) -> None:
    """Is a picture shown that a browser or a person has saved in another format, or under another name?"""
    notebook = shown(put(perfect, "colab", encoded(drawing(300, 200), kind), f"image/{file}"), assignment)
    for page in pages_of(notebook, assignment).values():
        assert [picture.size for picture in pictures_on(page)] == [(300, 200)]


SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(2)</script></svg>" * 9
HOSTILE = {
    "svg with a script": (base64.b64encode(SVG).decode(), "image/svg+xml"),
    "svg that calls itself png": (base64.b64encode(SVG).decode(), "image/png"),
    "page that calls itself jpeg": (base64.b64encode(b"<script>alert(1)</script>" * 20).decode(), "image/jpeg"),
    "bomb": (png_of_size(60_000, 60_000), "image/png"),
    "too large for a header": (png_of_size(2**31 - 1, 2**31 - 1), "image/png"),
    "cut off": (encoded(drawing(2000, 1000), "PNG")[:400], "image/png"),
    "no base64": ("A" * 401, "image/png"),
    "empty": ("", "image/png"),
}


@pytest.mark.parametrize("how", ["colab", "attachment", "html"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_picture_is_named_and_nothing_else(
    name: str, how: str, perfect: NotebookNode, assignment: Assignment
) -> None:
    """Does a file that is no picture, or fills the memory, leave the answer as it is, and the next picture shown?"""
    data, kind = HOSTILE[name]
    put(perfect, how, data, kind)
    good = answer(perfect, "row_of_the_map")
    good.source = f"{WORDS}\n\n![good](data:image/png;base64,{encoded(drawing(70, 50), 'PNG')})"
    notebook = shown(perfect, assignment)
    source = answer(notebook, "why_scale").source
    assert WORDS in source and ("it is in the submitted file" in source or not data)
    for page in pages_of(notebook, assignment).values():
        assert {picture.size for picture in pictures_on(page)} <= {(70, 50)}
        assert not data or data[:300] not in str(page)
    assert list(answer(notebook, "row_of_the_map").attachments)


def test_many_pictures_do_not_fill_the_page(perfect: NotebookNode, assignment: Assignment) -> None:
    """Are pictures shown up to a limit, and are the others named, also if one is named again and again?"""
    data = [photo(1500, 1500) for _ in range(8)]
    texts = [f"![p](data:image/jpeg;base64,{each})" for each in data]
    answer(perfect, "why_scale").source = "\n\n".join([WORDS, *texts])
    perfect.cells += [nbformat.v4.new_markdown_cell("\n\n".join(texts)) for _ in range(8)]
    notebook = shown(perfect, assignment)
    assert len(nbformat.writes(notebook)) < 5_000_000
    source = answer(notebook, "why_scale").source
    assert source.count("](attachment:") + source.count("it is in the submitted file") == len(data)
    assert "](attachment:" in source and "it is in the submitted file" in nbformat.writes(notebook)


def test_student_cannot_name_an_attachment(perfect: NotebookNode, assignment: Assignment) -> None:
    """Does a page show only the pictures that the grader made, whatever the text says?"""
    cell = answer(put(perfect, "colab", encoded(drawing(300, 200), "PNG")), "why_scale")
    cell.source += '\n\n![x][a]\n\n[a]: attachment:picture-1.png\n\n<img src="attachment:picture-1.png">' * 20
    notebook = shown(perfect, assignment)
    for page in pages_of(notebook, assignment).values():
        assert len(pictures_on(page)) == 1
