"""Runs a cell that ignores every signal, one that computes for years outside Python, and one that stops its process."""
# %%
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
# %%
10 ** (10 ** 10) % 7
# %%
import os, signal
os.kill(os.getpid(), signal.SIGSTOP)
