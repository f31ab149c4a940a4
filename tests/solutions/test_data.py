"""Do images of every kind become usable data, and is every unusable folder refused with a reason?"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_training import call

from solutions.training import classify
from solutions.training import train as training
from solutions.training.data import load_folder, load_images, read_image
from solutions.training.settings import Settings

COLOURS = {"blue": (20, 30, 220), "green": (10, 200, 40), "red": (230, 20, 10)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of three classes and several sizes, each class in its own colour with noise."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 20), ("test", 4)):
        for name, colour in COLOURS.items():
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                size = rng.integers(20, 60, 2)
                pixels = np.clip(np.array(colour) + rng.normal(0, 20, (*size, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / name / f"{number}.png")
    return tmp_path


def test_digits_are_split_apart() -> None:
    """Do the stand-in's images have MNIST's form, in three disjoint parts?"""
    data = load_images("digits")
    parts = data.training, data.validation, data.test
    assert [len(part) for part in parts] == [1300, 150, 347]
    assert all(part.images.shape[1:] == (1, 28, 28) and part.labels.dtype == torch.int64 for part in parts)
    pixels = torch.cat([part.images for part in parts]) * 0.3081 + 0.1307
    assert pixels.min() > -1e-6 and 0.95 < pixels.max() < 1 + 1e-6
    assert len({image.numpy().tobytes() for part in parts for image in part.images}) > 1780  # a few digits occur twice


def test_folder_becomes_three_splits(folder: Path) -> None:
    """Is a tenth of the training images held out, is every image used once, and are the pixels normalised?"""
    images = load_folder(folder, 16)
    assert [len(part) for part in (images.training, images.validation, images.test)] == [54, 6, 12]
    assert images.classes == ["blue", "green", "red"] and images.training.num_classes == 3
    assert images.training.shape == (3, 16, 16)
    both = torch.cat([images.training.images, images.validation.images])
    assert len({image.numpy().tobytes() for image in both}) == 60
    assert both.mean().abs() < 0.1 and (both.std() - 1).abs() < 0.1
    for part in (images.training, images.validation, images.test):
        brightest = part.images.mean((2, 3)).argmax(1)  # the brightest channel
        assert torch.equal(brightest, 2 - part.labels)


def test_what_is_no_image_is_left_out(folder: Path) -> None:
    """Are hidden files and folders skipped, is a link to a class followed, and are files with other suffixes named?"""
    before = load_folder(folder, 16)
    red = folder / "train" / "red"
    for name in (".ipynb_checkpoints", "@eaDir", "__MACOSX"):
        for place in (red / name, folder / "train" / name):
            place.mkdir()
            Image.new("RGB", (9, 9)).save(place / "1.png")
    Image.new("RGB", (9, 9)).save(red / "._1.png")
    red.rename(folder / "elsewhere")
    red.symlink_to(folder / "elsewhere")
    after = load_folder(folder, 16)
    assert after.left_out == () and torch.equal(after.training.images, before.training.images)
    (red / "more").mkdir()
    (red / "1.png").rename(red / "more" / "1.png")
    for place in (red / "photo.heic", folder / "test" / "red" / "list.txt"):
        place.write_bytes(b"of a telephone")
    after = load_folder(folder, 16)
    assert [path.name for path in after.left_out] == ["photo.heic", "list.txt"]
    assert "3 classes; 54 images for training, 6 for validation, 12 for the test, of 16 × 16 pixels" in after.in_words()
    assert "Left out because they are not images: 2, such as " in after.in_words()


def test_images_that_cannot_be_loaded_are_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do an unknown name, 32 bits per pixel, a broken file and a failed download each get the right one-line error?"""
    with pytest.raises(ValueError, match="neither a file, a folder nor one of mnist, cifar10, digits"):
        load_images(str(folder / "nothing"))
    Image.new("F", (9, 9), 0.5).save(folder / "train" / "red" / "grey.tif")
    with pytest.raises(ValueError, match=r"grey\.tif has 32 bits per pixel"):
        load_images(str(folder), 16)

    (folder / "train" / "red" / "grey.tif").write_bytes((folder / "train" / "red" / "1.png").read_bytes()[:100])
    with pytest.raises(ValueError, match=r"grey\.tif cannot be read as an image .*: replace or delete it"):
        load_images(str(folder), 16)
    (folder / "train" / "red" / "grey.tif").unlink()

    def download(*_: object, **__: object) -> None:
        raise RuntimeError("Error downloading t10k-images")

    monkeypatch.setattr("torchvision.datasets.MNIST", download)
    with pytest.raises(ValueError, match=r"mnist could not be loaded .*MNIST_ROOT .* digits are on every machine"):
        load_images("mnist")


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16", "1", "CMYK"])
def test_image_of_any_kind_is_read_in_colour(tmp_path: Path, mode: str) -> None:
    """Are grey images, images with palettes, and other bit depths read with the right colours?"""
    of_mode = {"I;16": ("I;16", (9, 5), 40_000), "1": ("1", (9, 5), 1)}.get(mode, ("L", (9, 5), 150))
    grey = Image.new(*of_mode).convert(mode)
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    grey.save(path)
    image = read_image(path, 4)
    assert image.shape == (3, 4, 4) and image.dtype == torch.uint8
    expected = {"1": 255, "I;16": 156}.get(mode, 150)
    assert (image.float() - expected).abs().max() < 8


