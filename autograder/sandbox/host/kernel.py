"""The grader's end of the wire: run a cell in the sandboxed kernel, call a function there, and give up in time."""

import hashlib
import hmac
import math
import secrets
import select
import time
from collections.abc import Callable
from typing import Any

import psutil
from nbformat import NotebookNode

from autograder.sandbox.guest import wire
from autograder.sandbox.guest.out_of_reach import REACHED, SEAL
from autograder.sandbox.host.bubblewrap import Limits, start_kernel
from autograder.sandbox.host.outputs import changes_in, outputs_in
from autograder.sandbox.host.questions import answer, text_of

MAX_FRAME = 2 * wire.MAX_BYTES  # bytes of one message; a longer one ends the connection
PIECE = 2**18  # bytes that are read from the channel at once
MAX_OWN = 2**30  # bytes by which the grader's own process may grow while it listens to one kernel
PATIENCE = 0.1  # seconds between two looks at clock, memory and life of the kernel
QUICK = 0.02  # seconds; a call that takes less leaves nothing behind that needs a look
MAX_REACHED = 10  # ways in which code in one kernel reached for the agent, that are told
MAX_IN_LINE = 10  # times as long as it may take, a request may wait for its turn on a busy machine


DEAF = "The code closed its connection to the grader, or sent over it what is no message."
DIED = "The kernel died: the code ended its own process, or used more memory than it may."


