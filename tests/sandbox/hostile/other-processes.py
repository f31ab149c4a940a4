"""Reads, traces and signals the processes around it."""
# %%
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for process in [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    for file in ("fd", "root", "cwd", "environ", "maps", "mem", "exe"):
        path = f"/proc/{process}/{file}"
        tried(lambda: (path, os.listdir(path) if file in ("fd", "root", "cwd") else open(path, "rb").read(200)))
    print("ptrace", libc.ptrace(16, int(process), 0, 0), ctypes.get_errno())
for process in (1, os.getppid()):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        tried(lambda: os.kill(process, number))
