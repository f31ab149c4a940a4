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
    group: str = ""  # the runs with which it is compared
    kept: int | None = None  # the epoch whose parameters were kept; None: the last
    confusion: list[list[int]] | None = None  # test images by class (row) and answer (column), where they are compared

    @property
    def validation_accuracy(self) -> float:
        """The validation accuracy of the epoch whose parameters were kept."""
        return self.curve[(self.kept or len(self.curve)) - 1]["validation_accuracy"]

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of the training."""
        return sum(epoch["cpu_seconds"] for epoch in self.curve)


def describe_machine(device: torch.device) -> dict:
    """Describe the machine on which a run is made."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
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


def place_of(device: torch.device) -> tuple[dict, str]:
    """Return the machine and the precision of a run, for its record."""
    return describe_machine(device), str(choose_precision(device)).removeprefix("torch.")


def write_record(path: Path, *records: Record) -> None:
    """Write runs as one JSON list, a run on each line, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(record), ensure_ascii=False) for record in records]
    path.with_suffix(".part").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    path.with_suffix(".part").replace(path)


def write_json(path: Path, found: object) -> None:
    """Write what was found, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def read_records(path: Path) -> list[Record]:
    """Read runs; none if there is no file.

    Raises:
        ValueError: The file holds something else.
    """
    try:
        runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return [Record(**run) for run in runs]
    except (ValueError, TypeError):
        raise ValueError(f"{path} is no record of runs: name another folder") from None


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
