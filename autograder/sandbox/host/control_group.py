"""A control group of Linux for each sandbox: the system itself then counts and bounds all of its memory and processes.

Where this process may make none, as most ordinary users may not, `Sandbox.took_more_than` adds up what it can see instead.
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
LEAF = "grader"  # in version 2 a group holds either processes or bounded groups, so the grader's own go into this one
OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max")  # they lack where Linux counts no swap


@dataclass(frozen=True)
class Group:
    """The folders that bound a group: in version 1 one for memory and one for processes, in version 2 one for both."""

    folders: tuple[Path, ...]

    def add(self, processes: Iterable[int]) -> None:
        """Put processes into the group, and with them all that they will start. They keep the memory that they have."""
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
        """Remove the group, whose processes were ended: the system may take a moment until it holds that they are gone."""
        deadline = time.monotonic() + 1.0
        while any(map(_stays, self.folders)) and time.monotonic() < deadline:
            time.sleep(0.001)


def _stays(folder: Path) -> bool:
    """Try to remove a folder; return whether it is still there."""
    with contextlib.suppress(OSError):
        folder.rmdir()
    return folder.exists()


def make_group(prefix: str, memory_bytes: int, processes: int) -> Group | None:
    """Make a group below the one that this process is in; None where the machine has none or does not allow it.

    Args:
        prefix: How its name begins, by which `remove_groups` knows it.
        memory_bytes: What its processes may hold together: also files in memory and page tables, and no swap.
        processes: How many it may have, threads counted.
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
    """Remove what a grader that was killed has left: the groups whose name begins so and of which `is_left` holds."""
    with contextlib.suppress(OSError):
        for above in _places().values():
            Group(tuple(folder for folder in above.glob(f"{prefix}*") if is_left(folder.name))).remove()


def mount_path(name: str) -> str:
    """Return a path that a list of mounts names: a space in it is written there as a code of three digits."""
    return re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), name)


def _places() -> dict[str, Path]:
    """Return where groups can be made, by what they bound; nothing where they cannot bound both memory and processes."""
    mine = {}  # by controller, "" in version 2: the path of this process's group
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
    """Return the group of version 2 that was handed over to the grader, its own processes in a group below; None if none was.

    systemd says so by an attribute of the folder: https://systemd.io/CGROUP_DELEGATION
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
