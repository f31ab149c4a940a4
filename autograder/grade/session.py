"""The student's side of grading: a kernel, and the cells that a fresh kernel replays after a loss."""

import contextlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.files import writable
from autograder.grade.budget import Budget
from autograder.grade.newer_python import OUR_PYTHON, newer_python
from autograder.missing import missing_in, without_missing
from autograder.recognition import definitions
from autograder.sandbox.host.kernel import Kernel, KernelLost
from autograder.sandbox.host.limits import Limits

MAX_LEFT_OUT = 50  # failed imports, and lines for IPython, without which their cells run again
MAX_TRIALS = 4  # other definitions of an answer that are tried
MAX_NAMES = 1000  # names that failed cells would have defined; a message says why they are missing
CODE = (".py", ".ipynb")
NOT_PYTHON = ("SyntaxError", "IndentationError", "TabError")
LACKS = re.compile(r"\b(\w{1,200})'? is not defined")
OWN_ARGUMENT = re.compile(r"\b([a-z_A-Z]{1,50}) is called with `(\w{1,50})`, an argument that only your own")
NO_GPU = re.compile(
    "NVIDIA driver|not compiled with CUDA|No CUDA GPUs are available|re-initialize CUDA|support for mps|'MPS' backend"
)


@dataclass(frozen=True)
class Cell:
    """A cell that runs in the sandbox."""

    source: str
    own: bool = False  # the student added it
    released: bool = False  # it is unchanged since the release
    answers: bool = False  # it is an answer, or code that was given for answers
    number: int = 0  # its place among the cells of the notebook
    defines: tuple[str, ...] = ()  # the answers that it defines
    once: bool = False  # a fresh kernel does not replay it

    @property
    def first_line(self) -> str:
        """The first line, by which a student recognises the cell."""
        return writable(next((line.strip()[:80] for line in self.source.splitlines() if line.strip()), ""))

    def run(self, kernel: Kernel, seconds: float, chosen: dict[str, int]) -> list[NotebookNode]:
        """Run the cell, and return its outputs. See `Session.chosen`, which only a test uses."""
        content = {"chosen": chosen} if self.once else {"number": self.number, "defines": list(self.defines)}
        return kernel.run_cell(self.source, seconds, in_test=self.once, **content)


