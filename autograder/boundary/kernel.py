"""The grader's end of the wire: run a cell in the sandboxed kernel, call a function there, and give up in time."""

import contextlib
import re
import secrets
import time
from collections.abc import Callable
from typing import Any

import nbformat
import zmq
from jupyter_client.session import Session
from nbformat import NotebookNode

from autograder.boundary import wire
from autograder.boundary.sandbox import Limits, start_kernel

MIME = "application/x-autograder"
MAX_FRAME = 100 * 2**20  # bytes of one message; a longer one ends the connection
KEPT_MIMES = ("text/plain", "image/png", "image/jpeg")  # no HTML, SVG or script of a student's reaches a page
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")  # a picture goes into a page as it is
PATIENCE = 0.1  # seconds between two looks at clock, memory and life of the kernel


class KernelLost(BaseException):
    """The kernel is gone; no `except Exception` of a test may swallow that. `state` is "crashed" or "timed out"."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


class BadReply(Exception):
    """The student's kernel did not answer a call with a value that can be read."""


class Kernel:
    """A sandboxed kernel. After a KernelLost it is closed."""

    def __init__(self, limits: Limits, sandboxed: bool = True) -> None:
        self.limits = limits
        self.sandbox = start_kernel(limits, sandboxed)
        connection = self.sandbox.connection
        self.session = Session(key=str(connection["key"]).encode(), signature_scheme=connection["signature_scheme"])
        self.context = zmq.Context()
        # Set before connecting: a frame has a limit, few messages wait, and a socket that the student's code
        # replaced by something else is never connected to again.
        for option, value in ((zmq.MAXMSGSIZE, MAX_FRAME), (zmq.RCVHWM, 5), (zmq.RECONNECT_IVL, -1), (zmq.LINGER, 0)):
            self.context.setsockopt(option, value)
        self.poller = zmq.Poller()
        self.shell = self._connect(zmq.DEALER, connection["shell_port"])
        self.stdin = self._connect(zmq.DEALER, connection["stdin_port"])
        self.iopub = self._connect(zmq.SUB, connection["iopub_port"])
        self.iopub.subscribe(b"")
        self._wait_until_ready()

    def _connect(self, kind: int, port: object) -> zmq.Socket:
        socket = self.context.socket(kind)
        if kind == zmq.DEALER:
            socket.identity = self.session.bsession  # input requests come back to the identity that asked
        socket.connect(f"ipc://{self.sandbox.connection['ip']}-{port}")
        self.poller.register(socket, zmq.POLLIN)
        return socket

    def _wait_until_ready(self) -> None:
        """A subscription takes a moment to arrive: ask until an answer is heard on iopub as well."""
        for _ in range(100):
            message = self.session.send(self.shell, "kernel_info_request", {})
            deadline = time.monotonic() + 0.5
            while time.monotonic() < deadline:
                for socket, (kind, parent, _) in self._receive():
                    if socket is self.iopub and kind == "status" and parent == message["header"]["msg_id"]:
                        return
        self.close()
        raise KernelLost("crashed", "the kernel did not answer")

    def _receive(self) -> list[tuple[zmq.Socket, tuple[str, str, dict[str, Any]]]]:
        """Return what has come: (socket, (type, id of the request, content)). A malformed message is dropped."""
        messages = []
        for socket, _ in self.poller.poll(PATIENCE * 1000):
            try:
                _, message = self.session.recv(socket, zmq.NOBLOCK)
                kind, parent, content = (
                    message["header"]["msg_type"],
                    message["parent_header"].get("msg_id"),
                    message["content"],
                )
                if isinstance(kind, str) and isinstance(content, dict):
                    messages.append((socket, (kind, parent, content)))
            except Exception:  # whatever a hostile kernel can send, down to a RecursionError of the JSON parser
                continue
        return messages

    def execute(
        self,
        code: str,
        seconds: float,
        on_output: Callable[[str, dict[str, Any]], None],
        on_question: Callable[[str], str] | None = None,
    ) -> None:
        """Run code until the kernel says that it is done.

        Args:
            code: What to run.
            seconds: After how long to give up.
            on_output: Called with type and content of every output.
            on_question: Called with the prompt of every input request; returns the answer.

        Raises:
            KernelLost: the kernel died, hung, or used more memory than it may. It is closed.
        """
        content = {"code": code, "silent": on_question is not None, "store_history": on_question is None}
        content |= {"user_expressions": {}, "allow_stdin": on_question is not None, "stop_on_error": False}
        request = self.session.send(self.shell, "execute_request", content)["header"]["msg_id"]
        deadline, replied, idle, next_look = time.monotonic() + seconds, False, False, 0.0
        while not (replied and idle):
            for socket, (kind, parent, content) in self._receive():
                if parent != request:
                    continue
                if socket is self.shell:
                    replied = replied or kind == "execute_reply"
                elif socket is self.stdin and kind == "input_request" and on_question is not None:
                    answer = on_question(content.get("prompt"))
                    self.session.send(self.stdin, "input_reply", {"value": answer})
                elif kind == "status":
                    idle = idle or content.get("execution_state") == "idle"
                elif socket is self.iopub:
                    on_output(kind, content)
            if time.monotonic() > next_look:
                self._look_after(deadline, seconds)
                next_look = time.monotonic() + PATIENCE

    def _look_after(self, deadline: float, seconds: float) -> None:
        lost = None
        if self.sandbox.process.poll() is not None:
            lost = KernelLost(
                "crashed", "The kernel died: the code ended its own process, or used more memory than it may."
            )
        elif time.monotonic() > deadline:
            lost = KernelLost("timed out", f"Not done after {seconds:.0f} s. Is there a loop that does not end?")
        elif self.sandbox.memory() > self.limits.memory_bytes:
            lost = KernelLost("crashed", f"More than {self.limits.memory_bytes / 2**30:.1f} GiB of memory were used.")
        if lost:
            self.close()
            raise lost

    def run_cell(self, source: str, seconds: float | None = None) -> list[NotebookNode]:
        """Run a student's cell, for at most so many seconds; return its outputs, bounded in number and bytes.

        Raises:
            KernelLost: as `execute`.
        """
        outputs = _Outputs(self.limits)
        self.execute(source, min(self.limits.cell_seconds, seconds or self.limits.cell_seconds), outputs.add)
        return outputs.kept

    def call(self, request: dict[str, Any], correct: dict[str, Callable[..., Any]], seconds: float) -> dict[str, Any]:
        """Call a function of the student's with plain values; return the agent's reply.

        Args:
            request: What the agent in `inside.py` reads; its "replaced" names the functions of `correct`.
            correct: Earlier exercises that the student's function may ask the grader for while it runs.
            seconds: After how long to give up.

        Raises:
            KernelLost: as `execute`.
            BadReply: no reply that can be read came.
        """
        request = request | {"id": secrets.token_hex(16), "replaced": sorted(correct)}
        replies: list[Any] = []

        def on_output(kind: str, content: dict[str, Any]) -> None:
            data = content.get("data")
            if kind == "display_data" and isinstance(data, dict) and isinstance(data.get(MIME), str) and not replies:
                with contextlib.suppress(ValueError):
                    reply = wire.loads(data[MIME])
                    if isinstance(reply, dict) and reply.get("id") == request["id"]:
                        replies.append(reply)

        code = f"__import__('inside').serve({wire.dumps(request)!r})"
        self.execute(code, seconds, on_output, lambda prompt: _answer(prompt, correct))
        if not replies:
            raise BadReply("the call gave no readable reply")
        return replies[0]

    def close(self) -> None:
        """End the kernel and every process of its sandbox."""
        self.sandbox.close()
        self.context.destroy(linger=0)