def test_transparent_is_white_and_the_middle_is_kept(tmp_path: Path) -> None:
    """Do transparent pixels become white, and is a wide image cut on both sides?"""
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png", 4) == 255).all()
    wide = np.zeros((4, 12, 3), np.uint8)
    wide[:, 4:8] = 200
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert (read_image(tmp_path / "wide.png", 4) == 200).all()


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("*/*/*", "two or more classes .* train has none, and test has none"),
        ("test/*/*", "train has blue, green, red, and test has none"),
        ("*/[bg]*/*", "train has red, and test has red"),
        ("train/red/*", "train has blue, green, and test has blue, green, red"),
        ("*/*/[1-9]*", "a class has none left"),
    ],
)
def test_folder_that_will_not_do_is_said(folder: Path, removed: str, message: str) -> None:
    """Are two or more classes needed, the same for training and test, and an image of each to learn from?"""
    for path in folder.glob(removed):
        path.unlink()
    with pytest.raises(ValueError, match=message):
        load_folder(folder, 16)


def test_command_trains_on_a_folder(folder: Path, tmp_path: Path) -> None:
    """Does one command train a model that distinguishes the colours?"""
    arguments = ["--data", folder, "--image-size", 16, "--epochs", 5, "--set", "batch_size=8", "--set", "width=16"]
    arguments += ["--set", "depth=1", "--set", "num_heads=2", "--weights", tmp_path / "vit.pt", "--device", "cpu"]
    arguments += ["--record", tmp_path / "run.json"]
    assert call(training.main, *arguments).exit_code == 0
    images = load_folder(folder, 16)
    settings = replace(Settings(), width=16, depth=1, num_heads=2, **images.settings)
    model = training.make_model(settings, images.test)
    model.load_state_dict(torch.load(tmp_path / "vit.pt", weights_only=True))
    assert training.loss_and_accuracy(model, images.test)[1] > 0.9
    record = str(tmp_path / "run.json")
    files = sorted(map(str, (folder / "test").glob("*/*.png")))
    said = call(classify.main, *files, "--record", record, "--weights", tmp_path / "vit.pt")
    named = [
        re.match(rf"{path}: (\w+) \d", line)[1] for path, line in zip(files, said.stdout.splitlines(), strict=True)
    ]
    right = [name == Path(path).parent.name for name, path in zip(named, files, strict=True)]
    # The record alone gives the same pixels.
    assert sum(right) / len(right) == training.loss_and_accuracy(model, images.test)[1]
    for options, message in (
        (["--record", files[0]], "is no record of a run"),
        (["--record", record, "--weights", files[0]], "does not hold the weights of that run"),
    ):
        refused = call(classify.main, files[0], *options)
        assert refused.exit_code == 2 and message in re.sub(r"[\s│]+", " ", refused.output)
