"""Pack the recorded models into scripts that a page can load, even from file://.

    python book/_ext/browser_model.py

writes book/_static/vit_mnist.js and decoder_pages.js.
Every row of a parameter becomes whole numbers from -127 to 127 and one scale.
"""

import base64
import json
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
RECORDS, SCRIPTS = ROOT / "book" / "records", ROOT / "book" / "_static"
WIDGETS = {"vit_mnist": "digit", "decoder_pages": "writer"}  # record → the widget that takes it


def as_rows(parameter: torch.Tensor) -> torch.Tensor:
    """Return a parameter as a matrix: the rows of a weight, the tokens of an embedding; a vector is one row."""
    if parameter.ndim == 1:
        return parameter[None]
    return parameter[0] if parameter.ndim == 3 else parameter.flatten(1)


def quantise(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scales, (R,), and whole numbers, (R, C), whose products are nearly the rows, (R, C)."""
    scales = rows.abs().amax(dim=1).clamp(min=1e-12) / 127  # (R,)
    return scales, (rows / scales[:, None]).round().to(torch.int8)


def pack(model: str) -> str:
    """Return a recorded model's script: names and shapes of its parameters, their numbers in base64, a text's characters."""
    shapes, parts = [], []
    for name, parameter in torch.load(RECORDS / f"{model}.pt", weights_only=True).items():
        rows = as_rows(parameter.float())
        scales, numbers = quantise(rows)
        shapes.append([name, *rows.shape])
        parts += [scales.numpy().astype(np.dtype("<f4")).tobytes(), numbers.numpy().tobytes()]
    content = {"shapes": shapes, "data": base64.b64encode(b"".join(parts)).decode()}
    if (record := RECORDS / f"{model}.json").exists():
        run = json.loads(record.read_text(encoding="utf-8"))[0]
        content |= {"depth": run["settings"]["depth"], "heads": run["settings"]["num_heads"]}
        content |= {"context": run["images"]["shape"][0], "characters": "".join(run["images"]["classes"])}
    return f"/* Made by book/_ext/browser_model.py. */\nWidgets.{WIDGETS[model]}.take({json.dumps(content)});\n"


if __name__ == "__main__":
    for name in WIDGETS:
        (SCRIPTS / f"{name}.js").write_text(pack(name), encoding="utf-8")
