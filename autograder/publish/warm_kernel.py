"""Start kernels for chapters without delay: each is a fork of a process that has the chapters' imports.

This process is multiprocessing's fork server. It runs no chapter itself, so that no chapter affects another.
"""

import multiprocessing
import os
from multiprocessing.context import ForkServerProcess
from typing import Any

from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import LocalProvisioner

IMPORTED = ["ipykernel.kernelapp", "matplotlib.pyplot", "torchvision", __name__]


def warm(manager: KernelManager) -> None:
    """Let a manager start its kernel as a fork."""
    multiprocessing.set_forkserver_preload(IMPORTED)
    manager.provisioner = Fork(kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager)


class Fork(LocalProvisioner):
    """Starts a kernel for its manager, and ends it."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> dict[str, Any]:
        """Fork a kernel; return how to connect to it."""
        arguments = cmd[cmd.index("-f") :]
        self.process = _Process(target=_serve, args=(arguments, options["env"], options["cwd"]), daemon=True)
        self.process.start()
        self.pid = self.process.pid
        return self.connection_info


class _Process(ForkServerProcess):
    """A process of multiprocessing with the interface of subprocess, which jupyter_client expects."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def _serve(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Run a kernel in the forked process, until this process or the fork server ends."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # Matplotlib is imported already, and does not read the environment again.
    matplotlib.rcParams["backend"] = "module://matplotlib_inline.backend_inline"
    app = IPKernelApp.instance()
    app.initialize([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])
    app.start()