def _answer(prompt: object, correct: dict[str, Callable[..., Any]]) -> str:
    """Answer a question of the student's function to the correct version of an earlier exercise."""
    try:
        question = wire.loads(prompt)
        value = correct[question["name"]](*question["arguments"], **question["keywords"])
        return wire.dumps({"value": value})
    except Exception as error:
        return wire.dumps({"error": str(error)[:500]})


class _Outputs:
    """Collects outputs as nbformat knows them, up to the limits; says so once where it cuts."""

    def __init__(self, limits: Limits) -> None:
        self.kept: list[NotebookNode] = []
        self.bytes, self.limits, self.full = 0, limits, False

    def add(self, kind: str, content: dict[str, Any]) -> None:
        if self.full or kind not in ("stream", "display_data", "execute_result", "error"):
            return
        output = self._read(kind, content)
        room = self.limits.output_bytes - self.bytes
        size = len(output.text) if kind == "stream" else len(str(output))
        if size > room or len(self.kept) >= self.limits.output_count:
            self.full = True
            cut = output.text[: max(room, 0)] if kind == "stream" else ""
            note = f"{cut}\n[Cut here: a cell may print {self.limits.output_bytes:,} bytes in {self.limits.output_count} pieces.]"
            output = nbformat.v4.new_output("stream", name="stdout", text=note)
        self.bytes += size
        last = self.kept[-1] if self.kept else None
        if (
            output.output_type == "stream"
            and last is not None
            and last.output_type == "stream"
            and last.name == output.name
        ):
            last.text += output.text
        else:
            self.kept.append(output)

    @staticmethod
    def _read(kind: str, content: dict[str, Any]) -> NotebookNode:
        if kind == "stream":
            name = "stderr" if content.get("name") == "stderr" else "stdout"
            return nbformat.v4.new_output("stream", name=name, text=str(content.get("text")))
        if kind == "error":
            trace = (
                [str(line) for line in content.get("traceback") or []]
                if isinstance(content.get("traceback"), list)
                else []
            )
            return nbformat.v4.new_output(
                "error", ename=str(content.get("ename")), evalue=str(content.get("evalue")), traceback=trace
            )
        data = content.get("data") if isinstance(content.get("data"), dict) else {}
        data = {mime: data[mime] for mime in KEPT_MIMES if isinstance(data.get(mime), str)}
        data = {mime: text for mime, text in data.items() if mime == "text/plain" or BASE64.fullmatch(text)}
        return nbformat.v4.new_output("display_data", data=data)
