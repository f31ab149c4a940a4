"""Convert what a cell showed into nbformat's outputs: bounded, and without the student's HTML, SVG or script."""

import base64
import itertools
import re
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.files import writable
from autograder.sandbox.host.limits import Limits

# How a picture begins, and where its height and width are.
PICTURES = {
    "image/png": (b"\x89PNG", re.compile(rb"\A.{16}(.{4})(.{4})", re.S)),
    "image/jpeg": (b"\xff\xd8", re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf](?=.{3}(..)(..))", re.S)),
}
KINDS = ("stream", "display_data", "error")
MAX_PIXELS = 2**24  # pixels of a picture: a browser needs four bytes for each, however small the file


def outputs_in(reply: dict[str, Any], limits: Limits) -> list[NotebookNode]:
    """Return a cell's outputs from a reply, which may hold anything. If some are left out, the last output says so.

    The agent keeps to the limits. Of a forged reply, as many pieces are read, and at most twice as many characters.
    """
    pieces = [*reply["outputs"]] if isinstance(reply.get("outputs"), list) else []
    if "error" in reply:  # an error of the agent, which the student's code has changed
        pieces.append(("error", {"ename": "RuntimeError", "evalue": f"The cell could not be run: {reply['error']}"}))
    outputs = [
        _output(*piece, limits)
        for piece in pieces[: limits.output_count]
        if isinstance(piece, (list, tuple)) and list(map(type, piece)) == [str, dict] and piece[0] in KINDS
    ]
    sizes = (len(output.text if output.output_type == "stream" else str(output)) for output in outputs)
    kept = outputs[: sum(size <= 2 * limits.output_bytes for size in itertools.accumulate(sizes))]
    if len(kept) < len(outputs) or len(pieces) > limits.output_count or reply.get("cut") is True:
        most = f"{limits.output_bytes:,} bytes in {limits.output_count} pieces"
        said = f"\n[Cut here: a cell may print {most}.]"
        kept.append(nbformat.v4.new_output("stream", name="stdout", text=said))
    return kept


def _output(kind: str, content: dict[str, Any], limits: Limits) -> NotebookNode:
    if kind == "stream":
        name = "stderr" if _text(content.get("name")) == "stderr" else "stdout"
        return nbformat.v4.new_output("stream", name=name, text=_text(content.get("text")))
    if kind == "error":
        trace = content["traceback"] if isinstance(content.get("traceback"), list) else []
        trace = [_text(line) for line in trace[: limits.output_count]]
        name, value = _text(content.get("ename")), _text(content.get("evalue"))
        return nbformat.v4.new_output("error", ename=name, evalue=value, traceback=trace)
    data = content.get("data") if isinstance(content.get("data"), dict) else {}
    kept = {mime: data[mime] for mime in PICTURES if _is_picture(data.get(mime), mime, limits)}
    if "text/plain" in data or not kept:
        shown = f"[Only text, and PNG and JPEG of at most {MAX_PIXELS:,} pixels, are shown here.]"
        kept["text/plain"] = _text(data.get("text/plain", shown))
    return nbformat.v4.new_output("display_data", data=kept)


def _text(value: object) -> str:
    """Return a text that a file can hold; anything else becomes an empty text."""
    return writable(value) if isinstance(value, str) else ""


def _is_picture(text: object, kind: str, limits: Limits) -> bool:
    """Whether a value is the text of a picture of acceptable size."""
    if not isinstance(text, str) or len(text) > limits.output_bytes:  # decoding a longer one may take gigabytes
        return False
    start, place = PICTURES[kind]
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return False
    sizes = [int.from_bytes(height) * int.from_bytes(width) for height, width in place.findall(data)]
    return data.startswith(start) and 0 < max(sizes, default=0) <= MAX_PIXELS
