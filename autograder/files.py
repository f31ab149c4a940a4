"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write a file so that a kill at any moment leaves the old one or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode(errors="replace") if isinstance(text, str) else text  # a text may hold half a character
    if path.is_file() and path.read_bytes() == data:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)
