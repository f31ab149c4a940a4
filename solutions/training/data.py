"""Images as tensors: MNIST, CIFAR-10, a folder of images, or the digits that every machine has."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from rich.progress import track
from torch import Tensor

MEAN, STD = 0.1307, 0.3081  # mean and deviation of the pixels, from 0 to 1, of MNIST's training images
OF_SYSTEMS = ".", "@", "__MACOSX"  # files and folders of operating systems: their names start with one of these


@dataclass(frozen=True)
class Split:
    """Images in one tensor, (B, C, H, W), normalised float32, and their classes, (B,). `Windows` of a text has its methods."""

    images: Tensor
    labels: Tensor
    num_classes: int = 10

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        return tuple(self.images.shape[1:])

    def to(self, device: torch.device) -> "Split":
        """Move images and classes to a device."""
        return Split(self.images.to(device), self.labels.to(device), self.num_classes)

    def part(self, chosen: Tensor | slice) -> "Split":
        """Return the images of these indices, (B,), or of a slice."""
        return Split(self.images[chosen], self.labels[chosen], self.num_classes)

    def batches(self, order: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images, (B, C, H, W), and classes, (B,), for each tensor of indices, (B,)."""
        for chosen in order:
            yield self.images[chosen], self.labels[chosen]


@dataclass(frozen=True)
class Data:
    """Three splits of images, and the settings that suit them."""

    name: str  # for records
    training: Split
    validation: Split
    test: Split
    classes: list[str] = field(default_factory=lambda: [str(digit) for digit in range(10)])
    # Settings that replace a run's defaults, which are made for digits
    settings: dict[str, object] = field(default_factory=dict)
    mean: tuple[float, ...] = (MEAN,)  # mean of each channel's pixels, from 0 to 1, used to normalise them
    std: tuple[float, ...] = (STD,)
    left_out: tuple[Path, ...] = ()  # files in the folder that are not images

    def facts(self) -> dict:
        """Return what a record says about the images. `classify` brings new images into the same form."""
        counts = dict(training=len(self.training), validation=len(self.validation), test=len(self.test))
        form = dict(shape=list(self.training.shape), mean=list(self.mean), std=list(self.std))
        return dict(classes=self.classes, **form, **counts)

    def in_words(self) -> str:
        """Describe the images, and what was left out."""
        _, height, width = self.training.shape
        text = f"{self.name}: {len(self.classes)} classes; {len(self.training):,} images for training, "
        text += (
            f"{len(self.validation):,} for validation, {len(self.test):,} for the test, of {height} × {width} pixels."
        )
        if self.left_out:
            text += f" Left out because they are not images: {len(self.left_out)}, such as {self.left_out[0]}."
        return text


def normalise(images: Tensor) -> Tensor:
    """Bring pixels from [0, 1] to mean 0 and standard deviation 1 over MNIST's training images."""
    return (images - MEAN) / STD


def load_mnist() -> Data:
    """Load all of MNIST: the first 55,000 training images, the last 5,000 for validation, and the 10,000 test images.

    They are in the folder MNIST_ROOT, else data/; if not, they are downloaded to it.
    """
    from torchvision.datasets import MNIST

    parts = [MNIST(os.environ.get("MNIST_ROOT", "data"), train=train, download=True) for train in (True, False)]
    both, test = (Split(normalise(part.data[:, None] / 255), part.targets) for part in parts)  # (B, 1, 28, 28), (B,)
    return Data("MNIST", both.part(slice(55000)), both.part(slice(55000, None)), test)


