"""Do the files of Linux's control groups limit a sandbox, and is no group made if systemd has delegated none?"""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from autograder.sandbox.host import control_group
from autograder.sandbox.host.bubblewrap import PREFIX, remove_leftovers

BOUNDED = {"memory.max": "1000", "memory.oom.group": "1", "pids.max": "7"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders that imitate version 2 of control groups: group /user/scope is delegated to this process."""
    (tmp_path / "cgroup").write_text("0::/user/scope\n")
    mounted = str(tmp_path / "mounted here").replace(" ", r"\040")
    (tmp_path / "mountinfo").write_text(f"35 24 0:30 / {mounted} rw - cgroup2 cgroup2 rw,nsdelegate\n")
    scope = tmp_path / "mounted here/user/scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.procs").write_text(f"{os.getpid()}\n")
    monkeypatch.setattr(control_group, "ABOUT_ME", tmp_path)
    monkeypatch.setattr(os, "getxattr", lambda path, name: {(scope, "user.delegate"): b"1"}.get((path, name), b"0"))
    return scope


def test_group_of_version_2(machine: Path) -> None:
    """Are the limits in the group's files, and the grader's own process in a group next to it?"""
    made = control_group.make_group("sandbox-", 1000, 7)
    assert made is not None
    (folder,) = made.folders
    assert folder.parent == machine
    assert {file.name: file.read_text() for file in folder.iterdir()} == BOUNDED
    assert (machine / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (machine / "grader/cgroup.procs").read_text() == str(os.getpid())
    made.add([42])
    assert (folder / "cgroup.procs").read_text() == "42"
    assert not made.was_full()
    (folder / "memory.events").write_text("max 3\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert made.was_full()


def test_no_group_where_none_can_be_bounded(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is no group left if systemd keeps groups for itself, or if the system does not accept its limits?"""
    mine = (tmp_path / "cgroup").read_text()
    (tmp_path / "cgroup").write_text("0::/user\n")
    assert control_group.make_group("sandbox-", 1000, 7) is None
    assert [path.name for path in machine.parent.iterdir()] == ["scope"]
    (tmp_path / "cgroup").write_text(mine)
    write = Path.write_text

    def refuse_limits(path: Path, text: str) -> None:
        if path.parent.name.startswith("sandbox-"):
            raise PermissionError(path)
        write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse_limits)
    assert control_group.make_group("sandbox-", 1000, 7) is None
    assert not list(machine.glob("sandbox-*"))


def test_leftovers_of_a_killed_grader_are_removed() -> None:
    """Are folder and group of an ended grader removed, but not those of a running grader, or another program's folder?"""
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"{PREFIX}{number}-" for number in (gone.pid, os.getpid())]
    groups = [control_group.make_group(name, 2**28, 20) for name in names]
    folders = [Path(tempfile.mkdtemp(prefix=name)) for name in (*names, "autograder-")]
    (folders[0] / "wire").mkdir()
    try:
        remove_leftovers()
        assert [folder.exists() for folder in folders] == [False, True, True]
        if None not in groups:  # this machine gives control groups
            assert [[folder.exists() for folder in made.folders] for made in groups] == [[False] * 2, [True] * 2]
    finally:
        for made in filter(None, groups):
            made.remove()
        for folder in folders[1:]:
            folder.rmdir()
