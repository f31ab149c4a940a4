"""The time that a submission may use, and the time that it has used."""

import time
from typing import TYPE_CHECKING

from autograder.sandbox.host.limits import Limits

if TYPE_CHECKING:
    from autograder.sandbox.host.kernel import Kernel

MAX_WALL = 2  # a submission ends after this many times its limit, including the time that it waits on a busy machine


class Budget:
    """The seconds of a submission: in total, for the student's own cells, and for the present test."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.begun, self.begun_here = time.monotonic(), time.thread_time()
        self.ends = self.begun + MAX_WALL * limits.total_seconds
        self.kernel: Kernel | None = None  # the present kernel
        self.spent_before = 0.0  # seconds of requests to earlier kernels
        self.own_seconds = limits.total_seconds / 3  # seconds that the student's own cells may still take
        self.test_seconds = 0.0  # seconds that calls of the present test may still take

    def track(self, kernel: "Kernel") -> "Kernel":
        """Count the seconds of a fresh kernel from now on; return this kernel."""
        self.spent_before += 0.0 if self.kernel is None else self.kernel.spent
        self.kernel = kernel
        return kernel

    def left(self) -> float:
        """Return the seconds that the submission has left, at least one."""
        return max(1.0, self.limits.total_seconds - self.spent())

    def spent(self) -> float:
        """Return the seconds that the submission has used: in its kernels, and in this process for its tests.

        Waiting for a processor does not count. Otherwise other programs could use up the submission's time.
        """
        kernels = self.spent_before + (0.0 if self.kernel is None else self.kernel.spent)
        return min(kernels + time.thread_time() - self.begun_here, time.monotonic() - self.begun)

    def is_late(self) -> bool:
        """Whether the submission has used up its time."""
        return self.spent() > self.limits.total_seconds or time.monotonic() > self.ends
