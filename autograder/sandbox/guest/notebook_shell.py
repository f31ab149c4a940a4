"""IPython's shell as a notebook has it, without Jupyter's sockets: it keeps what a cell prints, shows and raises."""

import asyncio
import base64
import builtins
import getpass
import io
import pdb
import re
import sys

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

PICTURES = ("image/png", "image/jpeg")  # kinds of output that are kept, in addition to text


class Outputs:
    """Pieces of output as in Jupyter's messages: a kind and its content. Between cells nothing is kept."""

    def __init__(self) -> None:
        self.begin(0, 0)

    def begin(self, room: int, pieces: int) -> None:
        """Forget what was kept, and keep at most `room` characters and `pieces` pieces; `cut` says whether more came."""
        self.kept: list = []
        self.room, self.pieces, self.cut = room, pieces, False

    def end(self) -> dict:
        """Return what was kept."""
        for kind, content in self.kept:
            if kind == "stream":
                content["text"] = "".join(content["text"])
        found = {"outputs": self.kept, "cut": self.cut}
        self.begin(0, 0)
        return found

    def write(self, stream: str, text: str) -> None:
        """Add printed text; it extends the last piece if that is of the same stream."""
        if not text:  # IPython prints an empty text after each value
            return
        if not self.kept or self.kept[-1][1].get("name") != stream:
            self.add("stream", {"name": stream, "text": []}, 0)
        if not self.cut:
            self.kept[-1][1]["text"].append(text[: self.room])
            self.cut = len(text) > self.room
            self.room -= len(text)

    def add(self, kind: str, content: dict, size: int) -> None:
        """Add a piece of `size` characters, if there is room for it."""
        self.cut = self.cut or size > self.room or len(self.kept) == self.pieces
        if not self.cut:
            self.kept.append((kind, content))
            self.room -= size

    def show(self, data: dict) -> None:
        """Add a displayed value: the texts that describe it, by kind."""
        coded = {  # Pillow's pictures come as bytes
            kind: base64.b64encode(text).decode() if isinstance(text, bytes) else text for kind, text in data.items()
        }
        kept = {kind: coded[kind] for kind in ("text/plain", *PICTURES) if isinstance(coded.get(kind), str)}
        self.add("display_data", {"data": kept}, sum(map(len, kept.values())))


OUTPUTS = Outputs()


class _Stream(io.TextIOBase):
    """A replacement for sys.stdout or sys.stderr."""

    encoding = "utf-8"

    def __init__(self, name: str, descriptor: int) -> None:
        self.name, self.descriptor = name, descriptor

    def fileno(self) -> int:
        return self.descriptor

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        OUTPUTS.write(self.name, str(text))
        return len(text)


class _Result(DisplayHook):
    """Shows the value of a cell's last line."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict, md_dict: dict | None = None) -> None:
        OUTPUTS.show(format_dict)


class _Display(DisplayPublisher):
    """Shows the argument of `display`."""

    def publish(self, data: dict, metadata: dict | None = None, *, update: bool = False, **_: object) -> None:
        if not update:
            OUTPUTS.show(data)

    def clear_output(self, wait: bool = False) -> None:
        pass


class NotebookShell(InteractiveShell):
    """The shell in which cells run."""

    displayhook_class = Type(_Result)
    display_pub_class = Type(_Display)

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list) -> None:
        said = re.sub(r"<ipython-input-\S+>, ", "", str(evalue))  # this name of a file means nothing to a reader
        content = {"ename": str(etype.__name__), "evalue": said, "traceback": stb}
        OUTPUTS.add("error", content, len(content["evalue"]) + sum(map(len, stb)))

    def show_usage_error(self, exc: BaseException) -> None:
        """Show a magic that is not installed as an error with its line, so that the rest of the cell can run."""
        self._showtraceback(type(exc), exc, self.InteractiveTB.structured_traceback(type(exc), exc, exc.__traceback__))

    def should_run_async(self, raw_cell: str, **how: object) -> bool:
        """Run each cell within an event loop, as Jupyter does. A cell that another cell runs is in the loop already."""
        return asyncio._get_running_loop() is None or super().should_run_async(raw_cell, **how)

    def enable_gui(self, gui: object = None) -> None:
        """Do nothing: figures are shown as pictures."""

    def ask_exit(self) -> None:
        """Ignore exit() and quit() in a cell: the cells after it must run."""


def make_shell() -> NotebookShell:
    """Make the shell of this process, which refuses requests for input. A second call returns the same shell."""
    config = Config()
    config.HistoryManager.enabled = False  # else a thread writes the history to a file
    shell = NotebookShell.instance(config=config)
    for name in ("autosave", "clear", "debug", "less", "man", "more", "pdb"):  # Jupyter has these; here they do nothing
        shell.register_magic_function(lambda line: None, magic_name=name)
    builtins.input = getpass.getpass = _ask
    pdb.set_trace = lambda *_, **__: None  # a breakpoint that a student forgot
    return shell


def redirect() -> None:
    """Keep what is printed from here on."""
    sys.stdout, sys.stderr = _Stream("stdout", 1), _Stream("stderr", 2)


def _ask(*_: object, **__: object) -> None:
    raise StdinNotImplementedError("A notebook that is graded does not support input requests.")
