"""A control group of Linux for each sandbox. With it, Linux counts and bounds all memory and processes of the sandbox.

Most ordinary users may not make one. Then `Sandbox.took_more_than` adds up the memory that it can see.
"""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ABOUT_ME = Path("/proc/self")
LEAF = "grader"  # in version 2 a group holds either processes or bounded groups, so the grader's own processes go into this one
OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max")  # missing if Linux does not count swap


@dataclass(frozen=True)
class Group:
    """The folders of a group: version 1 has one for memory and one for processes, version 2 has one for both."""

    folders: tuple[Path, ...]

    def add(self, processes: Iterable[int]) -> None:
        """Put processes, and all that they will start, into the group. Memory that they used before does not count."""
        for process in processes:
            for folder in self.folders:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    (folder / "cgroup.procs").write_text(str(process))

    def was_full(self) -> bool:
        """Whether the system ended one of its processes because the group's memory was used up."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                counts = dict(line.split() for line in (self.folders[0] / name).read_text().splitlines())
                return counts.get("oom_kill", "0") != "0"
        return False

    def remove(self) -> None:
        """Remove the group after its processes were ended. The system may need a moment to see that they are gone."""
        deadline = time.monotonic() + 1.0
        while any(map(_remains, self.folders)) and time.monotonic() < deadline:
            time.sleep(0.001)


def _remains(folder: Path) -> bool:
    """Try to remove a folder; return whether it is still there."""
    with contextlib.suppress(OSError):
        folder.rmdir()
    return folder.exists()


def make_group(prefix: str, memory_bytes: int, processes: int) -> Group | None:
    """Make a group below the one that this process is in; None if the machine has no groups or does not allow it.

    Args:
        prefix: The start of its name, by which `remove_groups` finds it.
        memory_bytes: The memory of all its processes together, with files in memory and page tables, and without swap.
        processes: The largest number of processes and threads.
    """
    limit = str(memory_bytes)
    memory = {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}
    both = {"memory.max": limit, "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": str(processes)}
    bounds = {"memory": memory, "pids": {"pids.max": str(processes)}, "memory and pids": both}
    name, made = prefix + secrets.token_hex(4), []
    try:
        for kind, above in _places().items():
            made.append(above / name)
            made[-1].mkdir()
            for file, bound in bounds[kind].items():
                if file not in OPTIONAL or (made[-1] / file).exists():
                    (made[-1] / file).write_text(bound)
    except OSError:
        Group(tuple(made)).remove()
        return None
    return Group(tuple(made)) if made else None


def remove_groups(prefix: str, is_left: Callable[[str], bool]) -> None:
    """Remove the groups of a grader that was killed: their names begin with `prefix`, and `is_left` is true for them."""
    with contextlib.suppress(OSError):
        for above in _places().values():
            Group(tuple(folder for folder in above.glob(f"{prefix}*") if is_left(folder.name))).remove()


def mount_path(name: str) -> str:
    """Decode a path in a list of mounts, in which a space is a code of three digits."""
    return re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), name)


def _places() -> dict[str, Path]:
    """Return the folders for new groups, by what they bound; none if memory or processes cannot be bounded."""
    mine = {}  # the path of this process's group, by controller; the controller is "" in version 2
    for line in (ABOUT_ME / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mine |= dict.fromkeys(controllers.split(","), path)
    places = {}
    for line in (ABOUT_ME / "mountinfo").read_text().splitlines():
        before, _, (kind, _, options) = *line.partition(" - ")[:2], line.partition(" - ")[2].split(" ", 2)
        root, mounted = map(mount_path, before.split()[3:5])
        names = {"cgroup": {"memory", "pids"} & set(options.split(",")), "cgroup2": {""}}.get(kind, set())
        for name in names & set(mine):
            places[name] = Path(mounted, os.path.relpath(mine[name], root))
    if {"memory", "pids"} <= set(places):
        return {name: places[name] for name in ("memory", "pids")}
    above = _delegated(places[""]) if "" in places else None
    return {"memory and pids": above} if above else {}


def _delegated(folder: Path) -> Path | None:
    """Return the group of version 2 that was delegated to the grader, or None. Move its processes into a group below.

    systemd sets an attribute of a delegated folder: https://systemd.io/CGROUP_DELEGATION
    """
    above = folder.parent if folder.name == LEAF else folder
    try:
        if os.getxattr(above, "user.delegate") != b"1":
            return None
    except OSError:
        return None
    (above / LEAF).mkdir(exist_ok=True)
    for process in (above / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (above / LEAF / "cgroup.procs").write_text(process)
    (above / "cgroup.subtree_control").write_text("+memory +pids")
    return above
