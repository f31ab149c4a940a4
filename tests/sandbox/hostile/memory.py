"""Fills the memory with shared mappings, which no limit of a process counts, with ordinary objects, and from several processes."""
# %%
import mmap
held = []
while True:
    held.append(mmap.mmap(-1, 2**28))
    held[-1].write(b"x" * 2**28)
# %%
x = []
while True:
    x.append(bytearray(2**26))
# %%
import subprocess, sys, time
hungry = "import time\nx = b'x' * (700 * 2**20)\ntime.sleep(9)"
children = [subprocess.Popen([sys.executable, "-c", hungry]) for _ in range(4)]
time.sleep(2)
