"""What a training run writes down: settings, data, machine, and what came of it."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch. Losses and shares are means over images; training images are augmented ones."""

    number: int  # from 1 on
    seconds: float  # of training alone, without the evaluation
    cpu_seconds: float  # of all threads of this process in that time: what a shared machine does not blur
    loss: float
    accuracy: float
    validation_loss: float | None  # None: a recipe without a validation split
    validation_accuracy: float | None
    test_accuracy: float | None = None  # None: the test set was not touched


@dataclass(frozen=True)
class Record:
    """What a run was, where, and what came of it: a number never stands without its evidence."""

    name: str  # of the recipe
    settings: dict
    data: str  # MNIST, CIFAR-10, the name of a folder, or digits: the stand-in
    machine: dict  # processor, cores, threads, GPU, versions, date
    precision: str
    curve: list[dict]  # of Epoch
    test_loss: float | None = None  # None: the test set was not touched
    test_accuracy: float | None = None
    images: dict | None = None  # `Data.facts`, which a use of the model needs; None in records that hold none


def describe_machine(device: torch.device) -> dict:
    """Say on what a run is made."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return dict(
        processor=names[0] if names else platform.processor() or platform.machine(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        load=[round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,  # others' work too
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        system=platform.system(),
        python=platform.python_version(),
        torch=torch.__version__,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write_record(path: Path, *records: Record) -> None:
    """Write runs as JSON, one list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(record) for record in records], indent=1, ensure_ascii=False) + "\n")


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of that name; "auto" is a GPU where there is one, else the CPU.

    Raises:
        ValueError: There is no such device.
    """
    gpu = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and not gpu):
        raise ValueError(f"the device must be auto, cpu or, where there is a GPU, cuda; got {name}")
    return torch.device("cuda" if gpu and name != "cpu" else "cpu")


def choose_precision(device: torch.device) -> torch.dtype:
    """Choose what products are computed in: float32 on a CPU, float16 on a T4, bfloat16 on newer GPUs."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
