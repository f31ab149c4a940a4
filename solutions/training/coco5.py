"""Make a folder of five classes, train/CLASS and test/CLASS, for `recipe --data` and for `experiments`.

From COCO:
    python -m solutions.training.coco5 --annotations instances_train2017.json --images train2017 --out coco5
From a folder of more classes, such as CIFAR-10's:
    python -m solutions.training.coco5 --folder cifar10 --classes cat,dog,ship --out three
"""

import json
import random
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from solutions.training.data import classes_of, images_of

COCO5 = "airplane,bus,cat,dog,pizza"


def images_of_coco(annotations: Path, images: Path, classes: list[str]) -> dict[str, list[Path]]:
    """Find for each class the images that show it and none of the other classes; crowds do not count.

    Args:
        annotations: COCO's file of instances, as JSON.
        images: The folder of the images that the file names.
        classes: Names of COCO's categories.

    Raises:
        ValueError: The file is not COCO's file of instances, has no such category, or an image is missing.
    """
    try:
        content = json.loads(annotations.read_text(encoding="utf-8"))
        categories = {entry["name"]: entry["id"] for entry in content["categories"]}
        names = {entry["id"]: entry["file_name"] for entry in content["images"]}
        seen = [
            (entry["image_id"], entry["category_id"]) for entry in content["annotations"] if not entry.get("iscrowd")
        ]
    except (OSError, ValueError) as error:
        raise ValueError(f"{annotations} cannot be read as JSON: {error}") from None
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{annotations} is not COCO's file of instances: {error} was looked for in its categories, images, annotations"
        ) from None
    if missing := [name for name in classes if name not in categories]:
        raise ValueError(f"{annotations} has no category {', '.join(missing)}; it has {', '.join(sorted(categories))}")
    wanted = {categories[name]: name for name in classes}
    shown = defaultdict(set)
    for image, category in seen:
        if category in wanted:
            shown[image].add(wanted[category])
    found: dict[str, list[Path]] = {name: [] for name in classes}
    for image in sorted(shown):
        if len(shown[image]) == 1 and image in names:
            found[shown[image].pop()].append(images / names[image])
    gone = [path for paths in found.values() for path in paths if not path.is_file()]
    if gone:
        raise ValueError(
            f"images that {annotations} names are missing, {len(gone)} of them, such as {gone[0]}: is {images} the folder of"
            " the same year and split?"
        )
    return found


def make_folder(training: dict[str, list[Path]], test: dict[str, list[Path]], out: Path) -> None:
    """Copy images to out/train/CLASS and out/test/CLASS, all or none.

    Raises:
        ValueError: The folder exists already, or a class would be empty.
    """
    if out.exists():
        raise ValueError(f"{out} is there already: delete it, or name another folder with --out")
    for part, found in (("training", training), ("the test", test)):
        if empty := [name for name, paths in found.items() if not paths]:
            raise ValueError(f"no image is left for {part} of {', '.join(empty)}: name fewer classes, or others")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # an interrupted call may have left it
    for name, found in (("train", training), ("test", test)):
        for label, paths in found.items():
            folder = part / name / label
            folder.mkdir(parents=True)
            for number, path in enumerate(paths):
                shutil.copyfile(path, folder / f"{number:04}{path.suffix.lower()}")
    part.rename(out)


def main(
    out: Annotated[Path, typer.Option(help="The folder that is made.")],
    annotations: Annotated[
        Path | None, typer.Option(help="COCO's instances, such as instances_train2017.json.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="The folder of the images that it names.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Instead of COCO: a folder with train/CLASS and test/CLASS.")
    ] = None,
    classes: Annotated[str, typer.Option(help="Names of classes, with commas.")] = COCO5,
    each: Annotated[int, typer.Option(min=1, help="At most this many images of a class for training.")] = 1500,
    each_of_test: Annotated[int, typer.Option(min=1, help="At most this many images of a class for the test.")] = 500,
    seed: Annotated[int, typer.Option(help="The seed for drawing the images.")] = 0,
) -> None:
    """Make a folder of five classes, 1,500 and 500 images each, from COCO or from a folder of more classes."""
    wanted = list(dict.fromkeys(name.strip() for name in classes.split(",") if name.strip()))
    if len(wanted) < 2:
        raise typer.BadParameter(f"--classes must name two or more classes, with commas between them; got {classes!r}")
    draws = random.Random(seed)

    def drawn(paths: list[Path]) -> list[Path]:
        return draws.sample(paths, len(paths))

    try:
        if folder:
            parts = []
            for part, count in (("train", each), ("test", each_of_test)):
                there = classes_of(folder / part)
                if missing := [name for name in wanted if name not in there]:
                    raise ValueError(f"{folder / part} has no class {', '.join(missing)}; it has {', '.join(there)}")
                parts.append({name: drawn(images_of(folder / part / name)[0])[:count] for name in wanted})
            training, test = parts
        elif annotations and images:
            found = {name: drawn(paths) for name, paths in images_of_coco(annotations, images, wanted).items()}
            # If there are too few images, the test still gets the requested share of all images: by default a quarter.
            share = each_of_test / (each + each_of_test)
            tests = {name: min(each_of_test, round(share * len(paths))) for name, paths in found.items()}
            test = {name: paths[: tests[name]] for name, paths in found.items()}
            training = {name: paths[tests[name] :][:each] for name, paths in found.items()}
        else:
            raise ValueError("name COCO's files with --annotations and --images, or a folder of images with --folder")
        make_folder(training, test, out)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    for name in wanted:
        typer.echo(f"{name:12} {len(training[name]):5} for training, {len(test[name]):4} for the test")


if __name__ == "__main__":
    typer.run(main)
