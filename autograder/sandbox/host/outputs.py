"""Convert what a cell showed into nbformat's outputs: bounded, and without the student's HTML, SVG or script."""

import base64
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
MAX_PIXELS = 2**24  # pixels of a picture: a browser needs four bytes for each, however small the file


def outputs_in(reply: dict[str, Any], limits: Limits) -> list[NotebookNode]:
    """Return a cell's outputs from a reply, which may hold anything."""
    outputs = _Outputs(limits)
    for piece in reply["outputs"] if isinstance(reply.get("outputs"), list) else []:
        if isinstance(piece, (list, tuple)) and list(map(type, piece)) == [str, dict]:
            outputs.add(*piece)
    if reply.get("cut") is True:
        outputs.cut()
    if "error" in reply:  # an error of the agent, which the student's code has changed
        outputs.add("error", {"ename": "RuntimeError", "evalue": f"The cell could not be run: {reply['error']}"})
    return outputs.kept


class _Outputs:
    """Collects nbformat's outputs up to the limits, and says once that the rest is cut."""

    def __init__(self, limits: Limits) -> None:
        self.kept: list[NotebookNode] = []
        self.bytes, self.limits, self.full = 0, limits, False

    def add(self, kind: str, content: dict[str, Any]) -> None:
        if self.full or kind not in ("stream", "display_data", "error"):
            return
        output = self._read(kind, content)
        room = self.limits.output_bytes - self.bytes
        size = len(output.text) if kind == "stream" else len(str(output))
        if size <= room and len(self.kept) < self.limits.output_count:
            self.bytes += size
            self.kept.append(output)
        else:
            self.cut(output.text[: max(room, 0)] if kind == "stream" else "")

    def cut(self, last: str = "") -> None:
        """Take no more, and say so."""
        if not self.full:
            self.full = True
            most = f"{self.limits.output_bytes:,} bytes in {self.limits.output_count} pieces"
            said = f"{last}\n[Cut here: a cell may print {most}.]"
            self.kept.append(nbformat.v4.new_output("stream", name="stdout", text=said))

    def _read(self, kind: str, content: dict[str, Any]) -> NotebookNode:
        if kind == "stream":
            name = "stderr" if self._text(content.get("name")) == "stderr" else "stdout"
            return nbformat.v4.new_output("stream", name=name, text=self._text(content.get("text")))
        if kind == "error":
            trace = content.get("traceback") if isinstance(content.get("traceback"), list) else []
            trace = [self._text(line) for line in trace[: self.limits.output_count]]
            name, value = self._text(content.get("ename")), self._text(content.get("evalue"))
            return nbformat.v4.new_output("error", ename=name, evalue=value, traceback=trace)
        data = content.get("data") if isinstance(content.get("data"), dict) else {}
        kept = {mime: data[mime] for mime in PICTURES if self._is_picture(data.get(mime), mime)}
        if "text/plain" in data or not kept:
            shown = f"[Only text, and PNG and JPEG of at most {MAX_PIXELS:,} pixels, are shown here.]"
            kept["text/plain"] = self._text(data.get("text/plain", shown))
        return nbformat.v4.new_output("display_data", data=kept)

    def _text(self, value: object) -> str:
        """Return a text that a file can hold, cut just above the limit; anything else becomes an empty text."""
        return writable(value[: self.limits.output_bytes + 1]) if isinstance(value, str) else ""

    def _is_picture(self, text: object, kind: str) -> bool:
        """Whether a value is the text of a picture of acceptable size."""
        if not isinstance(text, str):
            return False
        if len(text) > self.limits.output_bytes:  # `add` cuts it in any case; decoding it may take gigabytes
            return True
        start, place = PICTURES[kind]
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            return False
        sizes = [int.from_bytes(height) * int.from_bytes(width) for height, width in place.findall(data)]
        return data.startswith(start) and 0 < max(sizes, default=0) <= MAX_PIXELS
