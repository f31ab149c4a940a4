"""Can a folder of five classes be made from COCO's files, and from a folder of more classes?"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from solutions.training import coco5

CATEGORIES = {"airplane": 5, "bus": 6, "cat": 17, "dog": 18, "pizza": 59, "person": 1}
app = typer.Typer()
app.command()(coco5.main)


def coco(folder: Path) -> tuple[Path, Path]:
    """Write eight images of each category, and COCO's annotation file. Return the two paths."""
    images, annotations = [], []
    (folder / "images").mkdir()
    for shade, (name, category) in enumerate(CATEGORIES.items()):
        for number in range(8):
            identity = 100 * category + number
            images.append(dict(id=identity, file_name=f"{identity:012}.jpg", width=6, height=6))
            Image.new("RGB", (6, 6), (40 * shade, 0, 0)).save(folder / "images" / f"{identity:012}.jpg")
            annotations.append(dict(image_id=identity, category_id=category, iscrowd=0, bbox=[0, 0, 3, 3], area=9))
            if name == "person":  # pictures of other categories also show people
                annotations.append(dict(image_id=100 * 17 + number, category_id=category, iscrowd=0))
    annotations.append(dict(image_id=1700, category_id=18, iscrowd=0))  # a cat with a dog
    annotations.append(dict(image_id=1701, category_id=18, iscrowd=1))  # a cat with a crowd of dogs
    annotations.append(dict(image_id=1702, category_id=17, iscrowd=0))  # two cats
    path = folder / "instances.json"
    categories = [dict(id=number, name=name) for name, number in CATEGORIES.items()]
    path.write_text(json.dumps(dict(images=images, annotations=annotations, categories=categories)))
    return path, folder / "images"


def call(*arguments: object) -> tuple[int, str]:
    """Run the command; return its exit code, and its message in one line."""
    result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "300"})
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def counts(folder: Path) -> dict[str, int]:
    """Return the number of images in each folder."""
    folders = [path for part in ("train", "test") for path in sorted((folder / part).iterdir())]
    return {str(path.relative_to(folder)): len(list(path.iterdir())) for path in folders}


def test_coco_becomes_five_classes(tmp_path: Path) -> None:
    """Is each image once in the one class that it shows, and left out if it shows two?"""
    annotations, images = coco(tmp_path)
    found = coco5.images_of_coco(annotations, images, coco5.COCO5.split(","))
    assert [path.name for path in found["cat"]] == [f"{number:012}.jpg" for number in range(1701, 1708)]
    assert {name: len(paths) for name, paths in found.items()} == dict(airplane=8, bus=8, cat=7, dog=8, pizza=8)
    out = tmp_path / "coco5"
    code, said = call("--annotations", annotations, "--images", images, "--out", out, "--each", 5, "--each-of-test", 2)
    assert code == 0 and "cat 5 for training, 2 for the test" in said
    assert counts(out) == {f"{part}/{name}": n for part, n in (("train", 5), ("test", 2)) for name in sorted(found)}
    shades = {name: {Image.open(p).getpixel((0, 0))[0] // 35 for p in out.glob(f"*/{name}/*")} for name in found}
    assert shades == {name: {list(CATEGORIES).index(name)} for name in found}


def test_too_few_images_are_shared_out(tmp_path: Path) -> None:
    """If there are too few images, does the test set get a quarter of them, without images in both sets?"""
    annotations, images = coco(tmp_path)
    for path in images.iterdir():
        Image.new("RGB", (6, 6), (int(path.stem) % 251, int(path.stem) % 13, 9)).save(path.with_suffix(".png"))
        path.unlink()
    # A PNG keeps each image's own colour exactly.
    annotations.write_text(annotations.read_text().replace(".jpg", ".png"))
    assert call("--annotations", annotations, "--images", images, "--out", tmp_path / "five")[0] == 0
    assert counts(tmp_path / "five")["train/bus"] == 6 and counts(tmp_path / "five")["test/bus"] == 2
    contents = [path.read_bytes() for path in (tmp_path / "five").rglob("*/bus/*")]
    assert len(set(contents)) == 8


def test_folder_becomes_fewer_classes(tmp_path: Path) -> None:
    """Do training and test images come from the folders of that name, and are they the same for the same seed?"""
    for part, shade in (("train", 0), ("test", 200)):
        for name in ("cat", "dog", "frog"):
            (tmp_path / "all" / part / name).mkdir(parents=True)
            for number in range(6):
                Image.new("L", (4, 4), shade + number).save(tmp_path / "all" / part / name / f"{number}.png")
    contents = []
    for out in ("one", "two"):
        folder = ["--folder", tmp_path / "all", "--classes", "cat,dog", "--each", 4, "--each-of-test", 3]
        assert call(*folder, "--out", tmp_path / out)[0] == 0
        contents.append({path.name: Image.open(path).getpixel((0, 0)) for path in (tmp_path / out).glob("train/cat/*")})
    assert counts(tmp_path / "one") == {"train/cat": 4, "train/dog": 4, "test/cat": 3, "test/dog": 3}
    assert contents[0] == contents[1] and max(contents[0].values()) < 200


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path, images: path.write_text("{"), "instances.json cannot be read as JSON"),
        (lambda path, images: path.write_text("{}"), "is not COCO's file of instances: 'categories' was looked for"),
        (lambda path, images: path.write_text(path.read_text().replace("pizza", "cake")), "no category pizza; it has"),
        (
            lambda path, images: (images / "000000001803.jpg").unlink(),
            "missing, 1 of them, such as .*000000001803.jpg: is .* same year",
        ),
        (lambda path, images: (path.parent / "five").mkdir(), "five is there already: delete it"),
    ],
)
def test_what_will_not_do_is_said(tmp_path: Path, spoil: Callable[[Path, Path], object], message: str) -> None:
    """Does the message name the file and the fix, and does no half-made folder stay?"""
    annotations, images = coco(tmp_path)
    spoil(annotations, images)
    code, said = call("--annotations", annotations, "--images", images, "--out", tmp_path / "five")
    assert code == 2
    assert re.search(message, said), said
    assert not list((tmp_path / "five").glob("*")) and not (tmp_path / "five.part").exists()


def test_neither_coco_nor_folder(tmp_path: Path) -> None:
    """Does a call without a source say what to name?"""
    assert "--annotations and --images, or a folder of images with --folder" in call("--out", tmp_path / "five")[1]