def load_digits() -> Data:
    """Load the stand-in for MNIST: scikit-learn's 1797 digits of 8×8 pixels, scaled to 28×28.

    1,300 are for training, 150 for validation and 347 for the test.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # (B, 1, 8, 8)
    images = F.interpolate(images, size=(28, 28), mode="bilinear")  # (B, 1, 28, 28)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    every = Split(normalise(images), torch.tensor(digits.target))
    return Data("digits", *map(every.part, order.split([1300, 150, 347])))


def load_cifar10() -> Data:
    """Load all of CIFAR-10: the first 45,000 training images, the last 5,000 for validation, and the 10,000 test images.

    They are in the folder CIFAR_ROOT, else data/; if not, they are downloaded to it.
    """
    from torchvision.datasets import CIFAR10

    parts = [CIFAR10(os.environ.get("CIFAR_ROOT", "data"), train=train, download=True) for train in (True, False)]
    pixels = [torch.from_numpy(part.data).permute(0, 3, 1, 2) / 255 for part in parts]  # (B, 3, 32, 32)
    mean, std = _statistics(pixels[0][:45000])
    both, test = (Split((x - mean) / std, torch.tensor(part.targets)) for x, part in zip(pixels, parts))
    training, validation = both.part(slice(45000)), both.part(slice(45000, None))
    classes, settings = list(parts[0].classes), _settings_of_photographs(32)
    return Data("CIFAR-10", training, validation, test, classes, settings, _numbers(mean), _numbers(std))


def load_folder(root: Path, size: int = 32) -> Data:
    """Load images of any size from `root/train/CLASS/` and `root/test/CLASS/`. A tenth of train is for validation.

    Args:
        root: The folder.
        size: Pixels of a side: images are scaled until they fill a square of this size, and cropped to it.

    Raises:
        ValueError: The folder has another structure, a class has too few images, or a file cannot be read as an image.
    """
    kinds, left_out, found = Image.registered_extensions(), [], {"train": [], "test": []}
    for part, paths in found.items():
        for path in sorted(root.glob(f"{part}/*/**/*")):
            if path.is_file() and not any(name.startswith(OF_SYSTEMS) for name in path.relative_to(root).parts):
                (paths if path.suffix.lower() in kinds else left_out).append(path)
    names = [[path.relative_to(root).parts[1] for path in paths] for paths in found.values()]
    classes, of_test = (sorted({*each}) for each in names)
    if len(classes) < 2 or classes != of_test:
        raise ValueError(
            f"{root} must hold images of the same two or more classes in train/CLASS/ and test/CLASS/, such as 1.jpg; "
            f"train has {', '.join(classes) or 'none'}, and test has {', '.join(of_test) or 'none'}"
        )
    every, test = (
        Split(read_images(paths, size), torch.tensor([*map(classes.index, each)]), len(classes))
        for paths, each in zip(found.values(), names)
    )
    held_out = max(1, len(every) // 10)
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(0))
    training, validation = every.part(order[held_out:]), every.part(order[:held_out])
    if len(training.labels.unique()) < len(classes):
        raise ValueError(f"{root}/train has too few images: a tenth is for validation, and a class has none left")
    mean, std = _statistics(training.images[:1000] / 255)
    splits = [replace(split, images=(split.images / 255 - mean) / std) for split in (training, validation, test)]
    name, settings = root.resolve().name, _settings_of_photographs(size)
    return Data(name, *splits, classes, settings, _numbers(mean), _numbers(std), tuple(left_out))


def load_images(name: str, size: int = 32) -> Data:
    """Load mnist, cifar10, digits, or a folder of images by its path.

    Raises:
        ValueError: The name is none of these, or `load_folder` raises one.
    """
    known: dict[str, Callable[[], Data]] = {"mnist": load_mnist, "cifar10": load_cifar10, "digits": load_digits}
    if name not in known:
        root = Path(name).expanduser()
        if not root.is_dir():
            raise ValueError(f"{name} is neither a file, a folder nor one of {', '.join(known)}")
        return load_folder(root, size)
    try:
        return known[name]()
    except (OSError, RuntimeError) as error:  # torchvision raises either without a network
        raise ValueError(
            f"{name} could not be loaded ({error}). Is there a network? MNIST_ROOT and CIFAR_ROOT name folders that hold"
            " them already; digits are on every machine"
        ) from None


def draw(images: Split, count: int) -> Split:
    """Draw `count` images, or all if there are fewer. A larger draw includes every smaller draw from the same split."""
    return images.part(torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:count])


def some_classes(data: Data, names: list[str], each: int, each_of_test: int) -> Data:
    """Keep some classes, and limit the number of images of each, for training and for the test."""

    def keep(images: Split, count: int) -> Split:
        chosen = [(images.labels == data.classes.index(name)).nonzero()[:count, 0] for name in names]
        labels = torch.cat([torch.full_like(places, label) for label, places in enumerate(chosen)])  # (B,)
        return Split(images.images[torch.cat(chosen)], labels, len(names))

    parts = keep(data.training, each), keep(data.validation, each), keep(data.test, each_of_test)
    fields = dict(zip(("training", "validation", "test"), parts))
    return replace(data, name=f"{len(names)} classes of {data.name}", classes=names, **fields)


def read_image(path: Path, size: int) -> Tensor:
    """Read an image of any kind in colour, (3, size, size), bytes; transparent pixels become white.

    Raises:
        ValueError: The file cannot be read as an image.
    """
    try:
        with Image.open(path) as image:
            if image.mode in ("I", "F"):
                raise ValueError(
                    f"{path} has 32 bits per pixel, and does not say which number is white: save it with 8 or 16 bits"
                )
            image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I;16"):  # Pillow would clip these at 255
                image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
            if image.has_transparency_data:
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
            image = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BICUBIC)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # Pillow raises these for a broken file
        raise ValueError(f"{path} cannot be read as an image ({error}): replace or delete it") from None
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def read_images(paths: list[Path], size: int) -> Tensor:
    """Read images like `read_image`, in several threads: (B, 3, size, size)."""
    with ThreadPoolExecutor() as pool:
        images = pool.map(lambda path: read_image(path, size), paths)
        return torch.stack([*track(images, "reading images", len(paths), transient=True)])


def _numbers(values: Tensor) -> tuple[float, ...]:
    return tuple(values.flatten().tolist())


def _statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel, (C, 1, 1), of images, (B, C, H, W)."""
    std, mean = torch.std_mean(images, dim=(0, 2, 3), correction=0)
    return mean.view(-1, 1, 1), std.clamp(min=1e-3).view(-1, 1, 1)


def _settings_of_photographs(size: int) -> dict[str, object]:
    """Return settings for photographs: mirrored at random, and cut into eight rows of eight patches if possible."""
    patch = next(patch for patch in range(max(1, size // 8), size + 1) if size % patch == 0)
    return dict(patch_size=patch, flip=True, rotation=0.0, shift=size / 8)
