"""The grader's end of the wire: run a cell in the sandboxed kernel, call a function there, and give up in time."""

import contextlib
import math
import secrets
import select
import time
from collections.abc import Callable
from typing import Any

from nbformat import NotebookNode

from autograder.sandbox.guest import wire
from autograder.sandbox.host.bubblewrap import start_kernel
from autograder.sandbox.host.candidate import reply
from autograder.sandbox.host.limits import Limits
from autograder.sandbox.host.outputs import outputs_in

MAX_FRAME = 2 * wire.MAX_BYTES  # bytes of one message; a longer one ends the connection
PIECE = 2**18  # bytes that are read from the channel at once
PATIENCE = 0.1  # seconds between two checks of the kernel: its time, its memory, and whether it is alive
QUICK = 0.02  # seconds; after a shorter call the kernel needs no check
MAX_IN_LINE = 10  # on a busy machine a request may last this many times its limit
DIED = "The kernel died: the code ended its own process, or used more memory than it may."


class KernelLost(BaseException):
    """The kernel is gone; no `except Exception` of a test may swallow this error. `state` is "crashed" or "timed out"."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


class Kernel:
    """A sandboxed kernel. No request waits beyond `ends`, a time of time.monotonic().

    After a KernelLost in a test, the next request finds the kernel as it was before the test, if only the test's process
    was lost. After any other KernelLost the kernel is closed.
    """

    def __init__(self, limits: Limits, sandboxed: bool = True, ends: float = math.inf) -> None:
        self.limits, self.ends = limits, ends
        self.sandbox = start_kernel(limits, sandboxed)
        self.channel, self.received = self.sandbox.channel, bytearray()
        self.channel.setblocking(False)
        self.ready = select.poll()
        self.ready.register(self.channel, select.POLLIN)
        self.spent = 0.0  # seconds that requests took; see _Watch
        self.before_test: set[int] | None = None  # the sandbox's processes before a test began; None if no test runs
        self.ended = False  # whether the test's process has ended by itself
        self._send(b"go")

    def _lost(self, state: str = "crashed", why: str = DIED) -> KernelLost:
        """End what does not answer any more: the process of the present test, else the kernel; return the error."""
        full = self._full()
        if full or self.before_test is None:
            self.close()
        else:
            with contextlib.suppress(KernelLost):  # if the process cannot be ended, the kernel is closed
                self.end_test()
        return KernelLost("crashed" if full else state, full or why)

    def _full(self) -> str:
        """Return a message if more memory was used than allowed; else an empty one."""
        full = self.sandbox.took_more_than(self.limits.memory_bytes)
        return f"More than {self.limits.memory_bytes / 2**30:.1f} GiB of memory were used." * full

    def raise_if_lost(self, late: str = "") -> None:
        """Raise a KernelLost if the kernel died, is late, or took more than it may."""
        if late:
            raise self._lost("timed out", late)
        if self._full() or not self.sandbox.is_alive():
            raise self._lost()

    def run_cell(
        self, source: str, seconds: float | None = None, *, in_test: bool = False, **content: Any
    ) -> list[NotebookNode]:
        """Run a student's cell; return its outputs, bounded in number and bytes.

        Args:
            source: The cell's text.
            seconds: The time limit; by default, and at most, `Limits.cell_seconds`.
            in_test: Whether the cell is a test: then later cells find nothing of what it did.
            content: What else `_cell` in `inside.py` reads.

        Raises:
            KernelLost: the kernel died, hung, or used more memory than it may.
        """
        self.end_test()
        request = {"do": "cell", "source": source, "room": self.limits.output_bytes, "pieces": self.limits.output_count}
        request |= content
        seconds = min(self.limits.cell_seconds, seconds or self.limits.cell_seconds)
        before = self.sandbox.processes()
        reply = self.call(request, None, seconds) if in_test else self._call(request, None, seconds)
        if self.sandbox.processes() - before:  # if no test can begin next to them, this cell is lost, and no later one
            self.begin_test()
        self.end_test()
        self.raise_if_lost()  # so that no other cell suffers from what this one leaves behind
        return outputs_in(reply, self.limits)

    def call_ours(self, function: str, *arguments: Any) -> Any:
        """Call a function of ours that a cell has defined in this kernel; return its value unchecked."""
        request = {"do": "ask", "module": "attention_tests.compare", "ask": "ask_plainly", "function": function}
        request |= {"others": [], "arguments": list(arguments), "keywords": {}}
        return self.call(request, None, self.limits.cell_seconds).get("value")

    def call(self, request: dict[str, Any], candidate: Callable[..., Any] | None, seconds: float) -> dict[str, Any]:
        """Ask a student's function, in the process of the present test; return the agent's reply.

        Args:
            request: What the agent in `inside.py` reads; this function adds an id.
            candidate: The function that the student's test tries, if any: the test asks for its values while it runs.
            seconds: The time limit.

        Raises:
            KernelLost: as `run_cell`.
        """
        self.begin_test()
        return self._call(request, candidate, seconds)

    def begin_test(self) -> None:
        """Start a process for a test, unless a test is running; raise a KernelLost as `run_cell` does."""
        if self.before_test is None:
            self.before_test = self.sandbox.processes()
            self._send(b"test")
            self._wait_for("began")

    def end_test(self) -> None:
        """End the process of the present test, and all that it has started. The next call begins another test.

        Raises:
            KernelLost: as `run_cell`.
        """
        if self.closed or self.before_test is None:
            return
        before, self.before_test, watch = self.before_test, None, _Watch(self, self.limits.call_seconds)
        self.sandbox.end_all_but(before)
        if not self.ended:
            self._wait_for("ended")
        self.ended = False
        while self.sandbox.end_all_but(before):  # what the process has started
            watch.look()
            time.sleep(0.001)

    def _wait_for(self, what: str) -> None:
        watch = _Watch(self, self.limits.call_seconds)
        while what not in (message := _read(self._receive() or b"") or {}):
            self._raise_if_ended(message)
            watch.look()

    def _raise_if_ended(self, message: dict[str, Any]) -> None:
        """Raise a KernelLost if a message says that the process of the test has ended before its reply."""
        if "ended" in message and self.before_test is not None:
            self.ended = True
            raise self._lost()

    def _call(self, request: dict[str, Any], candidate: Callable[..., Any] | None, seconds: float) -> dict[str, Any]:
        content = {"replaced": {}, "chosen": {}, "defines": [], "number": 0} | request | {"id": secrets.token_hex(16)}
        self._send(content.pop("do").encode(), wire.dumps(content))
        watch = _Watch(self, seconds)
        while True:
            received = self._receive() or b""
            message = _read(received) or {}
            self._raise_if_ended(message)
            if "question" in message and candidate is not None:
                self._send(reply(message, len(received), candidate))
            elif message.get("id") == content["id"]:
                if watch.end() > QUICK:
                    self.raise_if_lost()  # checks the kernel, as after a cell
                return message
            watch.look()

    def _send(self, *messages: bytes) -> None:
        left, watch = memoryview(b"".join(map(wire.frame, messages))), _Watch(self, self.limits.call_seconds)
        while left:
            try:
                left = left[self.channel.send(left) :]
            except BlockingIOError:  # the channel is full, and the kernel has not read it yet
                watch.look()
                time.sleep(0.001)
            except OSError:
                raise self._lost() from None

    def _receive(self) -> bytes | None:
        """Return the next message; None if it is not complete yet."""
        message = self._next_message()
        if message is None:
            self.ready.poll(PATIENCE * 1000)
            try:
                piece = self.channel.recv(PIECE)
            except BlockingIOError:
                return None
            except ConnectionResetError:  # the kernel ended before it had read what we sent
                piece = b""
            if not piece:
                raise self._lost()
            self.received += piece
            message = self._next_message()
        return message

    def _next_message(self) -> bytes | None:
        """Take a message out of what was received, if one is complete."""
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
        """End the kernel and every process of its sandbox, if it is not closed."""
        if not self.closed:
            self.sandbox.close()


class _Watch:
    """The clock of one request; it also checks the kernel from time to time.

    A busy machine takes no time from a student: while the kernel needs a processor, only the processor's seconds count.
    Time during which the grader itself did not run does not count either.
    """

    def __init__(self, kernel: Kernel, seconds: float) -> None:
        self.kernel, self.seconds, self.spent = kernel, seconds, 0.0
        self.begun = self.looked = time.monotonic()
        self.used = math.inf  # processor seconds that the sandbox had used; infinite before the first look

    def look(self) -> None:
        """Count the time and check the kernel, if the last look is at least PATIENCE ago."""
        now = time.monotonic()
        if now < self.looked + PATIENCE:
            return
        before = self.used
        self.used, in_line = self.kernel.sandbox.activity()
        passed = min(now - self.looked, 10 * PATIENCE)
        self._count(min(passed, max(0.0, self.used - before)) if in_line and before < math.inf else passed)
        late = self.spent > self.seconds or now > min(self.begun + MAX_IN_LINE * self.seconds, self.kernel.ends)
        self.kernel.raise_if_lost(f"Not done after {self.seconds:.0f} s. Is there a loop that does not end?" * late)
        self.looked = time.monotonic()

    def end(self) -> float:
        """Count the rest; return the seconds of the whole request."""
        self._count(min(time.monotonic() - self.looked, 10 * PATIENCE))
        return self.spent

    def _count(self, seconds: float) -> None:
        self.spent += seconds
        self.kernel.spent += seconds


def _read(received: bytes) -> dict[str, Any] | None:
    """Read a message of the kernel; None if it is not valid. Its id and its description of an error always become texts.

    An array instead of a text would be compared number by number, and printing thousands of arrays would take minutes.
    """
    try:
        message = wire.loads(received, wire.MAX_TEXT)
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
