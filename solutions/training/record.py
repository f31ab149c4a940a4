"""The record of a training run: settings, data, machine, and results."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Epoch:
    """The results of an epoch. Losses and accuracies are means over images; training images are augmented."""

    number: int  # from 1 on
    seconds: float  # training alone, without the evaluation
    cpu_seconds: float  # all threads of this process in that time; other programs hardly change it
    loss: float
    accuracy: float
    validation_loss: float | None  # None: a recipe without a validation split
    validation_accuracy: float | None
    test_accuracy: float | None = None  # None: the test set was not touched


@dataclass(frozen=True)
class Record:
    """The settings, place and results of a run: a number never comes without its evidence."""

    name: str  # the recipe's name
    settings: dict
    data: str  # MNIST, CIFAR-10, the name of a folder, or digits: the stand-in
    machine: dict  # processor, cores, threads, GPU, versions, date
    precision: str
    curve: list[dict]  # the fields of each Epoch
    test_loss: float | None = None  # None: the test set was not touched
    test_accuracy: float | None = None
    images: dict | None = None  # `Data.facts`, which are needed to use the model; older records have none


def describe_machine(device: torch.device) -> dict:
    """Describe the machine on which a run is made."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return dict(
        processor=names[0] if names else platform.processor() or platform.machine(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        load=[round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,  # all programs
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        system=platform.system(),
        python=platform.python_version(),
        torch=torch.__version__,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write_record(path: Path, *records: Record) -> None:
    """Write runs as one JSON list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(record) for record in records], indent=1, ensure_ascii=False) + "\n")


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of that name; "auto" is a GPU if there is one, else the CPU.

    Raises:
        ValueError: There is no such device.
    """
    gpu = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and not gpu):
        raise ValueError(f"the device must be auto, cpu or, where there is a GPU, cuda; got {name}")
    return torch.device("cuda" if gpu and name != "cpu" else "cpu")


def choose_precision(device: torch.device) -> torch.dtype:
    """Choose the precision of products: float32 on a CPU, float16 on a T4, bfloat16 on newer GPUs."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
