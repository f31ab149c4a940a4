"""A plain recipe, and ours side by side with it. The comparison measures on the test images after each epoch.

It stops its clock by these measurements. It was planned in advance, and no choice depends on them.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from rich.console import Console
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from solutions.training.data import MEAN, STD, Data, Split
from solutions.training.plans import SHORT
from solutions.training.record import Epoch, Record, place_of, write_record
from solutions.training.train import train
from solutions.vit import ViT, evaluate

GOAL = 0.98  # share of right test images at which the clock stops
MOST_EPOCHS = 12  # of the plain recipe


class Images(Dataset):
    """Images that become tensors one by one, as in torchvision's MNIST with ToTensor."""

    def __init__(self, *splits: Split) -> None:
        from torchvision.transforms import ToTensor

        images = torch.cat([split.images[:, 0] for split in splits]) * STD + MEAN  # (B, 28, 28), in [0, 1]
        self.pixels = (255 * images).round().to(torch.uint8).numpy()
        self.labels, self.transform = torch.cat([split.labels for split in splits]).tolist(), ToTensor()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index])), self.labels[index]


def train_plainly(data: Dataset, epochs: int, seed: int, device: torch.device) -> Iterator[tuple[ViT, list[Epoch]]]:
    """Train in a plain way: a DataLoader, ToTensor for each image, Adam, and .item() after every step."""
    torch.manual_seed(seed)
    model = ViT().to(device)
    loader = DataLoader(data, batch_size=128, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    curve = []
    for number in range(1, epochs + 1):
        began, cpu_began, loss_sum, right = time.perf_counter(), time.process_time(), 0.0, 0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            scores = model(images)  # (B, number of classes)
            loss = F.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
            right += (scores.argmax(dim=-1) == labels).sum().item()
        schedule.step()
        clocks = time.perf_counter() - began, time.process_time() - cpu_began
        curve = [*curve, Epoch(number, *clocks, loss_sum / len(data), right / len(data), None, None)]
        yield model, curve


def compare(path: Path, data: Data, seeds: int, device: torch.device, out: Console) -> None:
    """Run both recipes in one process, with epochs in turn, until both are done; write their record after each epoch.

    The plain recipe learns from the images for training and validation until its test accuracy reaches the goal. The
    recipe of this book is planned for the epochs of SHORT, and does not learn from the validation split. Both are
    measured on the test set after each epoch. These measurements do not count in their times.
    """
    kept: list[Record] = []
    for seed in range(seeds):
        for records in _side_by_side(data, seed, device, out):
            write_record(path, *kept, *records)
        kept += records


def _side_by_side(data: Data, seed: int, device: torch.device, out: Console) -> Iterator[list[Record]]:
    """Yield the record of each recipe so far, after each epoch."""
    short, test = replace(SHORT, seed=seed), data.test.to(device)
    plain = dict(epochs=MOST_EPOCHS, batch_size=128, optimizer="adam", rate=1e-3, decay_per_epoch=0.95, seed=seed)
    running = {
        "plain": train_plainly(Images(data.training, data.validation), MOST_EPOCHS, seed, device),
        "short": train(short, data.training, data.validation, device=device),
    }
    seen = {"plain": test.images * STD + MEAN, "short": test.images}  # plain: not normalised
    machine, precision = place_of(device)
    records = {
        "plain": Record("plain", plain, data.name, machine, "float32", []),
        "short": Record("short", asdict(short), data.name, machine, precision, []),
    }
    while running:
        for recipe, runs in list(running.items()):
            model, curve = next(runs, (None, None))
            if model is None:
                del running[recipe]
                continue
            _, share = evaluate(model, zip(seen[recipe].split(1000), test.labels.split(1000)))
            epoch = replace(curve[-1], test_accuracy=share)
            records[recipe].curve.append(asdict(epoch))
            out.print(f"{recipe}  seed {seed}  epoch {epoch.number:2}  {epoch.seconds:6.1f} s  test {share:.2%}")
            yield list(records.values())
            if recipe == "plain" and share >= GOAL:
                del running[recipe]