class KernelLost(BaseException):
    """The kernel is gone; no `except Exception` of a test may swallow that. `state` is "crashed" or "timed out"."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


class Kernel:
    """A sandboxed kernel. After a KernelLost it is closed. No request waits beyond the time at which it ends."""

    def __init__(
        self, limits: Limits, sandboxed: bool = True, ends: float = math.inf, reached: list[str] | None = None
    ) -> None:
        self.limits, self.ends = limits, ends
        self.process = psutil.Process()
        self.size = self.process.memory_info().rss
        self.sandbox = start_kernel(limits, sandboxed)
        self.channel, self.received = self.sandbox.channel, bytearray()
        self.channel.setblocking(False)
        self.ready = select.poll()
        self.ready.register(self.channel, select.POLLIN)
        self.spent = 0.0  # seconds that requests took; see _Watch
        self.reached = [] if reached is None else reached  # how its code reached for the agent, in words
        self.doing = ""  # what the present request does, in words
        self.key, self.sealed = secrets.token_bytes(32), 0  # of the agent's seal; how many messages had it
        self._send(self.key)

    def _lost(self) -> KernelLost:
        """Close a kernel that does not speak or listen any more; return why."""
        deadline = time.monotonic() + 1.0
        while self.sandbox.is_alive() and time.monotonic() < deadline:  # one that dies closes its connection first
            time.sleep(0.005)
        why = self._full() or (DEAF if self.sandbox.is_alive() else DIED)
        self.close()
        return KernelLost("crashed", why)

    def _full(self) -> str:
        """Say what is to be said where more memory was used than allowed; else nothing."""
        full = self.sandbox.took_more_than(self.limits.memory_bytes)
        return f"More than {self.limits.memory_bytes / 2**30:.1f} GiB of memory were used." * full

    def look_after(self, late: str = "") -> None:
        """Raise a KernelLost, and close the kernel, if it died, is late, or took more than it may."""
        lost = None
        if why := self._full():
            lost = KernelLost("crashed", why)
        elif not self.sandbox.is_alive():
            lost = KernelLost("crashed", DIED)
        elif late:
            lost = KernelLost("timed out", late)
        elif self.process.memory_info().rss > self.size + MAX_OWN:
            lost = KernelLost("crashed", "The code sent messages that nobody asked for.")
        if lost:
            self.close()
            raise lost

    def run_cell(
        self, source: str, seconds: float | None = None, *, answers: bool = False, forgotten: bool = False
    ) -> list[NotebookNode]:
        """Run a student's cell; return its outputs, bounded in number and bytes.

        Args:
            source: Of the cell.
            seconds: At most those of a cell, which are the default.
            answers: Whether it is an answer, which is not to find what other cells have changed in Python or a library.
            forgotten: Whether the notebook's names hold afterwards what they held before.

        Raises:
            KernelLost: the kernel died, hung, or used more memory than it may. It is closed.
        """
        do = "answer" if answers else "cell"
        request = {"do": do, "source": source, "forgotten": forgotten}
        request |= {"room": self.limits.output_bytes, "pieces": self.limits.output_count}
        reply = self.call(request, {}, min(self.limits.cell_seconds, seconds or self.limits.cell_seconds))
        self.look_after()  # so that nobody else pays for what it leaves behind
        return outputs_in(reply, self.limits) + changes_in(reply)

    def run_plain(self, source: str, seconds: float) -> None:
        """Run a cell of ours that is plain Python, for at most so many seconds; its outputs are dropped.

        IPython takes five times as long.

        Raises:
            KernelLost: as `run_cell`.
        """
        self.call({"do": "run", "source": source}, {}, min(self.limits.cell_seconds, seconds))

    def call(self, request: dict[str, Any], correct: dict[str, Callable[..., Any]], seconds: float) -> dict[str, Any]:
        """Call a function of the student's with plain values; return the agent's reply.

        Args:
            request: What the agent in `inside.py` reads, without what is added here: id, replaced, classes.
            correct: Earlier exercises that the student's function may ask the grader for while it runs; classes are
                made there, from the text of their file.
            seconds: After how long to give up.

        Raises:
            KernelLost: as `run_cell`.
        """
        classes = {name: text_of(item) for name, item in correct.items() if isinstance(item, type)}
        content = request | {"id": secrets.token_hex(16), "replaced": sorted(correct), "classes": classes}
        self.doing = _in_words(content)
        self._send(content.pop("do").encode(), wire.dumps(content))
        watch = _Watch(self, seconds)
        while True:
            received = self._receive()
            message = None if received is None else self._opened(received)
            if message is not None and "question" in message:
                self._send(answer(message, len(received), correct))
            elif message is not None and message.get("id") == content["id"]:
                if watch.end() > QUICK:
                    self.look_after()  # as after a cell
                return message
            watch.look()

    def _send(self, *messages: bytes) -> None:
        left, watch = memoryview(b"".join(map(wire.frame, messages))), _Watch(self, self.limits.call_seconds)
        while left:
            try:
                left = left[self.channel.send(left) :]
            except BlockingIOError:  # more than fits in, and the kernel has not read it yet
                watch.look()
                time.sleep(0.001)
            except OSError:
                raise self._lost() from None

    def _receive(self) -> bytes | None:
        """Return the next message once it has come whole; None if that is not yet so."""
        message = self._next_message()
        if message is None:
            self.ready.poll(PATIENCE * 1000)
            try:
                piece = self.channel.recv(PIECE)
            except BlockingIOError:
                return None
            except ConnectionResetError:  # it ended before it had read what we sent
                piece = b""
            if not piece:
                raise self._lost()
            self.received += piece
            message = self._next_message()
        return message

    def _opened(self, received: bytes) -> dict[str, Any] | None:
        """Read a message; None if it is none, or no more than word that code reaches for the agent.

        One without the agent's seal is read all the same: what it may say is bounded, and a person is asked about it.
        """
        seal, message = received[:SEAL], received[SEAL:]
        made = hashlib.blake2b(self.sealed.to_bytes(8, "big") + message, key=self.key, digest_size=SEAL).digest()
        if not hmac.compare_digest(seal, made):
            self._note("messages that are not the agent's")
            return _read(received) or _read(message)
        self.sealed += 1
        if message.startswith(REACHED):
            self._note(message.removeprefix(REACHED).decode(errors="replace"))
            return None
        return _read(message)

    def _note(self, way: str) -> None:
        """Note how code reached for the agent, and what was running."""
        way = f"{way}; it ran {self.doing}"
        if way not in self.reached and len(self.reached) < MAX_REACHED:
            self.reached.append(way)

    def _next_message(self) -> bytes | None:
        """Take a message out of what was received, if there is a whole one."""
        end = wire.HEAD + int.from_bytes(self.received[: wire.HEAD], "big")
        if end > MAX_FRAME:
            raise self._lost()
        if end > len(self.received):
            return None
        message = bytes(self.received[wire.HEAD : end])
        del self.received[:end]
        return message

    @property
    def closed(self) -> bool:
        """Whether the kernel was lost or closed."""
        return self.channel.fileno() < 0

    def close(self) -> None:
        """End the kernel and every process of its sandbox."""
        self.sandbox.close()


class _Watch:
    """The clock of one request, which looks after the kernel at times.

    What a kernel waits for its turn, on a busy machine, is not its student's time: while it wants a processor, only the
    processor's seconds count. Nor is time for which the grader itself stood still.
    """

    def __init__(self, kernel: Kernel, seconds: float) -> None:
        self.kernel, self.seconds, self.spent = kernel, seconds, 0.0
        self.begun = self.looked = time.monotonic()
        self.used = math.inf  # seconds of processor that the sandbox had used; at first nobody has asked

    def look(self) -> None:
        """Count the time and look after the kernel, if the last look is long ago."""
        now = time.monotonic()
        if now < self.looked + PATIENCE:
            return
        before = self.used
        self.used, in_line = self.kernel.sandbox.activity()
        passed = min(now - self.looked, 10 * PATIENCE)
        self._count(min(passed, max(0.0, self.used - before)) if in_line and before < math.inf else passed)
        late = self.spent > self.seconds or now > min(self.begun + MAX_IN_LINE * self.seconds, self.kernel.ends)
        self.kernel.look_after(f"Not done after {self.seconds:.0f} s. Is there a loop that does not end?" * late)
        self.looked = time.monotonic()

    def end(self) -> float:
        """Count the rest; return the seconds of the whole request."""
        self._count(min(time.monotonic() - self.looked, 10 * PATIENCE))
        return self.spent

    def _count(self, seconds: float) -> None:
        self.spent += seconds
        self.kernel.spent += seconds


def _in_words(request: dict[str, Any]) -> str:
    """Return what a request runs: a cell by its first line, or a function by its name."""
    if "source" in request:
        return f"the cell that begins {next(iter(request['source'].strip().splitlines()), '')[:60]!r}"
    target = request.get("target", request.get("function"))
    return f"`{target}`" if isinstance(target, str) else "a module"


def _read(received: bytes) -> dict[str, Any] | None:
    """Read a message of the kernel's; None if it is none. Its id, and what it says of an error, are words in any case.

    An array in their place would be compared with a word number by number; to print thousands would take minutes.
    """
    try:
        message = wire.loads(received)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    for key in message.keys() & {"id", "text", "line"}:
        message[key] = message[key] if isinstance(message[key], str) else ""
    if "error" in message:
        names = message["error"] if isinstance(message["error"], list) else []
        message["error"] = [name for name in names if isinstance(name, str)]
    return message
