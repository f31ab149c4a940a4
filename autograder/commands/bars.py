"""The progress of a command: bars or, without a terminal, plain lines."""

import threading
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

from rich.console import RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from autograder.commands.console import err


class _Pace(ProgressColumn):
    """The rate per minute, and the time left. At the end, the total time."""

    max_refresh = 0.5  # seconds between two updates

    def render(self, task: Task) -> Text:
        """Return the text for one bar."""
        elapsed = task.finished_time or task.elapsed or 0.0
        if task.finished or not task.completed:
            shown = f"{timedelta(seconds=int(elapsed))}"
        else:
            left = elapsed * (task.total - task.completed) / task.completed
            shown = f"{timedelta(seconds=int(left))} left"
        rate = f"{60 * task.completed / elapsed:.1f}/min " if task.completed and elapsed >= 1 else ""
        return Text(rate + shown, style="progress.remaining")


class Bars(Progress):
    """A progress bar for each kind of work that has begun. Below the bars are the states of submissions.

    Without a terminal a bar cannot move: a plain line says what begins and, every few seconds, how far it is.
    """

    EVERY = 4.0  # seconds between two plain lines

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        columns = (TextColumn("{task.description:>20}"), BarColumn(bar_width=24), MofNCompleteColumn(), _Pace())
        super().__init__(*columns, console=err, disable=not err.is_terminal)
        self._bars: dict[str, TaskID] = {}
        self._current: TaskID | None = None
        self._last_message = ""
        self._ended = threading.Event()

    def __call__(self, what: str, done: int, total: int, state: str = "") -> None:
        """Set how much of a kind of work is done, and count the state of the last submission."""
        new = what not in self._bars
        if new:
            self._bars[what] = self.add_task(what, total=total)
        if state:
            self.states[state] += 1
        self.update(self._bars[what], completed=done, total=total)
        self._current = self._bars[what]
        if new or done == total:
            self._say_how_far()

    def say(self, text: str) -> None:
        """Say at once what the command is doing, before there is anything to count."""
        self._last_message = text
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def start(self) -> None:
        """Show the bars or, without a terminal, say from time to time how far the work is."""
        super().start()
        if self.disable:
            threading.Thread(target=self._say_from_time_to_time, daemon=True).start()

    def stop(self) -> None:
        """Stop showing the bars."""
        self._ended.set()
        super().stop()

    def _say_from_time_to_time(self) -> None:
        while not self._ended.wait(self.EVERY):
            self._say_how_far()

    def _say_how_far(self) -> None:
        if self.disable and self._current is None:
            self.say(self._last_message or "working")
        elif self.disable:
            task = self._tasks[self._current]
            text = f"{task.description} {int(task.completed)}/{int(task.total or 0)} {_Pace().render(task)}"
            self.say(f"{text} {self._how_many()}".rstrip())

    def _how_many(self) -> str:
        return ", ".join(f"{count} {state}" for state, count in self.states.most_common())

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what is shown: the bars, and the number of submissions in each state."""
        yield from super().get_renderables()
        if self.states:
            yield Padding(Text(self._how_many()), (0, 0, 0, 21))
