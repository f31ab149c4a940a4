"""Read a file of weights. The text of this module runs in a separate sandbox, so that all effects of the file stay there.

The module imports nothing from the grader, and returns the content of the file as plain values.
"""

import base64
import io
import zipfile

import torch

MAX_UNPACKED = 64 * 2**20  # bytes; a ViT has 0.8 MB
MAX_ENTRIES = 1000  # entries; a ViT has 80
MAX_NUMBERS = 2**20  # numbers that are sent; a ViT has 204,000


def read_weights(text: str) -> dict:
    """Read a file that `torch.save` wrote, if it has only tensors and containers.

    Args:
        text: The bytes of the file, in base64.

    Returns:
        {"error": type, "text": its message} if the file cannot be read.
        {"unpacked": bytes} if the unpacked file is too large.
        {"type": name} if the file holds no dictionary.
        {"count": entries} if the dictionary has too many entries.
        Else {"entries": [(name, description), …]}. The description of a tensor has its shape, its type and, if there
        are not too many, its numbers as float32.
    """
    file = io.BytesIO(base64.b64decode(text))
    try:
        if zipfile.is_zipfile(file):
            unpacked = sum(info.file_size for info in zipfile.ZipFile(file).infolist())
            if unpacked > MAX_UNPACKED:
                return {"unpacked": unpacked}
        file.seek(0)
        value = torch.load(file, map_location="cpu", weights_only=True)
    except BaseException as error:
        return {"error": type(error).__name__, "text": str(error)[:2000]}
    if not isinstance(value, dict):
        return {"type": type(value).__name__}
    if len(value) > MAX_ENTRIES:
        return {"count": len(value)}
    entries, room = [], MAX_NUMBERS
    for name, item in value.items():
        about = {"type": type(item).__name__}
        if isinstance(item, torch.Tensor):
            layout = "" if item.layout == torch.strided else "sparse "
            about |= {"shape": list(item.shape), "dtype": layout + str(item.dtype).removeprefix("torch.")}
            if item.is_floating_point() and item.layout == torch.strided and item.numel() <= room:
                room -= item.numel()
                about["numbers"] = item.detach().to("cpu", torch.float32)
        entries.append((str(name)[:200], about))
    return {"entries": entries}
