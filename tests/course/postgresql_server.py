"""A PostgreSQL server for tests: in its own temporary folder, on a socket there, as an ordinary user."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "not@shown/any where"  # an address needs it escaped: not%40shown%2Fany%20where
ESCAPED = "not%40shown%2Fany%20where"


class NoServer(RuntimeError):
    """No server can be started here; the message says why."""


class Server:
    """A server that is running or stopped."""

    def __init__(self, folder: Path, programs: Path, user: str | None) -> None:
        self.folder, self._programs, self._user, self._made = folder, programs, user, 0

    def _run(self, program: str, *arguments: str) -> None:
        log, where = self.folder / "log", {"PATH": os.defpath, "PGPASSWORD": PASSWORD, "LC_ALL": "C"}
        with log.open("ab") as out:
            command = [self._programs / program, *arguments]
            done = subprocess.run(command, user=self._user, cwd=self.folder, env=where, stdout=out, stderr=out)
        if done.returncode:
            raise NoServer(f"{program} failed: {log.read_text()[-1000:]}")

    def make(self) -> None:
        """Make the files of the server."""
        (self.folder / "password").write_text(PASSWORD)
        options = ("--auth=scram-sha-256", "--pwfile=password", "--no-sync", "--encoding=UTF8", "--locale=C")
        self._run("initdb", "-D", "data", "-U", "grader", *options)

    def start(self) -> None:
        """Start the server. It answers only on a socket in its folder."""
        self._run(
            "pg_ctl", "start", "-w", "-D", "data", "-l", "server.log", "-o", f"-c listen_addresses='' -k {self.folder}"
        )

    def stop(self) -> None:
        """Stop the server, and cut all connections."""
        self._run("pg_ctl", "stop", "-w", "-D", "data", "-m", "immediate")

    def new_database(self) -> str:
        """Make an empty database, and return its address as an instructor writes it."""
        self._made += 1
        name = f"course{self._made}"
        self._run("createdb", "-h", str(self.folder), "-U", "grader", name)
        return f"postgresql://grader:{ESCAPED}@/{name}?host={self.folder}"


@contextmanager
def server() -> Iterator[Server]:
    """Run a server.

    Raises:
        NoServer: the programs are not installed, or there is no ordinary user to run them as.
    """
    found = shutil.which("initdb") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if found is None:
        raise NoServer("PostgreSQL's programs are not installed (Debian's package postgresql)")
    user = None
    if os.geteuid() == 0:  # the server refuses to run as root
        known = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in known), None)
        if user is None:
            raise NoServer("there is no ordinary user to run PostgreSQL as")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="pg-") as folder:
        if user:
            shutil.chown(folder, user)
        running = Server(Path(folder), Path(found).resolve().parent, user)
        running.make()
        running.start()
        try:
            yield running
        finally:
            running.stop()
