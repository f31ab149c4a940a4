"""Pack the recorded Vision Transformer into a script that a page can load, even from file://.

    python book/_ext/browser_model.py

writes book/_static/vit_mnist.js. Every row of a parameter becomes whole numbers from -127 to 127 and one scale.
"""

import base64
import json
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "book" / "records" / "vit_mnist.pt"
SCRIPT = ROOT / "book" / "_static" / "vit_mnist.js"


def as_rows(parameter: torch.Tensor) -> torch.Tensor:
    """Return a parameter as a matrix: the rows of a weight, the tokens of an embedding; a vector is one row."""
    if parameter.ndim == 1:
        return parameter[None]
    return parameter[0] if parameter.ndim == 3 else parameter.flatten(1)


def quantise(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scales, (R,), and whole numbers, (R, C), whose products are nearly the rows, (R, C)."""
    scales = rows.abs().amax(dim=1).clamp(min=1e-12) / 127  # (R,)
    return scales, (rows / scales[:, None]).round().to(torch.int8)


def pack(state: dict[str, torch.Tensor]) -> str:
    """Return the script: names and shapes of all parameters, and their numbers in base64."""
    shapes, parts = [], []
    for name, parameter in state.items():
        rows = as_rows(parameter)
        scales, numbers = quantise(rows)
        shapes.append([name, *rows.shape])
        parts += [scales.numpy().astype(np.dtype("<f4")).tobytes(), numbers.numpy().tobytes()]
    content = {"shapes": shapes, "data": base64.b64encode(b"".join(parts)).decode()}
    return f"/* Made by book/_ext/browser_model.py. */\nWidgets.digit.take({json.dumps(content)});\n"


if __name__ == "__main__":
    SCRIPT.write_text(pack(torch.load(RECORD, weights_only=True)), encoding="utf-8")