class Session:
    """The student's side: a kernel, the cells that a fresh kernel replays after a loss, and the time that is left."""

    def __init__(self, limits: Limits, sandboxed: bool) -> None:
        self.limits, self.sandboxed = limits, sandboxed
        self.kernel: Kernel | None = None
        self.ran: list[Cell] = []  # the cells that did not lose the kernel
        self.met: list[Cell] = []  # all cells so far
        self.chosen: dict[str, int] = {}  # the number of the cell whose definition counts, by the answer's name
        self.kernels = self.own_kernels = 0  # kernels that were started; kernels that the student's own cells lost
        self.budget = Budget(limits)
        self.calls = 0  # calls of the present test
        self.lost: list[KernelLost] = []
        self.losses = 0  # kernels that were lost, except by the student's own cells
        self.questions: list[str] = []  # what a person has to decide if a test fails
        self.failed: dict[str, str] = {}  # the error of a failed cell, by each name that the cell defines
        self.lost_any: str | None = None  # the error of a cell that may define any name, such as `%run answers.py`
        self.lost_code = False  # whether that cell runs a file of code, so that it may define answers
        self.left_out: list[str] = []  # statements that failed, and were left out so that the rest of their cell ran

    def ready(self) -> Kernel:
        """Return the kernel; if the last one was lost, a fresh one in which the earlier cells have run."""
        self._refuse_if(self.budget.is_late())
        while self.kernel is None or self.kernel.closed:
            self._refuse_if(self.kernels == self.limits.kernels)
            self.kernels += 1
            self.kernel = self.budget.track(Kernel(self.limits, self.sandboxed, self.budget.ends))
            for cell in list(self.ran):
                self._refuse_if(self.budget.is_late())
                try:
                    cell.run(self.kernel, self.budget.left(), {})
                except KernelLost:
                    self.ran.remove(cell)
                    break
        return self.kernel

    def _refuse_if(self, over: bool) -> None:
        """Close the kernel and raise a KernelLost if the submission has used up its time, or its kernels."""
        if over:
            self.close()
            raise KernelLost(
                "timed out",
                f"The notebook used up its {self.limits.total_seconds:.0f} s or its {self.limits.kernels} fresh kernels.",
            )

    def run(self, cell: Cell) -> list[NotebookNode]:
        """Run a cell, and return its outputs; remember with which error it ended."""
        self.met.append(cell)
        outputs = self._run(cell)
        errors = [f"{output.ename}: {output.evalue[:300]}" for output in outputs if output.output_type == "error"]
        newer = newer_python(cell.source) if errors and errors[-1].startswith("SyntaxError:") else None
        if newer:
            note = f"Your Python is newer than the grader's {OUR_PYTHON}: {newer}"
            errors[-1] = f"{errors[-1]}. {note}"
            outputs.append(nbformat.v4.new_output("stream", name="stderr", text=f"{note}\n"))
            names = ", ".join(sorted(definitions(cell.source))[:5])
            which = f"A cell{names and f' that defines {names}'}"
            self.questions.append(f"{which} needs a newer Python. {newer}. Is the cell correct?")
        for name in definitions(cell.source) if errors or self.failed else ():
            self.failed.pop(name, None)
            if errors and len(self.failed) < MAX_NAMES:
                self.failed[name] = errors[-1]
        missing, names = missing_in(errors[-1]) if errors else "", definitions(cell.source)
        code = missing.endswith(CODE) or "*" in names
        if missing and (code or not names):
            self.lost_any = errors[-1] if code or not self.lost_any else self.lost_any
            self.lost_code = self.lost_code or code
        # Released code fails only because of an answer.
        rest = without_missing(cell.source, errors[-1]) if errors and not cell.released else None
        if rest and len(self.left_out) < MAX_LEFT_OUT:
            self.left_out.append(rest[1])
            outputs += self.run(replace(cell, source=rest[0]))
        return outputs

    def show(self, source: str) -> list[NotebookNode]:
        """Run a visible test next to the student's cells; return its outputs. A fresh kernel does not replay the test."""
        return self._run(Cell(source, once=True))

    def end_test(self) -> None:
        """Let later tests find nothing that the last one has changed in its process."""
        if self.kernel is not None:
            with contextlib.suppress(KernelLost):  # the next call finds a closed kernel, and starts a fresh one
                self.kernel.end_test()

    def _run(self, cell: Cell) -> list[NotebookNode]:
        """Run a cell; the student's own cells run only while there is enough time for the exercises."""
        begun, own = self.budget.spent(), cell.own
        try:
            if own and (self.budget.own_seconds <= 0 or self.own_kernels > self.limits.kernels / 5):
                raise KernelLost("timed out", "The notebook's own cells used up their time; the others were not run.")
            most = 3 * self.limits.call_seconds if cell.once else math.inf
            seconds = max(1.0, self.budget.own_seconds) if own else self.patience(most)
            outputs = self._run_in(self.ready(), cell, min(self.budget.left(), seconds))
        except KernelLost as lost:
            self.lost.append(lost)
            self.own_kernels += own
            self.losses += not own
            return [nbformat.v4.new_output("error", ename="KernelLost", evalue=str(lost), traceback=[str(lost)])]
        finally:
            self.budget.own_seconds -= own * (self.budget.spent() - begun)
        if not cell.once:
            self.ran.append(cell)
        return outputs

    def _run_in(self, kernel: Kernel, cell: Cell, seconds: float) -> list[NotebookNode]:
        """Run a cell; if it loses the kernel, the error names the cell."""
        try:
            return cell.run(kernel, seconds, self.chosen)
        except KernelLost as lost:
            where = "" if cell.once else f"The cell that begins with `{cell.first_line}`: "
            raise KernelLost(lost.state, f"{where}{lost}") from None

    def patience(self, seconds: float) -> float:
        """Return how long a call or a cell may take. After two losses the time is shorter, as more losses are likely.

        Even on a busy machine, a call that ends its process needs no more than the shorter time.
        """
        return seconds if self.losses < 2 else min(seconds, max(3.0, self.limits.call_seconds / 4))

    def which_counts(self, name: str, passes: Callable[[], bool]) -> str:
        """Return the question which definition of an answer counts, if a failed test passes with another one; else "".

        What a definition that does not count has done reaches no message. The caller ends the process of the last trial.
        """
        counts, lost = self.chosen.get(name), len(self.lost)
        others = [each for each in self.met if name in each.defines and each.number != counts]
        for other in others[-MAX_TRIALS:]:
            self.end_test()
            self.chosen |= {name: other.number}
            found = passes()
            self.chosen |= {name: counts}
            del self.lost[lost:]
            if found:
                which = f"the one in the cell that begins with `{other.first_line}` passes it"
                return (
                    f"{name} is defined twice. The definition that counts fails a test, and {which}. Which one counts?"
                )
        return ""

    def begin_test(self) -> None:
        """Set the time that the calls of a test share."""
        self.budget.test_seconds, self.calls = 3 * self.limits.call_seconds, 0

    def call(self, request: dict[str, Any], candidate: Callable[..., Any] | None) -> dict[str, Any]:
        """Call a function, within the time of a call and of the test.

        Its random numbers, such as those of dropout, depend only on the number of the call within the test, unless the
        request has another seed.
        """
        self.calls += 1
        if request.get("extra"):  # an extra request decides no points, so losing it costs none
            return self._reply(request, candidate)
        try:
            return self._explained(request, self._reply(request, candidate))
        except KernelLost as lost:
            self.losses += 1
            self.lost.append(lost)
            raise

    def _reply(self, request: dict[str, Any], candidate: Callable[..., Any] | None) -> dict[str, Any]:
        late = KernelLost("timed out", f"A test was not done after {3 * self.limits.call_seconds:.0f} s.")
        if self.budget.test_seconds <= 0:
            self.close()
            raise late
        kernel = self.ready()
        if request.get("alone"):
            kernel.end_test()
        kernel.begin_test()  # starting a kernel, or a process of it, does not count as the test's time
        before, of_test = kernel.spent, max(1.0, self.budget.test_seconds)
        most = min(self.patience(self.limits.call_seconds), self.budget.left())
        try:
            content = {"draw": self.calls, "chosen": self.chosen} | request
            reply = kernel.call(content, candidate, min(most, of_test))
        except KernelLost as lost:
            raise (late if lost.state == "timed out" and of_test < most else lost) from None
        finally:
            self.budget.test_seconds -= kernel.spent - before
        if request.get("alone"):
            kernel.end_test()
        return reply

    def _explained(self, request: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
        """Explain an error that the student may not understand, and note a question if a person should look at it."""
        if "error" not in reply:
            return reply
        called = request["function"]
        text = str(reply.get("text", ""))[:2000]  # a text from the student's side may be long
        if own := OWN_ARGUMENT.search(text):
            self._ask(f"{called} calls {own[1]} with {own[2]}, an argument of its own. Is {called} correct?")
        if NO_GPU.search(text):
            self._ask("An answer needs a GPU, which the grader does not have. Is it correct?")
            return reply | {"text": "the grader has no GPU; create tensors on the device of the arguments"}
        cause = self._cause_of(text)
        asked = self._ask_if_missing(called, cause or f"{''.join(reply['error'][:1])[:100]}: {text}")
        if cause and not asked and not cause.startswith(NOT_PYTHON):
            ended = f"the cell ended with {cause[:200]}"
            self._ask(f"{called} needs what a cell defines, and {ended}. Is {called} correct?")
        if not cause:
            return reply
        return reply | {"text": f"{text.partition(';')[0]}, because the cell that defines it ended with {cause}"}

    def ask_about(self, name: str, *, unwritten: bool) -> None:
        """Note a question about a failed answer if a cell that defines it failed because something is missing here.

        Args:
            name: The answer. A cell before the failed one may have defined it, so no error says what is missing.
            unwritten: Whether it is still the template. Then a cell such as `%run answers.py` may define it.
        """
        if name in self.failed or (unwritten and self.lost_code):
            self._ask_if_missing(name, self._cause_of(f"{name} is not defined") or "")

    def _ask_if_missing(self, answer: str, error: str) -> bool:
        """Ask about an answer if an error says that something is missing here; return whether it does."""
        if missing := missing_in(error):
            which = "which is not installed here, and not in the submitted notebook"
            self._ask(f"{answer} needs {missing}, {which}. Is {answer} correct?")
        return bool(missing)

    def _cause_of(self, text: str) -> str | None:
        """Return the error of the failed cell because of which a name is not defined; None if there is none.

        The cell may have failed because it lacks a name that an earlier failed cell defines.
        """
        cause, seen = None, set[str]()
        while (lacks := LACKS.search(text)) and lacks[1] not in seen:
            seen.add(lacks[1])
            cause = text = self.failed.get(lacks[1]) or self.lost_any or cause or ""
        return cause or None

    def _ask(self, question: str) -> None:
        if question not in self.questions and len(self.questions) < MAX_LEFT_OUT:
            self.questions.append(question)

    def close(self) -> None:
        """End the kernel."""
        if self.kernel is not None:
            self.kernel.close()
