"""The progress of a command: bars or, without a terminal, plain lines."""

from collections import Counter
from collections.abc import Iterable

from rich.console import RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from autograder.commands.console import err


class Bars(Progress):
    """A progress bar for each kind of work that has begun. Below the bars are the states of submissions.

    Without a terminal a bar cannot move: plain lines say what begins, how far it is, and what is done.
    """

    EVERY = 4.0  # fewest seconds between two plain lines about the same work

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self._time = TimeRemainingColumn(elapsed_when_finished=True)  # the time left; at the end, the time that it took
        columns = (TextColumn("{task.description:>20}"), BarColumn(bar_width=24), MofNCompleteColumn(), self._time)
        super().__init__(*columns, console=err, disable=not err.is_terminal, speed_estimate_period=600)
        self._bars: dict[str, TaskID] = {}
        self._said = 0.0  # the time of the last plain line

    def __call__(self, what: str, done: int, total: int, state: str = "") -> None:
        """Set how much of a kind of work is done, and count the state of the last submission."""
        new = what not in self._bars
        if new:
            self._bars[what] = self.add_task(what, total=total)
        if state:
            self.states[state] += 1
        self.update(self._bars[what], completed=done, total=total)
        if self.disable and (new or done == total or self.get_time() - self._said >= self.EVERY):
            self._said = self.get_time()
            time = self._time.render(self._tasks[self._bars[what]])
            self.say(f"{what} {done}/{total} {time} {self._how_many()}".rstrip())

    def say(self, text: str) -> None:
        """Say at once what the command is doing, before there is anything to count."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _how_many(self) -> str:
        return ", ".join(f"{count} {state}" for state, count in self.states.most_common())

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what is shown: the bars, and the number of submissions in each state."""
        yield from super().get_renderables()
        if self.states:
            yield Padding(Text(self._how_many()), (0, 0, 0, 21))
