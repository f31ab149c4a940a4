"""The limits of a submission."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    cell_seconds: float = 30.0  # for a student's cell: ours take under 1 s
    call_seconds: float = 10.0  # for a call by a test: ours take milliseconds
    memory_bytes: int = 3 * 2**30  # for all its processes; importing PyTorch takes 0.6 GiB
    processes: int = 96  # threads included; a kernel has about 15
    cpu_seconds: int = 600
    file_bytes: int = 64 * 2**20  # for one file, and for all temporary files together
    output_bytes: int = 200_000  # printed by one cell; the rest is cut
    output_count: int = 500  # separate outputs of one cell
    total_output_bytes: int = 3_000_000  # for a whole submission: what its cells print, and the text of its own cells
    total_seconds: float = 300.0  # for a whole submission, a third of it for its own cells; our answers take 3 s
    kernels: int = 30  # fresh kernels for one submission; a cell or test that loses its kernel fails
    forked: bool = True  # fork kernels from a parent that has imported PyTorch; if that fails, start each afresh

    @property
    def job_seconds(self) -> float:
        """Seconds after which grading a submission counts as hanging."""
        return 2 * self.total_seconds + 120

    def resource_limits(self) -> dict[str, int]:
        """Return the limits that the operating system enforces, by the names of Python's `resource` module."""
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 256,
        }
