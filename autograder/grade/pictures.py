"""Show the pictures of written answers to the person who grades, and in the feedback."""

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nbformat import NotebookNode

from autograder.grade import picture_reader
from autograder.notebooks import NAMED_PICTURE
from autograder.sandbox.guest import wire
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.limits import Limits
from autograder.sandbox.host.outputs import PICTURES, outputs_in

MAX_SHOWN = 600_000  # characters of a shown picture in base64


def show_pictures(notebook: NotebookNode, pictures: Mapping[str, str], limits: Limits, sandboxed: bool) -> None:
    """Attach small pictures to the texts that name them; a picture that cannot be shown stays named.

    Args:
        notebook: An executed notebook.
        pictures: The submitted pictures in base64, by the words that name them.
        limits: What the sandbox that reads them may use.
        sandboxed: False only if the instructor asked for it.
    """
    texts = [cell for cell in notebook.cells if cell.cell_type == "markdown" and NAMED_PICTURE.search(cell.source)]
    named = {words: data for words, data in pictures.items() if any(words in cell.source for cell in texts)}
    shown, room = _small(named, limits, sandboxed) if named else {}, limits.total_output_bytes
    for cell in texts:
        room = _attach(cell, shown, room)


def _attach(cell: NotebookNode, shown: Mapping[str, dict[str, str]], room: int) -> int:
    """Attach the pictures that a text names; return how many characters may still be attached."""
    names: dict[str, str] = {}
    for words, data in shown.items():
        [(kind, text)] = data.items()
        if words in cell.source and len(text) <= room:
            room -= len(text)
            names[words] = f"picture-{len(names) + 1}.{kind.removeprefix('image/')}"
            cell.setdefault("attachments", {})[names[words]] = data

    def link(match: re.Match) -> str:
        words = next((words for words in names if words in match[0]), "")
        alt = words.strip("[]").partition(":")[0]
        return f"![{alt}](attachment:{names[words]})" if words else match[0]

    cell.source = NAMED_PICTURE.sub(link, cell.source)
    return room


def _small(pictures: Mapping[str, str], limits: Limits, sandboxed: bool) -> dict[str, dict[str, str]]:
    """Let a sandbox make pictures small; return those that it can read, each as {type: base64}."""
    shown: dict[str, dict[str, str]] = {}
    ends = time.monotonic() + limits.cell_seconds
    # if the kernel is lost, the other pictures stay named
    with contextlib.suppress(KernelLost), contextlib.closing(Kernel(limits, sandboxed, ends)) as kernel:
        kernel.run_cell(Path(picture_reader.__file__).read_text(encoding="utf-8"))
        for words, data in pictures.items():
            if len(data) <= wire.MAX_BYTES // 2 and (small := _read(kernel, data, limits)):
                shown[words] = small
    return shown


def _read(kernel: Kernel, data: str, limits: Limits) -> dict[str, str]:
    """Return a small picture as {type: base64}; {} if it cannot be read. The reply is checked as a cell's output is."""
    value = kernel.call_ours("read_picture", data, MAX_SHOWN * 3 // 4)
    reply = {"outputs": [("display_data", {"data": value})]}
    [output] = outputs_in(reply, replace(limits, output_bytes=MAX_SHOWN + 1000))
    kept = [(kind, text) for kind, text in output.get("data", {}).items() if kind in PICTURES]
    return dict(kept[:1])
